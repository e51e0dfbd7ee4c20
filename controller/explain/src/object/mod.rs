//! Explanation of an object: what it specifies, the status and rows that follow, and what stops it.
//!
//! ```text
//! objects                 -> facts    what the object specifies, and what it has
//! selectors               -> labels   what they select, or the labels that there are
//! problems of a dry run,
//! status                  -> reasons  what stops it, with the object and field to change
//! rows before and after   -> rows     rows that are not as wanted
//!                         -> ObjectExplanation
//! ```

mod egress_ip;
mod labels;
mod network;
mod pod;
mod policy;
mod service;
mod text;

use std::collections::BTreeSet;

use patchbay_model::{Networks, ObjectProblem, ObjectRef};
use patchbay_networks::SkippedNetwork;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Objects};
use patchbay_resources::object::{EgressIP, NetworkPolicy, Object as _, Pod, Service};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use serde::Serialize;

use super::reasons::Reason;

/// Maximum number of names in a sentence. All others are counted.
const MAX_NAMED: usize = 10;

/// Kinds of objects that have an explanation, beside connects and objects of VPCs.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ObjectKind {
    /// `UserDefinedNetwork`.
    Udn,
    /// `ClusterUserDefinedNetwork`.
    Cudn,
    /// `Pod`.
    Pod,
    /// `Service`.
    Service,
    /// `NetworkPolicy`.
    NetworkPolicy,
    /// `EgressIP`.
    EgressIp,
}

/// State of an object.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum ObjectState {
    /// Everything that it specifies is in effect.
    Ready,
    /// Some of it is.
    Partly,
    /// Nothing is.
    NotReady,
}

/// Explanation of an object.
#[derive(Clone, Debug, Eq, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectExplanation {
    /// Kind and name of the object.
    pub object: String,
    /// State of the object.
    pub state: ObjectState,
    /// What the object specifies, and what it has, one sentence each.
    pub facts: Vec<String>,
    /// Conditions of the status, one sentence each.
    pub conditions: Vec<String>,
    /// Reasons why something of it is not in effect.
    pub reasons: Vec<Reason>,
    /// Rows of the object.
    pub rows: Vec<ObjectRow>,
    /// Notices that do not prevent anything.
    pub notices: Vec<String>,
}

/// Row of an object.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectRow {
    /// Name of the zone. `None`: all nodes have one database.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Name of the table.
    pub table: String,
    /// Name of the row, or the content that identifies it best.
    pub row: String,
    /// State of the row.
    pub state: RowState,
}

/// State of a row in a database.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum RowState {
    /// As it is wanted, or the database was not read.
    Present,
    /// Not there.
    Missing,
    /// Columns that are not as wanted.
    Different(Vec<String>),
    /// There and not wanted.
    LeftOver,
}

/// What is known of an object beside the inventory.
#[derive(Clone, Copy, Debug)]
pub struct ObjectView<'a> {
    /// Networks of the cluster.
    pub networks: &'a Networks,
    /// Problems of the dry runs of all zones.
    pub problems: &'a [ObjectProblem],
    /// Zones with the networks that have no rows of their own there.
    pub skipped: &'a [(String, SkippedNetwork)],
    /// The object's rows in words, with the zones that have them. Empty: there are none.
    pub wanted: &'a str,
    /// Rows that are not as wanted.
    pub rows: &'a [ObjectRow],
}

/// What is found about an object.
#[derive(Debug, Default)]
struct Findings {
    facts: Vec<String>,
    conditions: Vec<String>,
    reasons: BTreeSet<Reason>,
    notices: Vec<String>,
}

impl ObjectExplanation {
    /// `true` if everything that the object specifies is in effect.
    pub fn is_ready(&self) -> bool {
        self.state == ObjectState::Ready
    }
}

impl ObjectKind {
    /// Kind of the object.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Udn => UserDefinedNetwork::KIND,
            Self::Cudn => ClusterUserDefinedNetwork::KIND,
            Self::Pod => Pod::KIND,
            Self::Service => Service::KIND,
            Self::NetworkPolicy => NetworkPolicy::KIND,
            Self::EgressIp => EgressIP::KIND,
        }
    }

    /// Keys of all objects of the kind.
    fn keys(self, inventory: &Inventory) -> Vec<&ObjectKey> {
        fn of<T: InventoryKind>(objects: &Objects<T>) -> Vec<&ObjectKey> {
            objects.iter().map(|(key, _)| key).collect()
        }
        match self {
            Self::Udn => of(&inventory.user_defined_networks),
            Self::Cudn => of(&inventory.cluster_user_defined_networks),
            Self::Pod => of(&inventory.pods),
            Self::Service => of(&inventory.services),
            Self::NetworkPolicy => of(&inventory.network_policies),
            Self::EgressIp => of(&inventory.egress_ips),
        }
    }

    /// Names of all objects of the kind, with namespaces before a `/`.
    pub fn names(self, inventory: &Inventory) -> Vec<String> {
        self.keys(inventory).into_iter().map(ToString::to_string).collect()
    }

    /// Keys of the objects that a name means: with its namespace, or without one.
    pub fn find(self, name: &str, inventory: &Inventory) -> Vec<ObjectKey> {
        let keys = self.keys(inventory).into_iter();
        keys.filter(|key| key.name == name || key.to_string() == name).cloned().collect()
    }
}

impl Findings {
    /// Adds a reason about a field of an object.
    fn stop(&mut self, message: impl Into<String>, object: &str, field: &str) {
        let field = (!field.is_empty()).then(|| field.to_owned());
        self.reasons.insert(Reason::new(message.into(), object, field));
    }
}

/// Explains an object of an inventory whose objects have their addresses and status. `None`: there is
/// no such object.
pub fn explain_object(
    kind: ObjectKind,
    key: &ObjectKey,
    inventory: &Inventory,
    view: ObjectView<'_>,
) -> Option<ObjectExplanation> {
    let mut found = match kind {
        ObjectKind::Udn => network::of_udn(key, inventory, view)?,
        ObjectKind::Cudn => network::of_cudn(key, inventory, view)?,
        ObjectKind::Pod => pod::of(key, inventory, view)?,
        ObjectKind::Service => service::of(key, inventory, view)?,
        ObjectKind::NetworkPolicy => policy::of(key, inventory)?,
        ObjectKind::EgressIp => egress_ip::of(key, inventory)?,
    };
    let object = format!("{} {key}", kind.as_str());
    let own = match &key.namespace {
        Some(namespace) => ObjectRef::namespaced(kind.as_str(), &**namespace, &*key.name),
        None => ObjectRef::cluster(kind.as_str(), &*key.name),
    };
    for problem in view.problems.iter().filter(|problem| problem.object == own) {
        found.reasons.insert(Reason::of_text(problem.problem.to_string(), &*object));
    }
    if !view.wanted.is_empty() {
        found.facts.push(format!("rows: {}", view.wanted));
    }
    let state = match (found.reasons.is_empty(), view.rows.is_empty(), view.wanted.is_empty()) {
        (true, true, _) => ObjectState::Ready,
        (_, _, false) => ObjectState::Partly,
        (_, _, true) => ObjectState::NotReady,
    };
    Some(ObjectExplanation {
        object,
        state,
        facts: found.facts,
        conditions: found.conditions,
        reasons: found.reasons.into_iter().collect(),
        rows: view.rows.to_vec(),
        notices: found.notices,
    })
}
