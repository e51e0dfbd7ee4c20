//! Networks without an overlay: the fabric leads packets to the pods of other nodes.
//!
//! Such packets must not be translated. If packets to others are (`outboundSNAT: Enabled`), an
//! address set has the destinations that the translation does not concern: the network's pods and
//! the node itself. Its NAT row is on the router through which packets leave the cluster: the
//! gateway router, or in local gateway mode the cluster router.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::external_ids::{hashed_name, key};
use patchbay_model::{IpFamily, Transport};
use patchbay_schemas::nb::AddressSet;
use patchbay_zone::OutboundSnat;

use super::rows::{TextMap, texts};
use super::site::Site;

/// Owner type of the address sets.
const SET_OWNER_TYPE: &str = "Cluster";
/// Name of the address sets.
const SET_NAME: &str = "no-overlay-snat-exemption";
/// Owner type of the NAT rows of gateway routers.
const NAT_OWNER_TYPE: &str = "NoOverlayClusterSubnetSNAT";

impl Site<'_> {
    /// Translation of the source addresses of the pods' packets that leave the cluster. `None`: the
    /// network has an overlay, or its definition does not name it.
    pub(super) fn outbound_snat(&self) -> Option<OutboundSnat> {
        let is_routed = self.network.transport == Transport::NoOverlay;
        self.details.outbound_snat.filter(|_| is_routed)
    }

    /// Address sets with the destinations that are not translated, one for each family of the
    /// network.
    pub(super) fn exempted_sets(&self) -> Vec<AddressSet> {
        if self.outbound_snat() != Some(OutboundSnat::Enabled) {
            return Vec::new();
        }
        let families = self.cluster_families().filter(|family| self.network.has_family(*family));
        families.map(|family| self.exempted_set(family)).collect()
    }

    fn exempted_set(&self, family: IpFamily) -> AddressSet {
        let subnets =
            self.subnets().into_iter().filter(|subnet| IpFamily::of_net(*subnet) == family);
        let hosts = self
            .node
            .addresses(self.uplink().as_ref())
            .into_iter()
            .filter(|address| IpFamily::of(*address) == family)
            .map(|address: IpAddr| address.to_string());
        let external_ids = self.exempted_set_ids(family);
        AddressSet {
            name: hashed_name(&external_ids[key::ID]),
            addresses: subnets.map(|subnet| subnet.to_string()).chain(hosts).collect(),
            external_ids,
            ..AddressSet::default()
        }
    }

    /// Name of the address set of a family.
    pub(super) fn exempted_set_name(&self, family: IpFamily) -> String {
        hashed_name(&self.exempted_set_ids(family)[key::ID])
    }

    fn exempted_set_ids(&self, family: IpFamily) -> TextMap {
        let (family, network) = (family.to_string(), self.network.name.as_str());
        let mut ids = self.owned(SET_OWNER_TYPE, &[SET_NAME, &family, network]);
        ids.extend(texts([(key::NAME, SET_NAME), (key::IP_FAMILY, &family), ("network", network)]));
        ids
    }

    /// External ids of the NAT row with exempted destinations of a subnet.
    pub(super) fn exempting_nat_ids(&self, subnet: IpNet) -> TextMap {
        let cidr = subnet.to_string().replace(':', ".");
        let family = match IpFamily::of_net(subnet) {
            IpFamily::V4 => "ip4",
            IpFamily::V6 => "ip6",
        };
        let (node, network) = (self.node.name(), self.network.name.as_str());
        let mut ids = self.ids();
        ids.extend(self.owned(NAT_OWNER_TYPE, &[node, &cidr, family, network]));
        ids.extend(texts([
            (key::NAME, node),
            (key::CIDR, &cidr),
            (key::IP_FAMILY, family),
            ("network", network),
        ]));
        ids
    }
}
