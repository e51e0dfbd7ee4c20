//! Objects of a cluster, as its API server keeps them.

use patchbay_model::FieldProblem;
use serde_json::Value;

use super::decode::{Decoder, written_key};
use super::inventory::{Inventory, InventoryKind, ObjectKey, RefusedObject, Sourced, has_resource};
use super::manifest_object::ManifestObject;
use crate::object::{Object as _, ObjectMeta, Pod};

/// Reader of the files with objects of a cluster that a collector keeps.
///
/// Unknown fields are dropped, and objects of other kinds are passed over. An object that cannot be
/// read is a warning, and stops no other.
///
/// ```
/// use patchbay_resources::manifests::ObservedObjects;
///
/// let mut objects = ObservedObjects::default();
/// let pod = "{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: shop}, later: {}}";
/// objects.read("mg/namespaces/shop/pods/web/web.yaml", pod.into());
/// objects.read("mg/namespaces/shop/core/services.yaml", "items: [".into());
/// let inventory = objects.finish();
/// assert_eq!((inventory.pods.len(), inventory.warnings.len()), (1, 1));
/// ```
pub struct ObservedObjects {
    decoder: Decoder,
}

impl Default for ObservedObjects {
    fn default() -> Self {
        Self { decoder: Decoder::of_archive() }
    }
}

impl ObservedObjects {
    /// `true` if objects of a resource are read. The core group is empty.
    pub fn has_resource(group: &str, plural: &str) -> bool {
        has_resource(group, plural)
    }

    /// Reads the objects of a file.
    pub fn read(&mut self, file: &str, content: Vec<u8>) {
        self.decoder.read_bytes(file, Ok(content));
    }

    /// The objects, with the warnings about those that cannot be read.
    pub fn finish(self) -> Inventory {
        let Decoder { mut inventory, errors, .. } = self.decoder;
        inventory.warnings.extend(errors);
        inventory
    }
}

/// Decodes an object of a cluster, whose definition may be of a later version: unknown fields are
/// dropped. In a selector they are an error, because a selector without a part would select too
/// much.
///
/// # Errors
/// A value has the wrong type, a required field is missing, or a selector has an unknown field.
pub fn decode_observed<T: InventoryKind>(object: &Value) -> Result<T, FieldProblem> {
    if let Ok((known, unknown)) = T::decode(object) {
        // The selectors of a pod are the scheduler's.
        if T::KIND == Pod::KIND || unknown.in_selectors().is_none() {
            return Ok(known);
        }
    }
    let (known, violations) = T::decode_strictly(object.clone());
    let violation = match &known {
        Some(_) => violations.into_iter().find(concerns_selector),
        // The violations before the last one are unknown fields.
        None => violations.into_iter().last(),
    };
    match (known, violation) {
        (Some(known), None) => Ok(known),
        (_, violation) => Err(violation.unwrap_or_else(|| FieldProblem::new("", "not readable"))),
    }
}

fn concerns_selector(violation: &FieldProblem) -> bool {
    violation.field.to_ascii_lowercase().contains("selector")
}

/// Number of the version of an object. `None`: it has none.
fn version(meta: &ObjectMeta) -> Option<u64> {
    meta.resource_version.as_deref()?.parse().ok()
}

impl Decoder {
    /// Takes an object of a cluster. Of several copies the newest one counts.
    pub(super) fn observe<T: InventoryKind>(&mut self, raw: &ManifestObject<'_>, found: &str) {
        let key = written_key::<T>(raw);
        if key.name.is_empty() {
            self.errors.push(raw.problem("metadata.name", "Required value"));
            return;
        }
        let json = raw.to_json();
        let decoded = if found == T::VERSION {
            decode_observed::<T>(&json)
        } else {
            let message = format!("version {found:?} is not read, only {:?}", T::VERSION);
            Err(FieldProblem::new("apiVersion", message))
        };
        match decoded {
            Ok(mut object) => {
                object.meta_mut().managed_fields = None;
                object.drop_unread();
                let is_newest = T::objects(&self.inventory)
                    .get(&key)
                    .is_none_or(|former| version(object.meta()) > version(former.object.meta()));
                if is_newest {
                    self.inventory.undecoded.remove(&(T::KIND, key));
                    let origin = (self.origin)(raw.location(""));
                    let position = self.objects;
                    T::objects_mut(&mut self.inventory).insert(Sourced {
                        object,
                        origin,
                        position,
                    });
                }
            }
            Err(violation) => self.leave_out::<T>(raw, key, json, &violation),
        }
    }

    /// Leaves an object out, with a warning.
    fn leave_out<T: InventoryKind>(
        &mut self,
        raw: &ManifestObject<'_>,
        key: ObjectKey,
        json: Value,
        violation: &FieldProblem,
    ) {
        let problem = raw.violation_problem(violation);
        self.errors.push(problem.clone());
        if T::objects(&self.inventory).get(&key).is_some() {
            return;
        }
        self.inventory.undecoded.insert((T::KIND, key.clone()));
        self.inventory.refused.push(RefusedObject {
            kind: T::KIND,
            key,
            json,
            position: self.objects,
            problems: vec![problem],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Inventory {
        let mut objects = ObservedObjects::default();
        for (file, text) in files {
            objects.read(file, (*text).into());
        }
        objects.finish()
    }

    #[test]
    fn a_damaged_object_is_a_warning_and_stops_no_other() {
        let inventory = read(&[
            ("cut.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a, names"),
            ("binary.yaml", "\u{0}\u{1}"),
            ("list.yaml", "apiVersion: v1\nkind: ServiceList\nitems: null\n"),
            ("bomb.yaml", "[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["),
            (
                "policies.yaml",
                "apiVersion: networking.k8s.io/v1\nkind: NetworkPolicyList\nitems:\n\
                 - metadata: {name: a, namespace: shop}\n  spec: {podSelector: {later: {}}}\n\
                 - metadata: {name: b, namespace: shop}\n  spec: {podSelector: {}, later: {}}\n",
            ),
            ("old.yaml", "apiVersion: v1beta7\nkind: Pod\nmetadata: {name: p, namespace: shop}\n"),
            ("other.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\n"),
        ]);
        let warnings: Vec<String> = inventory.warnings.iter().map(ToString::to_string).collect();
        let begins = ["cut.yaml:", "binary.yaml:", "bomb.yaml:", "policies.yaml:5", "old.yaml:1"];
        assert_eq!(warnings.len(), begins.len(), "{warnings:#?}");
        for (warning, begin) in warnings.iter().zip(begins) {
            assert!(warning.starts_with(begin), "{warnings:#?}");
        }
        let known: Vec<_> = inventory.network_policies.iter().map(|(key, _)| &*key.name).collect();
        assert_eq!(known, ["b"]);
        assert!(inventory.lacks(&["Pod"]) && inventory.lacks(&["NetworkPolicy"]));
        assert_eq!(inventory.missing("NetworkPolicy").count(), 1);
    }

    #[test]
    fn the_newest_copy_of_an_object_counts() {
        let pod = |version: &str, node: &str| {
            format!(
                "{{apiVersion: v1, kind: Pod, metadata: {{name: p, namespace: shop, \
                 resourceVersion: '{version}'}}, spec: {{nodeName: {node}}}}}"
            )
        };
        for order in [["9", "10"], ["10", "9"]] {
            let texts = order.map(|version| pod(version, &format!("n{version}")));
            let inventory = read(&[("a.yaml", &texts[0]), ("b.yaml", &texts[1])]);
            assert!(inventory.warnings.is_empty());
            let (_, pod) = inventory.pods.iter().next().unwrap();
            let node = pod.object.spec.as_ref().unwrap().node_name.as_deref();
            assert_eq!(node, Some("n10"));
            assert!(pod.origin.is_observed());
        }
    }

    #[test]
    fn resources_of_manifests_are_read() {
        for (group, resource) in [
            ("", "pods"),
            ("k8s.ovn.org", "clusternetworkconnects"),
            ("kubeovn.io", "vpcs"),
            ("networking.k8s.io", "networkpolicies"),
            ("k8s.cni.cncf.io", "network-attachment-definitions"),
        ] {
            assert!(ObservedObjects::has_resource(group, resource), "{group} {resource}");
        }
        assert!(!ObservedObjects::has_resource("", "secrets"));
        assert!(!ObservedObjects::has_resource("apps", "pods"));
    }
}
