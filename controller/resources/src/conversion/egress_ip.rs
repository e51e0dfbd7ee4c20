//! Conversion of EgressIPs.

use patchbay_model::{EGRESS_IP_MARK, EgressAssignment, EgressIp, Selector};

use crate::object::{EgressIP, LabelSelector, Object};
use crate::selector;

/// An EgressIP. Assignments of texts that are no addresses are left out.
pub fn egress_ip(object: &EgressIP) -> EgressIp {
    let mut problems = Vec::new();
    let mut parse = |field: &str, labels: &LabelSelector| -> Option<Selector> {
        let parsed = selector::parse(field, labels).map_err(|violations| {
            problems.extend(violations);
        });
        parsed.ok()
    };
    let namespaces = parse("spec.namespaceSelector", &object.spec.namespace_selector);
    let pods = parse("spec.podSelector", &object.spec.pod_selector);
    let mark = object.annotations().get(EGRESS_IP_MARK).and_then(|text| text.parse().ok());
    let items = object.status.iter().flat_map(|status| &status.items);
    let assignments = items.filter_map(|item| {
        Some(EgressAssignment {
            node: item.node.as_str().into(),
            address: item.egress_ip.parse().ok()?,
        })
    });
    EgressIp {
        name: object.name_any().into(),
        mark: mark.filter(|mark| *mark > 0),
        namespaces,
        pods,
        assignments: assignments.collect(),
        problems,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;

    #[test]
    fn an_egress_ip_selects_pods_by_both_selectors() {
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP",
            "metadata": {"name": "eip", "annotations": {"k8s.ovn.org/egressip-mark": "50000"}},
            "spec": {
                "egressIPs": ["172.18.0.100"],
                "namespaceSelector": {"matchLabels": {"egress": "yes"}},
                "podSelector": {"matchLabels": {"app": "web"}},
            },
            "status": {"items": [
                {"node": "n1", "egressIP": "172.18.0.100"},
                {"node": "n2", "egressIP": "none"},
            ]},
        });
        let read = egress_ip(&serde_json::from_value(object).unwrap());
        assert_eq!((read.mark, read.assignments.len()), (Some(50_000), 1));
        let labels = |key: &str, value: &str| BTreeMap::from([(key.to_owned(), value.to_owned())]);
        let (namespace, pod) = (labels("egress", "yes"), labels("app", "web"));
        assert!(read.selects(&namespace, &pod));
        assert!(!read.selects(&pod, &pod) && !read.selects(&namespace, &namespace));
    }

    #[test]
    fn a_selector_that_cannot_be_read_selects_nothing() {
        let object = json!({
            "apiVersion": "k8s.ovn.org/v1", "kind": "EgressIP",
            "metadata": {"name": "eip", "annotations": {"k8s.ovn.org/egressip-mark": "0"}},
            "spec": {"namespaceSelector": {"matchExpressions": [
                {"key": "egress", "operator": "Is", "values": ["yes"]},
            ]}},
        });
        let read = egress_ip(&serde_json::from_value(object).unwrap());
        assert_eq!((read.mark, read.problems.len()), (None, 1));
        assert!(!read.selects(&BTreeMap::new(), &BTreeMap::new()));
    }
}
