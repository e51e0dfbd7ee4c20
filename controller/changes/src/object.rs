//! Objects for which rows exist, in the words of their users.

use std::cmp::Ordering;
use std::fmt;

use patchbay_model::external_ids::key;
use patchbay_model::owner::Owner;
use patchbay_schemas::datum::Map;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use serde::Serialize;

/// Prefix of networks of cluster-wide custom resources.
const CLUSTER_PREFIX: &str = "cluster_udn_";
/// End of the names of OVN-Kubernetes' controllers that write the rows of a network.
const CONTROLLER_SUFFIX: &str = "-network-controller";
/// Controller of the cluster's default network.
const DEFAULT_CONTROLLER: &str = "default";
/// Types of owners that are no objects of Kubernetes, but parts of a network.
const PARTS_OF_NETWORKS: [&str; 6] = [
    "AdvertisedNetwork",
    "Cluster",
    "MulticastCluster",
    "NetpolDefault",
    "NetpolNode",
    "NoOverlayClusterSubnetSNAT",
];
/// Types of owners of EgressIPs and EgressServices.
const EGRESS: [&str; 2] = ["EgressIP", "EgressService"];
/// Beginnings of names of their rows that exist for a network, whatever EgressIPs there are.
const OF_ALL_EGRESS: [&str; 4] =
    ["EIP-No-Reroute", "EgressIP-Mark-Reply", "egressip-served-pods", "egresssvc-served-pods"];
/// External id of these rows: the network.
const EGRESS_NETWORK: &str = "network";
/// Types of owners whose rows all networks share.
const SHARED: [&str; 3] = ["ClusterNodeIPs", "UDNEnabledService", "UDNIsolation"];
/// Kinds in the order of a list. All other kinds follow by name, before shared rows.
const KINDS: [&str; 6] = [NETWORK, "Vpc", "Subnet", "ClusterNetworkConnect", "pod", "Service"];

pub(crate) const NETWORK: &str = "network";
const SHARED_ROWS: &str = "shared rows";

/// Object for which rows exist.
#[derive(Clone, Debug, Eq, Hash, PartialEq, Serialize)]
pub struct Object {
    /// Kind, such as `network`, `pod` or `NetworkPolicy`.
    pub kind: String,
    /// Name, with the namespace before a `/` where there is one.
    pub name: String,
}

impl Object {
    /// An object by kind and name.
    pub fn new(kind: impl Into<String>, name: impl Into<String>) -> Self {
        Self { kind: kind.into(), name: name.into() }
    }

    /// A network by the name in its rows.
    pub fn network(name: &str) -> Self {
        Self::new(NETWORK, name.strip_prefix(CLUSTER_PREFIX).unwrap_or(name))
    }

    /// Rows that several objects share.
    pub(crate) fn shared() -> Self {
        Self::new(SHARED_ROWS, "")
    }

    /// The object that the external ids of a row name. `None`: they name none.
    pub(crate) fn of(schema: &TableSchema, row: &Row) -> Option<Self> {
        let external_ids = row.get(schema.column_id("external_ids")?);
        let ids = external_ids.as_map()?;
        if ids.is_empty() {
            return None;
        }
        let id = |key: &str| ids.get_str(key).filter(|value| !value.is_empty());
        let owner_type = id(key::OWNER_TYPE).unwrap_or_default();
        if PARTS_OF_NETWORKS.contains(&owner_type) {
            return Some(Self::of_controller(id(key::OWNER_CONTROLLER).unwrap_or_default()));
        }
        if SHARED.contains(&owner_type) {
            return Some(Self::shared());
        }
        if EGRESS.contains(&owner_type) {
            let name = id(key::NAME).unwrap_or_default();
            if OF_ALL_EGRESS.iter().any(|prefix| name.starts_with(prefix)) {
                return Some(id(EGRESS_NETWORK).map_or_else(Self::shared, Self::network));
            }
        }
        let row_name = text_of(schema, row, "name");
        let of_owner = |Owner { kind, name }| Self::of_owner(kind, name);
        let owner = Owner::of(&row_name, id).map(of_owner);
        owner.or_else(|| Self::of_kube_ovn(&schema.name, &row_name, ids))
    }

    /// The network of a controller of OVN-Kubernetes.
    fn of_controller(controller: &str) -> Self {
        match controller.strip_suffix(CONTROLLER_SUFFIX) {
            Some(network) if network != DEFAULT_CONTROLLER => Self::network(network),
            _ => Self::shared(),
        }
    }

    fn of_owner(kind: String, name: String) -> Self {
        match kind.as_str() {
            "network" => Self::network(&name),
            "NetpolNamespace" => Self::policies_of(&name),
            // The pod stands behind the name, which has no underscore.
            "EgressIP" => Self::new(kind, name.split('_').next().unwrap_or_default()),
            // The name is the namespace, or empty, and a text of the selectors.
            "PodSelector" => match name.split_once('_') {
                Some((namespace, _)) if !namespace.is_empty() => Self::policies_of(namespace),
                _ => Self::shared(),
            },
            _ => Self { kind, name },
        }
    }

    fn policies_of(namespace: &str) -> Self {
        Self::new("NetworkPolicy", format!("{namespace}/*"))
    }

    /// The object of a row of Kube-OVN that names none.
    fn of_kube_ovn(table: &str, name: &str, ids: &Map) -> Option<Self> {
        ids.get_str("vendor").filter(|vendor| *vendor == "kube-ovn")?;
        match table {
            "Logical_Router" => Some(Self::new("Vpc", name)),
            "Logical_Switch" => Some(Self::new("Subnet", name)),
            _ => None,
        }
    }

    fn rank(&self) -> (usize, &str) {
        let known = KINDS.iter().position(|kind| *kind == self.kind);
        let rank = match known {
            Some(rank) => rank,
            None if self.kind == SHARED_ROWS => KINDS.len() + 1,
            None => KINDS.len(),
        };
        (rank, &self.kind)
    }
}

/// Order of names as people list them: numbers count by their values, so `net2` precedes `net10`.
fn compare_names(one: &str, other: &str) -> Ordering {
    let (mut left, mut right) = (one, other);
    while let (Some(first), Some(second)) = (left.chars().next(), right.chars().next()) {
        let (digits, others) = (leading_digits(left), leading_digits(right));
        let compared = if digits.is_empty() || others.is_empty() {
            (left, right) = (&left[first.len_utf8()..], &right[second.len_utf8()..]);
            first.cmp(&second)
        } else {
            (left, right) = (&left[digits.len()..], &right[others.len()..]);
            let (digits, others) = (digits.trim_start_matches('0'), others.trim_start_matches('0'));
            digits.len().cmp(&others.len()).then_with(|| digits.cmp(others))
        };
        if compared != Ordering::Equal {
            return compared;
        }
    }
    // Names that differ in zeros before numbers are not equal.
    left.len().cmp(&right.len()).then_with(|| one.cmp(other))
}

fn leading_digits(text: &str) -> &str {
    let end = text.find(|c: char| !c.is_ascii_digit());
    &text[..end.unwrap_or(text.len())]
}

impl Ord for Object {
    fn cmp(&self, other: &Self) -> Ordering {
        let names = || compare_names(&self.name, &other.name);
        self.rank().cmp(&other.rank()).then_with(names)
    }
}

impl PartialOrd for Object {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Kind and name. All NetworkPolicies of a namespace have the name `NAMESPACE/*`.
impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, name } = self;
        match name.strip_suffix("/*") {
            Some(namespace) => write!(f, "NetworkPolicies of namespace {namespace}"),
            None if name.is_empty() => f.write_str(kind),
            None => write!(f, "{kind} {name}"),
        }
    }
}

/// A scalar column as text; empty if it is not set, or the schema has no such column.
pub(crate) fn text_of(schema: &TableSchema, row: &Row, column: &str) -> String {
    let text = schema.column_id(column).and_then(|column| {
        let datum = row.get(column);
        Some(datum.as_scalar()?.as_str()?.to_owned())
    });
    text.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_listed_by_their_numbers() {
        let mut objects = ["net10", "net2", "net02", "a/b", "net2-x", "net", "é1"]
            .map(|name| Object::new(NETWORK, name));
        objects.sort();
        let names = objects.map(|object| object.name);
        assert_eq!(names, ["a/b", "net", "net02", "net2", "net2-x", "net10", "é1"]);
    }
}
