//! Objects for which rows exist, in words.

use std::collections::BTreeMap;

use patchbay_model::owner::Owner;
use patchbay_resources::manifests::{Inventory, ObjectKey};
use patchbay_resources::object::{NetworkPolicy, Object as _};

/// NetworkPolicies by the port groups that Kube-OVN makes for them.
///
/// The ACLs there name the port group alone, whose name has no `-`, so that it stands for several
/// names of policies. See `controller/network_policy.go` of Kube-OVN.
#[derive(Default)]
pub(super) struct PolicyNames(BTreeMap<String, Option<ObjectKey>>);

impl PolicyNames {
    /// The names of the policies of a cluster.
    pub(super) fn of(inventory: &Inventory) -> Self {
        let mut names = BTreeMap::new();
        for (key, _) in inventory.network_policies.iter() {
            // The ACLs of a port group with two policies name neither of them.
            let is_only = !names.contains_key(&port_group(key));
            names.insert(port_group(key), is_only.then(|| key.clone()));
        }
        Self(names)
    }

    /// The policy of a port group, in words.
    pub(super) fn of_port_group(&self, name: &str) -> Option<String> {
        let key = self.0.get(name)?.as_ref()?;
        Some(format!("{} {key}", NetworkPolicy::KIND))
    }
}

/// The object of a row, in the words of its users.
pub(super) fn described(owner: &Owner) -> String {
    let Owner { kind, name } = owner;
    match kind.as_str() {
        "NetpolNamespace" => format!("NetworkPolicies of namespace {name}"),
        "NetpolNode" | "NetpolDefault" => format!("NetworkPolicies' default for {name}"),
        "EgressFirewall" | "EgressQoS" => format!("{kind} of namespace {name}"),
        "MulticastNS" => format!("multicast of namespace {name}"),
        "UDNIsolation" => format!("isolation of user-defined networks ({name})"),
        _ => owner.to_string(),
    }
}

/// Name of the port group of a policy.
fn port_group(key: &ObjectKey) -> String {
    let ObjectKey { namespace, name } = key;
    let is_letter = name.starts_with(|first: char| first.is_alphabetic());
    let prefix = if is_letter { "" } else { "np" };
    let namespace = namespace.as_deref().unwrap_or_default();
    format!("{prefix}{name}.{namespace}").replace('-', ".")
}
