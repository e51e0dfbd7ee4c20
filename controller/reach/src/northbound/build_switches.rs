//! Building the switches of the index from rows.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::{Arc, OnceLock};

use patchbay_schemas::nb;
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::Names;
use super::acl_list::{AclList, AclNotes, AclReader, SwitchAcls};
use super::forwarding_group::read_groups;
use super::id::{PortId, SwitchId, SwitchPortId};
use super::load_balancer_index::LoadBalancers;
use super::mark::Marks;
use super::note::{Notes, RowRef};
use super::ports::Ports;
use super::protocol_redirect::ProtocolRedirect;
use super::rows::{Tables, option};
use super::switch::{MacLookup, RequestFlood, Switch, SwitchPortKind};
use super::tunnel::tunnel_key;
use crate::address::{Mac, Prefix};

/// Longest link-local suffix of a prefix in `ipv6_prefix`, in bits of the prefix.
const IPV6_PREFIX_LENGTH: u8 = 64;
/// The first number behind those of VXLANs.
const VNI_LIMIT: u32 = 1 << 24;

pub(super) fn build_switches(
    rows: &[&(Uuid, nb::LogicalSwitch)],
    ports: &Ports,
    tables: &Tables,
    names: &Names,
    load_balancers: &LoadBalancers,
    notes: &mut Notes,
) -> Vec<Switch> {
    let mut reader = AclReader::new(tables, names);
    let lists = read_acls(rows, ports, tables, &mut reader);
    let mut acls: Vec<Vec<Arc<AclList>>> = vec![Vec::new(); rows.len()];
    for (list, switches) in &lists {
        for switch in switches {
            acls[switch.0 as usize].push(Arc::clone(list));
        }
    }
    let mut switches = Vec::with_capacity(rows.len());
    for (number, (uuid, row)) in rows.iter().enumerate() {
        let id = SwitchId(number as u32);
        let attached = load_balancers.attached(&row.load_balancer, &row.load_balancer_group);
        let dns = tables.dns.of(&row.dns_records);
        let dns = dns
            .filter(|(_, dns)| !dns.records.is_empty())
            .map(|(uuid, _)| RowRef::new::<nb::Dns>(uuid));
        let ids = &ports.of_switches[number];
        let mut switch = Switch {
            row: RowRef::new::<nb::LogicalSwitch>(*uuid),
            name: row.name.clone(),
            external_ids: row.external_ids.clone(),
            tunnel_key: tunnel_key(&row.other_config),
            subnets: read_subnets(&row.other_config),
            by_mac: HashMap::default(),
            by_address: HashMap::default(),
            router_ports: Vec::new(),
            announcers: Vec::new(),
            unknown: Vec::new(),
            links: Vec::new(),
            acls: SwitchAcls::new(id, std::mem::take(&mut acls[number])),
            marks: Marks::new(tables.qos.of(&row.qos_rules), id, names, notes),
            load_balancers: attached,
            forwarding_groups: read_groups(
                tables.forwarding_groups.of(&row.forwarding_groups),
                ports,
                notes,
            ),
            redirects: ids
                .iter()
                .filter_map(|id| read_redirect(*id, ports, tables, notes))
                .collect(),
            virtual_ports: HashMap::default(),
            check_sources: HashSet::default(),
            flood: RequestFlood::Machines,
            dns: dns.min(),
            has_remote_neighbors: has_vni(&row.other_config),
            is_transparent: option(&row.other_config, "vlan-passthru"),
            tracks_vips: option(&row.other_config, "enable-stateless-acl-with-lb"),
            segment: OnceLock::new(),
        };
        add_ports(&mut switch, ids, ports);
        let flood = row.other_config.get("broadcast-arps-to-all-routers");
        if flood.is_some_and(|flood| flood.eq_ignore_ascii_case("false")) {
            switch.flood = RequestFlood::Nobody;
        } else if switch.router_ports.len() == ids.len() {
            switch.flood = RequestFlood::All;
        }
        switches.push(switch);
    }
    let mut acl_notes = AclNotes::new(&switches, names);
    for (list, switches) in &lists {
        acl_notes.add(list, switches, notes);
    }
    notes.0.append(&mut reader.into_notes().0);
    switches
}

/// List of ACLs, with the switches to which it applies.
type AppliedList = (Arc<AclList>, Vec<SwitchId>);

/// Reads the ACLs of switches, and those of the port groups that have a port on one.
fn read_acls<'a>(
    rows: &[&'a (Uuid, nb::LogicalSwitch)],
    ports: &Ports,
    tables: &'a Tables,
    reader: &mut AclReader<'a>,
) -> Vec<AppliedList> {
    let own = rows.iter().zip(0..).map(|((_, row), number)| {
        let switches = vec![SwitchId(number)];
        (&row.acls, switches)
    });
    let of_groups = tables.port_groups.iter().map(|(_, group)| {
        let members = group.ports.iter().filter_map(|port| ports.by_uuid.get(&port.uuid));
        let switches: BTreeSet<SwitchId> =
            members.map(|id| ports.switch_ports[id.0 as usize].switch).collect();
        (&group.acls, switches.into_iter().collect())
    });
    let all = own.chain(of_groups);
    let applied = all.filter(|(acls, switches)| !acls.is_empty() && !switches.is_empty());
    applied.map(|(acls, switches)| (reader.list(acls), switches)).collect()
}

/// Adds the ports of a switch to its lookup tables.
fn add_ports(switch: &mut Switch, ids: &[SwitchPortId], ports: &Ports) {
    for id in ids {
        let port = &ports.switch_ports[id.0 as usize];
        if port.is_unknown && port.is_enabled {
            switch.unknown.push(*id);
            if let Some(PortId::Switch(peer)) = port.peer {
                switch.links.push((*id, peer));
            }
        }
        if let Some(address) = port.virtual_address {
            switch.virtual_ports.insert(address, *id);
        }
        let is_indirect = port.kind == SwitchPortKind::Indirect;
        for interface in port.interfaces.iter().filter(|_| !is_indirect) {
            let own = interface.addresses.iter().map(|address| address.address);
            for address in own.chain([interface.mac.link_local().into()]) {
                let places = switch.by_address.entry(address).or_default();
                if !places.contains(&(*id, interface.mac)) {
                    places.push((*id, interface.mac));
                }
            }
        }
        let macs: Vec<Mac> = match port.peer {
            Some(PortId::Router(peer)) => {
                switch.router_ports.push((*id, peer));
                let mac = ports.router_ports[peer.0 as usize].mac;
                let proxy = port.proxy.as_ref().map(|proxy| proxy.mac);
                std::iter::once(mac)
                    .chain(proxy.filter(|proxy| *proxy != Mac::ZERO && *proxy != mac))
                    .collect()
            }
            _ if is_indirect || port.mac_lookup == MacLookup::Learned => Vec::new(),
            _ => port.interfaces.iter().map(|interface| interface.mac).collect(),
        };
        for mac in macs {
            let places = switch.by_mac.entry(mac).or_default();
            if !places.contains(id) {
                places.push(*id);
            }
        }
    }
}

/// `routing-protocol-redirect` of the router port behind a switch port.
fn read_redirect(
    id: SwitchPortId,
    ports: &Ports,
    tables: &Tables,
    notes: &mut Notes,
) -> Option<ProtocolRedirect> {
    let Some(PortId::Router(peer)) = ports.switch_ports[id.0 as usize].peer else {
        return None;
    };
    let port = &ports.router_ports[peer.0 as usize];
    let row = tables.router_ports.get(Ref::new(port.uuid))?;
    ProtocolRedirect::new(port, row, id, ports, notes)
}

/// `true` if `dynamic-routing-vni` is a number of a VXLAN.
fn has_vni(other_config: &BTreeMap<String, String>) -> bool {
    let vni = other_config.get("dynamic-routing-vni").and_then(|text| text.parse::<u32>().ok());
    vni.is_some_and(|vni| (1..VNI_LIMIT).contains(&vni))
}

fn read_subnets(other_config: &BTreeMap<String, String>) -> Vec<Prefix> {
    let subnet = other_config.get("subnet").and_then(|text| Prefix::parse(text));
    let prefix = other_config.get("ipv6_prefix").and_then(|text| Prefix::parse(text));
    let prefix = prefix.map(|prefix| Prefix { length: IPV6_PREFIX_LENGTH, ..prefix });
    subnet.into_iter().chain(prefix).collect()
}
