//! Nodes with the last readable value of each annotation.

use std::collections::BTreeMap;

use patchbay_resources::manifests::{ObjectKey, Objects};
use patchbay_resources::object::{Node, Object as _};
use serde_json::{Map, Value, json};

use crate::watch::input_digest::UnreadableAnnotation;

/// Nodes of the last pass, with the last readable value of each annotation.
///
/// An annotation that cannot be read counts as unchanged, because it contains no decision.
#[derive(Debug, Default)]
pub(crate) struct ReadableNodes(Objects<Node>);

impl ReadableNodes {
    /// Replaces unreadable annotations of nodes with those of the last pass.
    pub(crate) fn update(
        &mut self,
        nodes: &mut Objects<Node>,
        unreadable: &BTreeMap<String, Vec<UnreadableAnnotation>>,
    ) {
        for (name, annotations) in unreadable {
            let former = self.0.named(name);
            if let (Some(node), Some(former)) =
                (nodes.get_mut(&ObjectKey::cluster(&**name)), former)
                && node.object.uid() == former.uid()
            {
                for annotation in annotations {
                    restore(&mut node.object, former, annotation);
                }
            }
        }
        self.0.clone_from(nodes);
    }
}

/// Restores an annotation, or an entry of one.
fn restore(node: &mut Node, former: &Node, unreadable: &UnreadableAnnotation) {
    let key = unreadable.annotation;
    let known = former.annotations().get(key).map(String::as_str);
    let annotations = node.annotations_mut();
    let restored = match (&unreadable.network, annotations.get(key)) {
        (Some(network), Some(text)) => with_entry(text, known, network),
        _ => None,
    };
    match restored.or_else(|| known.map(str::to_owned)) {
        Some(text) => annotations.insert(key.to_owned(), text),
        None => annotations.remove(key),
    };
}

/// The JSON object `text` with an entry of another one. `None`: one of them is no object.
fn with_entry(text: &str, known: Option<&str>, network: &str) -> Option<String> {
    let mut entries: Map<String, Value> = serde_json::from_str(text).ok()?;
    let known: Map<String, Value> = serde_json::from_str(known.unwrap_or("{}")).ok()?;
    match known.get(network) {
        Some(entry) => entries.insert(network.to_owned(), entry.clone()),
        None => entries.remove(network),
    };
    Some(json!(entries).to_string())
}

#[cfg(test)]
mod tests {
    use patchbay_model::{NODE_ID, NODE_SUBNETS};
    use patchbay_resources::manifests::{Origin, Sourced};

    use super::*;

    fn node(id: &str, subnets: &str) -> Objects<Node> {
        let annotations = json!({NODE_ID: id, NODE_SUBNETS: subnets});
        let object = json!({"metadata": {"name": "n1", "uid": "u", "annotations": annotations}});
        let mut nodes = Objects::default();
        nodes.insert(Sourced {
            object: serde_json::from_value(object).unwrap(),
            origin: Origin::Cluster,
            position: 0,
        });
        nodes
    }

    fn unreadable(annotation: &'static str, network: Option<&str>) -> UnreadableAnnotation {
        UnreadableAnnotation {
            annotation,
            network: network.map(str::to_owned),
            message: String::new(),
        }
    }

    #[test]
    fn an_annotation_that_cannot_be_read_keeps_its_last_value() {
        let mut readable = ReadableNodes::default();
        let known = r#"{"blue":["10.2.0.0/24"],"red":["10.1.0.0/24"]}"#;
        readable.update(&mut node("2", known), &BTreeMap::new());
        let mut wrong = node("two", r#"{"blue":["10.3.0.0/24"],"red":"no"}"#);
        let all = vec![unreadable(NODE_ID, None), unreadable(NODE_SUBNETS, Some("red"))];
        let all = [("n1".to_owned(), all)].into();
        readable.update(&mut wrong, &all);
        let expected = r#"{"blue":["10.3.0.0/24"],"red":["10.1.0.0/24"]}"#;
        assert_eq!(wrong, node("2", expected));

        let mut wrong = node("two", "{");
        let all = vec![unreadable(NODE_ID, None), unreadable(NODE_SUBNETS, None)];
        readable.update(&mut wrong, &[("n1".to_owned(), all)].into());
        assert_eq!(wrong, node("2", expected));
    }
}
