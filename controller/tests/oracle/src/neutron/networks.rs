//! Networks with their subnets, and the logical switches.

use ipnet::IpNet;
use serde_json::json;

use super::{Cloud, Network, NetworkKind, Subnet, host};
use crate::free_topology::{Rows, map, references};
use crate::random::Random;

impl Cloud {
    /// External networks first, then those of projects.
    pub(super) fn add_networks(&mut self, random: &mut Random, rows: &mut Rows) {
        for index in 0..=random.below(2) {
            let range = ["203.0.113.0/24", "198.51.100.0/24"][index];
            let ipv6 = random.chance(40).then(|| format!("2001:db8:{index}::/64"));
            let ranges = [range.to_owned()].into_iter().chain(ipv6);
            self.add_network(random, rows, NetworkKind::External, ranges);
        }
        for index in 1..=1 + random.below(4) {
            let kind = if random.chance(30) { NetworkKind::Vlan } else { NetworkKind::Tunnel };
            let second = random.chance(15).then(|| format!("10.1.{index}.0/24"));
            let ipv6 = random.chance(35).then(|| format!("fd00:0:0:{index}::/64"));
            let ranges = [format!("10.0.{index}.0/24")].into_iter();
            self.add_network(random, rows, kind, ranges.chain(second).chain(ipv6));
        }
    }

    fn add_network(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        kind: NetworkKind,
        ranges: impl Iterator<Item = String>,
    ) {
        let switch = format!("neutron-{}", Self::id(random));
        let has_localnet = match kind {
            NetworkKind::Tunnel => false,
            NetworkKind::Vlan => true,
            NetworkKind::External => random.chance(90),
        };
        let mut network = Network {
            kind,
            switch,
            subnets: Vec::new(),
            localnet: None,
            ports: Vec::new(),
            balancers: Vec::new(),
        };
        if has_localnet {
            let name = format!("provnet-{}", Self::id(random));
            let mut row = json!({"name": name, "type": "localnet", "addresses": "unknown",
                "options": map(&[("network_name", "physnet1"), ("localnet_learn_fdb", "false"),
                    ("mcast_flood", "false"), ("mcast_flood_reports", "true")])});
            if kind == NetworkKind::Vlan || random.chance(50) {
                row["tag_request"] = json!(100 + random.below(100));
                row["tag"] = row["tag_request"].clone();
            }
            network.ports.push(rows.insert("Logical_Switch_Port", row));
            network.localnet = Some(name);
        }
        for range in ranges {
            let range: IpNet = range.parse().expect("ranges are written as such");
            let has_gateway = kind == NetworkKind::External || random.chance(90);
            network.subnets.push(Subnet {
                gateway: has_gateway.then(|| host(range, 1)),
                has_dhcp: range.addr().is_ipv4() && random.chance(80),
                metadata: None,
                host_routes: Vec::new(),
                range,
            });
        }
        self.networks.push(network);
    }

    /// Host routes of subnets: to networks behind other routers, or past a machine.
    pub(super) fn add_host_routes(&mut self, random: &mut Random) {
        for network in 0..self.networks.len() {
            if !random.chance(40) {
                continue;
            }
            let near = self.ports_on(network).flat_map(|(_, port)| &port.addresses);
            let mut hops: Vec<_> = near.map(IpNet::addr).collect();
            let first = self.networks[network].subnets[0].range;
            hops.push(host(first, 10));
            hops.retain(|hop| first.contains(hop));
            let others = self.networks.iter().filter(|other| other.kind != NetworkKind::External);
            let mut targets: Vec<IpNet> = others.map(|other| other.subnets[0].range).collect();
            targets.extend(
                ["8.8.8.0/24", "172.16.0.0/16", "10.0.0.0/16"]
                    .map(|text| text.parse::<IpNet>().expect("ranges are written as such")),
            );
            for _ in 0..=random.below(2) {
                let route = (*random.pick(&targets), *random.pick(&hops));
                let routes = &mut self.networks[network].subnets[0].host_routes;
                if route.0 != first && routes.iter().all(|own| own.0 != route.0) {
                    routes.push(route);
                }
            }
        }
    }

    pub(super) fn insert_switches(&mut self, random: &mut Random, rows: &mut Rows) {
        let broadcast = if random.chance(30) { "false" } else { "true" };
        for network in &self.networks {
            let mut config = vec![
                ("mcast_snoop", "false"),
                ("mcast_flood_unregistered", "false"),
                ("vlan-passthru", "false"),
            ];
            let kind = match network.kind {
                NetworkKind::Tunnel => "geneve",
                NetworkKind::Vlan => "vlan",
                NetworkKind::External => {
                    config.push(("broadcast-arps-to-all-routers", broadcast));
                    "flat"
                }
            };
            let ids = [
                ("neutron:mtu", "1442"),
                ("neutron:network_type", kind),
                ("neutron:revision_number", "2"),
            ];
            let balancers: Vec<_> = network.balancers.clone();
            let row = json!({"name": network.switch, "ports": references(&network.ports),
                "load_balancer": references(&balancers), "other_config": map(&config),
                "external_ids": map(&ids)});
            rows.insert("Logical_Switch", row);
        }
    }

    /// Row of the DHCP options of a subnet. `None`: OVN gives no addresses there.
    pub(super) fn dhcp_options(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (network, number): (usize, usize),
    ) -> Option<String> {
        let mac = self.mac();
        let subnet = &self.networks[network].subnets[number];
        let server = subnet.gateway.or(subnet.metadata)?.to_string();
        let mut options = vec![
            ("server_id", server),
            ("server_mac", mac),
            ("lease_time", "43200".to_owned()),
            ("mtu", "1442".to_owned()),
            ("dns_server", "{8.8.8.8, 8.8.4.4}".to_owned()),
        ];
        if random.chance(30) {
            options.push(("domain_name", "\"cloud.example\"".to_owned()));
        }
        let gateway = subnet.gateway.map(|gateway| gateway.to_string());
        options.extend(gateway.iter().map(|own| ("router", own.clone())));
        let routes: Vec<_> = subnet.routes().map(|(to, hop)| format!("{to},{hop}")).collect();
        if !routes.is_empty() {
            options.push(("classless_static_route", format!("{{{}}}", routes.join(", "))));
        }
        let range = subnet.range.to_string();
        let row = json!({"cidr": range, "options": map(&options),
            "external_ids": map(&[("subnet_id", Self::id(random))])});
        Some(rows.insert("DHCP_Options", row))
    }
}

impl Subnet {
    /// Routes that machines get beside the default one, and then that one, too. Empty: only
    /// `router`.
    pub(super) fn routes(&self) -> impl Iterator<Item = (IpNet, std::net::IpAddr)> {
        let route = |text: &str| text.parse::<IpNet>().expect("ranges are written as such");
        let metadata = self.metadata.map(|own| (route("169.254.169.254/32"), own));
        let mut routes: Vec<_> =
            metadata.into_iter().chain(self.host_routes.iter().copied()).collect();
        if let (false, Some(gateway)) = (routes.is_empty(), self.gateway) {
            routes.push((route("0.0.0.0/0"), gateway));
        }
        routes.into_iter()
    }
}
