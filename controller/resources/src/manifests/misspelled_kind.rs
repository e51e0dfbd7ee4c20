//! Detection of misspelled kinds and API groups in manifests.
//!
//! An ignored object counts as absent, and the rows of absent objects are removed from databases.
//! So an object of an unknown kind is ignored only if its kind is probably spelled as intended.

use crate::object::kube_ovn::KUBE_OVN_GROUP;

/// `apiVersion` and kind of the objects that Patchbay reads.
const READ_KINDS: [(&str, &str); 20] = [
    ("patchbay/v1", "ClusterSettings"),
    ("k8s.ovn.org/v1", "ClusterNetworkConnect"),
    ("k8s.ovn.org/v1", "ClusterUserDefinedNetwork"),
    ("k8s.ovn.org/v1", "UserDefinedNetwork"),
    ("k8s.ovn.org/v1", "EgressFirewall"),
    ("k8s.ovn.org/v1", "EgressIP"),
    ("k8s.ovn.org/v1", "RouteAdvertisements"),
    ("k8s.ovn.org/v1", "VTEP"),
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
    ("k8s.cni.cncf.io/v1alpha1", "IPAMClaim"),
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "Pod"),
    ("v1", "Service"),
    ("discovery.k8s.io/v1", "EndpointSlice"),
    ("networking.k8s.io/v1", "NetworkPolicy"),
    ("k8s.cni.cncf.io/v1beta1", "MultiNetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha1", "AdminNetworkPolicy"),
    ("policy.networking.k8s.io/v1alpha1", "BaselineAdminNetworkPolicy"),
    ("v1", "List"),
];

/// Kinds of [`KUBE_OVN_GROUP`] that Patchbay reads. Other groups have kinds of these names, too.
const READ_KUBE_OVN_KINDS: [&str; 16] = [
    "ProviderNetwork",
    "Vlan",
    "Subnet",
    "Vpc",
    "OvnEip",
    "OvnSnatRule",
    "OvnDnatRule",
    "OvnFip",
    "IP",
    "SwitchLBRule",
    "RouterLBRule",
    "SecurityGroup",
    "Vip",
    "IPPool",
    "VpcDns",
    "VpcNatGateway",
];

/// Largest number of edits between a kind and a misspelling of it.
const MAX_MISSPELLING_EDITS: usize = 3;

/// Returns field and message for a kind that is probably a misspelling of a kind in
/// [`READ_KINDS`]. `None`: ignore the object.
pub(super) fn find_misspelling(group: &str, kind: &str) -> Option<(&'static str, String)> {
    let mut kinds = READ_KINDS.into_iter();
    let (api_version, intended) = kinds
        .find(|read_kind| is_misspelling_of(*read_kind, group, kind))
        .or_else(|| find_kube_ovn_kind(group, kind))?;
    Some(if kind == intended {
        let message = format!("unknown version of kind {intended}, did you mean {api_version}?");
        ("apiVersion", message)
    } else {
        let message = format!("unknown kind, did you mean {intended} of {api_version}?");
        ("kind", message)
    })
}

/// `apiVersion` and kind of Kube-OVN that `kind` of `group` probably stands for.
fn find_kube_ovn_kind(group: &str, kind: &str) -> Option<(&'static str, &'static str)> {
    let kinds = READ_KUBE_OVN_KINDS.into_iter();
    let similar = kinds.filter(|read_kind| is_similar(kind, read_kind));
    let intended = similar.min_by_key(|read_kind| !read_kind.eq_ignore_ascii_case(kind))?;
    is_similar(group, KUBE_OVN_GROUP).then_some(("kubeovn.io/v1", intended))
}

/// `true` when `kind` of `group` probably stands for the read kind.
fn is_misspelling_of((api_version, read_kind): (&str, &str), group: &str, kind: &str) -> bool {
    let (read_group, _) = api_version.rsplit_once('/').unwrap_or_default();
    if read_group.is_empty() {
        // Other API groups have kinds `Node` and `Service` as well. Their names contain a dot.
        !group.contains('.')
            && (kind == read_kind || group.is_empty() && is_similar(kind, read_kind))
    } else {
        is_similar(kind, read_kind)
    }
}

/// `true` when `kind` differs from `read_kind` by letter case or by a few letters only.
fn is_similar(kind: &str, read_kind: &str) -> bool {
    let (kind, read_kind) = (kind.to_ascii_lowercase(), read_kind.to_ascii_lowercase());
    let limit = (read_kind.len() / 4).min(MAX_MISSPELLING_EDITS);
    edit_distance(kind.as_bytes(), read_kind.as_bytes()) <= limit
}

/// Levenshtein distance: the number of letters to insert, remove or replace.
fn edit_distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, wanted) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_edit_distance_counts_letters() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("node", "node", 0),
            ("nod", "node", 1),
            ("pod", "node", 2),
            ("kitten", "sitting", 3),
        ] {
            let found = edit_distance(one.as_bytes(), other.as_bytes());
            assert_eq!(found, expected, "{one} {other}");
        }
    }

    #[test]
    fn existing_kinds_of_other_projects_are_not_misspellings() {
        let core = ["ConfigMap", "Endpoints", "Event", "Secret", "ServiceAccount"];
        for kind in core {
            assert_eq!(find_misspelling("", kind), None, "{kind}");
        }
        let ovn_kubernetes =
            ["AdminPolicyBasedExternalRoute", "EgressQoS", "EgressService", "NetworkQoS"];
        for kind in ovn_kubernetes {
            assert_eq!(find_misspelling("k8s.ovn.org", kind), None, "{kind}");
        }
        for (group, kind) in [
            ("apps", "Deployment"),
            ("serving.knative.dev", "Service"),
            ("longhorn.io", "Node"),
            ("k8s.cni.cncf.io", "IPAMLease"),
            ("policy.networking.k8s.io", "ClusterNetworkPolicy"),
            ("ec2.aws.crossplane.io", "VPC"),
            ("ec2.aws.crossplane.io", "Subnet"),
            ("kubeovn.io", "IptablesDnatRule"),
            ("kubeovn.io", "QoSPolicy"),
            ("kubeovn.io", "VpcEgressGateway"),
            ("kubeovn.io", "VpcIPsecGateway"),
        ] {
            assert_eq!(find_misspelling(group, kind), None, "{group} {kind}");
        }
    }

    #[test]
    fn kinds_of_kube_ovn_are_misspelled_in_groups_of_a_similar_name_only() {
        for (group, kind, intended) in [
            ("kubeovn.io", "VPC", "Vpc"),
            ("kubeovn.io", "Subnets", "Subnet"),
            ("kubeovn.io", "OvnSNATRule", "OvnSnatRule"),
            ("kube-ovn.io", "OvnFip", "OvnFip"),
        ] {
            let (_, message) = find_misspelling(group, kind).unwrap();
            assert!(
                message.contains(&format!("{intended} of kubeovn.io/v1"))
                    || message.contains("did you mean kubeovn.io/v1?"),
                "{message}"
            );
        }
    }
}
