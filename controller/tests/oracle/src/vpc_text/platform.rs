//! Nodes, the provider network, and external subnets that tenants share.

use serde_json::{Value, json};

use crate::random::Random;

/// External subnets: name, VLAN id, IPv4 and IPv6 range, and their gateways.
pub(super) const EXTERNAL: [External; 3] = [
    External { name: "external", id: 0, ranges: ["172.30", "fd30"] },
    External { name: "ext1", id: 222, ranges: ["172.31", "fd31"] },
    External { name: "ext2", id: 333, ranges: ["198.18", "fd18"] },
];
/// External subnet.
pub(super) struct External {
    pub(super) name: &'static str,
    id: u16,
    /// Beginnings of the ranges of both families.
    ranges: [&'static str; 2],
}

impl External {
    pub(super) fn cidr(&self) -> String {
        format!("{}.0.0/20", self.ranges[0])
    }

    pub(super) fn gateway(&self) -> String {
        format!("{}.0.1", self.ranges[0])
    }

    pub(super) fn address(&self, number: usize) -> String {
        format!("{}.{}.{}", self.ranges[0], number / 256, number % 256)
    }
}

/// Nodes, the provider network, and external subnets.
pub(super) fn platform(random: &mut Random) -> Vec<Value> {
    let mut items = Vec::new();
    let gateways = 1 + random.below(3);
    for number in 0..3 {
        let labels = if number < gateways {
            json!({"ovn.kubernetes.io/external-gw": "true"})
        } else {
            json!({})
        };
        let annotations = json!({"ovn.kubernetes.io/chassis": format!("chassis-{number}")});
        let metadata =
            json!({"name": format!("w{number}"), "labels": labels, "annotations": annotations});
        items.push(object("v1", "Node", &metadata, &json!({})));
    }
    let provider = json!({"defaultInterface": "eth1"});
    items.push(kube_ovn("ProviderNetwork", "provider", &provider));
    let names: Vec<_> = EXTERNAL.iter().map(|external| external.name).collect();
    items.push(kube_ovn("Vpc", "ovn-cluster", &json!({"extraExternalSubnets": names})));
    for external in &EXTERNAL {
        let vlan = format!("vlan-{}", external.name);
        items.push(kube_ovn("Vlan", &vlan, &json!({"id": external.id, "provider": "provider"})));
        let spec = json!({"vpc": "ovn-cluster", "vlan": vlan, "cidrBlock": external.cidr(),
            "gateway": external.gateway()});
        items.push(kube_ovn("Subnet", external.name, &spec));
    }
    items
}

pub(super) fn object(version: &str, kind: &str, metadata: &Value, spec: &Value) -> Value {
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec})
}

pub(super) fn kube_ovn(kind: &str, name: &str, spec: &Value) -> Value {
    object("kubeovn.io/v1", kind, &json!({"name": name}), spec)
}
