//! VPCs that connects join, by the attachment definitions of their subnets.
//!
//! A definition stands for its subnet, and the subnet for its VPC. Several definitions of one VPC
//! make one member with several subnets. Only the selected subnets are connected.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::vpc::{
    AttachmentProvider, DEFAULT_VPC, KubeOvnConfig, SubnetProvider, Vpc, VpcScene, VpcSubnet,
};
use patchbay_model::{
    ConnectedSubnet, ConnectedVpc, NETWORK_ID, NadKey, Network, NetworkId, Networks, PodSubnet,
    Role, Topology, Transport,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::conversion::{nad_key, vpc_scene};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::Object as _;
use patchbay_resources::object::kube_ovn;
use patchbay_resources::selector::matches;

/// VPCs of all connects.
#[derive(Clone, Debug, Default)]
pub struct VpcMembers(BTreeMap<String, Members>);

/// VPCs of one connect.
#[derive(Clone, Debug, Default)]
struct Members {
    vpcs: BTreeMap<NetworkId, Arc<ConnectedVpc>>,
    /// Selected definitions without a subnet that can be connected, with the reason.
    problems: Vec<(NadKey, String)>,
}

/// Subnets of one connect, by VPC.
#[derive(Default)]
struct Selected<'a> {
    subnets: BTreeMap<&'a str, BTreeMap<&'a str, &'a VpcSubnet>>,
    problems: Vec<(NadKey, String)>,
}

/// `true` if a connect selects subnets of VPCs.
fn selects_vpcs(inventory: &Inventory) -> bool {
    let connects = inventory.cluster_network_connects.iter();
    let mut selectors = connects.flat_map(|(_, connect)| &connect.object.spec.network_selectors);
    selectors.any(|one| one.network_attachment_definition_selector.is_some())
}

/// Gives the VPCs that connects select an id, which no network has: an annotation of the VPC.
pub fn assign_vpc_ids(inventory: &mut Inventory, networks: &Networks) {
    if !selects_vpcs(inventory) {
        return;
    }
    let scene = vpc_scene(inventory);
    let mut names = BTreeSet::new();
    for (_, connect) in inventory.cluster_network_connects.iter() {
        let selected = Selected::of(&connect.object, inventory, &scene);
        names.extend(selected.subnets.into_keys().map(str::to_owned));
    }
    let mut taken: BTreeSet<NetworkId> = networks.iter().map(|network| network.id).collect();
    let nads = inventory.network_attachment_definitions.iter();
    taken.extend(nads.filter_map(|(_, nad)| {
        nad.object.annotations().get(NETWORK_ID)?.parse::<NetworkId>().ok()
    }));
    // The first VPC has an id that two of them name.
    let mut owners = BTreeSet::new();
    inventory.vpcs.change_each(|key, sourced| {
        let object = &mut sourced.object;
        let id = annotated_id(object);
        let is_free = id.is_some_and(|id| !taken.contains(&id) && owners.insert(id));
        if id.is_some() && !is_free && names.contains(&key.name) {
            object.annotations_mut().remove(NETWORK_ID);
        }
    });
    taken.extend(owners);
    inventory.vpcs.change_each(|key, sourced| {
        let object = &mut sourced.object;
        if !names.contains(&key.name) || annotated_id(object).is_some() {
            return;
        }
        let mut ids = (1..=i64::from(NetworkId::MAX.get())).flat_map(NetworkId::try_new);
        if let Some(id) = ids.find(|id| !taken.contains(id)) {
            taken.insert(id);
            object.annotations_mut().insert(NETWORK_ID.to_owned(), id.to_string());
        }
    });
}

/// Ids that VPCs have.
pub(crate) fn vpc_ids(inventory: &Inventory) -> impl Iterator<Item = NetworkId> {
    inventory.vpcs.iter().filter_map(|(_, vpc)| annotated_id(&vpc.object))
}

fn annotated_id(vpc: &kube_ovn::Vpc) -> Option<NetworkId> {
    vpc.annotations().get(NETWORK_ID)?.parse().ok()
}

impl VpcMembers {
    /// VPCs that the connects of an inventory select. Those without an id are left out.
    pub fn of(inventory: &Inventory) -> Self {
        if !selects_vpcs(inventory) {
            return Self::default();
        }
        let scene = vpc_scene(inventory);
        let connects = inventory.cluster_network_connects.iter();
        let of_connects = connects.map(|(key, connect)| {
            let Selected { subnets, mut problems } =
                Selected::of(&connect.object, inventory, &scene);
            let mut vpcs = BTreeMap::new();
            for (name, subnets) in subnets {
                let id = inventory.vpcs.named(name).and_then(annotated_id);
                match (id, scene.objects.vpcs.get(name)) {
                    (Some(id), Some(vpc)) => {
                        vpcs.insert(id, Arc::new(connected(id, vpc, &subnets, &scene)));
                    }
                    _ => problems.extend(subnets.values().filter_map(|subnet| {
                        let nad = definition_of(subnet)?;
                        Some((nad, format!("Vpc {name} has no id: all ids are in use")))
                    })),
                }
            }
            (key.name.clone(), Members { vpcs, problems })
        });
        Self(of_connects.collect())
    }

    /// VPCs of a connect, by id.
    pub fn vpcs(&self, connect: &str) -> Option<&BTreeMap<NetworkId, Arc<ConnectedVpc>>> {
        self.0.get(connect).map(|members| &members.vpcs)
    }

    /// Selected definitions of a connect without a subnet that can be connected, with the reason.
    pub fn problems(&self, connect: &str) -> &[(NadKey, String)] {
        self.0.get(connect).map(|members| &*members.problems).unwrap_or_default()
    }
}

/// Definition of a subnet. `None`: it has none.
fn definition_of(subnet: &VpcSubnet) -> Option<NadKey> {
    match &subnet.provider {
        SubnetProvider::Attachment(AttachmentProvider { namespace, name }) => {
            Some(NadKey { namespace: namespace.clone(), name: name.clone() })
        }
        _ => None,
    }
}

impl<'a> Selected<'a> {
    fn of(connect: &ClusterNetworkConnect, inventory: &'a Inventory, scene: &'a VpcScene) -> Self {
        let mut selected = Self::default();
        for entry in &connect.spec.network_selectors {
            let Some(selector) = &entry.network_attachment_definition_selector else {
                continue;
            };
            for (_, nad) in inventory.network_attachment_definitions.iter() {
                let nad = &nad.object;
                let key = nad_key(nad);
                let namespace = inventory.namespaces.named(&key.namespace);
                let is_selected = namespace.is_some_and(|namespace| {
                    matches(&selector.namespace_selector, namespace.labels())
                }) && matches(&selector.network_selector, nad.labels());
                // Networks are selected by their own selectors.
                let is_of_network =
                    nad.controlling_cudn().is_some() || nad.controlling_udn().is_some();
                if is_selected && !is_of_network {
                    selected.add(key, nad, scene);
                }
            }
        }
        selected
    }

    fn add(&mut self, key: NadKey, nad: &NetworkAttachmentDefinition, scene: &'a VpcScene) {
        match subnet_of(&key, nad, scene) {
            Ok(subnet) => {
                let of_vpc = self.subnets.entry(&subnet.vpc).or_default();
                of_vpc.insert(&subnet.name, subnet);
            }
            Err(reason) => self.problems.push((key, reason)),
        }
    }
}

/// Subnet for which a definition stands.
fn subnet_of<'a>(
    key: &NadKey,
    nad: &NetworkAttachmentDefinition,
    scene: &'a VpcScene,
) -> Result<&'a VpcSubnet, String> {
    let config = nad.spec.config.as_deref().unwrap_or_default();
    match KubeOvnConfig::from_json(config) {
        Ok(Some(config)) if !config.is_ipam_only => {}
        Ok(_) => return Err("spec.config: it is not a definition of Kube-OVN".to_owned()),
        Err(error) => return Err(format!("spec.config: {error}")),
    }
    let provider = SubnetProvider::Attachment(AttachmentProvider::new(&key.namespace, &key.name));
    let mut subnets = scene.objects.subnets.values().flatten();
    let subnet = subnets
        .find(|subnet| subnet.provider == provider)
        .ok_or_else(|| "no Subnet has its provider".to_owned())?;
    let subnet = scene
        .usable_subnet(&subnet.name)
        .map_err(|reason| format!("Subnet {}: {reason}", subnet.name))?;
    if &*subnet.vpc == DEFAULT_VPC {
        return Err(format!("Subnet {} is of Vpc {DEFAULT_VPC}", subnet.name));
    }
    if !subnet.has_router_port() {
        return Err(format!("Subnet {} has no port on the router of its Vpc", subnet.name));
    }
    Ok(subnet)
}

fn connected_subnet(subnet: &VpcSubnet) -> ConnectedSubnet {
    ConnectedSubnet { name: subnet.name.to_string(), route_table: subnet.route_table.clone() }
}

/// A VPC with the selected subnets.
fn connected(
    id: NetworkId,
    vpc: &Vpc,
    subnets: &BTreeMap<&str, &VpcSubnet>,
    scene: &VpcScene,
) -> ConnectedVpc {
    let ranges =
        |subnet: &VpcSubnet| -> Vec<IpNet> { subnet.nets.iter().map(|net| net.net).collect() };
    let mut pod_subnets: Vec<PodSubnet> = subnets
        .values()
        .flat_map(|subnet| ranges(subnet))
        .map(|cidr| PodSubnet { cidr, host_prefix: None })
        .collect();
    pod_subnets.sort_by_key(|subnet| subnet.cidr);
    let routes = vpc.routes.iter().filter(|route| !route.is_of_source).filter_map(|route| {
        let prefix = route.prefix.parse::<IpNet>();
        let host = || route.prefix.parse::<std::net::IpAddr>().map(IpNet::from);
        Some((route.table.clone(), prefix.or_else(|_| host()).ok()?))
    });
    let own = scene.subnets_of(&vpc.name);
    let connections = scene.connections(vpc);
    let external =
        connections.iter().filter_map(|connection| scene.usable_subnet(&connection.subnet).ok());
    let occupied = own.chain(external).flat_map(|subnet| {
        let name = format!("Subnet {}", subnet.name);
        ranges(subnet).into_iter().map(move |range| (name.clone(), range))
    });
    ConnectedVpc {
        network: Network {
            name: vpc.name.to_string(),
            id,
            topology: Topology::Vpc,
            role: Role::Primary,
            transport: Transport::Overlay,
            pod_subnets,
            join_subnets: Vec::new(),
            transit_subnets: Vec::new(),
            namespaces: BTreeSet::new(),
            nads: subnets.values().filter_map(|subnet| definition_of(subnet)).collect(),
        },
        subnets: subnets.values().map(|subnet| connected_subnet(subnet)).collect(),
        others: scene
            .subnets_of(&vpc.name)
            .filter(|subnet| subnet.has_router_port() && !subnets.contains_key(&*subnet.name))
            .map(connected_subnet)
            .collect(),
        routes: routes.collect(),
        occupied: occupied.collect(),
    }
}

#[cfg(test)]
mod tests;
