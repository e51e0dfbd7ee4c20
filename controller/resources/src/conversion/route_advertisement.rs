//! Conversion of RouteAdvertisements.

use patchbay_model::RouteAdvertisement;

use crate::object::{Object, RouteAdvertisements};
use crate::selector;

/// A RouteAdvertisements object.
pub fn route_advertisement(object: &RouteAdvertisements) -> RouteAdvertisement {
    let spec = &object.spec;
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let mut accepted = conditions.filter(|condition| condition.type_ == "Accepted");
    let generation = object.metadata.generation.unwrap_or_default();
    RouteAdvertisement {
        name: object.name_any(),
        has_pod_networks: spec.advertisements.iter().any(|kind| kind == "PodNetwork"),
        is_accepted: accepted.next().map(|condition| {
            let observed = condition.observed_generation.unwrap_or_default();
            condition.status == "True" && observed == generation
        }),
        nodes: selector::parse("spec.nodeSelector", &spec.node_selector).ok(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_acceptance_is_about_one_generation() {
        let read = |generation: i64, conditions: Value| {
            let object = json!({
                "apiVersion": "k8s.ovn.org/v1", "kind": "RouteAdvertisements",
                "metadata": {"name": "all", "generation": generation},
                "spec": {"advertisements": ["PodNetwork"]},
                "status": {"conditions": conditions},
            });
            route_advertisement(&serde_json::from_value(object).unwrap())
        };
        let condition = |status: &str| {
            json!([{"type": "Accepted", "status": status, "observedGeneration": 2,
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        assert_eq!(read(2, json!([])).is_accepted, None);
        assert_eq!(read(2, condition("True")).is_accepted, Some(true));
        assert_eq!(read(2, condition("False")).is_accepted, Some(false));
        assert_eq!(read(3, condition("True")).is_accepted, Some(false));
        assert!(read(2, json!([])).has_pod_networks);
    }
}
