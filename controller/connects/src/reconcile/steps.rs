//! What is to be done for a connect, in an order that is safe wherever it is cut in two.
//!
//! A state between two steps lets nothing through that is let through neither before nor afterwards: what keeps pods
//! apart comes first and goes last, and what leads traffic from one network to another goes before anything else
//! goes and comes after everything else has come.

use patchbay_schemas::nb::{Acl, AddressSet, LoadBalancerGroup, LogicalRouterPolicy};
use patchbay_schemas::row::Row;
use uuid::Uuid;

use crate::desired::{PortRow, RouteRow, RouterRow};
use crate::index::TableKind;
use patchbay_model::NetworkId;

/// When a step is taken.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Phase {
    /// Address sets grow, switches get their ACLs.
    Isolate,
    /// Policies go, and services that are not let through any more.
    Disconnect,
    /// Ports and routes go.
    Unlink,
    /// Routers go.
    Dissolve,
    /// The router, its ports and its routes come.
    Link,
    /// Policies come.
    Connect,
    /// Services are let through.
    Serve,
    /// ACLs go, address sets shrink.
    Release,
}

/// One step.
#[derive(Debug)]
pub(crate) struct Step<'a> {
    pub(crate) phase: Phase,
    /// Steps of one phase for one network are taken together.
    pub(crate) batch: Option<NetworkId>,
    pub(crate) action: Action<'a>,
}

/// What a step does. Nearly all steps are about ports and routes; larger rows are boxed.
#[derive(Debug)]
pub(crate) enum Action<'a> {
    Router(Upsert<'a, RouterRow>),
    Port(Child<'a, PortRow>),
    Policy(Box<Child<'a, LogicalRouterPolicy>>),
    Route(Child<'a, RouteRow>),
    /// An ACL that is there already.
    Acl(Box<Upsert<'a, Acl>>),
    /// A switch gets ACLs: some that are there, and some of those that come.
    Attach {
        switch: &'a Row,
        there: Vec<Uuid>,
        new: Vec<usize>,
    },
    /// An address set gets addresses, and loses none yet.
    Grow {
        upsert: Upsert<'a, AddressSet>,
        /// What it holds until the others have gone.
        meanwhile: AddressSet,
    },
    /// An address set loses addresses.
    Shrink {
        upsert: Upsert<'a, AddressSet>,
        /// Whether it has been grown before.
        grown: bool,
    },
    Group(Upsert<'a, LoadBalancerGroup>),
    /// A switch gets the load balancer group.
    Serve {
        switch: &'a Row,
    },
    /// A row is not held any more. A row that nobody holds goes by itself.
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

/// A row becomes what it should be, or comes.
#[derive(Debug)]
pub(crate) struct Upsert<'a, T> {
    pub(crate) existing: Option<&'a Row>,
    pub(crate) wanted: T,
}

/// A row of a router becomes what it should be, or comes.
#[derive(Debug)]
pub(crate) struct Child<'a, T> {
    pub(crate) upsert: Upsert<'a, T>,
    pub(crate) router: TargetRouter<'a>,
    /// Whether the router has to get it.
    pub(crate) enters: bool,
    /// The routers that should not have it.
    pub(crate) leaves: Vec<&'a Row>,
}

/// A router.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TargetRouter<'a> {
    /// The connect router, which may have to be made.
    Connect(Option<&'a Row>),
    /// The router of a network.
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
    /// How many rows it is about.
    pub(super) fn row_count(&self) -> usize {
        match &self.action {
            Action::Attach { new, .. } => 1 + new.len(),
            _ => 1,
        }
    }
}
