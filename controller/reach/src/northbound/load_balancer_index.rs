//! Load balancers by their VIPs, and the datapaths that they are attached to.

use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::nb;
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::Names;
use super::attached::{Attached, Members};
use super::id::LoadBalancerId;
use super::load_balancer::LoadBalancer;
use super::note::Notes;
use super::rows::Tables;
use super::vip::{EmptyVip, Vip};
use crate::packet::IpPacket;

/// All load balancers, with an index of their VIPs.
#[derive(Debug, Default)]
pub(crate) struct LoadBalancers {
    all: Vec<LoadBalancer>,
    ids: HashMap<Uuid, LoadBalancerId, RandomState>,
    groups: HashMap<Uuid, Arc<Members>, RandomState>,
    by_address: HashMap<IpAddr, Vec<(LoadBalancerId, usize)>, RandomState>,
}

impl LoadBalancers {
    pub(super) fn new(
        tables: &Tables,
        names: &Names,
        has_enabled_port: &dyn Fn(&str) -> bool,
        notes: &mut Notes,
    ) -> Self {
        let mut balancers = Self::default();
        for (uuid, row) in tables.load_balancers.iter() {
            let balancer = LoadBalancer::new(*uuid, row, tables, names, has_enabled_port, notes);
            let id = LoadBalancerId(balancers.all.len() as u32);
            balancers.ids.insert(*uuid, id);
            for (place, vip) in balancer.vips.iter().enumerate() {
                let places = balancers.by_address.entry(vip.address).or_default();
                places.push((id, place));
            }
            balancers.all.push(balancer);
        }
        for (uuid, row) in tables.load_balancer_groups.iter() {
            let members = balancers.members(&row.load_balancer);
            balancers.groups.insert(*uuid, Arc::new(members));
        }
        balancers
    }

    pub(crate) fn get(&self, id: LoadBalancerId) -> &LoadBalancer {
        &self.all[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.all.iter()
    }

    /// The load balancers of a datapath, own ones and those of its groups.
    pub(super) fn attached(
        &self,
        own: &BTreeSet<Ref<nb::LoadBalancer>>,
        groups: &BTreeSet<Ref<nb::LoadBalancerGroup>>,
    ) -> Attached {
        let own = (!own.is_empty()).then(|| Arc::new(self.members(own)));
        let groups = groups.iter().filter_map(|group| self.groups.get(&group.uuid));
        Attached::new(own.into_iter().chain(groups.map(Arc::clone)))
    }

    fn members(&self, references: &BTreeSet<Ref<nb::LoadBalancer>>) -> Members {
        let known = references.iter().filter_map(|reference| self.ids.get(&reference.uuid));
        Members::new(known.map(|id| (*id, self.get(*id))))
    }

    /// VIPs of a datapath that match a packet, those with a port first. `serves`: which of them the
    /// datapath looks at, apart from those that take packets for events.
    pub(crate) fn find<'a>(
        &'a self,
        attached: &'a Attached,
        packet: &IpPacket,
        serves: impl Fn(&LoadBalancer, &Vip) -> bool,
    ) -> Vec<(&'a LoadBalancer, &'a Vip)> {
        let Some(places) = self.by_address.get(&packet.destination) else {
            return Vec::new();
        };
        let candidates = || {
            places
                .iter()
                .filter(|(id, _)| attached.contains(*id))
                .map(|(id, place)| {
                    let balancer = self.get(*id);
                    (balancer, &balancer.vips[*place])
                })
                .filter(|(balancer, vip)| vip.is_served && serves(balancer, vip))
        };
        let event: Vec<_> = self.event(attached, packet).into_iter().collect();
        if !event.is_empty() {
            return event;
        }
        let exact: Vec<_> =
            candidates().filter(|(balancer, vip)| balancer.serves(vip, packet.transport)).collect();
        if !exact.is_empty() {
            return exact;
        }
        candidates().filter(|(_, vip)| vip.port.is_none()).collect()
    }

    /// `true` if a packet is for a VIP of a datapath, without those of its routers. The port counts
    /// if the load balancer has hairpin addresses.
    pub(crate) fn has_destination(&self, attached: &Attached, packet: &IpPacket) -> bool {
        let places = self.by_address.get(&packet.destination).into_iter().flatten();
        let mut own = places.filter(|(id, _)| attached.contains_own(*id));
        own.any(|(id, place)| {
            let balancer = self.get(*id);
            let vip = &balancer.vips[*place];
            vip.port.is_none()
                || balancer.has_protocol(packet.transport)
                    && (balancer.hairpin_sources.is_empty()
                        || balancer.serves(vip, packet.transport))
        })
    }

    /// A VIP of a datapath without backends that takes a packet for an event.
    pub(crate) fn event<'a>(
        &'a self,
        attached: &'a Attached,
        packet: &IpPacket,
    ) -> Option<(&'a LoadBalancer, &'a Vip)> {
        let port = packet.transport.destination_port();
        self.at(attached, packet.destination).find(|(balancer, vip)| {
            vip.is_served
                && vip.empty == EmptyVip::Event
                && vip.backends.is_empty()
                && balancer.has_protocol(packet.transport)
                && vip.port.is_none_or(|own| own == port)
        })
    }

    /// VIPs of a datapath with an address.
    pub(crate) fn at<'a>(
        &'a self,
        attached: &'a Attached,
        address: IpAddr,
    ) -> impl Iterator<Item = (&'a LoadBalancer, &'a Vip)> {
        let places = self.by_address.get(&address).into_iter().flatten();
        places.filter(|(id, _)| attached.contains(*id)).map(|(id, place)| {
            let balancer = self.get(*id);
            (balancer, &balancer.vips[*place])
        })
    }

    /// `true` if the VIPs with an address do not make a router track packets: all of them have
    /// `use_stateless_nat`.
    pub(crate) fn is_untracked(&self, attached: &Attached, address: IpAddr) -> bool {
        attached.has_stateless
            && self.at(attached, address).all(|(balancer, _)| balancer.is_stateless)
    }

    /// A load balancer with `use_stateless_nat` that has a VIP with an address. `None`: there is
    /// none.
    pub(crate) fn stateless_at<'a>(
        &'a self,
        attached: &'a Attached,
        address: IpAddr,
    ) -> Option<&'a LoadBalancer> {
        let mut vips = self.at(attached, address).filter(|_| attached.has_stateless);
        vips.find_map(|(balancer, _)| balancer.is_stateless.then_some(balancer))
    }

    /// VIPs with `use_stateless_nat` one of whose backends sends a packet in the way in which it
    /// would answer.
    pub(crate) fn stateless_of_sender<'a>(
        &'a self,
        attached: &'a Attached,
        packet: &IpPacket,
    ) -> impl Iterator<Item = (&'a LoadBalancer, &'a Vip)> {
        let ids = attached.ids().filter(|_| attached.has_stateless);
        let balancers = ids.map(|id| self.get(id));
        balancers
            .filter(|balancer| balancer.is_stateless && balancer.has_protocol(packet.transport))
            .flat_map(|balancer| balancer.vips.iter().map(move |vip| (balancer, vip)))
            .filter(|(_, vip)| vip.is_answer(packet))
    }

    /// A load balancer of a datapath one of whose backends sends a packet in the way in which it
    /// would answer. `None`: there is none.
    pub(crate) fn of_sender<'a>(
        &'a self,
        attached: &Attached,
        packet: &IpPacket,
    ) -> Option<&'a LoadBalancer> {
        let mut balancers = attached.ids().map(|id| self.get(id));
        balancers.find(|balancer| {
            let has_protocol = balancer.has_protocol(packet.transport);
            let mut vips = balancer.vips.iter();
            vips.any(|vip| vip.is_answer(packet) && (vip.port.is_none() || has_protocol))
        })
    }

    /// VIPs of a datapath whose addresses other routers get routes to.
    pub(super) fn routable<'a>(
        &'a self,
        attached: &'a Attached,
    ) -> impl Iterator<Item = (&'a LoadBalancer, &'a Vip)> {
        attached
            .ids()
            .map(|id| self.get(id))
            .filter(|balancer| balancer.is_routable)
            .flat_map(|balancer| balancer.vips.iter().map(move |vip| (balancer, vip)))
    }
}
