//! Kinds that are none of ours: which of them are ours written wrong.
//!
//! A kind that is ignored counts as an object that is not there, and what is not there any more is taken out of databases. So
//! a kind is ignored only if it is likely to be meant as it is written.

/// What is read, by the group and version that go before it and the kind.
const OURS: [(&str, &str); 8] = [
    ("k8s.ovn.org/v1", "ClusterNetworkConnect"),
    ("k8s.ovn.org/v1", "ClusterUserDefinedNetwork"),
    ("k8s.ovn.org/v1", "UserDefinedNetwork"),
    ("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"),
    ("v1", "Namespace"),
    ("v1", "Node"),
    ("v1", "Service"),
    ("v1", "List"),
];

/// Field and message, if this kind, which is none of ours, is to be refused rather than ignored.
pub(super) fn mistake(group: &str, kind: &str) -> Option<(&'static str, String)> {
    let mut ours = OURS.into_iter();
    let (api_version, ours) = ours.find(|ours| is_meant(*ours, group, kind))?;
    Some(if kind == ours {
        let message = format!("kind {ours} is not known there: did you mean {api_version}?");
        ("apiVersion", message)
    } else {
        let message = format!("is not known: did you mean {ours} of {api_version}?");
        ("kind", message)
    })
}

/// Whether somebody has this kind of ours in mind who writes that one.
fn is_meant((api_version, ours): (&str, &str), group: &str, kind: &str) -> bool {
    let (of, _) = api_version.rsplit_once('/').unwrap_or_default();
    if of.is_empty() {
        // Everybody has nodes and services. But groups of other people have a dot in their names.
        !group.contains('.') && (kind == ours || group.is_empty() && is_near(kind, ours))
    } else {
        is_near(kind, ours)
    }
}

/// Whether one is the other but for some letters, or for capitals.
fn is_near(one: &str, other: &str) -> bool {
    let (one, other) = (one.to_ascii_lowercase(), other.to_ascii_lowercase());
    distance(one.as_bytes(), other.as_bytes()) <= (other.len() / 4).min(3)
}

/// How many letters have to be put in, left out or exchanged.
fn distance(one: &[u8], other: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], line + 1);
        for (column, wanted) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(letter != wanted);
            diagonal = row[column + 1];
            row[column + 1] = exchanged.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_letters() {
        for (one, other, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "", 3),
            ("node", "node", 0),
            ("nod", "node", 1),
            ("pod", "node", 2),
            ("kitten", "sitting", 3),
        ] {
            let found = distance(one.as_bytes(), other.as_bytes());
            assert_eq!(found, expected, "{one} {other}");
        }
    }

    #[test]
    fn no_known_kind_is_taken_for_another() {
        let core = [
            "ConfigMap",
            "Endpoints",
            "Event",
            "Pod",
            "Secret",
            "ServiceAccount",
        ];
        for kind in core {
            assert_eq!(mistake("", kind), None, "{kind}");
        }
        let of_ovn = [
            "AdminPolicyBasedExternalRoute",
            "EgressFirewall",
            "EgressIP",
            "EgressQoS",
            "EgressService",
            "NetworkQoS",
            "RouteAdvertisements",
            "VTEP",
        ];
        for kind in of_ovn {
            assert_eq!(mistake("k8s.ovn.org", kind), None, "{kind}");
        }
        for (group, kind) in [
            ("apps", "Deployment"),
            ("serving.knative.dev", "Service"),
            ("longhorn.io", "Node"),
            ("discovery.k8s.io", "EndpointSlice"),
            ("k8s.cni.cncf.io", "IPAMClaim"),
            ("k8s.cni.cncf.io", "MultiNetworkPolicy"),
            ("policy.networking.k8s.io", "ClusterNetworkPolicy"),
        ] {
            assert_eq!(mistake(group, kind), None, "{group} {kind}");
        }
    }
}
