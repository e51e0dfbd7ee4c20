//! Uplink of a node, by which its gateway routers reach the network outside of the cluster.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::Deserialize;

use super::address::mac_address;
use super::arithmetic::nth_address;
use super::ids::NodeId;
use super::network::IpFamily;
use super::settings::ClusterSettings;

/// Node annotation: addresses of the node with the lengths of their ranges, a JSON list.
pub const HOST_CIDRS: &str = "k8s.ovn.org/host-cidrs";
/// Node annotation: gateway configuration of the node, by network.
const GATEWAY_CONFIG: &str = "k8s.ovn.org/l3-gateway-config";
/// Node annotation: addresses of the interface that the bridge has, as JSON.
const PRIMARY_INTERFACE: &str = "k8s.ovn.org/node-primary-ifaddr";
/// Entry of the annotation that all networks use.
const SHARED_ENTRY: &str = "default";
/// Mode of a node without gateway.
const DISABLED: &str = "disabled";
/// Bridge of a node without annotation: the one that OVN-Kubernetes' installers create.
const DERIVED_BRIDGE: &str = "br-ex";
/// Node addresses, IPv4 first, of nodes without annotation: the ranges of kind's clusters.
const DERIVED_RANGES: [IpNet; 2] = [
    IpNet::V4(Ipv4Net::new_assert(Ipv4Addr::new(172, 18, 0, 0), 16)),
    IpNet::V6(Ipv6Net::new_assert(Ipv6Addr::new(0xfc00, 0xf853, 0xccd, 0xe793, 0, 0, 0, 0), 64)),
];

/// VLAN ids of ports: what the column `tag_request` can hold. 0 stands for no VLAN.
pub const VLAN_IDS: RangeInclusive<i64> = 1..=4095;

/// Bridge, addresses and next hops of a node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Uplink {
    /// `false`: the node has no gateway.
    pub is_enabled: bool,
    /// Name of the bridge to the network outside.
    pub bridge: String,
    /// MAC address of the gateway routers' external ports.
    pub mac: String,
    /// Addresses in the order of the annotation, with the prefix length of the range.
    pub addresses: Vec<IpNet>,
    /// Next hops of default routes, of any family.
    pub next_hops: Vec<IpAddr>,
    /// VLAN id of the packets. `None`: they are not tagged.
    pub vlan: Option<i64>,
    /// `true` if the node forwards node ports. `None`: as in the cluster's settings.
    pub node_ports: Option<bool>,
}

/// Entry of the annotation.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct RawConfig {
    mode: String,
    bridge_id: String,
    mac_address: String,
    ip_addresses: Vec<IpNet>,
    ip_address: Option<IpNet>,
    next_hops: Vec<IpAddr>,
    next_hop: Option<IpAddr>,
    vlan_id: String,
    node_port_enable: String,
}

impl Uplink {
    /// Reads the annotation of a node. `None`: it is missing or cannot be read.
    pub fn read(annotations: Option<&BTreeMap<String, String>>) -> Option<Self> {
        let text = annotations?.get(GATEWAY_CONFIG)?;
        let mut entries: BTreeMap<String, RawConfig> = serde_json::from_str(text).ok()?;
        let raw = entries.remove(SHARED_ENTRY)?;
        let mut addresses = raw.ip_addresses;
        if addresses.is_empty() {
            addresses.extend(raw.ip_address);
        }
        let mut next_hops = raw.next_hops;
        if next_hops.is_empty() {
            next_hops.extend(raw.next_hop);
        }
        Some(Self {
            is_enabled: raw.mode != DISABLED && !addresses.is_empty(),
            bridge: raw.bridge_id,
            mac: raw.mac_address,
            addresses,
            next_hops,
            vlan: raw.vlan_id.parse().ok().filter(|id| VLAN_IDS.contains(id)),
            node_ports: raw.node_port_enable.parse().ok(),
        })
    }

    /// The uplink of a node whose manifest does not name one. The node's address is the one of its
    /// id in the ranges of kind's clusters, and the first address of the range is the next hop.
    pub fn derived(id: NodeId) -> Self {
        let nth = |range: &IpNet, n: u128| {
            let address = nth_address(*range, n)?;
            IpNet::new(address, range.prefix_len()).ok()
        };
        let id = u128::from(id.get());
        let addresses: Vec<IpNet> =
            DERIVED_RANGES.iter().filter_map(|range| nth(range, id)).collect();
        let next_hops = DERIVED_RANGES.iter().filter_map(|range| nth(range, 1));
        Self {
            is_enabled: true,
            bridge: DERIVED_BRIDGE.to_owned(),
            mac: addresses.first().map(|address| mac_address(address.addr())).unwrap_or_default(),
            next_hops: next_hops.map(|hop| hop.addr()).collect(),
            addresses,
            vlan: None,
            node_ports: None,
        }
    }

    /// The uplink with the families of the cluster only.
    #[must_use]
    pub fn of_families(mut self, settings: &ClusterSettings) -> Self {
        self.addresses.retain(|address| settings.has_family(IpFamily::of_net(*address)));
        self.next_hops.retain(|hop| settings.has_family(IpFamily::of(*hop)));
        self
    }

    /// `true` if the node forwards node ports.
    pub fn has_node_ports(&self, settings: &ClusterSettings) -> bool {
        self.node_ports.unwrap_or(settings.node_ports)
    }

    /// The first address of a family.
    pub fn address(&self, family: IpFamily) -> Option<IpAddr> {
        let mut addresses = self.addresses.iter().map(IpNet::addr);
        addresses.find(|address| IpFamily::of(*address) == family)
    }

    /// The next hop of a family: as in OVN-Kubernetes, the last one.
    pub fn next_hop(&self, family: IpFamily) -> Option<IpAddr> {
        let mut hops = self.next_hops.iter().rev().copied();
        hops.find(|hop| IpFamily::of(*hop) == family)
    }
}

/// Reads the addresses of a node in all its networks. `None`: there is no annotation.
///
/// # Errors
/// The annotation is not a JSON list of addresses with the lengths of their ranges.
pub fn host_addresses(
    annotations: Option<&BTreeMap<String, String>>,
) -> Result<Option<Vec<IpAddr>>, serde_json::Error> {
    let text = annotations.and_then(|annotations| annotations.get(HOST_CIDRS));
    let Some(text) = text else {
        return Ok(None);
    };
    let networks: Vec<IpNet> = serde_json::from_str(text)?;
    Ok(Some(networks.iter().map(IpNet::addr).collect()))
}

/// Returns the annotations of a node about its addresses and its gateway that cannot be read, each
/// with the reason.
pub fn unreadable_annotations(
    annotations: Option<&BTreeMap<String, String>>,
) -> Vec<(&'static str, String)> {
    let text = |key| annotations.and_then(|annotations| annotations.get(key));
    let gateway = text(GATEWAY_CONFIG).and_then(|text| {
        let read = serde_json::from_str::<BTreeMap<String, RawConfig>>(text);
        read.err().map(|error| format!("not the gateway configurations of networks: {error}"))
    });
    let interface = text(PRIMARY_INTERFACE).and_then(|text| {
        let mut addresses = match serde_json::from_str::<BTreeMap<String, String>>(text) {
            Ok(addresses) => addresses.into_values(),
            Err(error) => return Some(format!("not addresses by family: {error}")),
        };
        // A family without an address may be empty.
        addresses.find_map(|address| {
            let error = address.parse::<IpNet>().err()?;
            (!address.is_empty()).then(|| format!("not addresses by family: {address:?}: {error}"))
        })
    });
    let hosts = host_addresses(annotations)
        .err()
        .map(|error| format!("not a list of addresses with the lengths of their ranges: {error}"));
    let found = [(HOST_CIDRS, hosts), (GATEWAY_CONFIG, gateway), (PRIMARY_INTERFACE, interface)]
        .into_iter();
    found.filter_map(|(key, reason)| Some((key, reason?))).collect()
}

/// Subnets of the interface that the node's bridge has. Empty: the annotation is missing or cannot
/// be read.
pub fn primary_interface(annotations: Option<&BTreeMap<String, String>>) -> Vec<IpNet> {
    let text = annotations.and_then(|annotations| annotations.get(PRIMARY_INTERFACE));
    // The keys are `ipv4` and `ipv6`.
    let addresses: Option<BTreeMap<String, String>> =
        text.and_then(|text| serde_json::from_str(text).ok());
    let addresses = addresses.into_iter().flat_map(BTreeMap::into_values);
    addresses.filter_map(|address| address.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(config: &str) -> Uplink {
        let annotations = [(GATEWAY_CONFIG.to_owned(), config.to_owned())].into();
        Uplink::read(Some(&annotations)).unwrap()
    }

    #[test]
    fn annotations_that_cannot_be_read_are_named() {
        let annotations = |values: [&str; 3]| {
            let keys = [HOST_CIDRS, GATEWAY_CONFIG, PRIMARY_INTERFACE];
            keys.into_iter()
                .zip(values)
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .collect::<BTreeMap<_, _>>()
        };
        let good = annotations([
            r#"["10.0.0.1/24"]"#,
            r#"{"default":{"mode":"shared"}}"#,
            r#"{"ipv4":"10.0.0.1/24","ipv6":""}"#,
        ]);
        assert!(unreadable_annotations(Some(&good)).is_empty());
        assert!(unreadable_annotations(None).is_empty());
        let bad = annotations([
            r#"["10.0.0.1"]"#,
            r#"{"default":{"next-hops":["x"]}}"#,
            r#"{"ipv4":"x"}"#,
        ]);
        let found = unreadable_annotations(Some(&bad));
        let keys: Vec<_> = found.iter().map(|(key, _)| *key).collect();
        assert_eq!(keys, [HOST_CIDRS, GATEWAY_CONFIG, PRIMARY_INTERFACE]);
    }

    #[test]
    fn the_annotation_is_read_with_its_single_valued_fields() {
        let uplink = read(
            r#"{"default":{"mode":"local","bridge-id":"breth0","mac-address":"02:00:00:00:00:01",
            "ip-address":"172.19.0.2/24","next-hop":"172.19.0.1","vlan-id":"7"}}"#,
        );
        assert!(uplink.is_enabled);
        assert_eq!(uplink.address(IpFamily::V4), "172.19.0.2".parse().ok());
        assert_eq!(uplink.next_hop(IpFamily::V4), "172.19.0.1".parse().ok());
        assert_eq!((uplink.next_hop(IpFamily::V6), uplink.vlan), (None, Some(7)));
        assert!(!read(r#"{"default":{"mode":"disabled"}}"#).is_enabled);
        assert_eq!(uplink.node_ports, None);
        let uplink = read(r#"{"default":{"node-port-enable":"false"}}"#);
        assert!(!uplink.has_node_ports(&ClusterSettings::default()));
    }

    #[test]
    fn addresses_keep_their_order_and_the_last_next_hop_of_a_family_counts() {
        let uplink = read(
            r#"{"default":{"ip-addresses":["fd00::2/64","172.19.0.2/24"],
            "next-hops":["172.19.0.1","172.19.0.254"],"vlan-id":"0"}}"#,
        );
        assert_eq!(uplink.next_hop(IpFamily::V4), "172.19.0.254".parse().ok());
        assert!(uplink.addresses[0].addr().is_ipv6());
        assert_eq!(uplink.vlan, None);
        for id in ["-1", "4096"] {
            let uplink = read(&json!({"default": {"vlan-id": id}}).to_string());
            assert_eq!(uplink.vlan, None);
        }
    }

    #[test]
    fn a_node_without_annotation_has_the_addresses_of_its_id() {
        let uplink = Uplink::derived(NodeId::try_new(7).unwrap());
        assert_eq!(uplink.address(IpFamily::V4), "172.18.0.7".parse().ok());
        assert_eq!(uplink.next_hop(IpFamily::V4), "172.18.0.1".parse().ok());
        assert_eq!(uplink.mac, "0a:58:ac:12:00:07");
        let settings =
            ClusterSettings { families: vec![IpFamily::V6], ..ClusterSettings::default() };
        let uplink = uplink.of_families(&settings);
        assert_eq!(uplink.address(IpFamily::V4), None);
        let address = "fc00:f853:ccd:e793::7".parse().ok();
        assert_eq!(uplink.address(IpFamily::V6), address);
    }
}
