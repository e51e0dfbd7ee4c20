//! Advertised networks: routers outside of the cluster know the way to their pods.
//!
//! Packets of their pods keep their sources, except those to nodes of the cluster and to services
//! of the default network. As such packets may come back on another way, packets from one
//! advertised network to another are dropped.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::external_ids::{hashed_name, key, node_addresses_id, reachable_services_id};
use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, AddressSet};

use super::isolation::OWNER;
use super::rows::{TextMap, texts};
use super::site::Site;

/// Owner type of the rows that isolate advertised networks.
pub(super) const OWNER_TYPE: &str = "AdvertisedNetwork";
/// Owner type of the address sets of nodes.
pub(super) const NODES_OWNER_TYPE: &str = "ClusterNodeIPs";
/// Name of the address sets of advertised subnets, and of the port group.
const SUBNETS: &str = "advertised-network-subnets";
/// Name of the address sets of nodes.
const NODE_ADDRESSES: &str = "node-ips";
/// Priority of the ACL that drops packets between advertised networks.
const DROP_PRIORITY: i64 = 1050;
/// Priority of the ACLs that let packets within a network pass.
const PASS_PRIORITY: i64 = 1100;

/// External ids and name of a row of all networks.
pub(super) struct Identity {
    pub(super) name: String,
    pub(super) external_ids: TextMap,
}

fn identity(owner_type: &str, name: &str, more: &[(&str, &str)], suffix: &str) -> Identity {
    let id = format!("{OWNER}:{owner_type}:{name}{suffix}");
    let mut external_ids = texts([
        (key::OWNER_CONTROLLER, OWNER),
        (key::OWNER_TYPE, owner_type),
        (key::NAME, name),
        (key::ID, &id),
    ]);
    let more = more.iter().copied();
    external_ids.extend(more.map(|(key, value)| (key.to_owned(), value.to_owned())));
    Identity { name: hashed_name(&id), external_ids }
}

fn set_identity(owner_type: &str, name: &str, family: IpFamily) -> Identity {
    let family = family.to_string();
    let more = [(key::IP_FAMILY, family.as_str())];
    identity(owner_type, name, &more, &format!(":{family}"))
}

/// Port group with the ports towards routers of advertised networks.
pub(super) fn port_group() -> Identity {
    identity(OWNER_TYPE, SUBNETS, &[], "")
}

/// Name of the address set of advertised subnets.
pub(super) fn subnets_name(family: IpFamily) -> String {
    set_identity(OWNER_TYPE, SUBNETS, family).name
}

/// Name of the address set of nodes.
pub(super) fn node_addresses_name(family: IpFamily) -> String {
    hashed_name(&node_addresses_id(family))
}

/// Address set of advertised subnets.
pub(super) fn subnets_set(family: IpFamily, addresses: BTreeSet<String>) -> AddressSet {
    address_set(set_identity(OWNER_TYPE, SUBNETS, family), addresses)
}

/// Address set of the addresses of nodes.
pub(super) fn node_addresses_set(family: IpFamily, addresses: &[IpAddr]) -> AddressSet {
    let addresses = addresses.iter().filter(|address| IpFamily::of(**address) == family);
    let identity = set_identity(NODES_OWNER_TYPE, NODE_ADDRESSES, family);
    address_set(identity, addresses.map(ToString::to_string).collect())
}

fn address_set(identity: Identity, addresses: BTreeSet<String>) -> AddressSet {
    AddressSet {
        name: identity.name,
        addresses,
        external_ids: identity.external_ids,
        ..AddressSet::default()
    }
}

/// Drops packets from one advertised network to another.
pub(super) fn drop_acl(settings: &ClusterSettings) -> Acl {
    let families = IpFamily::BOTH.into_iter().filter(|family| settings.has_family(*family));
    let terms = families.map(|family| {
        let (version, set) = (version(family), subnets_name(family));
        format!("({version}.src == ${set} && {version}.dst == ${set})")
    });
    Acl {
        action: AclAction::Drop,
        priority: DROP_PRIORITY,
        r#match: terms.collect::<Vec<_>>().join(" || "),
        external_ids: identity(OWNER_TYPE, SUBNETS, &[("network", "")], ":").external_ids,
        ..acl()
    }
}

/// Columns that all of these ACLs have.
fn acl() -> Acl {
    Acl {
        direction: AclDirection::FromLport,
        meter: Some("acl-logging".to_owned()),
        options: texts([("apply-after-lb", "true")]),
        ..Acl::default()
    }
}

fn version(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip4",
        IpFamily::V6 => "ip6",
    }
}

/// Match of packets to nodes.
pub(super) fn to_nodes(family: IpFamily) -> String {
    format!("{}.dst == ${}", version(family), node_addresses_name(family))
}

/// Match of packets to nodes and to services of the default network.
pub(super) fn to_nodes_and_services(family: IpFamily) -> String {
    let services = hashed_name(&reachable_services_id(family));
    format!("({} || {}.dst == ${services})", to_nodes(family), version(family))
}

impl Site<'_> {
    /// Value of [`key::ID`] of the ACL that lets packets within the network pass.
    pub(super) fn pass_acl_id(&self) -> String {
        pass_acl_id(&self.network.name, &self.network.id.to_string())
    }

    /// Lets packets within the network pass, if it is advertised.
    pub(super) fn pass_acl(&self) -> Option<Acl> {
        let network_id = self.network.id.to_string();
        let terms = IpFamily::BOTH.into_iter().filter_map(|family| {
            let subnets: Vec<IpNet> = self
                .subnets()
                .into_iter()
                .filter(|subnet| IpFamily::of_net(*subnet) == family)
                .collect();
            let side = |side: &str| {
                let version = version(family);
                let terms = subnets.iter().map(|subnet| format!("{version}.{side} == {subnet}"));
                terms.collect::<Vec<_>>().join(" || ")
            };
            (!subnets.is_empty()).then(|| format!("(({}) && ({}))", side("src"), side("dst")))
        });
        let mut external_ids = self.owned(OWNER_TYPE, &[&self.network.name, &network_id]);
        external_ids.extend(texts([
            (key::NAME, self.network.name.as_str()),
            ("network", network_id.as_str()),
        ]));
        self.is_advertised.then(|| Acl {
            action: AclAction::Pass,
            priority: PASS_PRIORITY,
            r#match: terms.collect::<Vec<_>>().join(" || "),
            external_ids,
            ..acl()
        })
    }
}

/// Value of [`key::ID`] of the ACL that lets packets within a network pass.
pub(super) fn pass_acl_id(network: &str, id: &str) -> String {
    format!("{network}-network-controller:{OWNER_TYPE}:{network}:{id}")
}
