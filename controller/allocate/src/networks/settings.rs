//! Settings of the cluster manager of networks.

use patchbay_model::{ClusterSettings, PodSubnet};

/// Settings of the cluster manager.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ManagerSettings {
    /// Settings of the cluster.
    pub cluster: ClusterSettings,
    /// Ranges of the default network, with the prefix length of its node subnets. `None`: another
    /// program manages the default network.
    pub default_network: Option<Vec<PodSubnet>>,
    /// Pods and IPAMClaims get addresses, and EndpointSlices are mirrored, by these layouts of
    /// nodes. `None`: another program does that.
    pub workloads: Option<Layer2Layouts>,
}

/// Layouts of primary layer2 networks on nodes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Layer2Layouts {
    /// All nodes have transit routers.
    TransitRouters,
    /// A node without the annotation `k8s.ovn.org/layer2-topology-version` has none.
    Annotated,
}
