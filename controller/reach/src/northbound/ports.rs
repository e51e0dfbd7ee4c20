//! Ports of switches and routers, and how they are connected.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_schemas::nb::{self, LogicalRouterPort};
use uuid::Uuid;

use super::dhcp::Gateways;
use super::id::{PortId, RouterId, RouterPortId, SwitchId, SwitchPortId};
use super::note::{Notes, RowRef};
use super::router::{Link, RouterKind, RouterPort};
use super::rows::{Tables, option};
use super::switch::{SwitchPort, SwitchPortKind};
use crate::address::{Interface, Prefix};

/// Ports while the index is being built.
#[derive(Default)]
#[expect(clippy::struct_field_names, reason = "ports of switches and ports of routers")]
pub(super) struct Ports {
    pub(super) switch_ports: Vec<SwitchPort>,
    pub(super) router_ports: Vec<RouterPort>,
    /// Switch ports by the UUIDs of their rows.
    pub(super) by_uuid: HashMap<Uuid, SwitchPortId, RandomState>,
    pub(super) by_name: HashMap<String, PortId, RandomState>,
    /// Ports of each router.
    pub(super) of_routers: Vec<Vec<RouterPortId>>,
    /// Ports of each switch.
    pub(super) of_switches: Vec<Vec<SwitchPortId>>,
    /// Gateways of DHCP options, which ports share.
    gateways: HashMap<Uuid, Arc<Gateways>, RandomState>,
}

impl Ports {
    pub(super) fn add_switch(
        &mut self,
        switch: SwitchId,
        row: &nb::LogicalSwitch,
        tables: &Tables,
        notes: &mut Notes,
    ) {
        let mut ids = Vec::with_capacity(row.ports.len());
        let needs_up = tables.is_global_false("ignore_lsp_down");
        for (uuid, port) in tables.switch_ports.of(&row.ports) {
            let id = SwitchPortId(self.switch_ports.len() as u32);
            if self.by_name.contains_key(&port.name) {
                let reference = RowRef::new::<nb::LogicalSwitchPort>(uuid);
                notes.add(reference, format!("another port has the name {}", port.name));
                continue;
            }
            self.by_name.insert(port.name.clone(), id.into());
            self.by_uuid.insert(uuid, id);
            let dhcp = port.dhcpv4_options.and_then(|dhcp| {
                let row = tables.dhcp_options.get(dhcp)?;
                let gateways = self.gateways.entry(dhcp.uuid);
                Some(&*gateways.or_insert_with(|| Arc::new(Gateways::new(row))))
            });
            let built = SwitchPort::new(uuid, port, switch, needs_up, dhcp);
            self.switch_ports.push(built);
            ids.push(id);
        }
        self.of_switches.push(ids);
    }

    pub(super) fn add_router(
        &mut self,
        router: RouterId,
        row: &nb::LogicalRouter,
        tables: &Tables,
        notes: &mut Notes,
    ) {
        let mut ids = Vec::with_capacity(row.ports.len());
        for (uuid, port) in tables.router_ports.of(&row.ports) {
            let reference = RowRef::new::<LogicalRouterPort>(uuid);
            let id = RouterPortId(self.router_ports.len() as u32);
            if self.by_name.contains_key(&port.name) {
                notes.add(reference, format!("another port has the name {}", port.name));
                continue;
            }
            let active = tables.active_chassis(port);
            let Some(built) = RouterPort::new(uuid, port, router, active) else {
                notes.add(reference, format!("bad mac {}", port.mac));
                continue;
            };
            for network in port.networks.iter().filter(|text| Prefix::parse(text).is_none()) {
                notes.add(reference, format!("bad network {network}"));
            }
            self.by_name.insert(port.name.clone(), id.into());
            self.router_ports.push(built);
            ids.push(id);
        }
        ids.sort_by(|a, b| {
            let name = |id: &RouterPortId| &self.router_ports[id.0 as usize].name;
            name(a).cmp(name(b))
        });
        self.of_routers.push(ids);
    }

    /// Connects switch ports with their router ports, and router ports with their peers.
    pub(super) fn connect(&mut self, tables: &Tables) {
        let peers: HashMap<&str, &str> = tables
            .router_ports
            .iter()
            .filter_map(|(_, row)| Some((row.name.as_str(), row.peer.as_deref()?)))
            .collect();
        let switch_peers: HashMap<&str, &str> = tables
            .switch_ports
            .iter()
            .filter(|(_, row)| row.r#type == "switch")
            .filter_map(|(_, row)| Some((row.name.as_str(), row.peer.as_deref()?)))
            .collect();
        for (uuid, row) in tables.switch_ports.iter() {
            let Some(id) = self.by_uuid.get(uuid).copied() else {
                continue;
            };
            match SwitchPortKind::of(&row.r#type) {
                SwitchPortKind::Router => {
                    let name = row.options.get("router-port");
                    let Some(PortId::Router(target)) =
                        name.and_then(|name| self.by_name.get(name).copied())
                    else {
                        continue;
                    };
                    let router_port = &mut self.router_ports[target.0 as usize];
                    if peers.contains_key(router_port.name.as_str()) {
                        continue;
                    }
                    router_port.switch_ports += 1;
                    router_port.link = Link::Switch(id);
                    let interface =
                        Interface { mac: router_port.mac, addresses: router_port.networks.clone() };
                    let port = &mut self.switch_ports[id.0 as usize];
                    port.peer = Some(target.into());
                    if row.addresses.contains("router") {
                        port.interfaces.push(interface);
                    }
                }
                SwitchPortKind::Switch => {
                    let name = row.peer.as_deref().unwrap_or_default();
                    let Some(PortId::Switch(peer)) = self.by_name.get(name).copied() else {
                        continue;
                    };
                    if switch_peers.get(name) == Some(&row.name.as_str()) {
                        self.switch_ports[id.0 as usize].peer = Some(peer.into());
                    }
                }
                _ => {}
            }
        }
        self.find_overlays();
        for number in 0..self.router_ports.len() {
            let name = &self.router_ports[number].name;
            let Some(peer_name) = peers.get(name.as_str()) else {
                continue;
            };
            let is_mutual = peers.get(peer_name).is_some_and(|back| back == name);
            if let Some(PortId::Router(peer)) = self.by_name.get(*peer_name).copied()
                && is_mutual
            {
                self.router_ports[number].link = Link::Router(peer);
            }
        }
    }

    /// Finds the router ports on switches without a `localnet` port.
    fn find_overlays(&mut self) {
        for ids in &self.of_switches {
            let ports = || ids.iter().map(|id| &self.switch_ports[id.0 as usize]);
            if ports().any(|port| port.kind == SwitchPortKind::Outside) {
                continue;
            }
            let peers: Vec<_> = ports().filter_map(|port| port.peer).collect();
            for peer in peers {
                if let PortId::Router(id) = peer {
                    self.router_ports[id.0 as usize].is_overlay = true;
                }
            }
        }
    }

    /// Reads `enable_router_port_acl` of the switch ports to gateway ports.
    pub(super) fn set_router_tracking(&mut self, kinds: &[RouterKind], tables: &Tables) {
        for (uuid, row) in tables.switch_ports.iter() {
            let Some(id) = self.by_uuid.get(uuid) else {
                continue;
            };
            let port = &mut self.switch_ports[id.0 as usize];
            if let Some(PortId::Router(peer)) = port.peer {
                let router = self.router_ports[peer.0 as usize].router;
                port.tracks_router = kinds[router.0 as usize].is_gateway_port(peer)
                    && option(&row.options, "enable_router_port_acl");
            }
        }
    }

    /// Limits the answer for packets from ports of network functions, which other ports have sent.
    pub(super) fn limit_network_functions(&mut self, tables: &Tables) {
        for (_, function) in tables.functions.iter() {
            for port in [Some(function.inport), function.outport].into_iter().flatten() {
                if let Some(id) = self.by_uuid.get(&port.uuid) {
                    self.switch_ports[id.0 as usize].sender_limit =
                        Some("which packets a network function sends on");
                }
            }
        }
    }

    pub(super) fn router_ports_of(&self, ids: &[RouterPortId]) -> Vec<(RouterPortId, &RouterPort)> {
        ids.iter().map(|id| (*id, &self.router_ports[id.0 as usize])).collect()
    }
}
