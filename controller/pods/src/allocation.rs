//! Allocation of pods' addresses.
//!
//! The annotations of the pods hold all allocations. A new allocator therefore goes on where the
//! last one stopped, but for the order: the last allocated address is not known any more, and the
//! lowest free ones come first.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::names::network_prefix;
use patchbay_model::{
    AddressPool, AttachedNetwork, AttachedTopology, FieldProblem, NETWORK_SELECTIONS,
    ObjectProblem, POD_NETWORKS, Pod, PodAttachment, PodKey, PodNetwork, PodNetworks, mac_address,
    mac_of_name,
};
use patchbay_rows::Inputs as _;
use patchbay_zone::{Cell, Kind, MachineKey, ZoneObjects};

/// Pods and networks whose addresses an allocator allocates.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum AllocationScope {
    /// Allocations by the controller of a zone: addresses in layer3 networks, and MAC addresses in
    /// localnet networks without subnets, for the pods of its node.
    Zone,
    /// Allocations by the controllers of all zones.
    AllZones,
}

/// Allocator of pods' addresses.
#[derive(Debug)]
pub struct PodAllocator {
    scope: AllocationScope,
    seen: Option<ZoneObjects>,
    /// Addresses by network and subnet.
    pools: HashMap<(Arc<str>, IpNet), AddressPool>,
    /// Addresses of pods, by attachment. In boxes, because a node of a map has room for eleven.
    held: BTreeMap<PodKey, BTreeMap<String, Box<Held>>>,
    /// Annotations that are not seen in the pods yet.
    unwritten: BTreeMap<PodKey, PodNetworks>,
    problems: BTreeMap<PodKey, Vec<FieldProblem>>,
}

/// Addresses of a pod in one network.
#[derive(Debug)]
struct Held {
    network: Arc<str>,
    addresses: Vec<IpNet>,
}

impl PodAllocator {
    /// An allocator that has seen nothing.
    pub fn new(scope: AllocationScope) -> Self {
        Self {
            scope,
            seen: None,
            pools: HashMap::new(),
            held: BTreeMap::new(),
            unwritten: BTreeMap::new(),
            problems: BTreeMap::new(),
        }
    }

    /// Allocates addresses for pods that have none. Returns the annotations
    /// [`POD_NETWORKS`](patchbay_model::POD_NETWORKS) that are to be written; they are returned
    /// again until the pods have them.
    ///
    /// Addresses of pods that have them are kept first. The cost is that of the changed pods and of
    /// those on changed nodes, unless networks have changed.
    pub fn allocate(&mut self, pods: &ZoneObjects) -> &BTreeMap<PodKey, PodNetworks> {
        let (mut changed, mut nodes) = (BTreeSet::new(), BTreeSet::new());
        let mut is_known = self.seen.is_some();
        let kinds = [Kind::Zone, Kind::Nodes, Kind::Networks, Kind::Pods];
        pods.diff(self.seen.as_ref(), &kinds, &mut |cell| match cell {
            Cell::Pod(key) => {
                changed.insert(key);
            }
            Cell::NodeSubnets(name) => {
                nodes.insert(name);
            }
            Cell::Zone | Cell::PrimaryNetwork(_) | Cell::Definition(_) => {
                is_known = false;
            }
            _ => {}
        });
        if is_known && !nodes.is_empty() {
            let on_nodes = pods.pods().filter(|pod| {
                let node = pod.node.as_ref();
                node.is_some_and(|node| nodes.contains(node))
            });
            changed.extend(on_nodes.map(|pod| pod.key.clone()));
        }
        if !is_known {
            // The last allocated addresses stay known in networks that are still there.
            let networks = pods.attached_networks();
            self.pools.retain(|(network, _), _| {
                networks.contains(&**network) || pods.may_have_prefix(&network_prefix(network))
            });
            changed.extend(self.held.keys().cloned());
            changed.extend(pods.pods().map(|pod| pod.key.clone()));
        }
        // A pod that found no address may find one now.
        changed.extend(self.problems.keys().cloned());
        for key in &changed {
            self.release(key);
            if !pods.pod(key).is_some_and(|pod| pod.is_wired()) {
                self.unwritten.remove(key);
            }
        }
        let living = || {
            let pods = changed.iter().filter_map(|key| pods.pod(key));
            pods.filter(|pod| pod.is_wired())
        };
        for pod in living() {
            self.hold(pod, pods);
        }
        for pod in living() {
            self.address_pod(pod, pods);
        }
        self.seen = Some(pods.clone());
        &self.unwritten
    }

    /// Reasons why pods have no addresses, in the order of pods.
    pub fn problems(&self) -> impl Iterator<Item = ObjectProblem> {
        self.problems.iter().flat_map(|(pod, problems)| {
            let problems = problems.iter().cloned();
            problems.map(move |problem| ObjectProblem::new(pod, problem))
        })
    }

    fn release(&mut self, key: &PodKey) {
        self.problems.remove(key);
        for held in self.held.remove(key).into_iter().flat_map(BTreeMap::into_values) {
            for address in &held.addresses {
                let pool = self.pools.get_mut(&(held.network.clone(), address.trunc()));
                if let Some(pool) = pool {
                    pool.release(address.addr());
                }
            }
        }
    }

    /// Keeps the addresses that a pod has, or will have once its annotation is written.
    fn hold(&mut self, pod: &Arc<Pod>, pods: &ZoneObjects) {
        let (attachments, _) = pods.attachments(pod);
        let unwritten = self.unwritten.remove(&pod.key).unwrap_or_default();
        let mut is_written = true;
        for attachment in &attachments {
            let entry = pod.networks.get(&attachment.key);
            is_written &= entry.is_some();
            let entry = entry.or_else(|| unwritten.get(&attachment.key));
            if let Some(entry) = entry {
                self.hold_addresses(pod, pods, attachment, entry.addresses.clone());
            }
        }
        if !is_written && !unwritten.is_empty() {
            self.unwritten.insert(pod.key.clone(), unwritten);
        }
    }

    fn hold_addresses(
        &mut self,
        pod: &Arc<Pod>,
        pods: &ZoneObjects,
        attachment: &PodAttachment,
        addresses: Vec<IpNet>,
    ) {
        let network = &attachment.network;
        let subnets = subnets(pod, pods, network).unwrap_or_default();
        let in_subnets = addresses.iter().filter(|address| subnets.contains(&address.trunc()));
        for address in in_subnets {
            if !self.pool(network, address.trunc()).hold(address.addr())
                && !self.may_share(pod, pods, network, address.addr())
            {
                let reason = format!(
                    "network {}: address {} is another pod's, too",
                    network.name,
                    address.addr()
                );
                self.problems
                    .entry(pod.key.clone())
                    .or_default()
                    .push(FieldProblem::of_annotation(POD_NETWORKS, reason));
            }
        }
        let held = Held { network: network.name.clone(), addresses };
        let of_pod = self.held.entry(pod.key.clone()).or_default();
        of_pod.insert(attachment.key.clone(), Box::new(held));
    }

    /// Returns `true` if another pod of the same virtual machine has the address, or if it is none
    /// of the pool's.
    fn may_share(
        &self,
        pod: &Pod,
        pods: &ZoneObjects,
        network: &AttachedNetwork,
        address: IpAddr,
    ) -> bool {
        let mut holders =
            self.held.iter().filter(|(key, _)| **key != pod.key).filter(|(_, held)| {
                let mut held = held.values();
                held.any(|held| {
                    let mut addresses = held.addresses.iter();
                    held.network == network.name && addresses.any(|one| one.addr() == address)
                })
            });
        let machine = MachineKey::of(pod);
        holders.all(|(key, _)| {
            let other = pods.pod(key).and_then(|other| MachineKey::of(other));
            machine.is_some() && other == machine
        })
    }

    /// Allocates what a pod lacks, if its annotation can be read.
    fn address_pod(&mut self, pod: &Arc<Pod>, pods: &ZoneObjects) {
        if !pod.has_readable_networks() {
            return;
        }
        let (attachments, _) = pods.attachments(pod);
        for attachment in &attachments {
            let has_entry =
                self.held.get(&pod.key).is_some_and(|held| held.contains_key(&attachment.key));
            if has_entry || !self.allocates(pod, pods, &attachment.network) {
                continue;
            }
            match self.assign(pod, pods, attachment) {
                Ok(Some(entry)) => {
                    let networks = self.unwritten.entry(pod.key.clone());
                    let networks = networks.or_insert_with(|| pod.networks.clone());
                    let held = Held {
                        network: attachment.network.name.clone(),
                        addresses: entry.addresses.clone(),
                    };
                    networks.insert(&attachment.key, entry);
                    let of_pod = self.held.entry(pod.key.clone()).or_default();
                    of_pod.insert(attachment.key.clone(), Box::new(held));
                }
                Ok(None) => {}
                Err(problem) => {
                    let problems = self.problems.entry(pod.key.clone()).or_default();
                    problems.push(problem);
                }
            }
        }
    }

    fn allocates(&self, pod: &Pod, pods: &ZoneObjects, network: &AttachedNetwork) -> bool {
        let is_in_scope = match self.scope {
            AllocationScope::AllZones => true,
            AllocationScope::Zone => pod.node.as_ref() == Some(pods.zone()),
        };
        is_in_scope
            && match network.topology {
                AttachedTopology::Layer3 => true,
                AttachedTopology::Localnet => network.subnets.is_empty(),
                AttachedTopology::Layer2 => false,
            }
    }

    /// Allocates addresses for an attachment, in all families or none. `None`: the pod's node has
    /// no subnet of the network yet.
    fn assign(
        &mut self,
        pod: &Arc<Pod>,
        pods: &ZoneObjects,
        attachment: &PodAttachment,
    ) -> Result<Option<PodNetwork>, FieldProblem> {
        let network = &attachment.network;
        let request = &attachment.request;
        let Some(subnets) = subnets(pod, pods, network) else {
            return Ok(None);
        };
        if !request.addresses.is_empty() && !subnets.is_empty() {
            let reason = format!(
                "network {}: cannot allocate a static IP request with IPAM for pod {}/{}: only \
                 supported on primary networks",
                network.name, attachment.key, pod.key
            );
            return Err(FieldProblem::of_annotation(NETWORK_SELECTIONS, reason));
        }
        let count = subnets.len().max(request.addresses.len());
        if count == 1 && request.gateways.len() > 1 {
            return Err(FieldProblem::of_object(format!(
                "network {}: bad podNetwork data: single-stack network can only have a single \
                 gateway",
                network.name
            )));
        }
        let addresses = if subnets.is_empty() {
            request.addresses.clone()
        } else {
            self.next_addresses(network, subnets)?
        };
        let mac = request.mac.clone().unwrap_or_else(|| match addresses.first() {
            Some(first) => mac_address(first.addr()),
            None => mac_of_name(&format!("{} {} {}", pod.key, pod.uid, attachment.key)),
        });
        let settings = pods.settings();
        Ok(Some(network.pod_network(addresses, mac, &request.gateways, settings)))
    }

    fn next_addresses(
        &mut self,
        network: &AttachedNetwork,
        subnets: &[IpNet],
    ) -> Result<Vec<IpNet>, FieldProblem> {
        let mut addresses: Vec<IpNet> = Vec::new();
        for subnet in subnets {
            if let Some(address) = self.pool(network, *subnet).allocate() {
                addresses.push(with_length(address, *subnet));
                continue;
            }
            for address in addresses {
                self.pool(network, address.trunc()).release(address.addr());
            }
            return Err(FieldProblem::of_object(format!(
                "network {}: no address is left in {subnet}",
                network.name
            )));
        }
        Ok(addresses)
    }

    fn pool(&mut self, network: &AttachedNetwork, subnet: IpNet) -> &mut AddressPool {
        let key = (network.name.clone(), subnet);
        self.pools.entry(key).or_insert_with(|| network.address_pool(subnet))
    }
}

/// Subnets of a network for a pod, at most one of each family. `None`: the pod's node has no subnet of
/// the network yet.
fn subnets<'a>(
    pod: &Pod,
    pods: &'a ZoneObjects,
    network: &'a AttachedNetwork,
) -> Option<&'a [IpNet]> {
    if network.topology != AttachedTopology::Layer3 {
        return Some(&network.subnets);
    }
    let node = pod.node.as_deref().and_then(|node| pods.node(node))?;
    let subnets = node.node.subnets.get(&*network.name)?;
    (!subnets.is_empty()).then_some(subnets)
}

fn with_length(address: IpAddr, subnet: IpNet) -> IpNet {
    IpNet::new(address, subnet.prefix_len()).unwrap_or_else(|_| address.into())
}
