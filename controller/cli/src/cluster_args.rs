//! Flags of the commands for a running cluster.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use patchbay_crds::{CLUSTER_MANAGER, NAMESPACE};
use patchbay_kubernetes::{AdminAddress, AdminAddressError};

use super::args::LogFormat;
use super::cluster_flags::ClusterFlags;
use super::deploy_slots::{CLUSTER_PORT, SOCKET_FOLDER, ZONE_PORT};
use super::keys::Keys;
use super::names;

#[derive(Debug, Args)]
pub(super) struct Crds {
    /// Resources to print, by kind, plural, singular or short name. Default: cnc, udn and cudn.
    /// net-attach-def and ipamclaim are for clusters that do not define them.
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Also print the admission policies that protect the annotations, the namespace label and the
    /// ConfigMaps of the zones.
    #[arg(long)]
    pub(super) policies: bool,
    /// The user that the policies allow to write the annotations.
    #[arg(long, value_name = "USER", default_value = CLUSTER_MANAGER, requires = "policies")]
    pub(super) manager: String,
    /// The namespace of the zone controllers, whose account the policies limit.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = NAMESPACE,
        value_parser = names::parse_namespace,
        requires = "policies"
    )]
    pub(super) namespace: String,
}

#[derive(Debug, Args)]
#[command(mut_arg("service", |range| range.default_value("10.96.0.0/16").help(
    "Range of the cluster IPs of services, at most one per IP family"
)))]
#[expect(clippy::struct_excessive_bools, reason = "each flag of the command is one")]
pub(super) struct Deploy {
    /// The namespace of both controllers, their accounts, reports and leases. It must exist, or be
    /// created with --create-namespace.
    #[arg(
        long,
        value_name = "NAMESPACE",
        default_value = NAMESPACE,
        value_parser = names::parse_namespace
    )]
    pub(super) namespace: String,
    /// Also print the namespace. `kubectl delete -f` deletes it again, with everything in it.
    #[arg(long)]
    pub(super) create_namespace: bool,
    /// Also print the definitions of user-defined networks and of attachment definitions, for clusters
    /// without OVN-Kubernetes and Multus. `kubectl delete -f` deletes them again, with all networks.
    #[arg(long)]
    pub(super) definitions: bool,
    /// The image of both controllers.
    #[arg(
        long,
        value_name = "IMAGE",
        default_value = "patchbay:latest",
        value_parser = names::parse_image
    )]
    pub(super) image: String,
    /// Name of a secret with which the image is pulled. It may be given several times.
    #[arg(long = "pull-secret", value_name = "NAME", value_parser = names::parse_node_name)]
    pub(super) pull_secrets: Vec<String>,
    /// Write the templates and the definition of the Helm chart in `charts/patchbay` into this folder
    /// instead. The other flags are values of the chart.
    #[arg(long, value_name = "DIR")]
    pub(super) chart: Option<PathBuf>,
    /// Number of cluster managers, of which one is active. Each needs a node of its own.
    #[arg(long, value_name = "NUMBER", default_value_t = 2, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) replicas: u16,
    /// Label of the nodes that run cluster managers. It may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = names::parse_label)]
    pub(super) cluster_node_selector: Vec<String>,
    /// Label of the nodes that run zone controllers. It may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = names::parse_label)]
    pub(super) zone_node_selector: Vec<String>,
    /// Processor time that a pod of either controller requests.
    #[arg(long, value_name = "QUANTITY", default_value = "10m", value_parser = names::parse_quantity)]
    pub(super) cpu_request: String,
    /// Memory that a pod of either controller requests.
    #[arg(long, value_name = "QUANTITY", default_value = "64Mi", value_parser = names::parse_quantity)]
    pub(super) memory_request: String,
    /// Limit of the memory of a cluster manager.
    #[arg(long, value_name = "QUANTITY", default_value = "1Gi", value_parser = names::parse_quantity)]
    pub(super) cluster_memory_limit: String,
    /// Limit of the memory of a zone controller.
    #[arg(long, value_name = "QUANTITY", default_value = "2Gi", value_parser = names::parse_quantity)]
    pub(super) zone_memory_limit: String,
    /// Port of the cluster manager's probes and metrics, on all addresses of its node.
    #[arg(long, value_name = "PORT", default_value_t = CLUSTER_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) cluster_admin_port: u16,
    /// Port of the zone controllers' probes and metrics, on all addresses of their nodes.
    #[arg(long, value_name = "PORT", default_value_t = ZONE_PORT, value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) zone_admin_port: u16,
    /// Folder on each node with the socket of the Northbound database, `ovnnb_db.sock`.
    #[arg(long, value_name = "PATH", default_value = SOCKET_FOLDER, value_parser = names::parse_folder)]
    pub(super) socket_folder: String,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    /// Former name of `--enable dynamic-udn-allocation`.
    #[arg(long)]
    pub(super) dynamic_udn: bool,
    /// Let both controllers write the user-defined networks themselves, and permit it: see
    /// `patchbay run --help`. OVN-Kubernetes' own controllers of them must be off.
    #[arg(long)]
    pub(super) networks: bool,
}

#[derive(Debug, Args)]
pub(super) struct Run {
    /// File with settings: flags of this command as fields, in camel case. A flag comes before its
    /// variable, such as `PATCHBAY_MODE` for --mode, and that before the file. `patchbay config list`
    /// prints all of them.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Kubeconfig file of the API server. Default: the pod's service account and the address in its
    /// environment.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig file. Default: its current context.
    #[arg(long, value_name = "NAME", requires = "kubeconfig")]
    pub(super) context: Option<String>,
    /// Controllers to run in this process. Of all cluster managers of a cluster, only the holder of
    /// the lease is active.
    #[arg(long, value_enum, default_value_t = Mode::All)]
    pub(super) mode: Mode,
    /// The zone: the name of its node. Required unless the mode is `cluster`.
    #[arg(
        long,
        value_name = "NODE",
        required_unless_present = "mode",
        required_if_eq_any([("mode", "zone"), ("mode", "all")]),
        value_parser = names::parse_node_name
    )]
    pub(super) zone: Option<String>,
    /// The Northbound database of the zone: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several
    /// remotes, separated by commas.
    #[arg(long, value_name = "REMOTE", default_value = "unix:/var/run/ovn/ovnnb_db.sock")]
    pub(super) nb: String,
    #[command(flatten)]
    pub(super) keys: Keys,
    #[command(flatten)]
    pub(super) cluster: ClusterFlags,
    /// Former name of `--enable dynamic-udn-allocation`.
    #[arg(long)]
    pub(super) dynamic_udn: bool,
    /// Write the user-defined networks themselves: the cluster manager renders definitions and
    /// allocates ids, subnets and addresses; the zone controller writes the rows of networks, pods,
    /// services and policies. OVN-Kubernetes' own controllers of user-defined networks must be off.
    #[arg(long)]
    pub(super) networks: bool,
    /// Serve probes (/livez, /readyz), metrics (/metrics) and the filter of the log (/debug/level) at
    /// this address: ADDRESS:PORT, or :PORT for all addresses. `0`: they are not served.
    #[arg(
        long,
        value_name = "ADDRESS",
        default_value = "0",
        value_parser = AdminPortAt::parse
    )]
    pub(super) admin_bind_address: AdminPortAt,
    /// Format of the log on standard error.
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = LogFormat::Text)]
    pub(super) log_format: LogFormat,
    /// Namespace of the leader election lease and of the ConfigMaps with the zones' reports. All
    /// processes of a cluster need the same namespace. Default: the namespace of the pod; with
    /// --kubeconfig: ovn-kubernetes.
    #[arg(
        long,
        value_name = "NAMESPACE",
        alias = "lease-namespace",
        value_parser = names::parse_namespace
    )]
    pub(super) namespace: Option<String>,
}

/// Whether and where the admin port is served.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum AdminPortAt {
    /// It is not served.
    Nowhere,
    /// At this address.
    Address(AdminAddress),
}

impl AdminPortAt {
    fn parse(text: &str) -> Result<Self, AdminAddressError> {
        if text == "0" { Ok(Self::Nowhere) } else { text.parse().map(Self::Address) }
    }
}

/// Controllers that a process runs.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Mode {
    /// The zone controller: the rows of one zone's Northbound database.
    Zone,
    /// The cluster manager: annotations and status of all ClusterNetworkConnects.
    Cluster,
    /// The cluster manager and the zone controller.
    All,
}
