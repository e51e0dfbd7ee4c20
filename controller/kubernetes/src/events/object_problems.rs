//! Problems of objects, as events about them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use patchbay_model::{FieldProblem, ObjectProblem, ObjectRef};
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, Service,
};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use tokio::time::Instant;
use uuid::Uuid;

use crate::events::queue::{EventReason, EventSender, reference};

/// `reason` of an event about a pod that gets no addresses, as in OVN-Kubernetes.
pub(crate) const ERROR_ALLOCATING_POD: &str = "ErrorAllocatingPod";
/// `reason` of an event about a pod whose ports are not as its object specifies. OVN-Kubernetes
/// uses the same.
pub(crate) const ERROR_RECONCILING_POD: &str = "ErrorReconcilingPod";

/// `reason` of an event about a kind whose lists or watches fail.
const ERROR_WATCHING_OBJECTS: &str = "ErrorWatchingObjects";

/// Kind of the cluster manager's lease, which its own events are about.
const LEASE: &str = "Lease";
/// API version of [`LEASE`].
const LEASE_API_VERSION: &str = "coordination.k8s.io/v1";

/// Maximum number of events about one object within [`EVENT_WINDOW`]. Further problems get theirs
/// later, if they are still there.
const MAX_EVENTS_PER_WINDOW: usize = 5;
/// Time for which emitted events count against [`MAX_EVENTS_PER_WINDOW`].
const EVENT_WINDOW: Duration = Duration::from_secs(600);

/// A problem of an object that has an event. `Display` prints the line of the log.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) struct ReportedProblem {
    problem: ObjectProblem,
    /// `reason` of the event.
    reason: &'static str,
}

impl fmt::Display for ReportedProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.problem.fmt(f)
    }
}

impl From<ObjectProblem> for ReportedProblem {
    /// Reasons of the event are OVN-Kubernetes' where it has one.
    fn from(problem: ObjectProblem) -> Self {
        Self { reason: reason_of(&problem.object.kind), problem }
    }
}

impl ReportedProblem {
    /// Problem of a controller that cannot list or watch a kind. The event is about the node of a
    /// zone.
    pub(crate) fn of_zone_watch(zone: &str, text: impl Into<String>) -> Self {
        Self::of_watch(ObjectRef::cluster(Node::KIND, zone), text)
    }

    /// Problem of the cluster manager that cannot list or watch a kind. The event is about its
    /// lease.
    pub(crate) fn of_manager_watch(lease: &ObjectKey, text: impl Into<String>) -> Self {
        let namespace = lease.namespace.as_deref().unwrap_or_default();
        Self::of_watch(ObjectRef::namespaced(LEASE, namespace, &*lease.name), text)
    }

    fn of_watch(object: ObjectRef, text: impl Into<String>) -> Self {
        Self {
            problem: ObjectProblem::new(object, FieldProblem::of_object(text)),
            reason: ERROR_WATCHING_OBJECTS,
        }
    }

    /// Another reason of the event.
    pub(crate) fn with_reason(self, reason: &'static str) -> Self {
        Self { reason, ..self }
    }

    /// Key of the object.
    pub(crate) fn key(&self) -> ObjectKey {
        ObjectKey::from(&self.problem.object)
    }

    /// A reference to the object. `None`: it is not in the inventory.
    pub(crate) fn reference(&self, inventory: &Inventory) -> Option<ObjectReference> {
        let of_kind: fn(&Self, &Inventory) -> Option<ObjectReference> = match &*self
            .problem
            .object
            .kind
        {
            Pod::KIND => Self::reference_of::<Pod>,
            Node::KIND => Self::reference_of::<Node>,
            Namespace::KIND => Self::reference_of::<Namespace>,
            Service::KIND => Self::reference_of::<Service>,
            EndpointSlice::KIND => Self::reference_of::<EndpointSlice>,
            IPAMClaim::KIND => Self::reference_of::<IPAMClaim>,
            NetworkAttachmentDefinition::KIND => Self::reference_of::<NetworkAttachmentDefinition>,
            UserDefinedNetwork::KIND => Self::reference_of::<UserDefinedNetwork>,
            ClusterUserDefinedNetwork::KIND => Self::reference_of::<ClusterUserDefinedNetwork>,
            NetworkPolicy::KIND => Self::reference_of::<NetworkPolicy>,
            MultiNetworkPolicy::KIND => Self::reference_of::<MultiNetworkPolicy>,
            AdminNetworkPolicy::KIND => Self::reference_of::<AdminNetworkPolicy>,
            BaselineAdminNetworkPolicy::KIND => Self::reference_of::<BaselineAdminNetworkPolicy>,
            EgressFirewall::KIND => Self::reference_of::<EgressFirewall>,
            EgressIP::KIND => Self::reference_of::<EgressIP>,
            _ => return None,
        };
        of_kind(self, inventory)
    }

    fn reference_of<K: InventoryKind>(&self, inventory: &Inventory) -> Option<ObjectReference> {
        let sourced = K::objects(inventory).get(&self.key())?;
        Some(reference(&sourced.object))
    }
}

/// A reference to the cluster manager's lease, which no inventory has. `uid`: UID of the lease, by
/// which kubectl finds its events.
pub(crate) fn lease_reference(lease: &ObjectKey, uid: Option<Uuid>) -> ObjectReference {
    ObjectReference {
        api_version: Some(LEASE_API_VERSION.to_owned()),
        kind: Some(LEASE.to_owned()),
        namespace: lease.namespace.clone(),
        name: Some(lease.name.clone()),
        uid: uid.map(|uid| uid.to_string()),
        ..ObjectReference::default()
    }
}

/// `reason` of an event about an object of this kind.
fn reason_of(kind: &str) -> &'static str {
    match kind {
        Pod::KIND => ERROR_RECONCILING_POD,
        NetworkAttachmentDefinition::KIND => "InvalidConfig",
        UserDefinedNetwork::KIND | ClusterUserDefinedNetwork::KIND | Node::KIND => {
            "NetworkAllocationFailed"
        }
        Service::KIND | EndpointSlice::KIND => "ErrorReconcilingService",
        EgressIP::KIND => "ErrorReconcilingEgressIP",
        EgressFirewall::KIND => "ErrorReconcilingEgressFirewall",
        Namespace::KIND => "ErrorReconcilingNamespace",
        IPAMClaim::KIND => "ErrorReconcilingIPAMClaim",
        _ => "ErrorReconcilingPolicy",
    }
}

/// Emits an event about each problem when it comes, and not while it stays.
#[derive(Debug)]
pub(crate) struct ProblemEvents {
    events: EventSender,
    /// Problems with an event.
    emitted: BTreeSet<ReportedProblem>,
    /// Times of the events about each object within the window.
    times: BTreeMap<ObjectRef, Vec<Instant>>,
}

impl ProblemEvents {
    pub(crate) fn new(events: EventSender) -> Self {
        Self { events, emitted: BTreeSet::new(), times: BTreeMap::new() }
    }

    /// Emits events about the problems that are new since the last update.
    pub(crate) fn update(&mut self, problems: BTreeSet<ReportedProblem>, inventory: &Inventory) {
        self.update_with(problems, |problem| problem.reference(inventory));
    }

    /// Emits events about the problems that are new since the last update. A problem without a
    /// reference to its object gets none yet.
    pub(crate) fn update_with(
        &mut self,
        problems: BTreeSet<ReportedProblem>,
        reference: impl Fn(&ReportedProblem) -> Option<ObjectReference>,
    ) {
        let now = Instant::now();
        self.times.retain(|_, times| {
            times.retain(|time| now < *time + EVENT_WINDOW);
            !times.is_empty()
        });
        self.emitted.retain(|problem| problems.contains(problem));
        for problem in problems {
            if self.emitted.contains(&problem) {
                continue;
            }
            let object = problem.problem.object.clone();
            let is_limited = |times: &Vec<Instant>| times.len() >= MAX_EVENTS_PER_WINDOW;
            if self.times.get(&object).is_some_and(is_limited) {
                continue;
            }
            let Some(regarding) = reference(&problem) else {
                continue;
            };
            let reason = EventReason::Problem(problem.reason);
            let text = problem.problem.problem.to_string();
            if !self.events.emit_about(regarding, reason, &text) {
                // The queue is full. The next pass emits it, if the problem is still there.
                return;
            }
            self.times.entry(object).or_default().push(now);
            self.emitted.insert(problem);
        }
    }
}
