//! Warnings about pods whose annotations give them one tunnel id, address or MAC address in a network.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::{NadKey, Networks, Pod, PodKey, Topology};
use patchbay_resources::manifests::Problem;

/// Value of the annotation `k8s.ovn.org/pod-networks` that one port of a network may have.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
enum PortKey {
    /// Tunnel key of the port.
    TunnelId(u16),
    /// Address of the port. The pods of a virtual machine share it.
    Address(IpAddr),
    /// MAC address of a port in a layer2 network. The pods of a virtual machine share it.
    Mac(String),
}

impl PortKey {
    /// Consequence of two ports with this key.
    fn consequence(&self) -> String {
        match self {
            Self::TunnelId(id) => format!(
                "have tunnel id {id}: nodes may give them different tunnel keys, and packets \
                 between nodes are lost"
            ),
            Self::Address(address) => format!("have {address}: packets reach one of them"),
            Self::Mac(mac) => format!("have MAC address {mac}: packets reach one of them"),
        }
    }
}

/// First pod with a key.
struct Owner {
    pod: PodKey,
    /// Name of its virtual machine.
    machine: Option<Arc<str>>,
}

impl Owner {
    /// `true` if the pod may have the key, too.
    fn shares(&self, key: &PortKey, pod: &Pod) -> bool {
        let machine = pod.machine.as_ref().map(|machine| &machine.name);
        let is_of_machine = machine.is_some()
            && machine == self.machine.as_ref()
            && pod.key.namespace == self.pod.namespace;
        self.pod == pod.key || is_of_machine && !matches!(key, PortKey::TunnelId(_))
    }
}

/// Returns a warning for each network and kind of key, with the first pods that share a key.
pub(crate) fn equal_key_warnings<'a>(
    pods: impl Iterator<Item = &'a Pod>,
    networks: &Networks,
) -> Vec<Problem> {
    let mut owners: HashMap<(&str, PortKey), Owner> = HashMap::new();
    let mut found: BTreeMap<(&str, bool), (String, usize)> = BTreeMap::new();
    for pod in pods.filter(|pod| pod.is_wired()) {
        for (network, key) in port_keys(pod, networks) {
            let owner = owners.entry((network, key.clone())).or_insert_with(|| Owner {
                pod: pod.key.clone(),
                machine: pod.machine.as_ref().map(|machine| machine.name.clone()),
            });
            if !owner.shares(&key, pod) {
                let is_id = matches!(key, PortKey::TunnelId(_));
                found.entry((network, is_id)).and_modify(|(_, more)| *more += 1).or_insert_with(
                    || {
                        let (first, second) = (&owner.pod, &pod.key);
                        let consequence = key.consequence();
                        let pods = format!("pods {first} and {second} {consequence}");
                        (format!("network {network}: {pods}"), 0)
                    },
                );
            }
        }
    }
    found
        .into_values()
        .map(|(message, more)| match more {
            0 => message.into(),
            more => format!("{message}; and {more} more").into(),
        })
        .collect()
}

/// Keys of a pod's ports, with the name of the network.
fn port_keys<'n>(pod: &Pod, networks: &'n Networks) -> Vec<(&'n str, PortKey)> {
    let entries = pod.networks.iter().filter_map(|(key, ports)| {
        let (namespace, name) = key.split_once('/')?;
        let nad = NadKey { namespace: namespace.to_owned(), name: name.to_owned() };
        Some((networks.by_nad(&nad)?, ports))
    });
    entries
        .flat_map(|(network, ports)| {
            let addresses = ports.addresses.iter();
            // Ports of a layer3 network are on one switch for each node.
            let has_mac = network.topology == Topology::Layer2 && !ports.mac.is_empty();
            addresses
                .map(|net| PortKey::Address(net.addr()))
                .chain(has_mac.then(|| PortKey::Mac(ports.mac.to_ascii_lowercase())))
                .chain(ports.tunnel_id.map(PortKey::TunnelId))
                .map(|key| (network.name.as_str(), key))
                .collect::<Vec<_>>()
        })
        .collect()
}
