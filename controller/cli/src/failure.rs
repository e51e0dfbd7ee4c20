//! Failures of commands.

use std::io;

#[cfg(feature = "kubernetes")]
use patchbay_crds::UnknownDefinition;
#[cfg(feature = "kubernetes")]
use patchbay_kubernetes::AdminPortError;
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_reconcile::northbound::{OpenError, ReconnectError};
use patchbay_reconcile::zone::ZoneError;
use patchbay_resources::manifests::LoadError;
use patchbay_resources::state::StateError;
use thiserror::Error;

/// Maximum number of names that an error lists; the rest is a count, so that the error stays a
/// line.
const MAX_LISTED_NAMES: usize = 10;

/// Failure of a command. The text is what the user reads after `error: `.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Arguments(String),
    /// Objects that need another topology than others, or than the command.
    #[error("{0}")]
    Topology(String),
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The errors of the objects are written already.
    #[error("{}", refused_objects(*count))]
    Refused { count: usize },
    /// An object that the command needs.
    #[error("{object} cannot be read: {reason}")]
    Unreadable { object: String, reason: String },
    #[error(transparent)]
    State(#[from] StateError),
    #[error(transparent)]
    File(#[from] ovsdb_sim::FileError),
    #[error(transparent)]
    Source(#[from] patchbay_sources::SourceError),
    #[error("node {zone} not found; the nodes are {}", abbreviate_list(nodes, MAX_LISTED_NAMES))]
    NoSuchZone { zone: String, nodes: Vec<String> },
    #[error("{kind} {name} not found; {}", known_names(kind, known))]
    NoSuchObject { kind: &'static str, name: String, known: Vec<String> },
    #[error("service {service} has {}; name one with --proto and --port", service_ports(protocols))]
    ServicePort { service: String, protocols: Vec<String> },
    #[error("{unanswered} of {count} questions cannot be asked; see `error` there")]
    Unanswered { unanswered: usize, count: usize },
    /// Objects that are not accepted. The warnings have the reasons.
    #[error("not accepted: {}; see the warnings", abbreviate_list(.0, MAX_LISTED_NAMES))]
    NotAccepted(Vec<String>),
    /// Objects that are not accepted or not connected, with the reasons, one line each.
    #[cfg(feature = "lab")]
    #[error("{}", .0.join("; "))]
    Strict(Vec<String>),
    #[error("the manifests contain no Node, so there is no zone to apply them to")]
    NoNode,
    #[error(
        "--zone is required because --nb is the database of one zone; the nodes are {}",
        abbreviate_list(.0, MAX_LISTED_NAMES)
    )]
    ZoneRequired(Vec<String>),
    #[error(
        "the text would have the rows of {count} zones: --zone NODE, which may be repeated, selects \
         zones; --all-zones prints all; -o json needs neither"
    )]
    ManyZones { count: usize },
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    UnknownDefinition(#[from] UnknownDefinition),
    #[error("{source}{}", limit_hint(source.is_timeout()))]
    Open {
        #[from]
        source: OpenError,
    },
    #[error("zone {zone}: {source}{}", limit_hint(source.is_timeout()))]
    Zone { zone: String, source: ZoneError },
    #[error("zone {zone}: {source}{}", limit_hint(source.is_timeout()))]
    Unreachable { zone: String, source: ReconnectError },
    #[error("zone {zone}: cannot print the rows: {message}")]
    Print { zone: String, message: String },
    #[error("cannot start an embedded database: {0}")]
    Embedded(String),
    #[error("cannot listen on {0}")]
    Listen(#[from] ovsdb_sim::RemoteError),
    #[cfg(feature = "kubernetes")]
    #[error("cannot use the cluster: {0}")]
    Cluster(String),
    #[cfg(feature = "kubernetes")]
    #[error("cannot use the cluster: {0}; outside of a pod, --kubeconfig FILE is required")]
    NotAPod(String),
    #[cfg(feature = "kubernetes")]
    #[error("--admin-bind-address: {0}")]
    AdminPort(AdminPortError),
    #[cfg(feature = "kubernetes")]
    #[error("{0}")]
    Ended(String),
    /// The first line is the reason. Lines of a program's log may follow.
    #[cfg(feature = "lab")]
    #[error("{0}")]
    Lab(String),
    /// A signal has ended the work.
    #[cfg(feature = "lab")]
    #[error("stopped")]
    Stopped,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl Failure {
    /// The reasons, each of which is one line.
    pub(super) fn reasons(&self) -> Vec<String> {
        match self {
            Self::Load(error) => error.problems.iter().map(ToString::to_string).collect(),
            #[cfg(feature = "lab")]
            Self::Strict(reasons) => reasons.clone(),
            #[cfg(feature = "lab")]
            Self::Lab(text) => text.lines().take(1).map(str::to_owned).collect(),
            other => vec![other.to_string()],
        }
    }

    /// Last lines of the log of a program that has ended.
    pub(super) fn log(&self) -> impl Iterator<Item = &str> {
        let text = match self {
            #[cfg(feature = "lab")]
            Self::Lab(text) => text,
            _ => "",
        };
        text.lines().skip(1)
    }

    /// `true` if a server has not replied, or has not come back, within `--timeout`.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::Zone { source, .. } if source.is_timeout())
    }
}

/// Returns the text that follows an error if the limit of `--timeout` has ended.
fn limit_hint(is_timeout: bool) -> &'static str {
    if is_timeout { " (--timeout sets the limit)" } else { "" }
}

fn refused_objects(count: usize) -> String {
    let objects =
        if count == 1 { "1 object cannot".to_owned() } else { format!("{count} objects cannot") };
    format!("{objects} be read, see above; the others are used")
}

fn service_ports(protocols: &[String]) -> String {
    match protocols {
        [] => "no port".to_owned(),
        [only] => format!("the port {only}"),
        ports => format!("the ports {}", abbreviate_list(ports, MAX_LISTED_NAMES)),
    }
}

fn known_names(kind: &str, names: &[String]) -> String {
    match names {
        [] => format!("there is no {kind}"),
        names => format!("found {}", abbreviate_list(names, MAX_LISTED_NAMES)),
    }
}
