//! Commands and flags of the command line.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::bisect::Bisect;
#[cfg(feature = "kubernetes")]
use super::cluster_flags::ClusterFlags;
use super::completions::Completions;
#[cfg(feature = "kubernetes")]
use super::deploy_slots::{CLUSTER_PORT, SOCKET_FOLDER, ZONE_PORT};
use super::diff::Diff;
use super::graph::Graph;
use super::history::History;
use super::input_flags::InputFlags;
#[cfg(feature = "kubernetes")]
use super::keys::Keys;
#[cfg(feature = "lab")]
use super::lab::args::Lab;
use super::lint::args::Lint;
#[cfg(feature = "kubernetes")]
use super::names;
use super::reach::args::Reach;
use super::report::ReportFlags;
use super::show::Show;
use super::snapshot::Snapshot;
#[cfg(feature = "ui")]
use super::ui::Ui;
use super::version::Version;
use super::views::args::{Get, View, WatchRows};
#[cfg(feature = "kubernetes")]
use patchbay_crds::{CLUSTER_MANAGER, NAMESPACE};
#[cfg(feature = "kubernetes")]
use patchbay_kubernetes::{AdminAddress, AdminAddressError};

/// Width of help texts, in columns.
const HELP_COLUMNS: usize = 80;

const PLAN_EXAMPLES: &str = "\
Examples:
  patchbay plan -f manifests/
      what a cluster without rows would get, in all zones
  patchbay plan -f manifests/ --zone node-1 --nb unix:/run/ovn/ovnnb_db.sock
      what changes in the database of node-1
  patchbay plan -f manifests/ --zone node-1 --table ACL
      the columns of all ACLs that change

Exit status:
  0  nothing would change
  2  rows would change
  1  error, or an object cannot be read";

const APPLY_EXAMPLES: &str = "\
Examples:
  patchbay apply -f manifests/
      try out manifests in databases that are dropped at exit
  patchbay apply -f manifests/ --zone node-1 \\
      --nb unix:/run/ovn/ovnnb_db.sock --state state/
      make the rows of node-1, and keep what is allocated
  patchbay apply -f manifests/ --watch
      print what each save of a file changes

Exit status:
  0  applied
  1  error, or an object is not accepted";

const EXPLAIN_EXAMPLES: &str = "\
Examples:
  patchbay explain cnc shop-and-partner -f manifests/
      whether the networks of a connect are connected on each node
  patchbay explain networkpolicy shop/db -f manifests/
      what a policy selects and allows, and the labels that nothing has
  patchbay explain pod shop/web -f manifests/ --zone node-1 \\
      --nb unix:/run/ovn/ovnnb_db.sock
      also the rows of the pod that the database lacks

Exit status:
  0  everything is connected or in effect
  2  something is not, or no network is selected
  1  error";

const DIFF_EXAMPLES: &str = "\
Examples:
  patchbay diff manifests/ changed/
      the objects that differ
  patchbay diff ovnnb_db.db@120 ovnnb_db.db --rows
      the rows that have changed since record 120 of a database file
  patchbay diff must-gather.tar.gz unix:/run/ovn/ovnnb_db.sock -o markdown
      an archive of a collector beside a server

Exit status:
  0  nothing differs
  2  rows differ
  1  error";

/// Connects isolated user-defined networks through OVN.
#[derive(Debug, Parser)]
#[command(name = "patchbay", version, term_width = HELP_COLUMNS)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the documented example: two connected networks on three nodes, in an embedded
    /// Northbound database.
    Demo(Demo),
    /// Apply manifests to Northbound databases, and print the resulting rows and what was done.
    #[command(after_long_help = APPLY_EXAMPLES)]
    Apply(Apply),
    /// Show what `apply` would do: the networks, connects, services, policies and other objects that
    /// come (+), change (~) and go (-).
    #[command(after_long_help = PLAN_EXAMPLES)]
    Plan(Box<Plan>),
    /// Explain an object: what it specifies, what is there, what stops it, and the field to correct. Of
    /// a connect (cnc), explain for each selected network and each node whether it is connected.
    #[command(after_long_help = EXPLAIN_EXAMPLES)]
    Explain(Explain),
    /// Follow the first packet of a connection through the switches and routers of a Northbound
    /// database, and show the row that stops it or the reply.
    ///
    /// Exit status: 0 the reply arrives, 2 it does not, 3 a zone that was not asked decides, 1
    /// error; of many answers 0, each has its own verdict, and 1 if a question cannot be asked.
    /// Of --diff and --expect: 0 no difference, or all hold, 2 otherwise.
    Reach(Box<Reach>),
    /// Show the switches and routers of a Northbound database, as `ovn-nbctl show` prints them: of
    /// a server, or of a file at any moment of its history.
    Show(Show),
    /// Show the static routes of a Northbound database: router, prefix, next hop, and the object for
    /// which each exists.
    Routes(Box<View>),
    /// Show the policies of routers, in the order of their priorities.
    Policies(Box<View>),
    /// Show the ACLs of switches and port groups, in the order in which they are evaluated.
    Acls(Box<View>),
    /// Show the NAT rules of routers.
    Nat(Box<View>),
    /// Show the VIPs of load balancers with their backends.
    Lbs(Box<View>),
    /// Show the ports of switches and routers with their addresses, and the pods behind them.
    Ports(Box<View>),
    /// Show the rows of any table, or one of them with all columns, with names in place of UUIDs.
    Get(Box<Get>),
    /// Print the rows that change in a Northbound database as they commit, until Ctrl-C.
    Watch(WatchRows),
    /// Print all rows of a Northbound database with names in place of UUIDs, a text that is equal
    /// for databases with equal content, or compare it with a file.
    ///
    /// Exit status of --check: 0 no difference, 2 differences, 1 error.
    Snapshot(Snapshot),
    /// Show what differs between two sources, such as manifests before and after a change: by object,
    /// or by row.
    #[command(after_long_help = DIFF_EXAMPLES)]
    Diff(Box<Diff>),
    /// Draw the switches, routers, machines and connects of Northbound databases or of manifests, and
    /// the way of a packet through them.
    Graph(Box<Graph>),
    /// Write a page about databases or manifests: one file with the topology, who reaches whom, the
    /// connects, findings, and differences from an earlier state.
    Report(Box<ReportFlags>),
    #[cfg(feature = "ui")]
    /// Serve the page of `report` over HTTP, read-only, and follow the database or manifests.
    Ui(Box<Ui>),
    /// List the transactions of a database file with their times and comments, and the rows that
    /// each of them changed.
    History(History),
    /// Find the transaction of a database file that opened or cut the way of a packet.
    ///
    /// Exit status: 0 found, 2 the answer is the same at all moments that were asked, 1 error.
    Bisect(Box<Bisect>),
    /// Judge manifests of Kube-OVN's VPCs and of their platform before anything is applied, or the
    /// rows of any Northbound database.
    ///
    /// Exit status: 0 no error was found, 2 errors, with --strict also for warnings, 1 the
    /// manifests cannot be judged.
    Lint(Lint),
    #[cfg(feature = "lab")]
    /// Run the nodes of manifests on real OVN, without Kubernetes and root, and send packets
    /// between pods.
    ///
    /// Exit status of --check: 0 packets do what the manifests promise, 2 they do not, 1 error;
    /// with --strict 1, too, if an object is not accepted or not connected.
    Lab(Box<Lab>),
    #[cfg(feature = "kubernetes")]
    /// Run the controller on a Kubernetes API until Ctrl-C or SIGTERM.
    Run(Run),
    #[cfg(feature = "kubernetes")]
    /// Print the custom resource definitions, for `kubectl apply -f -`.
    Crds(Crds),
    #[cfg(feature = "kubernetes")]
    /// Print the manifests of both controllers for a namespace, for `kubectl apply -f -`.
    Deploy(Deploy),
    /// Print the completions of a shell, or with `man` the pages of man into a folder.
    Completions(Completions),
    /// Print the version of the command.
    Version(Version),
}

#[cfg(feature = "kubernetes")]
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

#[cfg(feature = "kubernetes")]
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
pub(super) struct Demo {
    /// Serve the database at punix:PATH or `ptcp:PORT[:HOST]` until Ctrl-C.
    #[arg(long, value_name = "TARGET")]
    pub(super) listen: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Apply {
    #[command(flatten)]
    pub(super) manifests: Manifests,
    /// Keep running until Ctrl-C, and apply the manifests again after each change of a file and
    /// each reconnect to the database. While the manifests are invalid, the rows of the last apply
    /// stay. A failed apply is retried.
    #[arg(long)]
    pub(super) watch: bool,
    /// With --prune: delete the rows without a question, as in scripts.
    #[arg(long, requires = "prune")]
    pub(super) yes: bool,
}

#[derive(Debug, Args)]
pub(super) struct Plan {
    #[command(flatten)]
    pub(super) manifests: Manifests,
    /// Print each row with its columns, by zone.
    #[arg(long)]
    pub(super) rows: bool,
    /// Print the rows of one table, such as ACL or `Logical_Router`.
    #[arg(long, value_name = "NAME")]
    pub(super) table: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Manifests {
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input.
    /// Hidden entries of folders and symbolic links to other folders are skipped.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, num_args = 1..)]
    pub(super) paths: Vec<PathBuf>,
    /// The Northbound database: `embedded` (empty, in memory, dropped at exit) or a remote
    /// (unix:PATH, tcp:HOST:PORT, ssl:HOST:PORT); of several remotes, separated by commas, the
    /// first that serves the database.
    #[arg(long, value_name = "REMOTE", default_value = "embedded", value_parser = Database::parse)]
    pub(super) nb: Database,
    /// The zone of the database: the name of its node. Repeated for several zones without --nb.
    /// Default: all nodes, each with an embedded database.
    #[arg(long = "zone", value_name = "NODE")]
    pub(super) zones: Vec<String>,
    /// Print the rows of all zones as text, also of more than ten.
    #[arg(long, conflicts_with = "zones")]
    pub(super) all_zones: bool,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(super) output: Format,
    /// Folder that keeps annotations and status between runs, as a cluster does. It must not be
    /// inside a folder of manifests.
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    /// Delete rows of objects that the manifests do not name, and that no earlier run with the same
    /// --state has applied. `apply` lists them and asks; without this flag they stay.
    #[arg(long)]
    pub(super) prune: bool,
    /// Whether ovn-northd is that of an OVN release. With =false it is one with the changes of
    /// Kube-OVN, for which each subnet of a VPC gets a route by source to its own gateway.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(super) stock_northd: bool,
    #[command(flatten)]
    pub(super) input: InputFlags,
}

#[derive(Debug, Args)]
#[command(override_usage = "patchbay explain <KIND> <NAME> [OPTIONS]")]
pub(super) struct Explain {
    /// Kind of the object.
    #[arg(value_enum, value_name = "KIND", ignore_case = true)]
    pub(super) kind: Explained,
    /// Name of the object: NAMESPACE/NAME, or NAME if there is only one of it.
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input.
    /// Hidden entries of folders and symbolic links to other folders are skipped. Without this
    /// flag, the objects are read from the cluster.
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(super) paths: Vec<PathBuf>,
    /// Kubeconfig file of the cluster. Default: the configuration that kubectl uses, or in a pod
    /// its service account.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Also read the Northbound database of a zone, and compare its rows with those that the
    /// object needs: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT. Without this flag, all rows are
    /// assumed to exist.
    #[arg(long, value_name = "REMOTE")]
    pub(super) nb: Option<String>,
    /// The zone of that database: the name of its node. Required with --nb, unless all nodes have
    /// one database.
    #[arg(long, value_name = "NODE", requires = "nb")]
    pub(super) zone: Option<String>,
    /// Whether ovn-northd is that of an OVN release. With =false it is one with the changes of
    /// Kube-OVN, for which each subnet of a VPC gets a route by source to its own gateway.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(super) stock_northd: bool,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(super) output: Format,
    /// The folder in which `apply --state` keeps annotations and status.
    #[arg(long, value_name = "DIR", requires = "paths")]
    pub(super) state: Option<PathBuf>,
    #[command(flatten)]
    pub(super) input: InputFlags,
}

/// Kinds of objects that `explain` knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Explained {
    /// A ClusterNetworkConnect.
    #[value(aliases = ["clusternetworkconnect", "clusternetworkconnects"])]
    Cnc,
    /// A `UserDefinedNetwork`.
    #[value(aliases = ["userdefinednetwork", "userdefinednetworks"])]
    Udn,
    /// A `ClusterUserDefinedNetwork`.
    #[value(aliases = ["clusteruserdefinednetwork", "clusteruserdefinednetworks"])]
    Cudn,
    /// A pod.
    #[value(aliases = ["po", "pods"])]
    Pod,
    /// A service.
    #[value(aliases = ["svc", "services"])]
    Service,
    /// A `NetworkPolicy`.
    #[value(aliases = ["netpol", "networkpolicies"])]
    Networkpolicy,
    /// An `EgressIP`.
    #[value(aliases = ["egressips"])]
    Egressip,
    /// A Vpc of Kube-OVN.
    #[value(aliases = ["vpcs"])]
    Vpc,
    /// A Subnet of Kube-OVN.
    #[value(aliases = ["subnets"])]
    Subnet,
    /// An `OvnEip`.
    #[value(aliases = ["oeip", "ovn-eip", "ovn-eips", "ovneip"])]
    Eip,
    /// An `OvnSnatRule`.
    #[value(aliases = ["osnat", "ovn-snat-rule", "ovn-snat-rules", "ovnsnatrule"])]
    Snat,
    /// An `OvnDnatRule`.
    #[value(aliases = ["odnat", "ovn-dnat-rule", "ovn-dnat-rules", "ovndnatrule"])]
    Dnat,
    /// An `OvnFip`.
    #[value(aliases = ["ofip", "ovn-fip", "ovn-fips", "ovnfip"])]
    Fip,
    /// A `SwitchLBRule`.
    #[value(aliases = ["slr", "switch-lb-rule", "switch-lb-rules"])]
    Switchlbrule,
    /// A `RouterLBRule`.
    #[value(aliases = ["rlr", "router-lb-rule", "router-lb-rules"])]
    Routerlbrule,
    /// A `SecurityGroup` of Kube-OVN.
    #[value(aliases = ["sg", "security-group", "security-groups"])]
    Securitygroup,
    /// A Vip of Kube-OVN.
    #[value(aliases = ["vips"])]
    Vip,
    /// An `IPPool` of Kube-OVN.
    #[value(aliases = ["ippools"])]
    Ippool,
    /// The IP of a pod's port in a Subnet of Kube-OVN.
    #[value(aliases = ["ips"])]
    Ip,
}

#[cfg(feature = "kubernetes")]
#[derive(Debug, Args)]
pub(super) struct Run {
    /// Kubeconfig file of the API server. Default: the pod's service account and the address in its
    /// environment.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
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
#[cfg(feature = "kubernetes")]
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum AdminPortAt {
    /// It is not served.
    Nowhere,
    /// At this address.
    Address(AdminAddress),
}

#[cfg(feature = "kubernetes")]
impl AdminPortAt {
    fn parse(text: &str) -> Result<Self, AdminAddressError> {
        if text == "0" { Ok(Self::Nowhere) } else { text.parse().map(Self::Address) }
    }
}

/// Format of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object for each line.
    Json,
}

/// Controllers that a process runs.
#[cfg(feature = "kubernetes")]
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Mode {
    /// The zone controller: the rows of one zone's Northbound database.
    Zone,
    /// The cluster manager: annotations and status of all ClusterNetworkConnects.
    Cluster,
    /// The cluster manager and the zone controller.
    All,
}

/// Location of the Northbound database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Database {
    /// An embedded server in this process.
    Embedded,
    /// A server at these remotes, separated by commas.
    Remote(String),
}

impl Database {
    fn parse(text: &str) -> Result<Self, String> {
        match text.split_once(':') {
            None if text == "embedded" => Ok(Self::Embedded),
            Some(("unix" | "tcp" | "ssl", _)) => Ok(Self::Remote(text.to_owned())),
            _ => Err("expected embedded, unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT".to_owned()),
        }
    }
}

/// Output format.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Format {
    /// Text for people.
    Text,
    /// A JSON document.
    Json,
    /// A YAML document.
    Yaml,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_database_is_embedded_or_a_remote_of_ovn() {
        assert_eq!(Database::parse("embedded"), Ok(Database::Embedded));
        let remote = "unix:/run/ovn/ovnnb_db.sock";
        assert_eq!(Database::parse(remote), Ok(Database::Remote(remote.to_owned())));
        assert!(Database::parse("/run/ovn/ovnnb_db.sock").is_err());
        assert!(Database::parse("punix:x").is_err());
    }
}
