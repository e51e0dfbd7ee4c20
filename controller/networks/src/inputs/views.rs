//! Inputs that the rows of networks read.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{ClusterSettings, Feature, Topology};
use patchbay_schemas::nb::AddressSet;

use super::{NetworkKind, ZoneNetwork, ZoneNetworks};
use crate::advertised::Advertised;
use crate::definition::OutboundSnat;
use crate::isolation::isolated_ports;
use crate::node::ZoneNode;
use crate::remotes::Remotes;
use crate::site::Site;
use crate::skipped::SkippedNetworks;
use crate::{
    NetworkRows, PortGroupRows, RemoteRows, SkipReason, SkippedNetwork, layer2, layer3, localnet,
};

impl ZoneNetworks {
    /// Name of the zone: that of its node.
    pub fn zone(&self) -> &Arc<str> {
        &self.zone.name
    }

    /// Names of all nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.nodes.keys()
    }

    /// Names of all networks.
    pub fn networks(&self) -> impl Iterator<Item = &Arc<str>> {
        self.networks.values().map(|network| &network.name)
    }

    /// Prefixes of the names of all networks' rows.
    pub(crate) fn prefixes(&self) -> impl Iterator<Item = &Arc<str>> {
        self.networks.keys()
    }

    pub(crate) fn has_node(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        self.networks.contains_key(prefix)
    }

    /// `true` if a network with this prefix may exist although it is not known.
    pub(crate) fn is_unread(&self, prefix: &str) -> bool {
        self.unread.may_have_prefix(prefix)
    }

    /// Networks that have no place in the zone or are incomplete there, and why.
    pub fn skipped(&self) -> Vec<SkippedNetwork> {
        SkippedNetworks::default().update(self)
    }

    /// The network of this prefix, if it has no place in the zone or is incomplete there.
    pub(crate) fn skipped_network(&self, prefix: &str) -> Option<SkippedNetwork> {
        let network = &self.networks.get(prefix)?.name;
        let reason = match self.network_rows(network)? {
            Ok(rows) => rows.incomplete?,
            Err(reason) => reason,
        };
        Some(SkippedNetwork {
            network: network.to_string(),
            reason,
        })
    }

    /// Networks whose rows would have the names of those of another network.
    pub(crate) fn without_names(&self) -> &[SkippedNetwork] {
        &self.without_names
    }

    /// `true` if some rows may wait for others, because they refer to them by UUID: then a plan may
    /// be complete only after another one.
    pub fn has_waiting_rows(&self) -> bool {
        let settings = self.settings();
        let features = [Feature::RouteAdvertisements, Feature::EgressIp];
        let is_exempting = |network: &Arc<ZoneNetwork>| match &network.kind {
            NetworkKind::Overlay { details, .. } => details
                .as_ref()
                .is_ok_and(|details| details.outbound_snat == Some(OutboundSnat::Enabled)),
            NetworkKind::Localnet(_) => false,
        };
        features.iter().any(|one| settings.has_feature(*one))
            || self.networks.values().any(is_exempting)
    }

    /// The rows of a network, but for those that lead to other nodes. `None`: there is no such
    /// network.
    pub fn network_rows(&self, network: &str) -> Option<Result<NetworkRows, SkipReason>> {
        let prefix = network_prefix(network);
        let is_advertised = self.advertised(&prefix) == Advertised::Yes;
        self.rows_of_prefix(&prefix, is_advertised)
    }

    /// Advertisement of a network on the zone's node.
    pub(crate) fn advertised(&self, prefix: &str) -> Advertised {
        match self.networks.get(prefix).map(|network| &network.kind) {
            Some(NetworkKind::Overlay { advertised, .. }) => *advertised,
            Some(NetworkKind::Localnet(_)) | None => Advertised::No,
        }
    }

    /// Value of the id of the ACL that a network has while it is advertised.
    pub(crate) fn pass_acl_id(&self, prefix: &str) -> Option<String> {
        Some(self.site(prefix)?.ok()?.pass_acl_id())
    }

    /// The switch port of a primary network towards its router.
    pub(crate) fn router_side_port(&self, prefix: &str) -> Option<String> {
        let site = self.site(prefix)?.ok()?;
        site.is_primary().then(|| site.router_side_port())
    }

    /// Subnets of the pods of a network.
    pub(crate) fn pod_subnets(&self, prefix: &str) -> impl Iterator<Item = IpNet> {
        let network = self.networks.get(prefix);
        network
            .into_iter()
            .flat_map(|network| network.kind.pod_subnets())
    }

    /// `true` if a network that has gone while the controller runs had this subnet.
    pub(crate) fn had_subnet(&self, subnet: &str) -> bool {
        let subnet = subnet.parse();
        subnet.is_ok_and(|subnet| self.former_subnets.contains(&subnet))
    }

    /// `true` if another node has a network in the older layer2 layout.
    fn has_older_nodes(&self, network: &str) -> bool {
        let nodes = self.nodes.iter();
        let mut others = nodes.filter(|(name, _)| **name != self.zone.name);
        others.any(|(_, node)| node.layer2.older_key(network).is_some())
    }

    /// `true` if the rows of a network depend on whether it leads to other nodes.
    pub(crate) fn follows_nodes(&self, prefix: &str) -> bool {
        self.site(prefix).is_some_and(|site| {
            site.is_ok_and(|site| {
                site.network.topology == Topology::Layer3 && layer3::follows_remotes(&site)
            })
        })
    }

    fn has_remote_nodes(&self, prefix: &str) -> bool {
        let remotes = self.remotes(prefix);
        remotes.is_some_and(|remotes| {
            let mut nodes = self.nodes.values();
            nodes.any(|node| remotes.rows(node).is_some())
        })
    }

    /// Addresses of the hosts of all nodes.
    pub(crate) fn host_addresses(&self) -> Vec<IpAddr> {
        let nodes = self.nodes.values();
        let addresses = nodes.flat_map(|node| node.host_addresses().iter().copied());
        addresses.collect()
    }

    /// Families of the cluster.
    pub(crate) fn settings(&self) -> &ClusterSettings {
        &self.zone.settings
    }

    pub(crate) fn rows_of_prefix(
        &self,
        prefix: &str,
        is_advertised: bool,
    ) -> Option<Result<NetworkRows, SkipReason>> {
        let network = self.networks.get(prefix)?;
        if let NetworkKind::Localnet(localnet) = &network.kind {
            return Some(localnet::rows(localnet));
        }
        let made = self.site(prefix)?.and_then(|mut site| {
            site.is_advertised = is_advertised;
            site.switch = network.switch;
            site.has_older_nodes = self.has_older_nodes(&site.network.name);
            site.has_remote_nodes = self.follows_nodes(prefix) && self.has_remote_nodes(prefix);
            match site.network.topology {
                Topology::Layer3 => layer3::rows(&site),
                Topology::Layer2 => layer2::rows(&site),
            }
        });
        Some(made)
    }

    /// The rows of a network that lead to another node; `None` if there are none.
    pub fn remote_rows(&self, network: &str, node: &str) -> Option<RemoteRows> {
        let prefix = network_prefix(network);
        match self.remotes(&prefix) {
            Some(remotes) => remotes.rows(self.node(node)?),
            None => self.remote_layer2_rows(&prefix, node),
        }
    }

    /// Common part of the rows of a layer3 network that lead to other nodes. `None`: it has no
    /// such rows, or another topology.
    pub(crate) fn remotes(&self, prefix: &str) -> Option<Remotes> {
        let site = self.site(prefix)?.ok()?;
        let is_layer3 = site.network.topology == Topology::Layer3;
        let nodes = self.networks.get(prefix)?.nodes.clone();
        Remotes::new(&site, nodes).filter(|_| is_layer3)
    }

    /// The rows of a layer2 network that lead to another node; `None` if there are none.
    pub(crate) fn remote_layer2_rows(&self, prefix: &str, node: &str) -> Option<RemoteRows> {
        let site = self.site(prefix)?.ok()?;
        let is_made = site.network.topology == Topology::Layer2 && site.has_interconnect();
        let nodes = self.networks.get(prefix)?.nodes.as_ref();
        let is_rendered = nodes.is_none_or(|nodes| nodes.contains(node));
        let node = self.node(node).filter(|node| node.name != site.node.name);
        layer2::remote_rows(&site, node.filter(|_| is_made && is_rendered)?)
    }

    /// Topology of an overlay network.
    pub(crate) fn topology(&self, prefix: &str) -> Option<Topology> {
        match &self.networks.get(prefix)?.kind {
            NetworkKind::Overlay { network, .. } => Some(network.topology),
            NetworkKind::Localnet(_) => None,
        }
    }

    pub(crate) fn node(&self, name: &str) -> Option<&ZoneNode> {
        Some(self.nodes.get(name)?)
    }

    /// Names of the transit switches of networks that are not rendered on a node.
    pub(crate) fn transit_switches_without(&self, node: &str) -> BTreeSet<String> {
        let networks = self.networks.iter();
        let without = networks.filter(|(_, network)| {
            let nodes = network.nodes.as_ref();
            nodes.is_some_and(|nodes| !nodes.contains(node))
        });
        without
            .map(|(prefix, _)| layer3::transit_switch_of(prefix))
            .collect()
    }

    /// `true` if the network is known, but its place in the zone is not.
    pub(crate) fn lacks_place(&self, prefix: &str) -> bool {
        self.site(prefix).is_some_and(|site| match site {
            Ok(site) => site.network.topology == Topology::Layer3 && layer3::lacks_place(&site),
            Err(_) => true,
        })
    }

    /// `true` if a route to this prefix of a network that leads to a node stays if it is there,
    /// although the node has no such subnet: as in OVN-Kubernetes while the node has another one,
    /// or because the node's annotation is wrong, so that its subnets are unknown.
    pub(crate) fn retains_route(&self, prefix: &str, node: &str, route: IpNet) -> bool {
        let known = self.networks.get(prefix).filter(|network| {
            let nodes = network.nodes.as_ref();
            nodes.is_none_or(|nodes| nodes.contains(node))
        });
        let network = known.map(|network| &network.kind);
        let (Some(NetworkKind::Overlay { network, .. }), Some(node)) =
            (network, self.nodes.get(node))
        else {
            return false;
        };
        let mut ranges = network.pod_subnets.iter();
        ranges.any(|range| range.cidr.contains(&route)) && node.may_lead_to(&network.name, route)
    }

    /// The address sets of the default network's services that networks reach.
    pub(crate) fn service_address_sets(&self) -> Vec<AddressSet> {
        self.services.address_sets(&self.zone.settings)
    }

    /// The port group that isolates pods from the default network.
    pub(crate) fn isolated_ports(&self) -> Option<PortGroupRows> {
        let node = self.nodes.get(&self.zone.name)?;
        isolated_ports(node, &self.zone.settings)
    }

    /// An overlay network at the zone's node. `None`: there is no such network.
    fn site(&self, prefix: &str) -> Option<Result<Site<'_>, SkipReason>> {
        let NetworkKind::Overlay {
            network, details, ..
        } = &self.networks.get(prefix)?.kind
        else {
            return None;
        };
        let node = self.nodes.get(&self.zone.name).ok_or(SkipReason::NoNode);
        Some(node.and_then(|node| {
            let details = details.as_ref().map_err(Clone::clone)?;
            let settings = &self.zone.settings;
            Ok(Site::new(network, details, node, settings, &self.services))
        }))
    }
}
