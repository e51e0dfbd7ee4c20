//! Isolation of pods with a primary network from the default network, on which they have a port for
//! their node only.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::external_ids::{hashed_name, key};
use patchbay_model::{ClusterSettings, IpFamily};
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, PortGroup};
use patchbay_zone::ZoneNode;

use super::PortGroupRows;
use super::rows::texts;

/// Name of the default network in annotations of nodes.
const DEFAULT_NETWORK: &str = "default";

/// Name of the port group with the ports on the default network of pods that have a primary
/// network.
pub const ISOLATED_PORTS: &str = "a8747502060113802905";
const ISOLATED_PORTS_ID: &str = "SecondaryPods";
/// Owner of the rows: the controller of the default network.
pub(super) const OWNER: &str = "default-network-controller";
/// Owner type of the rows.
pub(super) const OWNER_TYPE: &str = "UDNIsolation";
/// Place of the management port in a node's subnet of the default network.
const MANAGEMENT_PORT: u128 = 2;
const DENY_PRIORITY: i64 = 1000;
const ALLOW_PRIORITY: i64 = 1001;

/// The port group with its ACLs. `None`: the node has no subnet of the default network, so there is
/// nothing to isolate from.
pub(super) fn isolated_ports(node: &ZoneNode, settings: &ClusterSettings) -> Option<PortGroupRows> {
    let mut subnets: Vec<IpNet> = node.node.subnets_of(DEFAULT_NETWORK).to_vec();
    subnets.sort_by_key(|subnet| subnet.addr().is_ipv6());
    subnets.retain(|subnet| settings.has_family(IpFamily::of_net(*subnet)));
    let management: Vec<IpAddr> =
        subnets.iter().filter_map(|subnet| nth_address(*subnet, MANAGEMENT_PORT)).collect();
    if management.is_empty() {
        return None;
    }
    let id = format!("{OWNER}:{OWNER_TYPE}:{ISOLATED_PORTS_ID}");
    let group = PortGroup {
        name: hashed_name(&id),
        external_ids: texts([
            (key::OWNER_CONTROLLER, OWNER),
            (key::OWNER_TYPE, OWNER_TYPE),
            (key::NAME, ISOLATED_PORTS_ID),
            (key::ID, &id),
        ]),
        ..PortGroup::default()
    };
    Some(PortGroupRows { group, ports: Vec::new(), acls: acls(&management) })
}

fn acls(management: &[IpAddr]) -> Vec<Acl> {
    let resolution = |field: &str| {
        let parts = management.iter().map(|address| match address {
            IpAddr::V4(address) => format!("( arp && arp.{field} == {address} )"),
            IpAddr::V6(address) => format!("( nd && nd.target == {address} )"),
        });
        format!("({})", parts.collect::<Vec<_>>().join(" || "))
    };
    let sources = management.iter().map(|address| match address {
        IpAddr::V4(address) => format!("ip4.src=={address}"),
        IpAddr::V6(address) => format!("ip6.src=={address}"),
    });
    let sources = format!("({})", sources.collect::<Vec<_>>().join(" || "));
    let deny = |direction| acl("DenyPrimaryUDN", direction, AclAction::Drop, "");
    let allow = |name, direction, action, part: &str| acl(name, direction, action, part);
    let resolve = "AllowHostARPPrimaryUDN";
    vec![
        deny(AclDirection::FromLport),
        deny(AclDirection::ToLport),
        allow(resolve, AclDirection::FromLport, AclAction::Allow, &resolution("tpa")),
        allow(resolve, AclDirection::ToLport, AclAction::Allow, &resolution("spa")),
        allow("AllowHostPrimaryUDN", AclDirection::ToLport, AclAction::AllowRelated, &sources),
    ]
}

/// An ACL of the port group. `condition` is added to the match; it is empty for all packets.
fn acl(name: &str, direction: AclDirection, action: AclAction, condition: &str) -> Acl {
    let (word, port) = match direction {
        AclDirection::FromLport => ("Egress", "inport"),
        AclDirection::ToLport => ("Ingress", "outport"),
    };
    let mut matched = format!("{port} == @{ISOLATED_PORTS}");
    if !condition.is_empty() {
        matched = format!("{matched} && {condition}");
    }
    Acl {
        priority: match action {
            AclAction::Drop => DENY_PRIORITY,
            _ => ALLOW_PRIORITY,
        },
        action,
        direction,
        r#match: matched,
        meter: Some("acl-logging".to_owned()),
        external_ids: texts([
            (key::OWNER_CONTROLLER, OWNER),
            (key::OWNER_TYPE, OWNER_TYPE),
            (key::NAME, name),
            ("direction", word),
            (key::ID, &format!("{OWNER}:{OWNER_TYPE}:{name}:{word}")),
        ]),
        ..Acl::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_group_is_named_after_its_id() {
        let id = format!("{OWNER}:{OWNER_TYPE}:{ISOLATED_PORTS_ID}");
        assert_eq!(hashed_name(&id), ISOLATED_PORTS);
    }
}
