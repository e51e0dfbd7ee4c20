//! Rows that networks of all topologies have.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, GatewayChassis, LoadBalancerGroup, LogicalRouterPort,
    LogicalSwitchPort, PortGroup,
};

use patchbay_model::external_ids::{hashed_name, key};
use patchbay_model::names::network_prefix;
use patchbay_model::{IpFamily, Role, Topology, mac_address};

use super::site::Site;
use super::{PortGroupRows, RouterPortRows};

/// A map column.
pub(super) type TextMap = BTreeMap<String, String>;

const CLUSTER_PORT_GROUP: &str = "clusterPortGroup";
const CLUSTER_ROUTER_PORT_GROUP: &str = "clusterRtrPortGroup";
/// Name of the ACLs for packets that a load balancer has sent back to their source.
const HAIRPIN_ACL: &str = "allow-hairpinning";

pub(super) fn texts<const N: usize>(pairs: [(&str, &str); N]) -> TextMap {
    pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}

impl Site<'_> {
    /// Prefix of the names of the network's rows.
    pub(super) fn prefix(&self) -> String {
        network_prefix(&self.network.name)
    }

    /// External ids of most rows: network and topology.
    pub(super) fn ids(&self) -> TextMap {
        texts([(key::NETWORK, &self.network.name), (key::TOPOLOGY, self.network.topology.as_str())])
    }

    /// External ids of rows that are treated by role.
    pub(super) fn ids_with_role(&self) -> TextMap {
        let role = match self.network.role {
            Role::Primary => "primary",
            Role::Secondary => "secondary",
        };
        let mut ids = self.ids();
        ids.insert(key::ROLE.to_owned(), role.to_owned());
        ids
    }

    /// External ids of the router that joins the network's parts.
    pub(super) fn router_ids(&self) -> TextMap {
        let mut ids = self.ids();
        ids.insert("k8s-cluster-router".to_owned(), "yes".to_owned());
        ids
    }

    /// The network's groups of load balancers.
    pub(super) fn load_balancer_groups(&self) -> Vec<LoadBalancerGroup> {
        let names = ["clusterLBGroup", "clusterSwitchLBGroup", "clusterRouterLBGroup"];
        let group =
            |name| LoadBalancerGroup { name: self.prefix() + name, ..LoadBalancerGroup::default() };
        names.map(group).into()
    }

    /// The groups that the network's switches use.
    pub(super) fn switch_load_balancer_groups(&self) -> Vec<String> {
        ["clusterLBGroup", "clusterSwitchLBGroup"].map(|name| self.prefix() + name).into()
    }

    /// A router port that is bound to the zone's chassis. `None`: the chassis is not known yet. With
    /// one database of all nodes it is bound to none, because each node routes for its pods.
    pub(super) fn bound_port(&self, port: LogicalRouterPort) -> Option<RouterPortRows> {
        if self.is_central() {
            return Some(port.into());
        }
        let chassis = self.node.chassis.id()?;
        let gateway_chassis = GatewayChassis {
            name: format!("{}-{chassis}", port.name),
            chassis_name: chassis.to_owned(),
            priority: 1,
            ..GatewayChassis::default()
        };
        Some(RouterPortRows { port, gateway_chassis: Some(gateway_chassis) })
    }

    /// The port of the node itself.
    pub(super) fn management_port(&self, addresses: &[IpAddr]) -> LogicalSwitchPort {
        LogicalSwitchPort {
            name: format!("k8s-{}{}", self.prefix(), self.node.name()),
            addresses: [mac_and_addresses(addresses)].into(),
            ..LogicalSwitchPort::default()
        }
    }

    /// The port of the network's switch on the node towards its router.
    pub(super) fn router_side_port(&self) -> String {
        let start = match self.network.topology {
            Topology::Layer3 => "stor",
            Topology::Layer2 | Topology::Vpc => "stotr",
        };
        format!("{start}-{}", self.network.switch(self.node.name()))
    }

    /// Lets the node itself reach the pods in spite of policies.
    pub(super) fn management_acls(&self, switch: &str, addresses: &[IpAddr]) -> Vec<Acl> {
        let acl = |address: &IpAddr| {
            let family = if address.is_ipv4() { "ip4" } else { "ip6" };
            let mut external_ids = self.owned("NetpolNode", &[switch, &address.to_string()]);
            external_ids.insert(key::NAME.to_owned(), switch.to_owned());
            external_ids.insert("ip".to_owned(), address.to_string());
            Acl {
                action: AclAction::AllowRelated,
                direction: AclDirection::ToLport,
                priority: 1001,
                tier: 2,
                r#match: format!("{family}.src=={address}"),
                meter: Some("acl-logging".to_owned()),
                external_ids,
                ..Acl::default()
            }
        };
        addresses.iter().map(acl).collect()
    }

    /// The groups of ports that policies refer to, with the node's own port in the first one.
    /// `None`: the network has no port on the node yet. `router_port`: the switch's port to the
    /// router, if multicast passes it.
    pub(super) fn port_groups(
        &self,
        management_port: Option<&str>,
        router_port: Option<&str>,
    ) -> Vec<PortGroupRows> {
        let group = |name: &str, ports: Vec<String>, acls: Vec<Acl>| {
            let mut external_ids = self.owned("Cluster", &[name]);
            external_ids.insert(key::NAME.to_owned(), name.to_owned());
            let group = PortGroup {
                name: hashed_name(&external_ids[key::ID]),
                external_ids,
                ..PortGroup::default()
            };
            PortGroupRows { group, ports, acls }
        };
        let (mut ports, mut acls) = (Vec::new(), Vec::new());
        if let Some(port) = management_port {
            ports.push(port.to_owned());
            acls = self.hairpin_acls();
        }
        let mut groups = vec![
            group(CLUSTER_PORT_GROUP, ports, acls),
            group(
                CLUSTER_ROUTER_PORT_GROUP,
                router_port.map(str::to_owned).into_iter().collect(),
                Vec::new(),
            ),
        ];
        if self.has_multicast() {
            let [all, router] = groups.as_mut_slice() else {
                return groups;
            };
            all.acls.extend(self.multicast_drop_acls());
            router.acls = self.multicast_router_acls(&router.group.name);
        }
        groups
    }

    /// Lets packets pass that a load balancer has sent back to their source.
    fn hairpin_acls(&self) -> Vec<Acl> {
        let sources: Vec<String> = self
            .cluster_families()
            .filter_map(|family| {
                let version = match family {
                    IpFamily::V4 => "ip4",
                    IpFamily::V6 => "ip6",
                };
                let address = self.hairpin_masquerade(family)?;
                Some(format!("{version}.src == {address}"))
            })
            .collect();
        let matched = match &sources[..] {
            [source] => source.clone(),
            _ => format!("({})", sources.join(" || ")),
        };
        let acl = |name: &str, direction: AclDirection, options: TextMap| {
            let mut external_ids = self.owned("NetpolDefault", &[HAIRPIN_ACL, name]);
            external_ids.extend(texts([(key::NAME, HAIRPIN_ACL), ("direction", name)]));
            Acl {
                action: AclAction::AllowRelated,
                direction,
                priority: 1001,
                tier: 2,
                r#match: matched.clone(),
                meter: Some("acl-logging".to_owned()),
                options,
                external_ids,
                ..Acl::default()
            }
        };
        let after = texts([("apply-after-lb", "true")]);
        vec![
            acl("Egress", AclDirection::FromLport, after),
            acl("Ingress", AclDirection::ToLport, TextMap::new()),
        ]
    }

    /// External ids with the owner and the identity of a row.
    pub(super) fn owned(&self, owner_type: &str, values: &[&str]) -> TextMap {
        let controller = format!("{}-network-controller", self.network.name);
        let id = [&[controller.as_str(), owner_type], values].concat().join(":");
        texts([(key::OWNER_CONTROLLER, &controller), (key::OWNER_TYPE, owner_type), (key::ID, &id)])
    }
}

/// A switch port that leads to a router's port.
pub(super) fn router_side(name: String, router_port: &str) -> LogicalSwitchPort {
    LogicalSwitchPort {
        name,
        r#type: "router".to_owned(),
        addresses: ["router".to_owned()].into(),
        options: texts([("router-port", router_port)]),
        ..LogicalSwitchPort::default()
    }
}

/// Columns of a switch with its subnets.
pub(super) fn address_config(subnets: &[IpNet]) -> TextMap {
    let entry = |subnet: &IpNet| match subnet {
        IpNet::V4(subnet) => ("subnet".to_owned(), subnet.trunc().to_string()),
        IpNet::V6(subnet) => ("ipv6_prefix".to_owned(), subnet.network().to_string()),
    };
    subnets.iter().map(entry).collect()
}

/// Configuration that joins a switch with those of its name in other zones.
pub(super) fn interconnect_config(switch: &str, key: &str) -> TextMap {
    let mut config = snooping_config();
    config.extend(texts([("interconn-ts", switch), ("requested-tnl-key", key)]));
    config
}

/// Makes a switch send multicast to group members, and what no member has asked for to all.
pub(super) fn snooping_config() -> TextMap {
    texts([
        ("mcast_snoop", "true"),
        ("mcast_querier", "false"),
        ("mcast_flood_unregistered", "true"),
    ])
}

/// A MAC address made from the first address, then all of them.
pub(super) fn mac_and_addresses(addresses: &[IpAddr]) -> String {
    let mac = addresses.first().map(|address| mac_address(*address));
    mac.into_iter().chain(addresses.iter().map(ToString::to_string)).collect::<Vec<_>>().join(" ")
}

/// The MAC address of a router port with these networks.
pub(super) fn port_mac(networks: &[IpNet]) -> String {
    networks.first().map(|network| mac_address(network.addr())).unwrap_or_default()
}

/// MAC address of a router's port towards pods with these networks.
pub(super) fn gateway_mac(gateways: &[IpNet]) -> String {
    let addresses = gateways.iter().map(IpNet::addr);
    patchbay_model::gateway_mac(addresses).unwrap_or_default()
}

/// A column with networks of a router port.
pub(super) fn port_networks(networks: &[IpNet]) -> std::collections::BTreeSet<String> {
    networks.iter().map(ToString::to_string).collect()
}
