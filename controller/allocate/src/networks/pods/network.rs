//! Addresses, MAC addresses and tunnel ids of one network.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    AddressPool, AttachedNetwork, AttachedTopology, Pod, PodNetwork, Role, mac_address,
};

use super::memory::PodMemory;

/// Tunnel ids of pods.
const TUNNEL_IDS: RangeInclusive<u32> = 1..=32_767;

/// Tunnel ids that are kept for the network's own ports once its allocator has started, except those
/// that pods have then.
const OWN_TUNNEL_IDS: RangeInclusive<u16> = 1..=9;

/// Owner of a MAC address. Two pods of one virtual machine are one owner.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum MacOwner {
    /// Gateway or management port.
    Network,
    Pod(String),
    Machine(String),
}

impl MacOwner {
    pub(super) fn of(pod: &Pod) -> Self {
        let namespace = &pod.key.namespace;
        match &pod.machine {
            Some(machine) => Self::Machine(format!("{namespace}/{}", machine.name)),
            None => Self::Pod(pod.key.to_string()),
        }
    }
}

/// Used and free addresses and ids of one network.
#[derive(Clone, Debug)]
pub(super) struct NetworkAddresses {
    pub(super) network: Arc<AttachedNetwork>,
    /// One for each subnet.
    pub(super) pools: Vec<AddressPool>,
    /// `true` in the pass in which the allocators start.
    is_start: bool,
    tunnel_ids: BTreeSet<u16>,
    /// Tunnel ids by attachment and pod.
    tunnel_owners: BTreeMap<String, u16>,
    macs: BTreeMap<String, MacOwner>,
}

impl NetworkAddresses {
    /// Makes the state of a network without pods. `None`: its zones give the addresses.
    pub(super) fn new(network: &Arc<AttachedNetwork>) -> Option<Self> {
        let is_managed = match network.topology {
            AttachedTopology::Layer2 => true,
            AttachedTopology::Layer3 => false,
            AttachedTopology::Localnet => !network.subnets.is_empty(),
        };
        if !is_managed {
            return None;
        }
        let own = network.subnets.iter().filter_map(|subnet| network.own_addresses(*subnet));
        let macs = own.flat_map(|(gateway, management)| [gateway, management].map(mac_address));
        Some(Self {
            network: network.clone(),
            pools: network.subnets.iter().map(|subnet| network.address_pool(*subnet)).collect(),
            is_start: false,
            tunnel_ids: BTreeSet::new(),
            tunnel_owners: BTreeMap::new(),
            macs: macs.map(|mac| (mac, MacOwner::Network)).collect(),
        })
    }

    /// `true` if pods have tunnel ids.
    pub(super) fn has_tunnel_ids(&self) -> bool {
        self.network.topology == AttachedTopology::Layer2
    }

    /// Takes what a pod has.
    pub(super) fn reserve(&mut self, pod: &Pod, attachment: &str, known: &PodNetwork) {
        for address in &known.addresses {
            self.reserve_address(address.addr());
        }
        if let Some(id) = known.tunnel_id {
            self.tunnel_ids.insert(id);
            self.tunnel_owners.insert(tunnel_owner(pod, attachment), id);
        }
        let owner = || MacOwner::of(pod);
        self.macs.entry(known.mac.clone()).or_insert_with(owner);
    }

    /// Takes what a claim keeps.
    pub(super) fn reserve_claim(&mut self, addresses: impl Iterator<Item = IpNet>) {
        for address in addresses {
            self.reserve_address(address.addr());
        }
    }

    fn reserve_address(&mut self, address: IpAddr) {
        let mut pools = self.pools.iter_mut();
        if let Some(pool) = pools.find(|pool| pool.subnet().contains(&address)) {
            pool.hold(address);
        }
    }

    /// Takes a tunnel id: that which the pod had, or the next one. `None`: all are in use.
    pub(super) fn take_tunnel_id(
        &mut self,
        pod: &Pod,
        attachment: &str,
        memory: &mut PodMemory,
    ) -> Option<u16> {
        let owner = tunnel_owner(pod, attachment);
        let is_free = |id: u16| !self.tunnel_ids.contains(&id);
        let is_kept = |id: u16| {
            !self.is_start && OWN_TUNNEL_IDS.contains(&id) && !memory.early_tunnel_ids.contains(&id)
        };
        let is_next = |id: u32| u16::try_from(id).is_ok_and(|id| is_free(id) && !is_kept(id));
        let former =
            memory.tunnel_owners.get(&owner).copied().filter(|id| is_free(*id)).map(u32::from);
        let id = former.or_else(|| memory.tunnel_ids.next(TUNNEL_IDS, is_next))?;
        let id = u16::try_from(id).ok()?;
        self.tunnel_ids.insert(id);
        self.tunnel_owners.insert(owner, id);
        Some(id)
    }

    /// Returns what a failed attempt has taken.
    pub(super) fn release(&mut self, tunnel_id: Option<u16>, addresses: &[IpAddr]) {
        if let Some(id) = tunnel_id {
            self.tunnel_ids.remove(&id);
            self.tunnel_owners.retain(|_, owned| *owned != id);
        }
        for address in addresses {
            let mut pools = self.pools.iter_mut();
            if let Some(pool) = pools.find(|pool| pool.subnet().contains(address)) {
                pool.release(*address);
            }
        }
    }

    /// Takes a MAC address. Returns `false` if it is another owner's. Secondary networks do not
    /// compare them.
    pub(super) fn take_mac(&mut self, mac: &str, owner: &MacOwner) -> bool {
        let holder = self.macs.entry(mac.to_owned()).or_insert_with(|| owner.clone());
        holder == owner || self.network.role == Role::Secondary
    }

    /// Starts the allocators: the pods that are there now are the first ones.
    pub(super) fn start(&mut self) {
        self.is_start = true;
    }

    /// Continues where the allocators were. Notes whether something has become free since.
    pub(super) fn resume(&mut self, memory: &mut PodMemory) {
        for pool in &mut self.pools {
            let position = memory.positions.get(&pool.subnet()).copied();
            pool.set_position(position.unwrap_or_default());
        }
        let now: BTreeSet<IpAddr> = self.pools.iter().flat_map(AddressPool::taken).collect();
        let macs: BTreeSet<String> = self.macs.keys().cloned().collect();
        if !memory.addresses.is_subset(&now) || !memory.macs.is_subset(&macs) {
            memory.failed.clear();
        }
    }

    /// Notes where the allocators are, and what is taken.
    pub(super) fn remember(&self, memory: &mut PodMemory) {
        let pools = self.pools.iter();
        memory.positions = pools.map(|pool| (pool.subnet(), pool.position())).collect();
        memory.addresses = self.pools.iter().flat_map(AddressPool::taken).collect();
        memory.macs = self.macs.keys().cloned().collect();
        memory.tunnel_owners.clone_from(&self.tunnel_owners);
        if self.is_start {
            let early = self.tunnel_ids.range(OWN_TUNNEL_IDS);
            memory.early_tunnel_ids = early.copied().collect();
        }
    }
}

/// Owner of a tunnel id.
fn tunnel_owner(pod: &Pod, attachment: &str) -> String {
    format!("{attachment}/{}/{}", pod.key, pod.uid)
}
