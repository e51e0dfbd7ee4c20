//! Flags of `patchbay explain`.

use std::path::PathBuf;

use clap::{ArgAction, Args, ValueEnum};

use crate::args::Format;
use crate::databases::DatabaseFlags;
use crate::input_flags::InputFlags;

/// Examples and exit statuses, in the help text.
pub(crate) const EXPLAIN_EXAMPLES: &str = "\
Examples:
  patchbay explain cnc shop-and-partner -f manifests/
      whether the networks of a connect are connected on each node
  patchbay explain networkpolicy shop/db -f manifests/
      what a policy selects and allows, and the labels that nothing has
  patchbay explain pod shop/web -f manifests/ --zone node-1 \\
      --nb unix:/run/ovn/ovnnb_db.sock
      also the rows of the pod that the database lacks
  patchbay explain cnc shop-and-partner --must-gather must-gather.tar.gz
      what the objects of an archive want, and what its databases have

Exit status:
  0  everything is connected or in effect
  2  something is not, or no network is selected
  1  error";

#[derive(Debug, Args)]
#[command(override_usage = "patchbay explain <KIND> <NAME> [OPTIONS]")]
pub(crate) struct Explain {
    /// Kind of the object.
    #[arg(value_enum, value_name = "KIND", ignore_case = true)]
    pub(crate) kind: Explained,
    /// Name of the object: NAMESPACE/NAME, or NAME if there is only one of it.
    #[arg(value_name = "NAME")]
    pub(crate) name: String,
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input.
    /// Hidden entries of folders and symbolic links to other folders are skipped. Or an archive of a
    /// collector, for its objects alone. Default: the objects of --must-gather, or those of the
    /// cluster.
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(crate) paths: Vec<PathBuf>,
    /// Kubeconfig file of the cluster. Default: the configuration that kubectl uses, or in a pod
    /// its service account.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "FILE", conflicts_with_all = ["paths", "must_gather"])]
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig. Default: its current context.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "NAME", conflicts_with_all = ["paths", "must_gather"])]
    pub(crate) context: Option<String>,
    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,
    /// The zone of the database, or of several databases the zone to explain: the name of its node.
    /// Required with --nb without NODE=, unless all nodes have one database. Without databases, all
    /// rows are assumed to exist.
    #[arg(long, value_name = "NODE")]
    pub(crate) zone: Option<String>,
    /// Whether ovn-northd is that of an OVN release. With =false it is one with the changes of
    /// Kube-OVN, for which each subnet of a VPC gets a route by source to its own gateway.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) stock_northd: bool,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(crate) output: Format,
    /// The folder in which `apply --state` keeps annotations and status.
    #[arg(long, value_name = "DIR", requires = "paths")]
    pub(crate) state: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
}

/// Kinds of objects that `explain` knows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum Explained {
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
