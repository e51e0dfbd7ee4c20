//! Addresses of a pod in its networks: the annotation `k8s.ovn.org/pod-networks`.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// Annotation of a pod: its addresses, a JSON object by key of the attachment.
pub const POD_NETWORKS: &str = "k8s.ovn.org/pod-networks";
/// Key of the default network in the annotation.
pub const DEFAULT_NETWORK_KEY: &str = "default";

/// Addresses of a pod by key of the attachment: `<namespace>/<definition>`, or `default`.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(transparent)]
pub struct PodNetworks(
    /// In boxes, because a node of a map has room for eleven values.
    BTreeMap<String, Box<PodNetwork>>,
);

impl PodNetworks {
    /// Reads the text of the annotation.
    ///
    /// # Errors
    /// The text is not a JSON object, or a field has another type.
    pub fn parse(text: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(text)
    }

    /// Text of the annotation, as OVN-Kubernetes writes it.
    ///
    /// # Panics
    /// Never: all fields have a JSON form.
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("texts, numbers and lists have a JSON form")
    }

    /// Addresses in one network.
    pub fn get(&self, key: &str) -> Option<&PodNetwork> {
        self.0.get(key).map(|network| &**network)
    }

    /// Sets the addresses in one network.
    pub fn insert(&mut self, key: &str, network: PodNetwork) {
        self.0.insert(key.to_owned(), Box::new(network));
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &PodNetwork)> {
        self.0.iter().map(|(key, network)| (key.as_str(), &**network))
    }

    /// `true` if there are addresses in a primary network other than the default one.
    pub fn has_primary(&self) -> bool {
        self.iter().any(|(key, network)| key != DEFAULT_NETWORK_KEY && network.role == "primary")
    }

    /// `true` if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Addresses of a pod in one network.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(from = "Entry", into = "Entry")]
pub struct PodNetwork {
    /// Addresses with the length of the subnet. Empty: the network does not manage addresses.
    pub addresses: Vec<IpNet>,
    /// MAC address.
    pub mac: String,
    /// Next hops of the default routes.
    pub gateways: Vec<IpAddr>,
    /// Further routes.
    pub routes: Vec<PodRoute>,
    /// Link-local address of the gateway, in primary layer2 networks with IPv6.
    pub link_local_gateway: Option<Ipv6Addr>,
    /// Tunnel key of the port, in layer2 networks.
    pub tunnel_id: Option<u16>,
    /// Role of the network for the pod: `primary`, `secondary` or `infrastructure-locked`.
    pub role: String,
}

impl PodNetwork {
    /// MAC and addresses as in columns of a switch port.
    pub fn port_addresses(&self) -> String {
        let addresses = self.addresses.iter();
        addresses
            .fold(self.mac.clone(), |text, net| text + " " + &super::format_address(net.addr()))
    }
}

/// Route of a pod.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct PodRoute {
    /// Destination.
    pub dest: IpNet,
    /// Next hop.
    #[serde(rename = "nextHop")]
    pub next_hop: IpAddr,
}

/// Entry of the annotation, with the fields in the order of OVN-Kubernetes.
#[derive(Default, Deserialize, Serialize)]
#[serde(default)]
struct Entry {
    /// `null` without addresses.
    ip_addresses: Option<Vec<IpNet>>,
    mac_address: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gateway_ips: Vec<IpAddr>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    routes: Vec<PodRoute>,
    /// The only address.
    #[serde(skip_serializing_if = "Option::is_none")]
    ip_address: Option<IpNet>,
    /// The only gateway of the only address.
    #[serde(skip_serializing_if = "Option::is_none")]
    gateway_ip: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ipv6_lla_gateway_ip: Option<Ipv6Addr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tunnel_id: Option<u16>,
    #[serde(skip_serializing_if = "String::is_empty")]
    role: String,
}

impl From<PodNetwork> for Entry {
    fn from(network: PodNetwork) -> Self {
        let ip_address = match network.addresses[..] {
            [only] => Some(only),
            _ => None,
        };
        let gateway_ip = match network.gateways[..] {
            [only] if ip_address.is_some() => Some(only),
            _ => None,
        };
        Self {
            ip_addresses: Some(network.addresses).filter(|addresses| !addresses.is_empty()),
            mac_address: network.mac,
            gateway_ips: network.gateways,
            routes: network.routes,
            ip_address,
            gateway_ip,
            ipv6_lla_gateway_ip: network.link_local_gateway,
            tunnel_id: network.tunnel_id,
            role: network.role,
        }
    }
}

impl From<Entry> for PodNetwork {
    fn from(entry: Entry) -> Self {
        Self {
            addresses: entry.ip_addresses.unwrap_or_else(|| entry.ip_address.into_iter().collect()),
            mac: entry.mac_address,
            gateways: if entry.gateway_ips.is_empty() {
                entry.gateway_ip.into_iter().collect()
            } else {
                entry.gateway_ips
            },
            routes: entry.routes,
            link_local_gateway: entry.ipv6_lla_gateway_ip,
            tunnel_id: entry.tunnel_id,
            role: entry.role,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_written_as_they_are_read() {
        for text in [
            r#"{"blue/l3":{"ip_addresses":["10.10.0.3/24"],"mac_address":"0a:58:0a:0a:00:03","gateway_ips":["10.10.0.1"],"routes":[{"dest":"10.10.0.0/16","nextHop":"10.10.0.1"}],"ip_address":"10.10.0.3/24","gateway_ip":"10.10.0.1","role":"primary"}}"#,
            r#"{"blue/lan":{"ip_addresses":null,"mac_address":"02:00:00:00:00:09","role":"secondary"}}"#,
            r#"{"blue/s2":{"ip_addresses":["10.80.0.1/24","fd80::1/64"],"mac_address":"0a:58:0a:50:00:01","tunnel_id":10,"role":"secondary"}}"#,
        ] {
            assert_eq!(PodNetworks::parse(text).unwrap().to_json(), text);
        }
        assert!(PodNetworks::parse(r#"{"default":{"ip_addresses":["10.0.0.0.1/24"]}}"#).is_err());
    }

    #[test]
    fn a_port_has_the_mac_and_then_all_addresses() {
        let network = PodNetwork {
            mac: "0a:58:0a:50:00:01".to_owned(),
            addresses: ["10.80.0.1/24", "fd80::1/64"].map(|net| net.parse().unwrap()).into(),
            ..PodNetwork::default()
        };
        assert_eq!(network.port_addresses(), "0a:58:0a:50:00:01 10.80.0.1 fd80::1");
    }
}
