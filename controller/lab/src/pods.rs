//! Pods of a lab: their networks, nodes and addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_app::Cluster;
use patchbay_engine::db::Snapshot;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::names::network_prefix;
use patchbay_model::{Network, Role, Topology, mac_address};
use patchbay_schemas::nb::{LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};

use super::standalone;
use super::wire::packet::Mac;

/// Position of the first pod's address in a subnet, after the router and the node itself.
const FIRST_HOST: u128 = 3;
/// First tunnel key of a pod; OVN-Kubernetes reserves those before.
const FIRST_TUNNEL_KEY: u16 = 10;
/// Last tunnel key of a port, of 15 bits.
const LAST_TUNNEL_KEY: u16 = 32_767;

/// Namespace and name of a pod.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct PodName {
    /// Namespace.
    pub namespace: String,
    /// Name in the namespace.
    pub name: String,
}

impl fmt::Display for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// Pod to place: on which node, in which namespace.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct PodRequest {
    pub(crate) name: PodName,
    pub(crate) node: String,
}

/// Pod of a lab.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Pod {
    /// Namespace and name.
    pub name: PodName,
    /// Name of the pod's node.
    pub node: String,
    /// Name of the pod's primary network.
    pub network: String,
    /// Addresses with the length of the subnet, IPv4 first.
    pub addresses: Vec<IpNet>,
    /// Name of the logical switch port.
    pub port: String,
    pub(crate) gateways: Vec<IpAddr>,
    pub(crate) mac: Mac,
    pub(crate) mac_text: String,
    /// Tunnel key of the port. `None`: ovn-northd chooses one.
    pub(crate) tunnel_key: Option<u16>,
    pub(crate) nad_key: String,
}

/// Pod that has no place, with the reason.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Unplaced {
    pub(crate) pod: PodName,
    pub(crate) reason: String,
}

/// One pod for each primary network and node: `NAMESPACE/NAMESPACE-N`, in the first namespace of
/// the network, where N is the number of the node in the order of the manifests.
pub(crate) fn default_requests(cluster: &Cluster) -> Vec<PodRequest> {
    let nodes = cluster.zones();
    let networks = cluster.networks();
    let primary = networks.iter().filter(|n| n.role == Role::Primary);
    let namespaces = primary.filter_map(|network| network.namespaces.first());
    let pods = namespaces.flat_map(|namespace| {
        nodes.iter().zip(1..).map(move |(node, number)| PodRequest {
            name: PodName {
                namespace: namespace.clone(),
                name: format!("{namespace}-{number}"),
            },
            node: node.clone(),
        })
    });
    pods.collect()
}

/// Gives pods addresses. A pod keeps those that it has in `earlier` or in a row that another
/// controller has written.
///
/// `zones`: Northbound databases of the nodes, with the rows of the networks.
pub(crate) fn place(
    requests: &[PodRequest],
    cluster: &Cluster,
    zones: &BTreeMap<String, Snapshot>,
    earlier: &[Pod],
) -> (Vec<Pod>, Vec<Unplaced>) {
    let networks = cluster.networks();
    let mut pods = Vec::new();
    let mut unplaced = Vec::new();
    for request in requests {
        let nad = networks.primary_nad(&request.name.namespace);
        let placed = match nad.and_then(|nad| Some((nad, networks.by_nad(nad)?))) {
            Some((nad, network)) => {
                let zone = zones.get(&request.node);
                let zone = zone.ok_or_else(|| format!("there is no node {}", request.node));
                zone.and_then(|zone| site(request, network, &nad.to_string(), zone))
                    .map(|site| (site, network))
            }
            None => Err(format!(
                "namespace {} has no primary network",
                request.name.namespace
            )),
        };
        match placed {
            Ok((pod, network)) => pods.push((pod, network)),
            Err(reason) => unplaced.push(Unplaced {
                pod: request.name.clone(),
                reason,
            }),
        }
    }
    let mut used = Used::read(&pods, zones);
    for (pod, _) in &mut pods {
        let kept = earlier.iter().find(|e| e.name == pod.name);
        let kept = kept.filter(|e| (&e.network, &e.node) == (&pod.network, &pod.node));
        // Without a row the addresses are still those of the gateways.
        if let Some(kept) = kept.filter(|kept| {
            pod.mac == Mac::default() && has_subnets(kept, pod) && used.reserve(kept)
        }) {
            pod.clone_from(kept);
        }
    }
    let mut placed = Vec::new();
    for (mut pod, network) in pods {
        if pod.mac == Mac::default() {
            let Some(addresses) = used.allocate(&pod) else {
                unplaced.push(Unplaced {
                    pod: pod.name,
                    reason: format!("no address is left in network {}", pod.network),
                });
                continue;
            };
            pod.set_addresses(addresses);
            if network.topology == Topology::Layer2 {
                pod.tunnel_key = Some(used.next_key(&pod.network));
            }
        }
        placed.push(pod);
    }
    (placed, unplaced)
}

/// `true` if the addresses of an earlier pod are in the subnets of its new place.
fn has_subnets(earlier: &Pod, pod: &Pod) -> bool {
    let subnets = |pod: &Pod| -> Vec<IpNet> { pod.addresses.iter().map(IpNet::trunc).collect() };
    subnets(earlier) == subnets(pod) && earlier.gateways == pod.gateways
}

/// The pod at its place, with the addresses of the gateways in place of its own, unless a row of
/// another controller has its addresses.
fn site(
    request: &PodRequest,
    network: &Network,
    nad: &str,
    zone: &Snapshot,
) -> Result<Pod, String> {
    let inport = network.inport(&request.node);
    let ports = zone.typed::<LogicalRouterPort>();
    let router_port = ports.iter().flatten().find(|(_, port)| port.name == inport);
    let (_, router_port) = router_port.ok_or_else(|| {
        format!(
            "network {} has no router on node {}",
            network.name, request.node
        )
    })?;
    let mut gateways: Vec<IpNet> = router_port
        .networks
        .iter()
        .filter_map(|network| network.parse().ok())
        .filter(|gateway: &IpNet| network_has(network, *gateway))
        .collect();
    gateways.sort_by_key(|gateway| gateway.addr().is_ipv6());
    let PodName { namespace, name } = &request.name;
    let port = format!("{}{namespace}_{name}", network_prefix(nad));
    let mut pod = Pod {
        name: request.name.clone(),
        node: request.node.clone(),
        network: network.name.clone(),
        gateways: gateways.iter().map(IpNet::addr).collect(),
        addresses: gateways,
        port,
        mac: Mac::default(),
        mac_text: String::new(),
        tunnel_key: None,
        nad_key: nad.to_owned(),
    };
    let rows = zone.typed::<LogicalSwitchPort>();
    let row = rows.iter().flatten().find(|(_, row)| row.name == pod.port);
    if let Some((_, row)) = row.filter(|(_, row)| !standalone::is_own(&row.external_ids)) {
        pod.read_addresses(&row);
    }
    Ok(pod)
}

/// `true` if the address is in a pod subnet. Router ports also have addresses of other purposes.
fn network_has(network: &Network, address: IpNet) -> bool {
    let mut subnets = network.pod_subnets.iter();
    subnets.any(|subnet| subnet.cidr.contains(&address.addr()))
}

impl Pod {
    /// Addresses without the length of the subnet.
    pub fn ips(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.iter().map(IpNet::addr)
    }

    /// The value of the columns `addresses` and `port_security`.
    pub(crate) fn addresses_text(&self) -> String {
        let ips = self.ips().map(|ip| ip.to_string());
        let words: Vec<String> = [self.mac_text.clone()].into_iter().chain(ips).collect();
        words.join(" ")
    }

    fn set_addresses(&mut self, addresses: Vec<IpNet>) {
        let mac = addresses.first().map(|address| mac_address(address.addr()));
        self.mac_text = mac.unwrap_or_default();
        self.mac = parse_mac(&self.mac_text).unwrap_or_default();
        self.addresses = addresses;
    }

    /// Reads the addresses of a row. A row without MAC and addresses is left to the caller.
    fn read_addresses(&mut self, row: &LogicalSwitchPort) {
        let Some(text) = row.addresses.first() else {
            return;
        };
        let mut words = text.split(' ');
        let Some((mac_text, mac)) = words.next().and_then(|word| Some((word, parse_mac(word)?)))
        else {
            return;
        };
        let with_length = |ip: IpAddr| {
            let mut subnets = self.addresses.iter();
            let subnet = subnets.find(|subnet| subnet.contains(&ip))?;
            IpNet::new(ip, subnet.prefix_len()).ok()
        };
        let addresses = words.filter_map(|word| word.parse().ok());
        let addresses: Vec<IpNet> = addresses.filter_map(with_length).collect();
        if !addresses.is_empty() {
            self.addresses = addresses;
            (self.mac, self.mac_text) = (mac, mac_text.to_owned());
        }
    }
}

/// Addresses and tunnel keys that are in use, by network.
struct Used {
    addresses: BTreeMap<String, BTreeSet<IpAddr>>,
    keys: BTreeMap<String, BTreeSet<u16>>,
}

impl Used {
    /// Reads the addresses of the networks' switches, but for those of this lab's pods.
    fn read(pods: &[(Pod, &Network)], zones: &BTreeMap<String, Snapshot>) -> Self {
        let mut switches = BTreeSet::new();
        let mut addresses = BTreeMap::<String, BTreeSet<IpAddr>>::new();
        for (pod, network) in pods {
            let used = addresses.entry(pod.network.clone()).or_default();
            used.extend(&pod.gateways);
            let switch = network.switch(&pod.node);
            if !switches.insert((pod.node.clone(), switch.clone())) {
                continue;
            }
            let Some(zone) = zones.get(&pod.node) else {
                continue;
            };
            let rows = zone.typed::<LogicalSwitch>();
            let found = rows.iter().flatten().find(|(_, row)| row.name == switch);
            let ports = found.map(|(_, row)| row.ports).unwrap_or_default();
            for port in ports {
                let Ok(Some(row)) = zone.get(port) else {
                    continue;
                };
                if standalone::is_own(&row.external_ids) {
                    continue;
                }
                let words = row.addresses.iter().flat_map(|text| text.split(' '));
                used.extend(words.filter_map(|word| word.parse::<IpAddr>().ok()));
            }
        }
        Self {
            addresses,
            keys: BTreeMap::new(),
        }
    }

    /// Reserves the addresses and the key of a pod. Returns `false` if others have them.
    fn reserve(&mut self, pod: &Pod) -> bool {
        let used = self.addresses.entry(pod.network.clone()).or_default();
        let keys = self.keys.entry(pod.network.clone()).or_default();
        if pod.ips().any(|ip| used.contains(&ip))
            || pod.tunnel_key.is_some_and(|key| keys.contains(&key))
        {
            return false;
        }
        used.extend(pod.ips());
        keys.extend(pod.tunnel_key);
        true
    }

    /// Takes the first free address of each subnet. `None`: a subnet is full.
    fn allocate(&mut self, pod: &Pod) -> Option<Vec<IpNet>> {
        let used = self.addresses.entry(pod.network.clone()).or_default();
        let subnets = pod.addresses.iter();
        let addresses: Vec<IpNet> = subnets
            .map(|subnet| {
                let mut hosts = (FIRST_HOST..).map_while(|n| nth_address(*subnet, n));
                let is_last = |ip: &IpAddr| ip.is_ipv4() && *ip == subnet.broadcast();
                let free = hosts.find(|ip| !used.contains(ip) && !is_last(ip))?;
                IpNet::new(free, subnet.prefix_len()).ok()
            })
            .collect::<Option<_>>()?;
        used.extend(addresses.iter().map(IpNet::addr));
        Some(addresses)
    }

    fn next_key(&mut self, network: &str) -> u16 {
        let keys = self.keys.entry(network.to_owned()).or_default();
        let free = (FIRST_TUNNEL_KEY..=LAST_TUNNEL_KEY).find(|key| !keys.contains(key));
        let key = free.unwrap_or(FIRST_TUNNEL_KEY);
        keys.insert(key);
        key
    }
}

fn parse_mac(text: &str) -> Option<Mac> {
    let mut octets = text.split(':').map(|octet| u8::from_str_radix(octet, 16));
    let mut mac = Mac::default();
    for octet in &mut mac {
        *octet = octets.next()?.ok()?;
    }
    octets.next().is_none().then_some(mac)
}
