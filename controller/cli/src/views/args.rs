//! Flags of the commands that show rows.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use crate::databases::DatabaseFlags;
use crate::input_flags::InputFlags;
use crate::keys::Keys;
use crate::time_limit::TimeLimit;

/// Flags of `routes`, `policies`, `acls`, `nat`, `lbs` and `ports`.
#[derive(Debug, Args)]
pub(crate) struct View {
    #[command(flatten)]
    pub(super) filters: Filters,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ViewFormat::Table)]
    pub(super) output: ViewFormat,
    #[command(flatten)]
    pub(super) source: SourceFlags,
}

/// Flags of `get`.
#[derive(Debug, Args)]
pub(crate) struct Get {
    /// Name of the table, such as `Logical_Switch_Port`, or a part of it in lower case: acl, lsp,
    /// ls, lr, lrp, lb, nat, pg.
    #[arg(value_name = "TABLE")]
    pub(super) table: String,
    /// Name or UUID of a row, the beginning of a UUID, or the name of its object, such as a pod's
    /// NAMESPACE/NAME. Default: all rows.
    #[arg(value_name = "ROW")]
    pub(super) row: Option<String>,
    #[command(flatten)]
    pub(super) filters: Filters,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ViewFormat::Table)]
    pub(super) output: ViewFormat,
    #[command(flatten)]
    pub(super) source: SourceFlags,
}

/// Flags of `watch`.
#[derive(Debug, Args)]
pub(crate) struct WatchRows {
    /// The Northbound database: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several remotes,
    /// separated by commas.
    #[arg(long, value_name = "REMOTE")]
    pub(super) nb: String,
    /// Print the columns of the rows, too.
    #[arg(long)]
    pub(super) rows: bool,
    /// End after this number of changes.
    #[arg(long, value_name = "NUMBER")]
    pub(super) count: Option<u64>,
    #[command(flatten)]
    pub(super) limit: TimeLimit,
    #[command(flatten)]
    pub(super) keys: Keys,
}

/// Flags that select rows.
#[derive(Debug, Args)]
pub(crate) struct Filters {
    /// Show only rows of a network: by its name in OVN-Kubernetes or Neutron.
    #[arg(long, value_name = "NAME")]
    pub(super) network: Option<String>,
    /// Show only what concerns a pod: its ports, the ACLs and load balancers of its switches and port
    /// groups, and rows that name its address.
    #[arg(id = "selected_pod", long = "pod", value_name = "NAMESPACE/NAME")]
    pub(super) pod: Option<String>,
    /// Show only rows of a switch.
    #[arg(long, value_name = "NAME")]
    pub(super) switch: Option<String>,
    /// Show only rows of a router.
    #[arg(long, value_name = "NAME")]
    pub(super) router: Option<String>,
    /// Show only rows of an object, such as NetworkPolicy, or shop/web.
    #[arg(long, value_name = "OBJECT")]
    pub(super) owner: Option<String>,
}

/// Flags that name the rows to read.
#[derive(Debug, Args)]
pub(crate) struct SourceFlags {
    #[command(flatten)]
    pub(super) databases: DatabaseFlags,
    /// Manifests, whose rows are shown: files, folders with *.yaml, *.yml and *.json files, or - for
    /// standard input.
    #[arg(
        short = 'f',
        long = "filename",
        value_name = "PATH",
        num_args = 1..,
        required_unless_present_any = ["nb", "file", "must_gather"],
        conflicts_with_all = ["nb", "file", "must_gather"]
    )]
    pub(super) paths: Vec<PathBuf>,
    #[command(flatten)]
    pub(super) input: InputFlags,
}

/// Formats of rows.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ViewFormat {
    /// Columns of at most 80 characters together.
    Table,
    /// All columns, as long as they are.
    Wide,
    /// A JSON document.
    Json,
    /// A YAML document.
    Yaml,
    /// Table and name of each row.
    Name,
}
