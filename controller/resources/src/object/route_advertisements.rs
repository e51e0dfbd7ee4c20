//! RouteAdvertisements of OVN-Kubernetes.

use serde::{Deserialize, Serialize};

use super::{ApiVersion, Condition, KindName, LabelSelector, Object, ObjectMeta};

/// Networks that nodes announce to routers outside of the cluster.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteAdvertisements {
    /// `apiVersion`.
    pub api_version: ApiVersion<Self>,
    /// `kind`.
    pub kind: KindName<Self>,
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Specification.
    pub spec: RouteAdvertisementsSpec,
    /// Status, which the cluster manager of OVN-Kubernetes writes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<RouteAdvertisementsStatus>,
}

impl Object for RouteAdvertisements {
    const GROUP: &'static str = "k8s.ovn.org";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "RouteAdvertisements";
    const PLURAL: &'static str = "routeadvertisements";
    const NAMESPACED: bool = false;

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// Specification of [`RouteAdvertisements`], as far as rows depend on it.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteAdvertisementsSpec {
    /// `PodNetwork`, `EgressIP`.
    pub advertisements: Vec<String>,
    /// Nodes that announce the networks.
    pub node_selector: LabelSelector,
}

/// Status of [`RouteAdvertisements`].
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RouteAdvertisementsStatus {
    /// Conditions: `Accepted`.
    pub conditions: Vec<Condition>,
}
