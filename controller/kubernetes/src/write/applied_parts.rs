//! Parts of a ClusterNetworkConnect that the cluster manager applies, each with its own field
//! manager.

use patchbay_allocate::connects::ACCEPTED;
use patchbay_connects::CONNECTED;
use patchbay_model::{ConnectSubnetMap, ROUTER_TUNNEL_KEY};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::object::{Object as _, ObjectMeta};
use serde_json::{Value, json};

/// Field manager of the status. All three are OVN-Kubernetes' own, so that either controller can
/// take over from the other.
const STATUS_MANAGER: &str = "clustermanager-networkconnect-controller";

/// Written annotations, each with its field manager and its name in messages, which is
/// OVN-Kubernetes' wording. The tunnel key is written first.
const ANNOTATIONS: [(&str, &str, &str); 2] = [
    (
        ROUTER_TUNNEL_KEY,
        "ovn-kubernetes-network-connect-controller-tunnel-key-annotation",
        "network connect router tunnel key annotation",
    ),
    (
        ConnectSubnetMap::ANNOTATION,
        "ovn-kubernetes-network-connect-controller-subnet-annotation",
        "network connect subnet annotation",
    ),
];

/// A part of an object, to apply.
pub(crate) struct AppliedPart {
    pub(crate) field_manager: &'static str,
    /// The fields, without those that identify the object.
    pub(crate) fields: Value,
    /// `true`: the status, which does not depend on the version of the object.
    pub(crate) is_status: bool,
    /// Start of the message if the part cannot be written. `None`: the message stays as it is.
    pub(crate) failure: Option<String>,
}

/// The parts of a ClusterNetworkConnect that `patch` changes. `new` is the object after the change.
pub(crate) fn applied_parts(patch: &Value, new: &Value) -> Vec<AppliedPart> {
    let changed = &patch["metadata"]["annotations"];
    let connect = new["metadata"]["name"].as_str().unwrap_or_default();
    let annotations = ANNOTATIONS.iter().filter_map(|(key, manager, title)| {
        let value = changed.get(key)?;
        Some(AppliedPart {
            field_manager: manager,
            fields: json!({"metadata": {"annotations": {*key: value}}}),
            is_status: false,
            failure: Some(format!("failed to update {title} for CNC {connect}")),
        })
    });
    let status = patch.get("status").map(|_| AppliedPart {
        field_manager: STATUS_MANAGER,
        fields: json!({"status": managed_status(&new["status"])}),
        is_status: true,
        failure: None,
    });
    annotations.chain(status).collect()
}

/// The part of a status that the cluster manager writes. Others may have conditions of their own.
fn managed_status(status: &Value) -> Value {
    let mut own = status.clone();
    if let Some(conditions) = own["conditions"].as_array_mut() {
        let types = [ACCEPTED, CONNECTED];
        conditions.retain(|one| one["type"].as_str().is_some_and(|one| types.contains(&one)));
    }
    own
}

impl AppliedPart {
    /// The object to apply. It names the UID, so that it never changes a later object of the same
    /// name and never creates one. An annotation names the version that it was computed from.
    pub(crate) fn object(&self, meta: &ObjectMeta, version: Option<&str>) -> Value {
        let mut object = self.fields.clone();
        object["apiVersion"] = ClusterNetworkConnect::api_version().into();
        object["kind"] = ClusterNetworkConnect::KIND.into();
        object["metadata"]["name"] = json!(meta.name);
        object["metadata"]["uid"] = json!(meta.uid);
        if let Some(version) = version.filter(|_| !self.is_status) {
            object["metadata"]["resourceVersion"] = version.into();
        }
        object
    }
}
