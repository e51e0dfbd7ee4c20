//! What the cluster-wide half writes to connects: two annotations and a status, each with its own field manager.

use std::sync::Arc;
use std::time::Duration;

use kube::api::{ListParams, Patch, PatchParams};
use patchbay_resources::object::Object;

use super::api::Api;
use serde_json::{Value, json};
use thiserror::Error;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::failure;
use super::lease::Term;
use super::objects::{self, SeenConnect};
use super::received::Received;
use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::CONNECTED;
use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};
use patchbay_resources::cnc::{ClusterNetworkConnect, ClusterNetworkConnectStatus};

/// Field managers: OVN-Kubernetes' own, so that either controller takes over from the other.
const STATUS_MANAGER: &str = "clustermanager-networkconnect-controller";
const TUNNEL_KEY_MANAGER: &str = "ovn-kubernetes-network-connect-controller-tunnel-key-annotation";
const SUBNETS_MANAGER: &str = "ovn-kubernetes-network-connect-controller-subnet-annotation";

/// An annotation that the cluster-wide half writes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Annotation {
    TunnelKey,
    Subnets,
}

impl Annotation {
    /// The annotation of this key.
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

    /// What messages call it.
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::TunnelKey => "network connect router tunnel key annotation",
            Self::Subnets => "network connect subnet annotation",
        }
    }
}

/// Why something was not written.
#[derive(Debug, Error)]
pub(super) enum WriteError {
    /// The object is gone, or another one has its name.
    #[error("the object is gone")]
    Gone,
    /// The API server is busy or cannot be reached: the same write may succeed later.
    #[error("{error}")]
    Later {
        error: String,
        /// What the API server asks to wait.
        after: Option<Duration>,
        /// Whether other objects cannot be written either.
        any: bool,
    },
    /// The API server does not accept it.
    #[error("{0}")]
    Refused(String),
}

/// Writes to connects. Every write names the object by its UID: it never hits a later object of the same name, and never
/// creates one.
///
/// A process that is suspended between deciding and writing may wake up when another one leads. So the clock is looked at
/// before each write, and what was handed out is written to the version of the object from which it was decided.
#[derive(Clone, Debug)]
pub(super) struct Writes {
    api: Api<Received<ClusterNetworkConnect>>,
    patience: Duration,
    leads: watch::Receiver<Term>,
}

impl Writes {
    pub(super) fn new(
        client: kube::Client,
        patience: Duration,
        leads: watch::Receiver<Term>,
    ) -> Self {
        Self {
            api: Api::all(client),
            patience,
            leads,
        }
    }

    /// All connects as they are in the API server at this moment, whatever watches have seen.
    pub(super) async fn current(&self) -> Result<Vec<Arc<SeenConnect>>, WriteError> {
        let listed = self.timed(self.api.list(&ListParams::default())).await?;
        Ok(listed.into_iter().map(objects::connect).collect())
    }

    /// Writes an annotation. Returns the object as it is then.
    pub(super) async fn annotate(
        &self,
        object: &ClusterNetworkConnect,
        annotation: Annotation,
        value: &str,
    ) -> Result<Arc<SeenConnect>, WriteError> {
        let params = PatchParams::apply(annotation.manager()).force();
        let mut patch = identity(object);
        patch["metadata"]["annotations"] = json!({annotation.key(): value});
        if let Some(version) = object.resource_version() {
            patch["metadata"]["resourceVersion"] = version.into();
        }
        let (name, patch) = (object.name_any(), Patch::Apply(&patch));
        self.written(self.api.patch(&name, &params, &patch)).await
    }

    /// Writes the conditions of the cluster-wide half, and the short form of the status.
    pub(super) async fn status(
        &self,
        object: &ClusterNetworkConnect,
        status: &ClusterNetworkConnectStatus,
    ) -> Result<Arc<SeenConnect>, WriteError> {
        let params = PatchParams::apply(STATUS_MANAGER).force();
        let mut patch = identity(object);
        patch["status"] = json!(own_part(status));
        let (name, patch) = (object.name_any(), Patch::Apply(&patch));
        self.written(self.api.patch_status(&name, &params, &patch))
            .await
    }

    async fn written(
        &self,
        request: impl Future<Output = kube::Result<Received<ClusterNetworkConnect>>>,
    ) -> Result<Arc<SeenConnect>, WriteError> {
        let term = *self.leads.borrow();
        if term.is_none_or(|end| Instant::now() >= end) {
            return Err(WriteError::Later {
                error: "the lease has run out".to_owned(),
                after: None,
                any: true,
            });
        }
        self.timed(request).await.map(objects::connect)
    }

    async fn timed<T>(
        &self,
        request: impl Future<Output = kube::Result<T>>,
    ) -> Result<T, WriteError> {
        match timeout(self.patience, request).await {
            Ok(answer) => answer.map_err(WriteError::from),
            Err(_) => Err(WriteError::Later {
                error: failure::NO_ANSWER.to_owned(),
                after: None,
                any: true,
            }),
        }
    }
}

impl From<kube::Error> for WriteError {
    fn from(error: kube::Error) -> Self {
        let told = failure::told(&error);
        let after = failure::asked_wait(&error);
        let kube::Error::Api(status) = error else {
            return Self::Later {
                error: told,
                after,
                any: true,
            };
        };
        match status.code {
            404 => Self::Gone,
            // Credentials run out, and are renewed.
            401 | 408 | 409 | 429 | 500.. => Self::Later {
                error: told,
                after,
                // A conflict, or a webhook that fails, is about this object.
                any: !matches!(status.code, 409 | 500),
            },
            _ => Self::Refused(status.message),
        }
    }
}

/// The parts of a status that the cluster-wide half owns: others may have conditions of their own.
pub(super) fn own_part(status: &ClusterNetworkConnectStatus) -> ClusterNetworkConnectStatus {
    let mut own = status.clone();
    own.conditions
        .retain(|condition| [ACCEPTED, CONNECTED].contains(&&*condition.type_));
    own
}

fn identity(object: &ClusterNetworkConnect) -> Value {
    json!({
        "apiVersion": ClusterNetworkConnect::api_version(),
        "kind": ClusterNetworkConnect::KIND,
        "metadata": {"name": object.name_any(), "uid": object.uid()},
    })
}

#[cfg(test)]
mod tests {
    use kube::core::Status;

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
    fn errors_say_what_to_do() {
        assert!(matches!(api_error(404, 0), WriteError::Gone));
        assert!(matches!(api_error(403, 0), WriteError::Refused(_)));
        assert!(matches!(api_error(422, 0), WriteError::Refused(_)));
        for code in [401, 409, 500, 503] {
            let later = api_error(code, 0);
            assert!(matches!(later, WriteError::Later { after: None, .. }));
        }
        let WriteError::Later { after, .. } = api_error(429, 3) else {
            panic!("later");
        };
        assert_eq!(after, Some(Duration::from_secs(3)));
    }

    #[tokio::test]
    async fn who_does_not_lead_any_more_writes_nothing() {
        let config = kube::Config::new("http://127.0.0.1:1".parse().unwrap());
        let client = crate::client(config).unwrap();
        let object = ClusterNetworkConnect::new("c", ClusterNetworkConnectSpec::default());
        let now = Instant::now();
        for (term, expected) in [
            (None, "the lease has run out"),
            (Some(now), "the lease has run out"),
            (
                Some(now + Duration::from_secs(60)),
                "no answer of the API server: ",
            ),
        ] {
            let (_leads, led) = watch::channel(term);
            let writes = Writes::new(client.clone(), Duration::from_secs(5), led);
            let written = [
                writes.annotate(&object, Annotation::TunnelKey, "1").await,
                writes
                    .status(&object, &ClusterNetworkConnectStatus::default())
                    .await,
            ];
            for error in written.map(Result::unwrap_err) {
                assert!(error.to_string().starts_with(expected), "{error}");
            }
        }
    }
}
