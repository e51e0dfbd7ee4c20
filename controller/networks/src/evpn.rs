//! Layer2 networks on an EVPN fabric: each node has a switch and a router of its own, and the
//! fabric joins the switches through a port.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::Transport;
use patchbay_model::external_ids::key;
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, LogicalSwitchPort};

use super::isolation;
use super::rows::{gateway_mac, texts};
use super::site::Site;

const DROP_PRIORITY: i64 = 1000;

impl Site<'_> {
    /// The switch's port to the fabric. `None`: the network is on none.
    pub(super) fn fabric_port(&self, switch: &str) -> Option<LogicalSwitchPort> {
        let is_on_fabric = self.network.transport == Transport::Evpn;
        is_on_fabric.then(|| LogicalSwitchPort {
            name: format!("macvrf-{switch}"),
            addresses: ["unknown".to_owned()].into(),
            external_ids: self.ids(),
            ..LogicalSwitchPort::default()
        })
    }

    /// Keeps requests for the address of the gateway from the fabric, because each node answers
    /// them. OVN sends even those to the gateway's own MAC address to all ports.
    ///
    /// OVN-Kubernetes selects requests of IPv6 by `icmp.type`, which is no field of OVN.
    pub(super) fn fabric_acls(&self, port: &str, gateways: &[IpNet]) -> Vec<Acl> {
        let mac = gateway_mac(gateways);
        let acl = |gateway: &IpNet| {
            let (name, request) = match gateway.addr() {
                IpAddr::V4(address) => {
                    ("DenyOnMACVRF-GatewayARP", format!("arp && arp.op==1 && arp.tpa=={address}"))
                }
                IpAddr::V6(address) => {
                    ("DenyOnMACVRF-GatewayNS", format!("nd_ns && nd.target=={address}"))
                }
            };
            let mut external_ids = self.owned(isolation::OWNER_TYPE, &[name, "Ingress"]);
            external_ids.extend(texts([(key::NAME, name), ("direction", "Ingress")]));
            Acl {
                action: AclAction::Drop,
                direction: AclDirection::ToLport,
                priority: DROP_PRIORITY,
                tier: 2,
                r#match: format!("outport==\"{port}\" && eth.dst=={mac} && {request}"),
                meter: Some("acl-logging".to_owned()),
                external_ids,
                ..Acl::default()
            }
        };
        gateways.iter().map(acl).collect()
    }
}
