//! Columns that some rows have and that do not change where packets go, or only for some packets:
//! meters, mirrors, samples, DHCP, multicast, chassis, tags.

use serde_json::{Value, json};

use super::rows::{Rows, map, references, set};
use super::{Families, Topology};
use crate::random::Random;

/// Pairs of a map that some rows have.
type Options = Vec<(&'static str, &'static str)>;

/// The pairs, each with its probability in percent.
fn some_options(random: &mut Random, choices: &[(usize, &'static str, &'static str)]) -> Options {
    let chosen = choices.iter().filter(|(percent, _, _)| random.chance(*percent));
    chosen.map(|(_, key, value)| (*key, *value)).collect()
}

/// Adds pairs to a map.
fn add_pairs(own: &mut Value, pairs: &[(&str, &str)]) {
    if let Some(own) = own[1].as_array_mut() {
        own.extend(pairs.iter().map(|(key, value)| json!([key, value])));
    }
}

impl Topology {
    /// Adds columns to the row of a switch.
    pub(super) fn vary_switch(&self, random: &mut Random, rows: &mut Rows, row: &mut Value) {
        let config = some_options(
            random,
            &[
                (15, "mcast_snoop", "true"),
                (10, "mcast_querier", "false"),
                (10, "mcast_flood_unregistered", "true"),
                (15, "enable-stateless-acl-with-lb", "true"),
                (10, "broadcast-arps-to-all-routers", "false"),
                (10, "fdb_age_threshold", "60"),
                (8, "vlan-passthru", "true"),
                (10, "ct-zone-limit", "100"),
            ],
        );
        add_pairs(&mut row["other_config"], &config);
        if random.chance(10) {
            row["copp"] = self.copp(rows);
        }
    }

    /// Control plane protection with a meter.
    fn copp(&self, rows: &mut Rows) -> Value {
        let number = rows.len();
        let band =
            rows.insert("Meter_Band", json!({"action": "drop", "rate": 10, "burst_size": 5}));
        let meter = self.name(&format!("m{number}"));
        rows.insert("Meter", json!({"name": meter, "unit": "pktps", "bands": references(&[band])}));
        let meters = ["arp", "reject", "event-elb", "icmp4-error"].map(|key| (key, &meter));
        let row = json!({"name": self.name(&format!("copp{number}")), "meters": map(&meters)});
        json!(["named-uuid", rows.insert("Copp", row)])
    }

    /// Adds columns to the row of a machine's port. `has_unknown`: its addresses include `unknown`.
    pub(super) fn vary_machine(
        &self,
        random: &mut Random,
        rows: &mut Rows,
        row: &mut Value,
        has_unknown: bool,
    ) {
        let options = some_options(
            random,
            &[
                (10, "disable_arp_nd_rsp", "true"),
                (5, "mcast_flood", "true"),
                (5, "requested-chassis", "c1,c2"),
                (5, "iface-id-ver", "1"),
                (5, "qos_max_rate", "1000000"),
            ],
        );
        row["options"] = map(&options);
        if has_unknown && random.chance(30) {
            add_pairs(&mut row["options"], &[("force_fdb_lookup", "true")]);
        } else if self.families == Families::Ipv4 && random.chance(5) {
            // ovn-trace follows no neighbour discovery, which such a port does not hear. It does
            // not learn the MAC address of a sender either, so that a port for unknown ones has to
            // hear.
            add_pairs(&mut row["options"], &[("receive_multicast", "false")]);
        }
        if random.chance(10) {
            let options = [
                ("lease_time", "3600"),
                ("router", "10.1.0.1"),
                ("server_id", "10.1.0.1"),
                ("server_mac", "0a:00:00:00:00:01"),
            ];
            let dhcp = rows
                .insert("DHCP_Options", json!({"cidr": "10.1.0.0/24", "options": map(&options)}));
            let dhcpv6 = json!({"cidr": "fd00:10:1::/64",
                "options": map(&[("server_id", "0a:00:00:00:00:01")])});
            let dhcpv6 = rows.insert("DHCP_Options", dhcpv6);
            row["dhcpv4_options"] = json!(["named-uuid", dhcp]);
            row["dhcpv6_options"] = json!(["named-uuid", dhcpv6]);
        }
        if random.chance(10) {
            row["mirror_rules"] = references(&[self.mirror(random, rows)]);
        }
    }

    /// Adds a health check to the row of a machine with an address. Questions ask for its source.
    pub(super) fn check_machine(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        row: &mut Value,
        address: &str,
    ) {
        if !random.chance(5) {
            return;
        }
        let (network, _) = address.rsplit_once('.').expect("an IPv4 address");
        let source = format!("{network}.251");
        let protocol = *random.pick(&["icmp", "tcp"]);
        let checked = if random.chance(80) { address } else { "10.9.9.9" };
        let check = json!({"protocol": protocol, "address": checked, "src_ip": source,
            "port": 80});
        let check = rows.insert("Logical_Switch_Port_Health_Check", check);
        row["health_checks"] = references(&[check]);
        self.destinations.extend([source.clone(), source]);
    }

    /// Networks for which a switch answers ARP requests by the port to its router.
    pub(super) fn arp_proxy(&mut self, random: &mut Random, index: usize) -> Option<String> {
        // Requests for addresses of other families are not followed.
        if self.families != Families::Ipv4 || !random.chance(10) {
            return None;
        }
        self.has_proxy = true;
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mac = format!("0a:{number:02x}:00:00:{index:02x}:50");
        let destinations = [80, 100].map(|host| format!("10.{index}.0.{host}"));
        self.destinations.extend(destinations);
        let choices = [
            format!("10.{index}.0.80"),
            format!("10.{index}.0.80 10.{index}.0.96/28"),
            format!("{mac} 10.{index}.0.80"),
            format!("{mac} 10.{index}.0.0/24"),
            format!("00:00:00:00:00:00 10.{index}.0.0/24"),
            mac,
        ];
        Some(random.pick(&choices).clone())
    }

    fn mirror(&self, random: &mut Random, rows: &mut Rows) -> String {
        let sink = self.name("s1-v10");
        let (kind, sink) = *random.pick(&[
            ("gre", "192.0.2.1"),
            ("erspan", "192.0.2.1"),
            ("local", "any"),
            ("lport", &sink),
        ]);
        let filter = *random.pick(&["from-lport", "to-lport", "both"]);
        let mut row = json!({"name": self.name(&format!("mir{}", rows.len())), "type": kind,
            "filter": filter, "sink": sink, "index": 1});
        if kind == "lport" && random.chance(50) {
            let action = *random.pick(&["mirror", "skip"]);
            let rule = json!({"action": action, "match": "ip4 && tcp", "priority": 1});
            row["mirror_rules"] = references(&[rows.insert("Mirror_Rule", rule)]);
        }
        rows.insert("Mirror", row)
    }

    /// Adds columns to the row of an ACL.
    pub(super) fn vary_acl(&mut self, random: &mut Random, rows: &mut Rows, row: &mut Value) {
        let options = some_options(
            random,
            &[(10, "persist-established", "true"), (10, "log-related", "true")],
        );
        add_pairs(&mut row["options"], &options);
        if random.chance(5) {
            row["network_function_group"] = self.function_group(random, rows);
        }
        if random.chance(10) {
            let collectors = references(std::slice::from_ref(&self.collector));
            let sample = json!({"metadata": rows.len() + 1, "collectors": collectors});
            let sample = rows.insert("Sample", sample);
            row["sample_new"] = json!(["named-uuid", sample]);
        }
    }

    /// The topology's group of a network function between its first two machines.
    fn function_group(&mut self, random: &mut Random, rows: &mut Rows) -> Value {
        if let Some(group) = &self.function_group {
            return group.clone();
        }
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mut functions = Vec::new();
        if self.machines.len() > 1 && random.chance(80) {
            let ports = [0, 1].map(|number| json!(["named-uuid", self.machines[number].row]));
            let row = json!({"name": self.name("nf"), "id": number + 1, "inport": ports[0],
                "outport": ports[1]});
            functions.push(rows.insert("Network_Function", row));
        }
        let fallback = *random.pick(&["fail-open", "fail-close"]);
        let row = json!({"name": self.name("nfg"), "id": number + 1, "mode": "inline",
            "fallback": fallback, "network_function": references(&functions)});
        let group = json!(["named-uuid", rows.insert("Network_Function_Group", row)]);
        self.function_group.insert(group).clone()
    }

    /// A row of `QoS` that limits and marks packets on their way out.
    pub(super) fn limit(&mut self, random: &mut Random, rows: &mut Rows) -> String {
        let row = json!({"direction": "to-lport", "priority": self.next_priority(random),
            "match": self.ip_match(random), "action": ["map", [["dscp", 10]]],
            "bandwidth": ["map", [["rate", 1000], ["burst", 100]]]});
        rows.insert("QoS", row)
    }

    /// Adds columns to the row of a router port to a switch of machines.
    pub(super) fn vary_router_port(
        &self,
        random: &mut Random,
        row: &mut Value,
        options: Options,
        switch: &str,
    ) {
        let mut options = options;
        options.extend(some_options(
            random,
            &[
                (10, "reside-on-redirect-chassis", "true"),
                (10, "mcast_flood", "true"),
                (10, "gateway_mtu_bypass", "tcp"),
                (5, "prefix_delegation", "true"),
            ],
        ));
        row["options"] = map(&options);
        // ARP replies of the target go nowhere, so that a machine outside may have its address.
        if !self.leads_outside(switch) && random.chance(10) {
            let target = random.pick(&self.machines).port.clone();
            let target = if random.chance(70) { format!("{switch}-v10") } else { target };
            let protocols = *random.pick(&["BGP", "BFD", "BGP,BFD"]);
            let redirect =
                [("routing-protocol-redirect", &*target), ("routing-protocols", protocols)];
            add_pairs(&mut row["options"], &redirect);
        }
        if random.chance(15) {
            let configs = [("address_mode", "slaac"), ("send_periodic", "true"), ("mtu", "1400")];
            row["ipv6_ra_configs"] = map(&configs);
        }
    }

    /// Makes a row of a router port that of a gateway port.
    pub(super) fn add_chassis(
        &self,
        random: &mut Random,
        rows: &mut Rows,
        row: &mut Value,
        name: &str,
    ) {
        if random.chance(40) {
            let count = random.below(3);
            let members: Vec<_> = (1..=count)
                .map(|number| {
                    let chassis = format!("c{number}");
                    let row = json!({"chassis_name": chassis, "priority": number});
                    rows.insert("HA_Chassis", row)
                })
                .collect();
            let group = json!({"name": self.name(name), "ha_chassis": references(&members)});
            row["ha_chassis_group"] = json!(["named-uuid", rows.insert("HA_Chassis_Group", group)]);
        } else {
            let chassis = json!({"name": self.name(name), "chassis_name": "c1", "priority": 1});
            row["gateway_chassis"] = references(&[rows.insert("Gateway_Chassis", chassis)]);
        }
        let options = some_options(
            random,
            &[(15, "redirect-type", "bridged"), (15, "redirect-type", "overlay")],
        );
        row["options"] = map(&options[..options.len().min(1)]);
    }

    /// Adds columns to the row of a router.
    pub(super) fn vary_router(
        &self,
        random: &mut Random,
        rows: &mut Rows,
        row: &mut Value,
        options: Options,
    ) {
        let mut options = options;
        options.extend(some_options(
            random,
            &[
                (10, "ct-commit-all", "true"),
                (10, "mcast_relay", "true"),
                (10, "always_learn_from_arp_request", "false"),
                (10, "dynamic_neigh_routers", "true"),
                (10, "mac_binding_age_threshold", "300"),
                (5, "snat-ct-zone", "7"),
            ],
        ));
        row["options"] = map(&options);
        if random.chance(10) {
            row["copp"] = self.copp(rows);
        }
    }

    /// A port whose addresses OVN chooses, and one behind the tag of another port.
    pub(super) fn chosen_ports(
        &mut self,
        random: &mut Random,
        rows: &mut Rows,
        (switch, index): (&str, usize),
        config: &mut Value,
    ) -> Vec<String> {
        let number: usize = self.prefix[1..].parse().expect("topologies are numbered");
        let mut ports = Vec::new();
        if random.chance(15) {
            let subnet = format!("10.{index}.0.0/24");
            let taken =
                format!("10.{index}.0.2..10.{index}.0.69 10.{index}.0.71..10.{index}.0.254");
            add_pairs(config, &[("subnet", &*subnet), ("exclude_ips", &*taken)]);
            let addresses = format!("0a:{number:02x}:00:00:{index:02x}:46 dynamic");
            ports.push(rows.insert(
                "Logical_Switch_Port",
                json!({"name": format!("{switch}-dyn"), "addresses": set(&[addresses])}),
            ));
            if self.families == Families::Ipv4 {
                self.destinations.push(format!("10.{index}.0.70"));
            }
        }
        if random.chance(15) {
            let addresses = format!("0a:{number:02x}:00:00:{index:02x}:47 10.{index}.0.71");
            ports.push(rows.insert(
                "Logical_Switch_Port",
                json!({"name": format!("{switch}-sub"), "addresses": addresses,
                    "parent_name": format!("{switch}-v10"), "tag_request": 0}),
            ));
            self.destinations.push(format!("10.{index}.0.71"));
        }
        ports
    }
}
