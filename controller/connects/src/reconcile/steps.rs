//! Steps of a connect's change, in an order that is safe at every split.
//!
//! No state between two steps permits traffic that is denied both before and after. ACLs that
//! isolate pods are added first and removed last. Policies between networks are removed before and
//! added after all other rows.

use patchbay_schemas::nb::{Acl, AddressSet, LoadBalancerGroup, LogicalRouterPolicy};
use patchbay_schemas::row::Row;
use uuid::Uuid;

use crate::desired::{PortRow, RouteRow, RouterRow};
use crate::index::TableKind;
use patchbay_model::NetworkId;

/// Phase of a step.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Phase {
    /// Adds addresses to address sets and ACLs to switches.
    Isolate,
    /// Removes policies, and load balancer groups from switches.
    Disconnect,
    /// Removes ports and routes.
    Unlink,
    /// Removes routers.
    Dissolve,
    /// Writes the router, its ports and its routes.
    Link,
    /// Writes policies.
    Connect,
    /// Writes the load balancer group and adds it to switches.
    Serve,
    /// Removes ACLs, and addresses from address sets.
    Release,
}

/// Step of a change.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) phase: Phase,
    /// Network whose steps of one phase are in one transaction.
    pub(crate) batch: Option<NetworkId>,
    pub(crate) action: Action<'a>,
}

/// Action of a step. Most steps write ports and routes, so larger rows are boxed.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    Router(Upsert<'a, RouterRow>),
    Port(Child<'a, PortRow>),
    Policy(Box<Child<'a, LogicalRouterPolicy>>),
    Route(Child<'a, RouteRow>),
    /// Updates an existing ACL.
    Acl(Box<Upsert<'a, Acl>>),
    /// Adds ACLs to a switch: existing rows, and indexes of new ACLs.
    Attach {
        switch: &'a Row,
        there: Vec<Uuid>,
        new: Vec<usize>,
    },
    /// Adds addresses to an address set without removing any.
    Grow {
        upsert: Upsert<'a, AddressSet>,
        /// Row with the old and the new addresses.
        meanwhile: AddressSet,
    },
    /// Removes addresses from an address set.
    Shrink {
        upsert: Upsert<'a, AddressSet>,
        /// `true` if a `Grow` step precedes.
        grown: bool,
    },
    Group(Upsert<'a, LoadBalancerGroup>),
    /// Adds the load balancer group to a switch.
    Serve {
        switch: &'a Row,
    },
    /// Removes a reference. OVSDB deletes unreferenced rows of non-root tables.
    Leave {
        held: TableKind,
        holder: &'a Row,
        row: Uuid,
    },
    Delete {
        kind: TableKind,
        row: Uuid,
    },
}

/// Update of an existing row, or insertion.
#[derive(Debug)]
pub(crate) struct Upsert<'a, T> {
    pub(crate) existing: Option<&'a Row>,
    pub(crate) wanted: T,
}

/// Update or insertion of a row that a router refers to.
#[derive(Debug)]
pub(crate) struct Child<'a, T> {
    pub(crate) upsert: Upsert<'a, T>,
    pub(crate) router: TargetRouter<'a>,
    /// `true` if the router must gain the reference.
    pub(crate) enters: bool,
    /// Routers that must lose the reference.
    pub(crate) leaves: Vec<&'a Row>,
}

/// Router that refers to a row.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetRouter<'a> {
    /// Connect router. `None`: not inserted yet.
    Connect(Option<&'a Row>),
    /// Router of a network.
    Network(&'a Row),
}

impl<'a> TargetRouter<'a> {
    pub(crate) fn row(self) -> Option<&'a Row> {
        match self {
            Self::Connect(row) => row,
            Self::Network(row) => Some(row),
        }
    }
}

impl Step<'_> {
    /// Approximate number of rows that the step changes.
    pub(super) fn row_count(&self) -> usize {
        match &self.action {
            Action::Attach { new, .. } => 1 + new.len(),
            _ => 1,
        }
    }
}
