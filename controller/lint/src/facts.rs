//! Facts that no object of the manifests holds.

use std::collections::BTreeMap;

use ipnet::IpNet;

use crate::values::ChartValues;

/// Facts that no object of the manifests holds.
#[derive(Clone, Debug)]
pub struct Facts {
    /// Chart values of the platform. `None`: unknown.
    pub values: Option<ChartValues>,
    /// Ranges of the API server's cluster IPs. Empty: those of `ServiceCIDR` objects, or unknown.
    pub service_ranges: Vec<IpNet>,
    /// Interfaces of nodes, by the names of the nodes. Those of other nodes are unknown.
    pub node_interfaces: BTreeMap<String, Vec<String>>,
    /// `true` if ovn-northd ranks source routes by their prefix length, as OVN releases do. `false`:
    /// it has the changes of Kube-OVN.
    pub is_northd_stock: bool,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            values: None,
            service_ranges: Vec::new(),
            node_interfaces: BTreeMap::new(),
            is_northd_stock: true,
        }
    }
}
