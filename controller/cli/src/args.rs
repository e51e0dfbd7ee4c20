//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::keys::Keys;
#[cfg(feature = "kubernetes")]
use super::names;
use super::ranges::ClusterRanges;
#[cfg(feature = "kubernetes")]
use patchbay_crds::CLUSTER_MANAGER;

/// Connects isolated user-defined networks through OVN.
#[derive(Debug, Parser)]
#[command(name = "patchbay", version)]
pub(super) struct CommandLine {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show the documented example: two networks on three nodes, connected, in an embedded database.
    Demo(Demo),
    /// Bring a Northbound database to what manifests say, and print it. Exit status: 0 done, 1 error.
    Apply(Apply),
    /// Show which rows `apply` would insert, change and delete. Exit status: 0 none, 2 some, 1 error.
    Plan(Manifests),
    /// Say of each network that a connect selects, and of each node, whether it is connected, and if not, what to mend.
    Explain(Explain),
    #[cfg(feature = "kubernetes")]
    /// Run as a controller on a Kubernetes API, until it is told to stop.
    Run(Run),
    #[cfg(feature = "kubernetes")]
    /// Print the definitions of the resources, for `kubectl apply -f -`.
    Crds(Crds),
}

#[cfg(feature = "kubernetes")]
#[derive(Debug, Args)]
pub(super) struct Crds {
    /// Resources by kind, plural, singular or short name. Default: cnc, udn and cudn; net-attach-def and ipamclaim are
    /// for clusters that do not have them.
    #[arg(value_name = "NAME")]
    pub(super) names: Vec<String>,
    /// Also print the admission policies that guard annotations, the label of namespaces, and what zones report.
    #[arg(long)]
    pub(super) policies: bool,
    /// The user that the policies let write what was allocated.
    #[arg(long, value_name = "USER", default_value = CLUSTER_MANAGER, requires = "policies")]
    pub(super) manager: String,
}

#[derive(Debug, Args)]
pub(super) struct Demo {
    /// Keep serving the database at punix:PATH or ptcp:PORT[:HOST], until Ctrl-C.
    #[arg(long, value_name = "TARGET")]
    pub(super) listen: Option<String>,
}

#[derive(Debug, Args)]
pub(super) struct Apply {
    #[command(flatten)]
    pub(super) manifests: Manifests,
    /// Go on until Ctrl-C: apply the manifests again whenever one of the files is saved, or the database comes back after a
    /// lost connection. While they are wrong, what was applied last stays. What fails is tried again.
    #[arg(long)]
    pub(super) watch: bool,
}

#[derive(Debug, Args)]
pub(super) struct Manifests {
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input. Of folders what is hidden, and
    /// links to other folders, are left out.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, num_args = 1..)]
    pub(super) paths: Vec<PathBuf>,
    /// The database: `embedded`, which is empty and goes with the run, or a server's, unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT; of
    /// several places, separated by commas, the first one that serves it.
    #[arg(long, value_name = "REMOTE", default_value = "embedded", value_parser = Database::parse)]
    pub(super) nb: Database,
    /// The zone whose database this is: the name of its node. Without it, an embedded one is made for every node.
    #[arg(long, value_name = "NODE")]
    pub(super) zone: Option<String>,
    /// How to print.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(super) output: Format,
    /// Keep in this folder what a cluster would keep in annotations and status, and start from it. It cannot be among the
    /// manifests.
    #[arg(long, value_name = "DIR")]
    pub(super) state: Option<PathBuf>,
    #[command(flatten)]
    pub(super) keys: Keys,
    #[command(flatten)]
    pub(super) ranges: ClusterRanges,
}

#[derive(Debug, Args)]
pub(super) struct Explain {
    /// Kind of the object.
    #[arg(value_enum, value_name = "KIND")]
    pub(super) kind: Explained,
    /// Name of the object.
    #[arg(value_name = "NAME")]
    pub(super) name: String,
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input. Of folders what is hidden, and
    /// links to other folders, are left out. Without them, the objects are those of a cluster.
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(super) paths: Vec<PathBuf>,
    /// How to reach the cluster. Without it, as kubectl and pods do.
    #[cfg(feature = "kubernetes")]
    #[arg(long, value_name = "FILE", conflicts_with = "paths")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// Look in a zone's database, too: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT. Without it, routers and switches of networks are taken
    /// to be there.
    #[arg(long, value_name = "REMOTE", requires = "zone")]
    pub(super) nb: Option<String>,
    /// The zone whose database that is: the name of its node.
    #[arg(long, value_name = "NODE", requires = "nb")]
    pub(super) zone: Option<String>,
    /// How to print.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    pub(super) output: Format,
    /// The folder in which `apply` has kept what a cluster would keep in annotations and status.
    #[arg(long, value_name = "DIR", requires = "paths")]
    pub(super) state: Option<PathBuf>,
    #[command(flatten)]
    pub(super) keys: Keys,
    #[command(flatten)]
    pub(super) ranges: ClusterRanges,
}

/// Kinds of objects that can be explained.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Explained {
    /// A ClusterNetworkConnect.
    #[value(aliases = ["clusternetworkconnect", "clusternetworkconnects"])]
    Cnc,
}

#[cfg(feature = "kubernetes")]
#[derive(Debug, Args)]
pub(super) struct Run {
    /// How to reach the API server. Without it, as pods do, with the account and the address that they are given.
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// What to run. Of all that run the cluster-wide half, one at a time works.
    #[arg(long, value_enum, default_value_t = Mode::All)]
    pub(super) mode: Mode,
    /// The zone: the name of its node. Required, unless the mode is `cluster`.
    #[arg(
        long,
        value_name = "NODE",
        required_unless_present = "mode",
        required_if_eq_any([("mode", "zone"), ("mode", "all")]),
        value_parser = names::object
    )]
    pub(super) zone: Option<String>,
    /// The zone's database: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several of them, separated by commas.
    #[arg(
        long,
        value_name = "REMOTE",
        default_value = "unix:/var/run/ovn/ovnnb_db.sock"
    )]
    pub(super) nb: String,
    #[command(flatten)]
    pub(super) keys: Keys,
    #[command(flatten)]
    pub(super) ranges: ClusterRanges,
    /// OVN-Kubernetes renders networks only on nodes with pods or egress IPs on them: watch those, to connect networks only
    /// there.
    #[arg(long)]
    pub(super) dynamic_udn: bool,
    /// Namespace of what it keeps for itself: the lease by which one is chosen, and a `ConfigMap` of each zone with what it
    /// reports. All processes of a cluster need the same one. Without it, that of the pod, and with --kubeconfig
    /// ovn-kubernetes.
    #[arg(
        long,
        value_name = "NAMESPACE",
        alias = "lease-namespace",
        value_parser = names::namespace
    )]
    pub(super) namespace: Option<String>,
}

/// Parts of the controller that a process runs.
#[cfg(feature = "kubernetes")]
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Mode {
    /// The rows of one zone.
    Zone,
    /// Annotations and status, for the whole cluster.
    Cluster,
    /// Both.
    All,
}

/// Where the Northbound database is.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Database {
    /// In this process.
    Embedded,
    /// In a server, at these places.
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

/// How to print.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum Format {
    /// For people.
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
    fn databases_are_named_as_ovn_does() {
        assert_eq!(Database::parse("embedded"), Ok(Database::Embedded));
        let remote = "unix:/run/ovn/ovnnb_db.sock";
        assert_eq!(
            Database::parse(remote),
            Ok(Database::Remote(remote.to_owned()))
        );
        assert!(Database::parse("/run/ovn/ovnnb_db.sock").is_err());
        assert!(Database::parse("punix:x").is_err());
    }
}
