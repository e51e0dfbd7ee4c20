//! Commands and flags of the command line.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};

use super::bisect::Bisect;
#[cfg(feature = "kubernetes")]
use super::check::args::{CHECK_EXAMPLES, Check};
#[cfg(feature = "kubernetes")]
use super::cluster_args::{Crds, Deploy, Run};
use super::completions::Completions;
use super::diff::Diff;
use super::explain::args::{EXPLAIN_EXAMPLES, Explain};
use super::graph::Graph;
use super::history::History;
use super::input_flags::InputFlags;
#[cfg(feature = "lab")]
use super::lab::args::Lab;
use super::lint::args::Lint;
use super::reach::args::Reach;
use super::report::ReportFlags;
#[cfg(feature = "kubernetes")]
use super::settings::Config;
use super::show::Show;
use super::snapshot::Snapshot;
use super::source_names::CompleteNames;
#[cfg(feature = "ui")]
use super::ui::Ui;
use super::version::Version;
use super::views::args::{Get, View, WatchRows};

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

const REPORT_EXAMPLES: &str = "\
Examples:
  patchbay report --nb unix:/run/ovn/ovnnb_db.sock -o report.html
      a page about a running database
  patchbay report --must-gather must-gather.tar.gz -o report.html
      a page about all nodes of an archive
  patchbay report -f manifests/ --before main-manifests/ -o report.html
      a page about manifests, with the ways that they open or close

Exit status:
  0  the page is written
  1  error";

#[cfg(feature = "ui")]
const UI_EXAMPLES: &str = "\
Examples:
  patchbay ui --nb unix:/run/ovn/ovnnb_db.sock
      http://127.0.0.1:7380/ follows the database
  patchbay ui -f manifests/ --listen 127.0.0.1:0
      a free port; each save of the manifests changes the page

Exit status:
  0  ended by a signal
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
    #[command(after_long_help = REPORT_EXAMPLES)]
    Report(Box<ReportFlags>),
    #[cfg(feature = "ui")]
    /// Serve the page of `report` over HTTP, read-only, and follow the database or manifests.
    #[command(after_long_help = UI_EXAMPLES)]
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
    /// Check whether a cluster is ready for an installation (--pre), or whether an installation works:
    /// ok, or what to do.
    #[command(after_long_help = CHECK_EXAMPLES)]
    Check(Box<Check>),
    #[cfg(feature = "kubernetes")]
    /// Run the controller on a Kubernetes API until Ctrl-C or SIGTERM.
    Run(Run),
    #[cfg(feature = "kubernetes")]
    /// Check the settings of `run` in a file, or print them with their origins.
    Config(Config),
    #[cfg(feature = "kubernetes")]
    /// Print the custom resource definitions, for `kubectl apply -f -`.
    Crds(Crds),
    #[cfg(feature = "kubernetes")]
    /// Print the manifests of both controllers for a namespace, for `kubectl apply -f -`.
    Deploy(Deploy),
    /// Print the completions of a shell, or with `man` the pages of man into a folder.
    Completions(Completions),
    /// Print names of the source on a command line, for completions of shells.
    #[command(hide = true)]
    CompleteNames(CompleteNames),
    /// Print the version of the command.
    Version(Version),
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

/// Format of the log.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(super) enum LogFormat {
    /// Text for people.
    Text,
    /// One JSON object for each line.
    Json,
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
