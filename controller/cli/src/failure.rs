//! Errors of commands.

use std::io;

use patchbay_app::northbound::OpenError;
use patchbay_app::zone::ZoneError;
#[cfg(feature = "kubernetes")]
use patchbay_crds::UnknownDefinition;
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_resources::manifests::LoadError;
use patchbay_resources::state::StateError;
use thiserror::Error;

/// How many names an error lists.
const NAMED: usize = 10;

/// Why a command failed.
#[derive(Debug, Error)]
pub(super) enum Failure {
    #[error("{0}")]
    Arguments(String),
    #[error(transparent)]
    Load(#[from] LoadError),
    #[error(transparent)]
    State(#[from] StateError),
    #[error(
        "there is no node {zone}: the nodes are {}",
        abbreviate_list(nodes, NAMED)
    )]
    NoSuchZone { zone: String, nodes: Vec<String> },
    #[error("there is no ClusterNetworkConnect {name}{}", known_names(known))]
    NoSuchConnect { name: String, known: Vec<String> },
    #[error("there is no node, so there is no zone: manifests of kind Node are missing")]
    NoNode,
    #[error("--zone is required: a database belongs to one of the nodes {}", abbreviate_list(.0, NAMED))]
    ZoneRequired(Vec<String>),
    #[cfg(feature = "kubernetes")]
    #[error(transparent)]
    UnknownDefinition(#[from] UnknownDefinition),
    #[error(transparent)]
    Open(#[from] OpenError),
    #[error("zone {zone}: {source}")]
    Zone { zone: String, source: ZoneError },
    #[error("zone {zone}: {obstacle}")]
    Gone { zone: String, obstacle: String },
    #[error("zone {zone}: cannot be rehearsed: {message}")]
    Rehearsal { zone: String, message: String },
    #[error("zone {zone}: cannot be printed: {message}")]
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
    #[error("{0}")]
    Ended(String),
    #[error(transparent)]
    Io(#[from] io::Error),
}

fn known_names(names: &[String]) -> String {
    match names {
        [] => ", nor any other".to_owned(),
        [name] => format!(": there is {name}"),
        names => format!(": there are {}", abbreviate_list(names, NAMED)),
    }
}
