//! Arguments of `patchbay lab`.

use std::path::PathBuf;

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use patchbay_ovn_programs::Suite;

use crate::cluster_flags::ClusterFlags;

#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[expect(clippy::struct_excessive_bools, reason = "each flag of the command is one")]
pub(crate) struct Lab {
    #[command(subcommand)]
    pub(crate) command: Option<LabCommand>,
    /// Manifests: files, folders with *.yaml, *.yml and *.json files, or - for standard input.
    /// Hidden entries of folders and symbolic links to other folders are skipped.
    #[arg(short = 'f', long = "filename", value_name = "PATH", required = true, num_args = 1..)]
    pub(crate) paths: Vec<PathBuf>,
    /// Folder with OVN and Open vSwitch: unpacked packages, or the prefix of a build. Default: the
    /// installed programs.
    #[arg(long, value_name = "DIR")]
    pub(crate) ovn: Option<PathBuf>,
    /// Serve the databases by the release's ovsdb-server, a process for each node, instead of
    /// ovsdb-sim in this process.
    #[arg(long)]
    pub(crate) ovsdb_server: bool,
    /// Execute a command of the prompt, such as "ping blue-1 green-3", and exit; may be repeated.
    /// The status is 2 if a packet is lost or a command has a mistake.
    #[arg(short, long = "command", value_name = "COMMAND", conflicts_with = "check")]
    pub(crate) commands: Vec<String>,
    /// Ask all pairs of pods, compare the answers with the manifests, and exit.
    #[arg(long)]
    pub(crate) check: bool,
    /// Ask these questions instead: a JSON list of {"from": POD, "to": POD}, each with optional
    /// members protocol ("icmp", "udp 53", "tcp 80"), family ("ipv4", "ipv6") and reached (true,
    /// false).
    #[arg(long, value_name = "FILE", requires = "check")]
    pub(crate) questions: Option<PathBuf>,
    /// Also end with status 1 if a connect or a network is not accepted, or a connect selects no
    /// network or is not connected everywhere.
    #[arg(long, requires = "check")]
    pub(crate) strict: bool,
    /// Output format of the check.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = CheckFormat::Text)]
    pub(crate) output: CheckFormat,
    /// Whether ovn-northd is that of an OVN release. With =false it is one with the changes of
    /// Kube-OVN, for which each subnet of a VPC gets a route by source to its own gateway.
    #[arg(long, value_name = "BOOL", default_value_t = true, action = ArgAction::Set)]
    pub(crate) stock_northd: bool,
    #[command(flatten)]
    pub(crate) cluster: ClusterFlags,
}

/// Command about labs.
#[derive(Debug, Subcommand)]
pub(crate) enum LabCommand {
    /// Download OVN and Open vSwitch of a Debian suite into a folder for --ovn.
    ///
    /// Packages are unpacked with apt and dpkg, and not installed. That needs no root.
    Fetch(Fetch),
}

#[derive(Debug, Args)]
pub(crate) struct Fetch {
    /// Debian suite: sid has the newest release, trixie has OVN 25.03.
    #[arg(long, value_name = "NAME", default_value = "sid")]
    pub(crate) suite: Suite,
    /// New folder. Default: ovn-SUITE.
    #[arg(long, value_name = "DIR")]
    pub(crate) into: Option<PathBuf>,
}

/// Output format of a check.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum CheckFormat {
    /// Text for people.
    Text,
    /// A JSON document.
    Json,
    /// A document for `JUnit`.
    Junit,
}
