//! Events about kinds that a controller cannot list or watch.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::fmt;
use std::time::Duration;

use k8s_openapi::api::core::v1::ObjectReference;
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Node, Object as _};
use tokio::sync::watch;

use crate::election::leader_election::{LeaderTerm, lease_uid};
use crate::events::object_problems::{ProblemEvents, ReportedProblem, lease_reference};
use crate::events::passing_problems::PassingProblems;
use crate::events::queue::EventSender;
use crate::watch::read_failure::{ReadFailure, ReadFailureCause, SEEN_LAST};
use crate::watch::store::{StoreReader, WatchEnded};
use crate::watch::watched::Watched;

/// Interval at which the watches are looked at. An event may come later than the log.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);

/// What holds while a kind has never been listed for which the controller waits.
const AWAITED: &str = "the controller waits for its objects";
/// What holds while a kind has never been listed for which the controller does not wait.
const SEPARATE: &str = "what depends on objects of the kind stays as it is";

/// The watch of one kind.
pub(crate) struct KindWatch {
    kind: &'static str,
    /// What holds while the kind has never been listed.
    unlisted: &'static str,
    /// The failure, and whether the objects have been listed. `None`: there is none.
    failure: Box<dyn Fn() -> Option<(ReadFailure, bool)> + Send + Sync>,
    /// Number of objects. `None`: they have not been listed.
    count: Box<dyn Fn() -> Option<usize> + Send + Sync>,
}

impl KindWatch {
    /// `is_awaited`: the controller waits for the first list.
    pub(crate) fn new<V>(kind: &'static str, is_awaited: bool, objects: &StoreReader<V>) -> Self
    where
        V: Clone + Send + Sync + 'static,
    {
        let (objects, counted) = (objects.clone(), objects.clone());
        let failure = move || Some((objects.failure()?, objects.is_ready()));
        let count = move || counted.is_ready().then(|| counted.peek().len());
        Self {
            kind,
            unlisted: if is_awaited { AWAITED } else { SEPARATE },
            failure: Box::new(failure),
            count: Box::new(count),
        }
    }

    /// The kind.
    pub(crate) const fn kind(&self) -> &'static str {
        self.kind
    }

    /// Number of known objects.
    pub(crate) fn object_count(&self) -> usize {
        (self.count)().unwrap_or_default()
    }

    /// `true` after the first complete list.
    pub(crate) fn is_listed(&self) -> bool {
        (self.count)().is_some()
    }

    /// `true` while lists or watches fail for long.
    pub(crate) fn is_failing(&self) -> bool {
        (self.failure)().is_some()
    }

    /// `true` if the controller does not wait for the first list: it is complete, or the controller
    /// goes on without it.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_listed() || (self.unlisted == SEPARATE && self.is_failing())
    }
}

/// The problems that lists or watches fail.
///
/// There are none while all of them fail for a passing cause: the API server is away. All zones would
/// emit the events once it is back.
fn problems(watches: &[KindWatch]) -> BTreeSet<String> {
    let failures: Vec<_> = watches.iter().map(|watch| (watch, (watch.failure)())).collect();
    let has_success = failures.iter().any(|(_, failure)| failure.is_none());
    let counting = failures.into_iter().filter_map(|(watch, failure)| {
        let (failure, is_listed) = failure?;
        let outcome = if is_listed { SEEN_LAST } else { watch.unlisted };
        (has_success || failure.cause != ReadFailureCause::Passing)
            .then(|| failure.describe(watch.kind, outcome))
    });
    counting.collect()
}

impl fmt::Debug for KindWatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("KindWatch").field(&self.kind).finish()
    }
}

/// The controller whose watches fail, which events are about.
#[derive(Clone, Debug)]
pub(crate) enum WatchingController {
    /// The cluster manager, by its lease. Only the leader emits events.
    ClusterManager { lease: ObjectKey, term: watch::Receiver<Option<LeaderTerm>> },
    /// The controller of a zone, by its node.
    Zone { zone: String, nodes: StoreReader<Watched> },
}

impl WatchingController {
    fn problem(&self, text: String) -> ReportedProblem {
        match self {
            Self::ClusterManager { lease, .. } => ReportedProblem::of_manager_watch(lease, text),
            Self::Zone { zone, .. } => ReportedProblem::of_zone_watch(zone, text),
        }
    }

    /// A reference to what events are about. `None`: this process does not lead, or the node has
    /// not been seen.
    fn reference(&self) -> Option<ObjectReference> {
        match self {
            Self::ClusterManager { lease, term } => {
                let leads = term.borrow().is_some();
                leads.then(|| lease_reference(lease, lease_uid(term)))
            }
            Self::Zone { zone, nodes } => {
                let nodes = nodes.peek();
                let node = nodes.get(&ObjectKey::cluster(zone.as_str()))?;
                Some(ObjectReference {
                    api_version: Some(Node::api_version()),
                    kind: Some(Node::KIND.to_owned()),
                    name: Some(zone.clone()),
                    uid: node.uid().map(str::to_owned),
                    ..ObjectReference::default()
                })
            }
        }
    }
}

/// Emits an event about each kind that cannot be listed or watched, when that begins.
#[derive(Debug)]
pub(crate) struct ReadFailureEvents {
    pub(crate) controller: WatchingController,
    pub(crate) watches: Vec<KindWatch>,
    pub(crate) events: EventSender,
}

impl ReadFailureEvents {
    /// Looks at the watches, forever.
    ///
    /// # Errors
    /// Never. The type is that of the other tasks.
    pub(crate) async fn run(self) -> Result<Infallible, WatchEnded> {
        let mut events = ProblemEvents::new(self.events);
        let mut passing = PassingProblems::default();
        loop {
            let lasting = passing.lasting(problems(&self.watches)).into_iter();
            let problems = lasting.map(|text| self.controller.problem(text)).collect();
            events.update_with(problems, |_| self.controller.reference());
            tokio::time::sleep(CHECK_INTERVAL).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::read_failure::ReadRequest;

    fn watch(kind: &'static str, is_refusal: Option<bool>) -> KindWatch {
        let failure = is_refusal.map(|is_refusal| ReadFailure {
            request: ReadRequest::Watch,
            reason: "no".into(),
            cause: if is_refusal { ReadFailureCause::Refused } else { ReadFailureCause::Passing },
        });
        let failure = move || Some((failure.clone()?, true));
        KindWatch { kind, unlisted: AWAITED, failure: Box::new(failure), count: Box::new(|| None) }
    }

    #[test]
    fn an_api_server_that_is_away_is_no_problem_of_a_kind() {
        let text = |kind| format!("{kind}: cannot be watched, so {SEEN_LAST}: no");
        let all = [watch("Node", Some(false)), watch("Pod", Some(false))];
        assert_eq!(problems(&all), [].into());
        let all = [watch("Node", Some(false)), watch("Pod", Some(true))];
        assert_eq!(problems(&all), [text("Pod")].into());
        let all = [watch("Node", Some(false)), watch("Pod", None)];
        assert_eq!(problems(&all), [text("Node")].into());
    }
}
