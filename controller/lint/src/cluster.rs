//! Objects with their references, indexed once for all rules.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::vpc::{AttachmentProvider, KubeOvnConfig, SubnetProvider, VpcNode};
use patchbay_resources::conversion::vpc_node;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Objects, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::kube_ovn::{
    OvnEip, ProviderNetwork, ProviderNetworkSpec, Subnet, SubnetSpec, Vlan, Vpc, VpcSpec,
};
use patchbay_resources::object::{Node, Object as _};

use crate::facts::Facts;
use crate::flags::ControllerFlags;
use crate::nat::NatRule;
use crate::northbound::NorthboundRows;
use crate::pods::PodView;
use crate::ranges::{read_addresses, read_net, read_nets};

/// Namespace and name of the lease of Kube-OVN's controller.
const CONTROLLER_LEASE: (&str, &str) = ("kube-system", "kube-ovn-controller");

/// Objects with their references.
pub(crate) struct Cluster<'a> {
    pub(crate) inventory: &'a Inventory,
    pub(crate) facts: &'a Facts,
    /// Rows of the Northbound database. `None`: unknown.
    pub(crate) northbound: Option<NorthboundRows>,
    /// Flags of Kube-OVN's controller.
    pub(crate) flags: ControllerFlags<'a>,
    /// Nodes, in the order of their names.
    pub(crate) nodes: Vec<NodeView<'a>>,
    /// Subnets, in the order of their names.
    pub(crate) subnets: Vec<SubnetView<'a>>,
    /// VPCs, in the order of their names.
    pub(crate) vpcs: Vec<VpcView<'a>>,
    /// Attachment definitions, in the order of their keys.
    pub(crate) attachments: Vec<AttachmentView<'a>>,
    /// Pods with ports of attachment definitions, or with a subnet in an annotation, in the order of
    /// their keys.
    pub(crate) pods: Vec<PodView<'a>>,
    /// VPCs of rules by the names of external addresses.
    pub(crate) eip_users: BTreeMap<&'a str, &'a str>,
    /// Indexes of pods by the names of their VPCs.
    pods_by_vpc: BTreeMap<&'a str, Vec<usize>>,
    /// Subnets by provider, without those of the provider `ovn`.
    pub(crate) by_provider: BTreeMap<&'a str, Vec<usize>>,
}

/// A node.
pub(crate) struct NodeView<'a> {
    pub(crate) sourced: &'a Sourced<Node>,
    pub(crate) node: VpcNode,
}

/// A subnet.
pub(crate) struct SubnetView<'a> {
    pub(crate) sourced: &'a Sourced<Subnet>,
    pub(crate) name: &'a str,
    pub(crate) spec: &'a SubnetSpec,
    /// Name of the VPC. Empty: a subnet that OVN does not serve has none.
    pub(crate) vpc: &'a str,
    pub(crate) provider: SubnetProvider,
    /// Ranges, without host bits.
    pub(crate) cidrs: Vec<IpNet>,
    /// Gateways; the first address of a range without one.
    pub(crate) gateways: Vec<IpAddr>,
}

/// A VPC.
pub(crate) struct VpcView<'a> {
    pub(crate) sourced: &'a Sourced<Vpc>,
    pub(crate) name: &'a str,
    pub(crate) spec: &'a VpcSpec,
    pub(crate) is_default: bool,
    /// Names of the external subnets that the router is to be connected with.
    pub(crate) externals: Vec<&'a str>,
    /// Indexes of the subnets.
    pub(crate) subnets: Vec<usize>,
}

/// An attachment definition.
pub(crate) struct AttachmentView<'a> {
    pub(crate) sourced: &'a Sourced<NetworkAttachmentDefinition>,
    pub(crate) namespace: &'a str,
    pub(crate) name: &'a str,
    /// Configuration of Kube-OVN's plugin. `None`: another plugin, or not readable.
    pub(crate) config: Option<KubeOvnConfig>,
}

impl<'a> Cluster<'a> {
    pub(crate) fn new(inventory: &'a Inventory, facts: &'a Facts) -> Self {
        let flags = ControllerFlags::new(inventory);
        let nodes = objects(&inventory.nodes)
            .map(|sourced| NodeView { sourced, node: vpc_node(&sourced.object) });
        let subnets: Vec<_> =
            objects(&inventory.subnets).map(|sourced| SubnetView::new(sourced, &flags)).collect();
        let mut of_vpcs: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut by_provider: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, subnet) in subnets.iter().enumerate() {
            of_vpcs.entry(subnet.vpc).or_default().push(index);
            if subnet.provider != SubnetProvider::Default {
                by_provider.entry(&subnet.spec.provider).or_default().push(index);
            }
        }
        let vpcs = objects(&inventory.vpcs).map(|sourced| {
            let name = name_of(sourced);
            VpcView::new(sourced, &flags, of_vpcs.remove(name).unwrap_or_default())
        });
        let attachments =
            objects(&inventory.network_attachment_definitions).map(AttachmentView::new);
        let mut cluster = Self {
            inventory,
            facts,
            nodes: nodes.collect(),
            vpcs: vpcs.collect(),
            attachments: attachments.collect(),
            northbound: None,
            pods: Vec::new(),
            eip_users: BTreeMap::new(),
            pods_by_vpc: BTreeMap::new(),
            flags,
            subnets,
            by_provider,
        };
        let pods = objects(&inventory.pods).map(|sourced| PodView::new(sourced, &cluster));
        cluster.pods = pods.filter(|pod| !pod.ports.is_empty()).collect();
        cluster.add_users(&inventory.ovn_snat_rules);
        cluster.add_users(&inventory.ovn_dnat_rules);
        cluster.add_users(&inventory.ovn_fips);
        cluster.add_users(&inventory.router_lb_rules);
        for (index, pod) in cluster.pods.iter().enumerate() {
            let subnets = pod.ports.iter().filter_map(|port| port.subnet(&cluster));
            let vpcs: Vec<&str> = subnets.map(|subnet| subnet.vpc).collect();
            for vpc in vpcs {
                cluster.pods_by_vpc.entry(vpc).or_default().push(index);
            }
        }
        cluster
    }

    /// Records the VPCs of rules for the external addresses that they name.
    fn add_users<T: NatRule>(&mut self, rules: &'a Objects<T>) {
        for rule in objects(rules) {
            if let Some(vpc) = self.vpc_of_rule(rule).map(|vpc| vpc.name) {
                self.eip_users.entry(rule.object.eip()).or_insert(vpc);
            }
        }
    }

    /// Name of the default VPC.
    pub(crate) fn default_vpc(&self) -> &'a str {
        self.flags.default_vpc
    }

    /// Name of the external subnet that `enableExternal` stands for.
    pub(crate) fn external_subnet(&self) -> &'a str {
        self.flags.external_subnet
    }

    /// Subnet with this name.
    pub(crate) fn subnet(&self, name: &str) -> Option<&SubnetView<'a>> {
        let index = self.subnets.binary_search_by(|one| one.name.cmp(name)).ok()?;
        Some(&self.subnets[index])
    }

    /// VPC with this name.
    pub(crate) fn vpc(&self, name: &str) -> Option<&VpcView<'a>> {
        let index = self.vpcs.binary_search_by(|one| one.name.cmp(name)).ok()?;
        Some(&self.vpcs[index])
    }

    /// VPCs other than the default one.
    pub(crate) fn custom_vpcs(&self) -> impl Iterator<Item = &VpcView<'a>> {
        self.vpcs.iter().filter(|vpc| !vpc.is_default)
    }

    /// Subnets of a VPC.
    pub(crate) fn subnets_of(&self, vpc: &VpcView<'a>) -> impl Iterator<Item = &SubnetView<'a>> {
        vpc.subnets.iter().map(|index| &self.subnets[*index])
    }

    /// Subnets on which a VPC's router has ports: its own ones and the external ones.
    pub(crate) fn connected_with<'c>(
        &'c self,
        vpc: &'c VpcView<'a>,
    ) -> impl Iterator<Item = &'c SubnetView<'a>> {
        let own = self.subnets_of(vpc).filter(|subnet| subnet.has_router_port());
        own.chain(self.externals_of(vpc))
    }

    /// `true` if all external subnets of a VPC exist, so that the networks of its router are known.
    pub(crate) fn is_router_known(&self, vpc: &VpcView<'a>) -> bool {
        vpc.externals.iter().all(|name| self.subnet(name).is_some())
    }

    /// Networks of a VPC's router with the names of their ports, peers included.
    pub(crate) fn router_networks(&self, vpc: &VpcView<'a>) -> Vec<(String, IpNet)> {
        let mut networks = Vec::new();
        for subnet in self.connected_with(vpc) {
            let port = format!("{}-{}", vpc.name, subnet.name);
            networks.extend(subnet.cidrs.iter().map(|net| (port.clone(), *net)));
        }
        for peering in &vpc.spec.vpc_peerings {
            let port = format!("{}-{}", vpc.name, peering.remote_vpc);
            let nets = read_nets(&peering.local_connect_ip);
            networks.extend(nets.into_iter().map(|net| (port.clone(), net)));
        }
        networks
    }

    /// `true` if the manifests are those of a cluster in which Kube-OVN's controller holds its lease.
    pub(crate) fn is_kube_ovn_live(&self) -> bool {
        let (namespace, name) = CONTROLLER_LEASE;
        let key = ObjectKey::namespaced(namespace, name);
        let lease = self.inventory.leases.get(&key);
        let holder = lease.and_then(|lease| lease.object.spec.holder_identity.as_deref());
        holder.is_some_and(|holder| !holder.is_empty())
    }

    /// Ranges of the API server's cluster IPs: those of the facts, or of `ServiceCIDR` objects.
    pub(crate) fn service_ranges(&self) -> Vec<IpNet> {
        if !self.facts.service_ranges.is_empty() {
            return self.facts.service_ranges.clone();
        }
        let ranges =
            objects(&self.inventory.service_cidrs).flat_map(|range| &range.object.spec.cidrs);
        ranges.filter_map(|text| read_net(text)).collect()
    }

    /// Overlay subnets of a VPC.
    pub(crate) fn overlays_of(&self, vpc: &VpcView<'a>) -> impl Iterator<Item = &SubnetView<'a>> {
        self.subnets_of(vpc).filter(|subnet| subnet.is_overlay())
    }

    /// Subnets of a provider.
    pub(crate) fn with_provider(&self, provider: &str) -> impl Iterator<Item = &SubnetView<'a>> {
        let indexes = self.by_provider.get(provider).into_iter().flatten();
        indexes.map(|index| &self.subnets[*index])
    }

    /// External subnets of a VPC that exist and can serve it.
    pub(crate) fn externals_of(&self, vpc: &VpcView<'a>) -> impl Iterator<Item = &SubnetView<'a>> {
        let subnets = vpc.externals.iter().filter_map(|name| self.subnet(name));
        subnets.filter(|subnet| subnet.can_be_external())
    }

    /// Subnets that a VPC connects itself with, the default VPC included. If one of them is missing,
    /// also all others that could be meant.
    pub(crate) fn external_subnets(&self) -> Vec<&SubnetView<'a>> {
        let mut wanted: Vec<&str> =
            self.vpcs.iter().flat_map(|vpc| vpc.externals.iter().copied()).collect();
        wanted.sort_unstable();
        wanted.dedup();
        let is_missing = |name: &&str| self.subnet(name).is_none();
        let guess = wanted.iter().any(is_missing);
        let is_meant = |subnet: &&SubnetView<'_>| {
            guess && subnet.vpc == self.default_vpc() || wanted.binary_search(&subnet.name).is_ok()
        };
        let subnets = self.subnets.iter().filter(|subnet| subnet.can_be_external());
        subnets.filter(is_meant).collect()
    }

    /// Nodes that may host external ports.
    pub(crate) fn gateway_nodes(&self) -> impl Iterator<Item = &NodeView<'a>> {
        self.nodes.iter().filter(|one| one.node.is_gateway)
    }

    /// Names of nodes with machines of a VPC.
    pub(crate) fn nodes_of(&self, vpc: &VpcView<'a>) -> impl Iterator<Item = &'a str> {
        let pods = self.pods_by_vpc.get(vpc.name).into_iter().flatten();
        pods.filter_map(|index| self.pods[*index].node)
    }

    /// VLAN of an underlay subnet.
    pub(crate) fn vlan(&self, name: &str) -> Option<&'a Sourced<Vlan>> {
        self.inventory.vlans.get(&key(name))
    }

    /// Provider network with this name.
    pub(crate) fn provider_network(&self, name: &str) -> Option<&'a Sourced<ProviderNetwork>> {
        self.inventory.provider_networks.get(&key(name))
    }

    /// Provider network of an underlay subnet.
    pub(crate) fn network_of(
        &self,
        subnet: &SubnetView<'_>,
    ) -> Option<&'a Sourced<ProviderNetwork>> {
        self.provider_network(&self.vlan(&subnet.spec.vlan)?.object.spec.provider)
    }

    /// External address with this name.
    pub(crate) fn eip(&self, name: &str) -> Option<&'a Sourced<OvnEip>> {
        self.inventory.ovn_eips.get(&key(name))
    }

    /// VPC and external subnet of the external address that a router port has, by its name. `None`:
    /// no VPC of the manifests makes an address of this name.
    pub(crate) fn automatic_eip(&self, name: &str) -> Option<(&VpcView<'a>, &SubnetView<'a>)> {
        dashed(name).find_map(|(vpc, subnet)| {
            let vpc = self.vpc(vpc).filter(|vpc| !vpc.is_default)?;
            let mut externals = self.externals_of(vpc);
            Some((vpc, externals.find(|external| external.name == subnet)?))
        })
    }

    /// Attachment definition with this namespace and name.
    pub(crate) fn attachment(&self, provider: &AttachmentProvider) -> Option<&AttachmentView<'a>> {
        let wanted = (&*provider.namespace, &*provider.name);
        let found = self.attachments.binary_search_by(|one| (one.namespace, one.name).cmp(&wanted));
        Some(&self.attachments[found.ok()?])
    }
}

impl<'a> SubnetView<'a> {
    fn new(sourced: &'a Sourced<Subnet>, flags: &ControllerFlags<'a>) -> Self {
        let spec = &sourced.object.spec;
        let provider = SubnetProvider::parse(&spec.provider);
        let cidrs = read_nets(&spec.cidr_block);
        let mut gateways = read_addresses(&spec.gateway);
        for cidr in &cidrs {
            if !gateways.iter().any(|one| one.is_ipv4() == cidr.addr().is_ipv4()) {
                gateways.extend(cidr.hosts().next());
            }
        }
        let vpc = match &*spec.vpc {
            "" if provider.is_of_ovn() => flags.default_vpc,
            vpc => vpc,
        };
        Self { sourced, name: name_of(sourced), spec, vpc, provider, cidrs, gateways }
    }

    /// `true` if the subnet is on a provider network.
    pub(crate) fn is_underlay(&self) -> bool {
        !self.spec.vlan.is_empty()
    }

    /// `true` if the subnet is between nodes only, and OVN serves it.
    pub(crate) fn is_overlay(&self) -> bool {
        !self.is_underlay() && self.provider.is_of_ovn()
    }

    /// `true` if the router of the subnet's VPC has a port on the subnet.
    pub(crate) fn has_router_port(&self) -> bool {
        self.is_overlay() || self.spec.logical_gateway || self.spec.u2o_interconnection
    }

    /// `true` if routers of VPCs may have ports on the subnet.
    pub(crate) fn can_be_external(&self) -> bool {
        self.is_underlay() && !self.spec.logical_gateway
    }
}

impl<'a> VpcView<'a> {
    fn new(sourced: &'a Sourced<Vpc>, flags: &ControllerFlags<'a>, subnets: Vec<usize>) -> Self {
        let (name, spec) = (name_of(sourced), &sourced.object.spec);
        let listed = spec.extra_external_subnets.as_deref().unwrap_or_default();
        let is_default = name == flags.default_vpc;
        let externals = match listed {
            [] if spec.enable_external && !is_default => vec![flags.external_subnet],
            names if spec.enable_external || is_default => {
                names.iter().map(String::as_str).collect()
            }
            _ => Vec::new(),
        };
        Self { sourced, name, spec, is_default, externals, subnets }
    }

    /// `true` if the VPC is a tenant's, and wants external ports.
    pub(crate) fn has_external(&self) -> bool {
        self.spec.enable_external && !self.is_default
    }

    /// `true` if the list of external subnets is empty, so that the default one counts.
    pub(crate) fn has_default_external(&self) -> bool {
        let listed = self.spec.extra_external_subnets.as_ref();
        self.has_external() && listed.is_none_or(Vec::is_empty)
    }
}

impl<'a> AttachmentView<'a> {
    fn new(sourced: &'a Sourced<NetworkAttachmentDefinition>) -> Self {
        let config = sourced.object.spec.config.as_deref().map(KubeOvnConfig::from_json);
        let meta = sourced.object.meta();
        Self {
            sourced,
            namespace: meta.namespace.as_deref().unwrap_or_default(),
            name: name_of(sourced),
            config: config.and_then(|config| config.ok().flatten()),
        }
    }

    /// Provider that the object's name stands for.
    pub(crate) fn provider(&self) -> AttachmentProvider {
        AttachmentProvider::new(self.namespace, self.name)
    }

    /// Configuration of Kube-OVN's plugin, if it makes the interface.
    pub(crate) fn interface_config(&self) -> Option<&KubeOvnConfig> {
        self.config.as_ref().filter(|config| !config.is_ipam_only)
    }
}

/// Objects of a kind, in the order of their keys.
pub(crate) fn objects<T: InventoryKind>(objects: &Objects<T>) -> impl Iterator<Item = &Sourced<T>> {
    objects.iter().map(|(_, sourced)| sourced)
}

/// Name of an object.
pub(crate) fn name_of<T: InventoryKind>(sourced: &Sourced<T>) -> &str {
    sourced.object.meta().name.as_deref().unwrap_or_default()
}

/// Interfaces of a provider network with the paths of their fields.
pub(crate) fn interfaces(spec: &ProviderNetworkSpec) -> impl Iterator<Item = (String, &str)> {
    let default = ("spec.defaultInterface".to_owned(), &*spec.default_interface);
    let custom =
        spec.custom_interfaces.iter().enumerate().map(|(index, one)| {
            (format!("spec.customInterfaces[{index}].interface"), &*one.interface)
        });
    std::iter::once(default).chain(custom).filter(|(_, name)| !name.is_empty())
}

/// Both parts of a name at each of its dashes.
fn dashed(name: &str) -> impl Iterator<Item = (&str, &str)> {
    name.match_indices('-').map(|(at, _)| (&name[..at], &name[at + 1..]))
}

fn key(name: &str) -> ObjectKey {
    ObjectKey::cluster(name)
}
