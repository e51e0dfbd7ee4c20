//! Pods of clusters whose manifests have none.

use patchbay_model::Role;
use patchbay_resources::manifests::LoadError;
use patchbay_resources::object::{Object as _, ObjectMeta, Pod, PodSpec};

use crate::Cluster;

/// Owner of the pods that no manifest has.
const OWNER: &str = "the lab";

impl Cluster {
    /// Adds a pod for each primary network and node if the manifests have no pods:
    /// `NAMESPACE/NAMESPACE-N`, in the first namespace of the network, where N is the number of the
    /// node in the order of the manifests.
    ///
    /// # Errors
    /// The objects contradict each other.
    pub fn with_default_pods(self) -> Result<Self, LoadError> {
        if !self.inventory.pods.is_empty() || self.inventory.lacks(&[Pod::KIND]) {
            return Ok(self);
        }
        let nodes = self.zones();
        let networks = self.networks();
        let primary = networks.iter().filter(|n| n.role == Role::Primary);
        let namespaces = primary.filter_map(|network| network.namespaces.first());
        let pods: Vec<Pod> = namespaces
            .flat_map(|namespace| {
                nodes.iter().zip(1..).map(move |(node, number)| {
                    let name = format!("{namespace}-{number}");
                    pod_object(namespace, name, node)
                })
            })
            .collect();
        self.with_pods(pods, OWNER)
    }
}

fn pod_object(namespace: &str, name: String, node: &str) -> Pod {
    let mut spec = PodSpec::default();
    spec.node_name = Some(node.to_owned());
    Pod {
        metadata: ObjectMeta {
            namespace: Some(namespace.to_owned()),
            name: Some(name),
            ..ObjectMeta::default()
        },
        spec: Some(spec),
        ..Pod::default()
    }
}
