//! Paths at which collectors keep objects of a cluster.

/// Resource of the objects in a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Resource<'a> {
    /// API group. The core group is empty.
    pub(crate) group: &'a str,
    /// Plural name.
    pub(crate) name: &'a str,
}

/// The resource of a file by its path. `None`: collectors keep no objects there.
///
/// They keep `cluster-scoped-resources/GROUP/RESOURCE.yaml`, `namespaces/NAMESPACE/GROUP/RESOURCE.yaml`,
/// both also as folders with a file for each object, `namespaces/NAMESPACE/NAMESPACE.yaml`, and
/// `namespaces/NAMESPACE/pods/POD/POD.yaml`. A path that leads upward has no resource.
pub(crate) fn resource_of(path: &str) -> Option<Resource<'_>> {
    let (path, _) =
        path.rsplit_once('.').filter(|(_, end)| matches!(*end, "yaml" | "yml" | "json"))?;
    let names: Vec<&str> = path.split('/').collect();
    if names.contains(&"..") {
        return None;
    }
    let mut places = (0..names.len()).rev();
    places.find_map(|place| {
        let below = &names[place + 1..];
        match names[place] {
            "cluster-scoped-resources" => of_cluster(below),
            "namespaces" => of_namespace(below),
            _ => None,
        }
    })
}

fn of_cluster<'a>(below: &[&'a str]) -> Option<Resource<'a>> {
    match below {
        [group, name] | [group, name, _] => Some(Resource::new(group, name)),
        _ => None,
    }
}

fn of_namespace<'a>(below: &[&'a str]) -> Option<Resource<'a>> {
    match below {
        [namespace, file] if namespace == file => Some(Resource::new("core", "namespaces")),
        [_, "pods", pod, file] if pod == file => Some(Resource::new("core", "pods")),
        [_, group, name] | [_, group, name, _] => Some(Resource::new(group, name)),
        _ => None,
    }
}

impl<'a> Resource<'a> {
    fn new(group: &'a str, name: &'a str) -> Self {
        Self { group: if group == "core" { "" } else { group }, name }
    }

    /// `true` for pods.
    pub(crate) fn is_pods(&self) -> bool {
        *self == Self::new("core", "pods")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_below_the_folders_of_collectors() {
        for (path, expected) in [
            ("mg/cluster-scoped-resources/core/nodes/n1.yaml", Some(("", "nodes"))),
            (
                "cluster-scoped-resources/k8s.ovn.org/egressips.json",
                Some(("k8s.ovn.org", "egressips")),
            ),
            ("mg/q/namespaces/shop/core/pods.yaml", Some(("", "pods"))),
            ("namespaces/shop/core/services/web.v1.yaml", Some(("", "services"))),
            ("namespaces/shop/shop.yaml", Some(("", "namespaces"))),
            ("namespaces/shop/pods/web/web.yaml", Some(("", "pods"))),
            (
                "namespaces/core/k8s.ovn.org/userdefinednetworks/b.yml",
                Some(("k8s.ovn.org", "userdefinednetworks")),
            ),
            // The namespace has the name of the folder.
            ("namespaces/namespaces/core/pods.yaml", Some(("", "pods"))),
            ("cluster-scoped-resources/core/namespaces/shop.yaml", Some(("", "namespaces"))),
            ("namespaces/shop/pods/web/web/web/logs/current.log", None),
            ("namespaces/shop/pods/web/web/web/logs/a.yaml", None),
            ("namespaces.yaml", None),
            ("a/namespaces/../../etc/x/y.yaml", None),
            ("manifests/pods.yaml", None),
        ] {
            let found = resource_of(path).map(|resource| (resource.group, resource.name));
            assert_eq!(found, expected, "{path}");
        }
    }
}
