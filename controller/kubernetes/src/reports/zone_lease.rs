//! The lease of a zone: its zone controller renews it as a sign of life.
//!
//! A lease is small and separate from the zone's report, as the leases of kubelets are separate
//! from the status of their nodes. Only the leader watches it. The lease is not released at the
//! end, so that a quick restart is no outage.
//!
//! A renewal names the version of the last one. After a restore of etcd from a backup that is older
//! than that, the versions differ. So each zone notices the restore, even if no watched object does
//! (see [`ListWatch`](crate::watch::list_watch::ListWatch)).

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::ObjectMeta;
use kube::{Api, Client};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Node, Object as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use crate::api::api_error;
use crate::config::Timing;
use crate::reports::zone_reports::{LABEL_KEY, LABEL_VALUE, zone_object_name};
use crate::watch::etcd_restores::EtcdRestores;
use crate::watch::store::StoreReader;
use crate::watch::watched::Watched;

/// A `Lease`, as far as the leader reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct WatchedLease {
    spec: WatchedLeaseSpec,
}

/// Specification of a `Lease`, as far as the leader reads it.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct WatchedLeaseSpec {
    renew_time: Option<String>,
}

/// Projects a zone's lease to the text of its time of renewal, which is only compared.
pub(crate) fn project_lease(lease: WatchedLease) -> String {
    lease.spec.renew_time.unwrap_or_default()
}

/// Renews the lease of a zone.
pub(crate) struct ZoneLeaseRenewer {
    pub(crate) client: Client,
    pub(crate) namespace: String,
    pub(crate) zone: String,
    /// Unique name of this process.
    pub(crate) identity: String,
    pub(crate) nodes: StoreReader<Watched>,
    pub(crate) restores: EtcdRestores,
    pub(crate) timing: Timing,
}

impl ZoneLeaseRenewer {
    /// Renews the lease forever.
    pub(crate) async fn run(mut self) {
        let api = Api::<Lease>::namespaced(self.client.clone(), &self.namespace);
        let mut backoff = self.timing.retry_backoff();
        let mut version = None;
        loop {
            // A renewal without a response may have changed the version.
            let known = version.take();
            let is_known = known.is_some();
            let wait = match timeout(self.timing.write_timeout, self.renew(&api, known)).await {
                Ok(Ok(renewed)) => {
                    version = renewed;
                    self.restores.mark_seen();
                    backoff.reset();
                    self.timing.zone_lease.renew_interval
                }
                Ok(Err(kube::Error::Api(status))) if is_known && status.code == 409 => {
                    tracing::warn!(
                        "the zone's lease has another version; listing all objects again"
                    );
                    self.restores.announce();
                    continue;
                }
                Ok(Err(error)) => {
                    let description = api_error::describe(&error);
                    tracing::warn!(error = description, "cannot renew the zone's lease");
                    self.retry_delay(backoff.jittered(), api_error::retry_after(&error))
                }
                Err(_) => {
                    let error = api_error::describe_unanswered(self.timing.write_timeout);
                    tracing::warn!(error, "cannot renew the zone's lease");
                    self.retry_delay(backoff.jittered(), None)
                }
            };
            tokio::time::sleep(wait).await;
        }
    }

    /// The delay before a failed renewal is repeated: at most the interval of renewals, unless the
    /// API server asks for more.
    fn retry_delay(&self, backoff: Duration, retry_after: Option<Duration>) -> Duration {
        let delay = backoff.min(self.timing.zone_lease.renew_interval);
        delay.max(retry_after.unwrap_or_default())
    }

    /// Renews the lease, and creates it if there is none. Without the zone's node there is none.
    ///
    /// `known` is the version of the last renewal. Returns the version of this one.
    async fn renew(
        &mut self,
        api: &Api<Lease>,
        known: Option<String>,
    ) -> kube::Result<Option<String>> {
        let name = zone_object_name(&self.zone);
        let renewed = MicroTime(Timestamp::now());
        let mut patch = json!({"spec": {"holderIdentity": self.identity, "renewTime": renewed}});
        if let Some(version) = known {
            patch["metadata"] = json!({"resourceVersion": version});
        }
        let renewal = api.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await;
        let lease = match renewal {
            Err(kube::Error::Api(status)) if status.code == 404 => {
                let Some(lease) = self.make_lease(name, renewed) else {
                    return Ok(None);
                };
                api.create(&PostParams::default(), &lease).await?
            }
            renewal => renewal?,
        };
        Ok(lease.metadata.resource_version)
    }

    /// The lease, which the zone's node owns. `None`: the node is not known yet.
    fn make_lease(&mut self, name: String, renewed: MicroTime) -> Option<Lease> {
        let nodes = self.nodes.objects();
        let node = nodes.get(&ObjectKey::cluster(&self.zone))?;
        let owner = json!([{
            "apiVersion": Node::api_version(),
            "kind": Node::KIND,
            "name": self.zone,
            "uid": node.uid(),
        }]);
        let duration = self.timing.zone_lease.duration.as_secs().max(1);
        Some(Lease {
            metadata: ObjectMeta {
                name: Some(name),
                labels: Some([(LABEL_KEY.to_owned(), LABEL_VALUE.to_owned())].into()),
                owner_references: serde_json::from_value(owner).ok(),
                ..ObjectMeta::default()
            },
            spec: Some(LeaseSpec {
                holder_identity: Some(self.identity.clone()),
                lease_duration_seconds: i32::try_from(duration).ok(),
                renew_time: Some(renewed),
                ..LeaseSpec::default()
            }),
        })
    }
}
