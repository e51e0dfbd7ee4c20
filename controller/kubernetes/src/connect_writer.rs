//! Writes `ClusterNetworkConnect`s: two annotations and the status, each with its own field
//! manager.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{Patch, PatchParams};
use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::CONNECTED;
use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};
use patchbay_resources::object::Object;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::timeout;

use super::api::Api;
use super::api_error;
use super::leader_election::LeaderTerm;
use super::projections::{self, WatchedConnect};
use super::tolerant_object::TolerantObject;

/// Field manager of the status. All three are OVN-Kubernetes' own, so that either controller can
/// take over from the other.
const STATUS_MANAGER: &str = "clustermanager-networkconnect-controller";
const TUNNEL_KEY_MANAGER: &str = "ovn-kubernetes-network-connect-controller-tunnel-key-annotation";
const SUBNETS_MANAGER: &str = "ovn-kubernetes-network-connect-controller-subnet-annotation";

/// An annotation that the cluster manager writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ManagedAnnotation {
    TunnelKey,
    Subnets,
}

impl ManagedAnnotation {
    /// The annotation with this key. `None`: the cluster manager does not write it.
    pub(super) fn of(key: &str) -> Option<Self> {
        match key {
            ROUTER_TUNNEL_KEY => Some(Self::TunnelKey),
            ConnectSubnetMap::ANNOTATION => Some(Self::Subnets),
            _ => None,
        }
    }

    const fn key(self) -> &'static str {
        match self {
            Self::TunnelKey => ROUTER_TUNNEL_KEY,
            Self::Subnets => ConnectSubnetMap::ANNOTATION,
        }
    }

    const fn manager(self) -> &'static str {
        match self {
            Self::TunnelKey => TUNNEL_KEY_MANAGER,
            Self::Subnets => SUBNETS_MANAGER,
        }
    }

    /// The name in messages, which is OVN-Kubernetes' wording.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::TunnelKey => "network connect router tunnel key annotation",
            Self::Subnets => "network connect subnet annotation",
        }
    }
}

/// Failure of a write.
#[derive(Debug, Error)]
pub(super) enum WriteError {
    /// The object is gone, or another object has its name.
    #[error("the object is gone")]
    Gone,
    /// The API server is busy or cannot be reached. The same write may succeed later.
    #[error("{error}")]
    Retry {
        error: String,
        /// Time that the API server asks to wait.
        retry_after: Option<Duration>,
        /// `true` if writes to other objects would fail, too.
        blocks_all: bool,
        /// `true` if the API server answers that it cannot write this object, such as for a webhook
        /// that is down.
        is_answer: bool,
    },
    /// Another client has changed the object, which the watch will show.
    #[error("{0}")]
    Conflict(String),
    /// The API server rejects the write.
    #[error("{0}")]
    Rejected(String),
}

/// Writes `ClusterNetworkConnect`s. Every write names the object's UID, so it never changes a later
/// object of the same name, and never creates one.
///
/// A process that was suspended between a decision and a write may resume during another leader's
/// term. Therefore each write checks the term, and annotations are written to the resource version
/// that they were computed from.
#[derive(Clone, Debug)]
pub(super) struct ConnectWriter {
    api: Api,
    write_timeout: Duration,
    term: watch::Receiver<Option<LeaderTerm>>,
}

impl ConnectWriter {
    pub(super) fn new(
        client: kube::Client,
        write_timeout: Duration,
        term: watch::Receiver<Option<LeaderTerm>>,
    ) -> Self {
        Self {
            api: Api::all::<ClusterNetworkConnect>(client),
            write_timeout,
            term,
        }
    }

    /// Applies an annotation. Returns the object after the write.
    pub(super) async fn apply_annotation(
        &self,
        object: &ClusterNetworkConnect,
        annotation: ManagedAnnotation,
        value: &str,
    ) -> Result<Arc<WatchedConnect>, WriteError> {
        let params = PatchParams::apply(annotation.manager()).force();
        let mut patch = object_identity(object);
        patch["metadata"]["annotations"] = json!({annotation.key(): value});
        if let Some(version) = object.resource_version() {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        let (name, patch) = (object.name_any(), Patch::Apply(patch));
        self.send_fenced(self.api.patch(&name, &params, &patch))
            .await
    }

    /// Applies the cluster manager's part of the status. Returns the object after the write.
    pub(super) async fn apply_status(
        &self,
        object: &ClusterNetworkConnect,
        status: &ClusterNetworkConnectStatus,
    ) -> Result<Arc<WatchedConnect>, WriteError> {
        let params = PatchParams::apply(STATUS_MANAGER).force();
        let mut patch = object_identity(object);
        patch["status"] = json!(managed_part(status));
        let (name, patch) = (object.name_any(), Patch::Apply(patch));
        self.send_fenced(self.api.patch_status(&name, &params, &patch))
            .await
    }

    async fn send_fenced(
        &self,
        request: impl Future<Output = kube::Result<Value>>,
    ) -> Result<Arc<WatchedConnect>, WriteError> {
        let term = *self.term.borrow();
        if term.is_none_or(LeaderTerm::has_ended) {
            return Err(WriteError::lease_expired());
        }
        Ok(decode(self.with_timeout(request).await?))
    }

    async fn with_timeout<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        match timeout(self.write_timeout, request).await {
            Ok(answer) => answer.map_err(WriteError::from),
            Err(_) => Err(WriteError::no_answer(self.write_timeout)),
        }
    }
}

fn decode(object: Value) -> Arc<WatchedConnect> {
    projections::project_connect(TolerantObject::of(object))
}

impl WriteError {
    /// A request without a response within this time.
    pub(super) fn no_answer(limit: Duration) -> Self {
        Self::Retry {
            error: api_error::describe_unanswered(limit),
            retry_after: None,
            blocks_all: false,
            is_answer: false,
        }
    }

    /// A write after the end of the leader's term.
    pub(super) fn lease_expired() -> Self {
        Self::Retry {
            error: "the lease has expired".to_owned(),
            retry_after: None,
            blocks_all: true,
            is_answer: false,
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let description = api_error::describe(&error);
        let retry_after = api_error::retry_after(&error);
        let kube::Error::Api(status) = error else {
            return Self::Retry {
                error: description,
                retry_after,
                blocks_all: false,
                is_answer: false,
            };
        };
        match status.code {
            404 => Self::Gone,
            409 => Self::Conflict(description),
            // Expired credentials are renewed.
            401 | 408 | 429 | 500.. => {
                // A webhook that fails or does not respond concerns its objects only.
                let blocks_all = status.code == 401 || retry_after.is_some();
                Self::Retry {
                    error: description,
                    retry_after,
                    blocks_all,
                    is_answer: !blocks_all,
                }
            }
            _ => Self::Rejected(status.message),
        }
    }
}

/// The part of a status that the cluster manager writes. Others may have conditions of their own.
pub(super) fn managed_part(status: &ClusterNetworkConnectStatus) -> ClusterNetworkConnectStatus {
    let mut own = status.clone();
    own.conditions
        .retain(|condition| [ACCEPTED, CONNECTED].contains(&&*condition.type_));
    own
}

fn object_identity(object: &ClusterNetworkConnect) -> Value {
    json!({
        "apiVersion": ClusterNetworkConnect::api_version(),
        "kind": ClusterNetworkConnect::KIND,
        "metadata": {"name": object.name_any(), "uid": object.uid()},
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;
    use tokio::time::Instant;

    use super::*;
    use patchbay_resources::cnc::ClusterNetworkConnectSpec;

    fn api_error(code: u16, retry_after_seconds: u32) -> WriteError {
        let status = json!({
            "status": "Failure", "message": "no", "reason": "", "code": code,
            "details": {"retryAfterSeconds": retry_after_seconds},
        });
        let status: Status = serde_json::from_value(status).unwrap();
        kube::Error::Api(status.boxed()).into()
    }

    #[test]
    fn errors_are_classified_by_their_status_code() {
        assert!(matches!(api_error(404, 0), WriteError::Gone));
        assert!(matches!(api_error(403, 0), WriteError::Rejected(_)));
        assert!(matches!(api_error(422, 0), WriteError::Rejected(_)));
        assert!(matches!(api_error(409, 0), WriteError::Conflict(_)));
        for (code, is_general) in [(401, true), (500, false), (503, false), (504, false)] {
            let WriteError::Retry {
                retry_after: None,
                blocks_all,
                is_answer,
                ..
            } = api_error(code, 0)
            else {
                panic!("a retry is expected after {code}");
            };
            assert_eq!((blocks_all, is_answer), (is_general, !is_general), "{code}");
        }
        let WriteError::Retry { retry_after, .. } = api_error(429, 3) else {
            panic!("a retry is expected");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn nothing_is_written_after_the_end_of_the_term() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = crate::client(config).unwrap();
        let object = ClusterNetworkConnect::new("c", ClusterNetworkConnectSpec::default());
        let now = Instant::now();
        for (deadline, expected) in [
            (None, "the lease has expired"),
            (Some(now), "the lease has expired"),
            (
                Some(now + Duration::from_secs(60)),
                "no response from the API server: ",
            ),
        ] {
            let term = deadline.map(|deadline| LeaderTerm {
                deadline,
                lease_uid: None,
            });
            let (_sender, receiver) = watch::channel(term);
            let writes = ConnectWriter::new(client.clone(), Duration::from_secs(5), receiver);
            let written = [
                writes
                    .apply_annotation(&object, ManagedAnnotation::TunnelKey, "1")
                    .await,
                writes
                    .apply_status(&object, &ClusterNetworkConnectStatus::default())
                    .await,
            ];
            for error in written.map(Result::unwrap_err) {
                assert!(error.to_string().starts_with(expected), "{error}");
            }
        }
    }
}
