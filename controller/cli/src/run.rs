//! `patchbay run`: the controllers on a Kubernetes API.

use std::io;

use kube::Config as ClientConfig;
use patchbay_engine::client::Remotes;
use patchbay_kubernetes::{
    AdminPort, ClusterManagerConfig, ControllerConfig, LeaseConfig, Timing, ZoneControllerConfig,
    client, run as run_controllers,
};
use patchbay_model::Feature;
use patchbay_reconcile::northbound::OpenError;
use patchbay_resources::manifests::Inventory;
use uuid::Uuid;

use super::api_server::from_file;
use super::args::LogFormat;
use super::cluster_args::{AdminPortAt, Mode, Run};
use super::console::Console;
use super::failure::Failure;
use super::log::LogControl;
use super::stop::Stop;

/// Name of the leader election lease of the cluster manager.
const LEASE_NAME: &str = "patchbay-cluster";
/// Namespace of OVN-Kubernetes, the default with `--kubeconfig`. The namespace in the kubeconfig is
/// not used, because processes with different namespaces would hold different leases and all lead.
const DEFAULT_NAMESPACE: &str = "ovn-kubernetes";

/// Warns of the flag `--dynamic-udn`.
pub(super) fn warn_of_dynamic_udn(is_given: bool, console: &mut Console<'_>) -> io::Result<()> {
    if is_given {
        let warning = "--dynamic-udn is accepted for the last time; its successor is --enable \
                       dynamic-udn-allocation";
        console.warn("flags", warning)?;
    }
    Ok(())
}

/// Runs the controllers until Ctrl-C, SIGTERM or a failure.
pub(super) async fn run(
    arguments: &Run,
    log: LogControl,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let (client_config, namespace) = if let Some(file) = &arguments.kubeconfig {
        (from_file(file, arguments.context.as_deref()).await?, DEFAULT_NAMESPACE.to_owned())
    } else {
        let config =
            ClientConfig::incluster().map_err(|error| Failure::NotAPod(error.to_string()))?;
        let namespace = config.default_namespace.clone();
        (config, namespace)
    };
    let namespace = arguments.namespace.clone().unwrap_or(namespace);
    warn_of_dynamic_udn(arguments.dynamic_udn, console)?;
    let config =
        ControllerConfig { admin: admin_port(arguments, log)?, ..config(arguments, namespace)? };
    let server = client_config.cluster_url.clone();
    let client = client(client_config).map_err(|error| Failure::Cluster(error.to_string()))?;
    let mut stop = Stop::new()?;
    let (version, controllers) = (env!("CARGO_PKG_VERSION"), introduction(&config));
    let ControllerConfig { namespace, identity, admin, .. } = &config;
    let admin = admin.as_ref().map(|port| format!("; admin port at {}", port.local_address()));
    let file = arguments.config.as_ref();
    let file = file.map(|file| format!("; settings of {}", file.display()));
    let line = format!(
        "patchbay {version}: {controllers}, namespace {namespace}; running as {identity} on the API \
         server at {server} until Ctrl-C{}{}",
        admin.unwrap_or_default(),
        file.unwrap_or_default()
    );
    match arguments.log_format {
        LogFormat::Text => writeln!(console.errors, "{line}")?,
        // Each line is an object.
        LogFormat::Json => tracing::info!("{line}"),
    }
    let ended = run_controllers(client, config, async move { stop.asked().await }).await;
    ended.map_err(|error| Failure::Ended(error.to_string()))
}

fn config(arguments: &Run, namespace: String) -> Result<ControllerConfig, Failure> {
    let flags = arguments.cluster.with_dynamic_udn(arguments.dynamic_udn);
    let settings = flags.zone_settings(&Inventory::default())?;
    let cluster = (arguments.mode != Mode::Zone).then(|| ClusterManagerConfig {
        settings: settings.clone(),
        manages_networks: arguments.networks,
        lease: LeaseConfig::new(&*namespace, LEASE_NAME),
    });
    let zone = match (&arguments.mode, &arguments.zone) {
        (Mode::Cluster, _) | (_, None) => None,
        (_, Some(zone)) => Some(ZoneControllerConfig {
            zone: zone.clone(),
            settings: settings.clone(),
            writes_networks: arguments.networks,
            northbound: remotes(&arguments.nb)?,
            tls: arguments.keys.tls(),
        }),
    };
    // Unique per process: after a restart the pod has the same name, but does not hold the lease.
    let identity = format!("{}_{}", host_name(), Uuid::new_v4());
    let timing = Timing::default();
    Ok(ControllerConfig { cluster, zone, namespace, identity, admin: None, timing })
}

/// Opens the admin port. `None`: it is not served.
fn admin_port(arguments: &Run, log: LogControl) -> Result<Option<AdminPort>, Failure> {
    let AdminPortAt::Address(address) = &arguments.admin_bind_address else {
        return Ok(None);
    };
    let port = AdminPort::bind(address).map_err(Failure::AdminPort)?;
    Ok(Some(port.with_log_filter(Box::new(log))))
}

/// Describes the controllers that run, and their settings.
fn introduction(config: &ControllerConfig) -> String {
    let list = |ranges: &[ipnet::IpNet]| {
        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        ranges.join(", ")
    };
    let cluster = config.cluster.as_ref().map(|cluster| {
        let services = list(&cluster.settings.service_cidrs);
        let networks = written(cluster.manages_networks);
        format!("cluster manager, service ranges [{services}]{networks}")
    });
    let zone = config.zone.as_ref().map(|zone| {
        let services = list(&zone.settings.service_cidrs);
        let name = &zone.zone;
        let dynamic = zone.settings.has_feature(Feature::DynamicUdnAllocation);
        format!(
            "zone {name}, service ranges [{services}], dynamic allocation of networks: {dynamic}{}",
            written(zone.writes_networks)
        )
    });
    let parts: Vec<String> = cluster.into_iter().chain(zone).collect();
    parts.join("; ")
}

/// Says that the networks themselves are written.
const fn written(networks: bool) -> &'static str {
    if networks { ", with networks" } else { "" }
}

fn remotes(text: &str) -> Result<Remotes, Failure> {
    text.parse().map_err(|error| Failure::from(OpenError::Remote(error)))
}

/// Returns the name of the pod or of the machine.
fn host_name() -> String {
    let name = |variable| std::env::var(variable).ok().filter(|name| !name.is_empty());
    name("POD_NAME").or_else(|| name("HOSTNAME")).unwrap_or_else(|| "patchbay".to_owned())
}
