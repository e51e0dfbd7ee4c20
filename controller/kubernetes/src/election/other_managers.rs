//! Cluster managers in other namespaces, by their leases.
//!
//! Each namespace has a lease of its own, so managers in two namespaces would both lead. A manager
//! therefore claims its lease only while no other one is held. It looks twice, before and after its
//! claim: of two managers that claim at the same time, the one whose claim comes second sees the first
//! one, and releases its lease.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt as _};
use tokio::time::Instant;

use crate::api::api_error;
use crate::election::leader_election::duration_of;

/// Label of the leases of cluster managers.
pub(crate) const LABEL: (&str, &str) = ("app.kubernetes.io/component", "patchbay-cluster");
/// Most leases that are read. There is one for each namespace with a manager.
const MAX_LEASES: u32 = 100;

/// The leases of cluster managers in other namespaces.
pub(crate) struct OtherManagers {
    api: Api<Lease>,
    /// Namespace of this process's lease.
    namespace: String,
    /// The spec of each lease when it last changed, and when that was observed.
    observed: BTreeMap<String, (LeaseSpec, Instant)>,
    /// The lease that was logged. `None`: none is held.
    logged: Option<String>,
    /// `true` if a refusal was logged.
    is_refused: bool,
}

impl OtherManagers {
    pub(crate) fn new(client: Client, namespace: String) -> Self {
        Self {
            api: Api::all(client),
            namespace,
            observed: BTreeMap::new(),
            logged: None,
            is_refused: false,
        }
    }

    /// `true` if the lease of another namespace is held. Its expiry is measured as that of the own one.
    ///
    /// Without the right to list leases, as with an older role, no other lease is known.
    pub(crate) async fn hold_a_lease(&mut self) -> Result<bool, kube::Error> {
        let (key, value) = LABEL;
        let params = ListParams::default().labels(&format!("{key}={value}")).limit(MAX_LEASES);
        let listed = match self.api.list(&params).await {
            Ok(listed) => listed,
            Err(error @ kube::Error::Api(_)) if is_refusal(&error) => {
                if !self.is_refused {
                    let error = api_error::describe(&error);
                    tracing::warn!(
                        error,
                        "cannot list the leases of managers in other namespaces; one may lead, too"
                    );
                }
                self.is_refused = true;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        let mut observed = BTreeMap::new();
        let mut held = None;
        for lease in listed {
            let namespace = lease.namespace().unwrap_or_default();
            if namespace == self.namespace {
                continue;
            }
            let name = format!("{namespace}/{}", lease.name_any());
            let spec = lease.spec.unwrap_or_default();
            let former = self.observed.remove(&name).filter(|(known, _)| *known == spec);
            let since = former.map_or_else(Instant::now, |(_, since)| since);
            let holder = spec.holder_identity.as_deref().unwrap_or_default();
            if !holder.is_empty() && since.elapsed() < duration_of(&spec) {
                held = Some((name.clone(), holder.to_owned()));
            }
            observed.insert(name, (spec, since));
        }
        self.observed = observed;
        if let Some((lease, holder)) = &held
            && self.logged.as_ref() != Some(lease)
        {
            tracing::warn!(
                lease,
                holder,
                "a cluster manager in another namespace holds its lease; waiting for its end"
            );
        }
        self.logged = held.map(|(lease, _)| lease);
        Ok(self.logged.is_some())
    }
}

impl std::fmt::Debug for OtherManagers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("OtherManagers");
        text.field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

fn is_refusal(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 403)
}
