//! Rows of a network, but for those that lead to other nodes.

use std::collections::HashSet;
use std::sync::Arc;

use patchbay_rows::{PartRow, Reader};
use patchbay_schemas::nb::{Acl, AclAction};
use patchbay_zone::Cell;

use super::{Rows, SharedKey, Topologies, read_network, read_rendered};
use crate::tables::{LocalnetPort, OwnNat, as_row};
use crate::views::{follows_nodes, rows_of_prefix};
use crate::{
    COPP, Destinations, NatRows, NetworkRows, PortGroupRows, RouterRows, SwitchRows, advertised,
};

impl Topologies {
    pub(super) fn network(&self, prefix: &Arc<str>, reader: &Reader<'_, Self>, rows: &mut Rows) {
        if self.is_shared_database(reader) {
            rows.keep_rest();
        }
        reader.read(&Cell::OlderLayout);
        reader.shared(&SharedKey::Services);
        // Its rows refer to address sets, which come first.
        let is_advertised = self.is_advertised(prefix, reader)
            && reader.read(&Cell::Zone).families().into_iter().all(|family| {
                let nodes = advertised::node_addresses_name(family);
                reader.row(self.tables.address_sets, &nodes).is_some()
            });
        let inputs = read_network(reader, prefix);
        if follows_nodes(inputs, prefix) {
            reader.read(&Cell::Nodes);
            read_rendered(reader, prefix);
        }
        let made = match rows_of_prefix(inputs, prefix, is_advertised) {
            // As in OVN-Kubernetes, what follows from the node's annotations stays when they are
            // withdrawn.
            Some(Ok(made)) if made.incomplete.is_some() && self.has_more(&made, reader) => {
                return rows.keep_rest();
            }
            Some(Ok(made)) => made,
            Some(Err(_)) => return rows.keep_rest(),
            None => {
                if reader.read(&Cell::Unread).may_have_prefix(prefix) {
                    rows.keep_rest();
                }
                return;
            }
        };
        for group in &made.load_balancer_groups {
            rows.put(self.tables.groups, group);
        }
        for router in &made.routers {
            self.router(router, reader, rows);
        }
        for switch in &made.switches {
            self.switch(switch, reader, rows);
        }
        for binding in &made.mac_bindings {
            rows.put(self.tables.mac_bindings, binding);
        }
        for group in &made.port_groups {
            self.port_group(group, reader, rows);
        }
        for set in &made.address_sets {
            rows.put(self.tables.address_sets, set);
        }
    }

    /// `true` for an address set to which a NAT row of the network refers. It goes in the next pass:
    /// ovsdb-server refuses to delete a row that is referred to, and counts references before it
    /// collects the NAT rows of a router.
    pub(super) fn keeps_referred_set(&self, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool {
        let tables = &self.tables;
        let mut nats = reader.owned().filter(|row| row.is_of(tables.own_nats));
        row.is_of(tables.address_sets)
            && nats.any(|nat| {
                let nat = reader.typed::<OwnNat>(nat.view());
                nat.is_ok_and(|nat| nat.exempted_ext_ips == Some(row.view().uuid()))
            })
    }

    /// `true` if the database has routers, switches or ports of the network that are not made.
    fn has_more(&self, made: &NetworkRows, reader: &Reader<'_, Self>) -> bool {
        let tables = &self.tables;
        let routers = made.routers.iter().flat_map(|made| {
            let ports = made.ports.iter().map(|port| &port.port.name);
            ports.chain([&made.router.name])
        });
        let switches = made.switches.iter().flat_map(|made| {
            let ports = made.ports.iter().map(|port| &port.name);
            ports.chain([&made.switch.name])
        });
        let names: HashSet<&str> = routers.chain(switches).map(String::as_str).collect();
        let mut own = reader.owned().filter(|row| {
            row.is_of(tables.routers)
                || row.is_of(tables.router_ports)
                || row.is_of(tables.switches)
                || row.is_of(tables.switch_ports)
        });
        own.any(|row| !names.contains(row.view().name()))
    }

    pub(super) fn port_group(
        &self,
        made: &PortGroupRows,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let tables = &self.tables;
        let mut added = rows.put(tables.port_groups, &made.group);
        for port in &made.ports {
            added.holds(tables.ports_of_group, port.as_str());
        }
        for acl in &made.acls {
            rows.put(tables.acls, &self.known_columns(acl, reader))
                .held_by(tables.group_acls, made.group.name.as_str());
        }
    }

    /// An ACL without the columns that the database lacks: one from before there were tiers has
    /// only one.
    fn known_columns(&self, acl: &Acl, reader: &Reader<'_, Self>) -> Acl {
        let has_tiers = reader.has_column(self.tables.acls, "tier");
        Acl { tier: if has_tiers { acl.tier } else { 0 }, ..acl.clone() }
    }

    fn router(&self, made: &RouterRows, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let name = made.router.name.as_str();
        let mut added = rows.put(tables.routers, &made.router);
        added.holds(tables.router_copp, COPP);
        for group in &made.load_balancer_groups {
            added.holds(tables.router_groups, group.as_str());
        }
        for port in &made.ports {
            rows.put(tables.router_ports, &port.port).held_by(tables.ports_of_router, name);
            if let Some(chassis) = &port.gateway_chassis {
                rows.put(tables.chassis, chassis)
                    .held_by(tables.port_chassis, port.port.name.as_str());
            }
        }
        for route in &made.static_routes {
            rows.put(tables.routes, &as_row(route)).held_by(tables.routes_of_router, name);
        }
        for policy in &made.policies {
            rows.put(tables.policies, policy).held_by(tables.router_policies, name);
        }
        // A database from before NAT had matches cannot select packets for the host.
        let has_match = reader.has_column(tables.nats, "match");
        let is_shared = self.is_shared_database(reader);
        let nats = made.nats.iter();
        for made in nats.filter(|made| has_match || made.nat.r#match.is_empty()) {
            if !is_shared {
                if let Some(nat) = self.own_nat(made, reader) {
                    rows.put(tables.own_nats, &nat).held_by(tables.own_nats_of_router, name);
                }
            } else if made.destinations == Destinations::All {
                rows.put(tables.nats, &made.nat).held_by(tables.router_nats, name);
            }
        }
    }

    /// A NAT row in a database that no other program writes. `None`: it waits for its address set.
    fn own_nat(&self, made: &NatRows, reader: &Reader<'_, Self>) -> Option<OwnNat> {
        let set = |name: &String| Some(reader.row(self.tables.address_sets, name)?.uuid());
        let (allowed, exempted) = match &made.destinations {
            Destinations::All => (None, None),
            Destinations::Of(name) => (Some(set(name)?), None),
            Destinations::AllBut(name) => (None, Some(set(name)?)),
        };
        let nat = made.nat.clone();
        Some(OwnNat {
            r#type: nat.r#type,
            logical_ip: nat.logical_ip,
            external_ip: nat.external_ip,
            external_port_range: nat.external_port_range,
            logical_port: nat.logical_port,
            r#match: nat.r#match,
            options: nat.options,
            external_ids: nat.external_ids,
            allowed_ext_ips: allowed,
            exempted_ext_ips: exempted,
        })
    }

    fn switch(&self, made: &SwitchRows, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let name = made.switch.name.as_str();
        let mut added = rows.put(tables.switches, &made.switch);
        for group in &made.load_balancer_groups {
            added.holds(tables.switch_groups, group.as_str());
        }
        for port in &made.ports {
            if port.r#type == LocalnetPort::TYPE {
                rows.put(tables.localnet_ports, &port.into())
                    .held_by(tables.localnet_ports_of_switch, name);
            } else {
                rows.put(tables.switch_ports, &as_row(port)).held_by(tables.ports_of_switch, name);
            }
        }
        // A database from before there were tiers has no such action.
        let has_pass = reader.has_column(tables.acls, "tier");
        let acls = made.acls.iter();
        for acl in acls.filter(|acl| has_pass || acl.action != AclAction::Pass) {
            rows.put(tables.acls, &self.known_columns(acl, reader))
                .held_by(tables.switch_acls, name);
        }
    }
}
