//! Checks of a cluster, before and after an installation: what an API server answers, judged.
//!
//! ```text
//! API server -> Reader -> Facts (each an answer, or why there is none) -> groups of checks
//! ```
//!
//! All questions are asked at the same time, after the first one. Each has a time limit, so that a
//! server that accepts connections and never answers is a failure within twice that time. A question
//! without an answer fails the checks that need it, and no others.

mod api_server;
mod connects;
mod definitions;
mod facts;
mod installation;
mod leader;
mod nodes;
mod objects;
mod reader;
mod result;
mod rights;
mod writers;
mod zones;

use std::time::Duration;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::JSONSchemaProps;
use kube::Client;

use facts::Facts;
use reader::Reader;

pub use result::{Check, CheckGroup, Verdict};
pub use rights::Right;

/// What is checked.
#[derive(Clone, Debug)]
pub struct CheckConfig {
    /// `true`: before an installation. `false`: an installation.
    pub is_before: bool,
    /// Namespace of the controllers.
    pub namespace: String,
    /// `true` if Patchbay writes, or shall write, the networks themselves.
    pub writes_networks: bool,
    /// Rights that an installation needs. They are asked before an installation only.
    pub rights: Vec<Right>,
    /// Definitions of the resources that the controllers read.
    pub definitions: Vec<Definition>,
    /// Names of the admission policies of an installation.
    pub policies: Vec<String>,
    /// Time limit of each question.
    pub limit: Duration,
}

/// A definition of a resource, as this version knows it.
#[derive(Clone, Debug)]
pub struct Definition {
    /// Name of the definition: plural and group.
    pub name: String,
    /// Version that the controllers read.
    pub version: String,
    /// Schema of that version. `None`: another project brings the definition, so its schema may
    /// differ.
    pub schema: Option<JSONSchemaProps>,
    /// `true` if an installation brings the definition.
    pub is_installed: bool,
}

/// Results of the checks of a cluster.
#[derive(Clone, Debug)]
pub struct ClusterChecks {
    /// Groups of checks, in the order in which problems are solved best.
    pub groups: Vec<CheckGroup>,
    /// Arguments of the installed controllers, by name. Without those that cannot be read.
    pub arguments: Vec<(&'static str, Vec<String>)>,
    /// `true` if the API server has answered.
    pub is_reachable: bool,
}

/// Checks a cluster.
///
/// # Cancel safety
/// Nothing is written, so the future may be dropped at any time.
pub async fn check_cluster(client: &Client, config: &CheckConfig) -> ClusterChecks {
    let reader = Reader::new(client.clone(), config.limit);
    let facts = Box::pin(Facts::read(&reader, config)).await;
    let mut groups = vec![api_server::check(&facts)];
    if config.is_before {
        groups.push(rights::check(&facts));
    }
    groups.push(definitions::check(&facts, config));
    groups.push(writers::check(&facts, config));
    groups.push(nodes::check(&facts, config));
    if !config.is_before {
        groups.push(installation::check(&facts, config));
        groups.push(leader::check(&facts, config));
        groups.push(zones::check(&facts));
        groups.push(connects::check(&facts));
    }
    ClusterChecks { groups, arguments: facts.arguments(), is_reachable: facts.version.is_ok() }
}
