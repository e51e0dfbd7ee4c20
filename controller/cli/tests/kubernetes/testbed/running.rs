//! Controllers on the API server and the Northbound databases of a testbed.

use std::time::Duration;

use patchbay_kubernetes::{
    ClusterManagerConfig, ControllerConfig, LeaseConfig, RunError, Timing, ZoneControllerConfig,
    ZoneLeaseTiming, run,
};
use patchbay_model::{ClusterSettings, Feature, IpFamily};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{LEASE, NAMESPACE, Testbed};
use crate::zone_database::Zone;

/// A running controller. Dropping the handle stops it.
pub(crate) struct Running {
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), RunError>>,
}

impl Running {
    /// Stops the controller, and waits for its end.
    pub(crate) async fn stop(self) {
        self.stop.send(()).unwrap();
        self.task.await.unwrap().unwrap();
    }

    /// Aborts the controller, as SIGKILL would.
    pub(crate) async fn kill(self) {
        self.task.abort();
        assert!(self.task.await.unwrap_err().is_cancelled());
    }
}

impl Testbed {
    /// Runs a cluster manager.
    pub(crate) fn run_cluster(&self, identity: &str) -> Running {
        self.run(identity, true, None)
    }

    /// Runs a zone controller.
    pub(crate) fn run_zone(&self, zone: &Zone) -> Running {
        self.run(&zone.name, false, Some(zone))
    }

    pub(crate) fn run(&self, identity: &str, cluster: bool, zone: Option<&Zone>) -> Running {
        let zone = zone.map(|zone| (&*zone.name, zone.remote()));
        self.run_on(identity, cluster, zone)
    }

    /// Runs a cluster manager, a zone controller for a name and a remote, or both.
    pub(crate) fn run_on(
        &self,
        identity: &str,
        cluster: bool,
        zone: Option<(&str, &str)>,
    ) -> Running {
        let lease = LeaseConfig {
            duration: self.lease,
            renew_deadline: self.lease.mul_f64(0.7),
            retry: Duration::from_millis(100),
            ..LeaseConfig::new(NAMESPACE, LEASE)
        };
        let dynamic = self.dynamic_udn.then_some(Feature::DynamicUdnAllocation);
        let settings = ClusterSettings {
            families: vec![IpFamily::V4],
            service_cidrs: vec!["10.96.0.0/16".parse().unwrap()],
            features: self.features.iter().copied().chain(dynamic).collect(),
            gateway_mode: self.gateway_mode,
            ..ClusterSettings::default()
        };
        let config = ControllerConfig {
            cluster: cluster.then(|| ClusterManagerConfig {
                settings: settings.clone(),
                manages_networks: self.networks,
                lease,
            }),
            zone: zone.map(|(name, remote)| ZoneControllerConfig {
                zone: name.to_owned(),
                settings: settings.clone(),
                writes_networks: self.networks,
                northbound: remote.parse().unwrap(),
                tls: None,
            }),
            namespace: NAMESPACE.to_owned(),
            // Events of a zone name its pod.
            identity: zone.map_or_else(|| identity.to_owned(), |_| format!("{identity}_1")),
            admin: None,
            timing: Timing {
                debounce_quiet: Duration::from_millis(5),
                debounce_max: Duration::from_millis(50),
                retry: self.retry,
                request_timeout: self.request,
                write_timeout: self.write.unwrap_or(self.request),
                watch_idle_timeout: self.idle,
                watch_gap_limit: self.watch_gap,
                missing_kind_grace_period: self.missing_kind,
                report_interval: self.report,
                report_refresh_interval: self.repeat,
                zone_lease: ZoneLeaseTiming {
                    renew_interval: Duration::from_millis(100),
                    duration: self.zone_lease,
                    check_interval: Duration::from_millis(20),
                },
                join_grace_period: self.join,
            },
        };
        // A client of its own, like another process, with the rights of the service accounts.
        let accounts: Vec<&str> = [
            cluster.then_some("patchbay-cluster"),
            zone.map(|_| "patchbay-zone"),
            (cluster && self.networks).then_some("patchbay-cluster/networks"),
            zone.filter(|_| self.networks).map(|_| "patchbay-zone/networks"),
        ]
        .into_iter()
        .flatten()
        .collect();
        let client = self.api.as_ref();
        let token = (zone.map_or("", |(name, _)| name), identity);
        let client =
            client.map_or_else(|| self.client.clone(), |api| api.client_of(&accounts, token));
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(async move {
            let stopped = async {
                stopped.await.unwrap_or_default();
            };
            run(client, config, stopped).await
        });
        Running { stop, task }
    }
}

/// Runs the zone controllers of all nodes.
pub(crate) async fn run_zones(bed: &Testbed) -> Vec<(Running, Zone)> {
    let mut zones = Vec::new();
    for (key, _) in bed.inventory.nodes.iter() {
        if bed.nodes().get_opt(&key.name).await.unwrap().is_some() {
            let zone = bed.zone(&key.name).await;
            zones.push((bed.run_zone(&zone), zone));
        }
    }
    zones
}
