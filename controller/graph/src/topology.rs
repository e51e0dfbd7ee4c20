//! Switches, routers, machines and networks outside, as places with links.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort};
use patchbay_schemas::typed::{Ref, TableRow};

/// Number of machines of a switch that have places of their own. More are one place.
const MAX_MACHINES: usize = 6;
/// Prefix of the names of connect routers.
const CONNECT_ROUTER_PREFIX: &str = "connect_router_";
/// Prefix of the names of networks of cluster-wide custom resources.
const CLUSTER_PREFIX: &str = "cluster_udn_";
/// External id of the network of a switch or router.
const NETWORK_KEY: &str = "k8s.ovn.org/network";

/// Kind of a place.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum PlaceKind {
    /// Pod, virtual machine, or another switch port with addresses.
    Machine,
    /// Several machines of a switch.
    Machines,
    /// Switch.
    Switch,
    /// Router.
    Router,
    /// Router of a ClusterNetworkConnect.
    Connect,
    /// Network behind `localnet` ports.
    Outside,
    /// Network with all of its switches and routers.
    Network,
}

/// Place of a picture.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Place {
    /// Kind of the place.
    pub kind: PlaceKind,
    /// Name, the first line of its text.
    pub name: String,
    /// Second line: addresses, or numbers. Empty: there is none.
    pub detail: String,
    /// Network of a switch or router. `None`: the row names none.
    pub(crate) network: Option<String>,
    /// Number of machines that the place stands for.
    pub(crate) machines: usize,
}

/// Way of a packet through a picture.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Lit {
    /// Places on the way, in its order.
    pub places: Vec<usize>,
    /// Row or object that stops the packet at the last place. `None`: it arrives.
    pub stopped_by: Option<String>,
}

/// Places and their links.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// Places.
    pub places: Vec<Place>,
    /// Pairs of linked places, each once, the lower place first.
    pub links: BTreeSet<(usize, usize)>,
    /// Way of a packet.
    pub lit: Lit,
    /// Places by name: of devices, and of machines by the names of their ports and pods.
    named: BTreeMap<String, Vec<usize>>,
}

/// Devices of a database whose links are not known yet.
#[derive(Default)]
struct Open {
    /// Places of routers by the names of their ports.
    router_ports: BTreeMap<String, usize>,
    /// Pairs of a place and the router port that it leads to.
    to_routers: Vec<(usize, String)>,
}

impl Topology {
    /// Places of the databases of zones, by the names of the zones. A switch that several zones have,
    /// such as a transit switch, is one place; routers are one for each zone.
    pub fn new<'s>(zones: impl IntoIterator<Item = (&'s str, &'s Snapshot)>) -> Self {
        let mut topology = Self::default();
        let mut shared = BTreeMap::new();
        let zones: Vec<_> = zones.into_iter().collect();
        let has_zones = zones.len() > 1;
        for (zone, snapshot) in zones {
            let zone = has_zones.then_some(zone);
            topology.add_zone(zone, snapshot, &mut shared);
        }
        topology
    }

    /// Lights the way of a packet: names of machines, switches and routers, in its order. Names
    /// without a place are left out.
    pub fn light<'n>(
        &mut self,
        names: impl IntoIterator<Item = &'n str>,
        stopped_by: Option<String>,
    ) {
        let places = self.way(names);
        self.lit = Lit { places, stopped_by };
    }

    /// Places of names on the way of a packet, in its order, as [`Topology::light`] takes them.
    pub fn way<'n>(&self, names: impl IntoIterator<Item = &'n str>) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for name in names {
            let candidates = self.named.get(name).map_or(&[][..], Vec::as_slice);
            let near =
                |place: &&usize| places.last().is_none_or(|last| self.is_linked(*last, **place));
            let next = candidates.iter().find(near).or(candidates.first());
            if let Some(next) = next.filter(|next| places.last() != Some(*next)) {
                places.push(*next);
            }
        }
        places
    }

    /// Name of the network of a place: that of its row, or else the name of the place.
    pub fn network_name(&self, place: usize) -> &str {
        let Place { network, name, .. } = &self.places[place];
        short_network(network.as_deref().unwrap_or(name))
    }

    pub(crate) fn is_linked(&self, one: usize, other: usize) -> bool {
        self.links.contains(&(one.min(other), one.max(other)))
    }

    /// `true` if a link is part of the packet's way.
    pub(crate) fn is_lit(&self, (one, other): (usize, usize)) -> bool {
        let mut steps = self.lit.places.windows(2);
        steps.any(|step| (step[0].min(step[1]), step[0].max(step[1])) == (one, other))
    }

    /// Lines of text of a place, each with its class: the name, addresses or numbers, and what stops the
    /// packet there.
    pub(crate) fn lines(&self, place: usize) -> Vec<(&'static str, &str)> {
        let Place { name, detail, .. } = &self.places[place];
        let is_end = self.lit.places.last() == Some(&place);
        let stop = self.lit.stopped_by.as_deref().filter(|_| is_end).unwrap_or_default();
        let lines = [("name", name.as_str()), ("detail", detail), ("reason", stop)];
        lines.into_iter().filter(|(_, text)| !text.is_empty()).collect()
    }

    pub(crate) fn add(&mut self, place: Place, names: impl IntoIterator<Item = String>) -> usize {
        let number = self.places.len();
        self.places.push(place);
        for name in names {
            self.named.entry(name).or_default().push(number);
        }
        number
    }

    pub(crate) fn link(&mut self, one: usize, other: usize) {
        if one != other {
            self.links.insert((one.min(other), one.max(other)));
        }
    }

    /// Gives a name its places.
    pub(crate) fn set_name(&mut self, name: &str, places: Vec<usize>) {
        self.named.insert(name.to_owned(), places);
    }

    /// The names of a place.
    pub(crate) fn names(&self) -> impl Iterator<Item = (&str, &[usize])> {
        self.named.iter().map(|(name, places)| (name.as_str(), places.as_slice()))
    }

    fn add_zone(
        &mut self,
        zone: Option<&str>,
        snapshot: &Snapshot,
        shared: &mut BTreeMap<String, usize>,
    ) {
        let mut open = Open::default();
        let switches: BTreeMap<String, LogicalSwitch> =
            rows(snapshot).map(|row: LogicalSwitch| (row.name.clone(), row)).collect();
        let routers: BTreeMap<String, LogicalRouter> =
            rows(snapshot).map(|row: LogicalRouter| (row.name.clone(), row)).collect();
        for router in routers.values() {
            self.add_router(zone, router, snapshot, &mut open);
        }
        for switch in switches.values() {
            let ports: Vec<LogicalSwitchPort> = named(&switch.ports, snapshot, |port| &port.name);
            // A switch with remote ports is one for all zones.
            let is_shared = ports.iter().any(|port| port.r#type == "remote");
            let known = shared.get(&switch.name).copied().filter(|_| is_shared);
            let place = known.unwrap_or_else(|| self.add_switch(zone, switch, is_shared));
            if is_shared {
                shared.insert(switch.name.clone(), place);
            }
            self.add_ports(place, &ports, &mut open);
        }
        for (place, port) in open.to_routers {
            if let Some(router) = open.router_ports.get(&port) {
                self.link(place, *router);
            }
        }
    }

    fn add_router(
        &mut self,
        zone: Option<&str>,
        router: &LogicalRouter,
        snapshot: &Snapshot,
        open: &mut Open,
    ) {
        let ports: Vec<LogicalRouterPort> = named(&router.ports, snapshot, |port| &port.name);
        let connect = router.name.strip_prefix(CONNECT_ROUTER_PREFIX);
        let place = Place {
            kind: if connect.is_some() { PlaceKind::Connect } else { PlaceKind::Router },
            name: connect.map_or_else(|| router.name.clone(), |name| format!("connect {name}")),
            detail: zone.unwrap_or_default().to_owned(),
            network: router.external_ids.get(NETWORK_KEY).cloned(),
            machines: 0,
        };
        let number = self.add(place, [router.name.clone()]);
        for port in ports {
            if let Some(peer) = port.peer {
                open.to_routers.push((number, peer));
            }
            open.router_ports.insert(port.name, number);
        }
    }

    fn add_switch(&mut self, zone: Option<&str>, switch: &LogicalSwitch, is_shared: bool) -> usize {
        let config = &switch.other_config;
        let subnets = ["subnet", "ipv6_prefix"].iter().filter_map(|key| config.get(*key));
        let subnets: Vec<&str> = subnets.map(String::as_str).collect();
        let zone = zone.filter(|_| !is_shared && subnets.is_empty());
        let place = Place {
            kind: PlaceKind::Switch,
            name: switch.name.clone(),
            detail: zone.map_or_else(|| subnets.join(" "), str::to_owned),
            network: switch.external_ids.get(NETWORK_KEY).cloned(),
            machines: 0,
        };
        self.add(place, [switch.name.clone()])
    }

    fn add_ports(&mut self, switch: usize, ports: &[LogicalSwitchPort], open: &mut Open) {
        let mut machines = Vec::new();
        for port in ports {
            match port.r#type.as_str() {
                "router" => {
                    let peer = port.options.get("router-port").or(port.peer.as_ref());
                    open.to_routers.extend(peer.map(|peer| (switch, peer.clone())));
                }
                "localnet" => {
                    let outside = self.outside(port);
                    self.link(switch, outside);
                }
                "" if has_addresses(port) && !is_of_node(port) => machines.push(port),
                _ => {}
            }
        }
        self.places[switch].machines += machines.len();
        if machines.len() > MAX_MACHINES {
            let place = Place {
                kind: PlaceKind::Machines,
                name: format!("{} machines", machines.len()),
                detail: String::new(),
                network: None,
                machines: machines.len(),
            };
            let names = machines.iter().flat_map(|port| machine_names(port));
            let number = self.add(place, names);
            self.link(switch, number);
            return;
        }
        for port in machines {
            let place = Place {
                kind: PlaceKind::Machine,
                name: pod(port).unwrap_or_else(|| port.name.clone()),
                detail: addresses(port),
                network: None,
                machines: 1,
            };
            let number = self.add(place, machine_names(port));
            self.link(switch, number);
        }
    }

    /// The place of the network behind a `localnet` port.
    fn outside(&mut self, port: &LogicalSwitchPort) -> usize {
        let unnamed = String::from("unknown network");
        let network = port.options.get("network_name").unwrap_or(&unnamed);
        let name = match port.tag {
            Some(tag) => format!("{network} vlan {tag}"),
            None => network.clone(),
        };
        let is_outside = |place: &Place| place.kind == PlaceKind::Outside && place.name == name;
        if let Some(place) = self.places.iter().position(is_outside) {
            return place;
        }
        let place = Place {
            kind: PlaceKind::Outside,
            name: name.clone(),
            detail: String::new(),
            network: None,
            machines: 0,
        };
        self.add(place, [])
    }
}

fn rows<T: TableRow>(snapshot: &Snapshot) -> impl Iterator<Item = T> {
    snapshot.typed::<T>().iter().filter_map(|row| Some(row.ok()?.1)).collect::<Vec<_>>().into_iter()
}

/// Rows that references name, in the order of their names.
fn named<T: TableRow>(
    references: &BTreeSet<Ref<T>>,
    snapshot: &Snapshot,
    name: impl Fn(&T) -> &String,
) -> Vec<T> {
    let found = references.iter().filter_map(|reference| snapshot.get(*reference).ok()?);
    let mut found: Vec<T> = found.collect();
    found.sort_by(|one, other| name(one).cmp(name(other)));
    found
}

/// `true` for the port by which a node itself is in a network, as OVN-Kubernetes names it: `k8s-`, the
/// prefix of the network's names, and the node.
fn is_of_node(port: &LogicalSwitchPort) -> bool {
    port.name.starts_with("k8s-") && pod(port).is_none()
}

/// Name of a network without the prefix of cluster-wide networks.
pub fn short_network(name: &str) -> &str {
    name.strip_prefix(CLUSTER_PREFIX).unwrap_or(name)
}

fn has_addresses(port: &LogicalSwitchPort) -> bool {
    !port.addresses.is_empty() && !addresses(port).is_empty()
}

/// IP addresses of a port.
fn addresses(port: &LogicalSwitchPort) -> String {
    let texts = port.addresses.iter().chain(&port.dynamic_addresses);
    let words = texts.flat_map(|text| text.split_ascii_whitespace().skip(1));
    let own: Vec<&str> = words.filter(|word| *word != "dynamic").collect();
    own.join(" ")
}

/// The pod of a port, as `NAMESPACE/NAME`.
fn pod(port: &LogicalSwitchPort) -> Option<String> {
    let pod = port.external_ids.get("pod")?;
    if pod.contains('/') {
        return Some(pod.clone());
    }
    let namespace = port.external_ids.get("namespace")?;
    let (_, name) = port.name.rsplit_once(&format!("{namespace}_"))?;
    Some(format!("{namespace}/{name}"))
}

/// Names by which a machine is found.
fn machine_names(port: &LogicalSwitchPort) -> Vec<String> {
    [Some(port.name.clone()), pod(port)].into_iter().flatten().collect()
}
