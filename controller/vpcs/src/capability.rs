//! VPCs on the row engine: which parts there are, and the rows of each.

use std::convert::Infallible;

use patchbay_model::{ClusterSettings, FieldProblem, ObjectProblem, ObjectRef, object_kind};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader, Refused};
use patchbay_zone::ZoneCapability;

use super::inputs::{VpcCell, ZoneVpcs};
use super::part::Part;
use super::rows;
use super::tables::Tables;

/// External id of a pod's port: namespace and name of the pod.
pub(super) const POD: &str = "pod";

/// VPCs, as a capability of the row engine.
#[derive(Debug)]
pub struct Vpcs {
    pub(super) tables: Tables,
}

impl ZoneCapability for Vpcs {
    const NAME: &'static str = "VPCs";

    /// Rows stay one by one while objects may be missing ([`ZoneVpcs::new`]).
    fn needs(_: &ClusterSettings) -> Vec<&'static str> {
        Vec::new()
    }

    /// Rows that refer to new rows of other objects wait for the next plan.
    fn waits_for(_: &ZoneVpcs) -> &'static [&'static str] {
        &[Self::NAME]
    }

    fn subject(part: &Part) -> String {
        part.to_string()
    }

    fn problems(engine: &Engine<Self>, _: &ZoneVpcs) -> Vec<ObjectProblem> {
        let refused = engine.refused();
        refused
            .flat_map(|(part, rows)| {
                let object = ObjectRef::cluster(part.kind(), part.name());
                let problems = rows.iter().map(refused_row);
                problems.map(move |problem| ObjectProblem::new(object.clone(), problem))
            })
            .collect()
    }
}

/// Problem of an object whose row another object or another program has.
fn refused_row(Refused { table, first, .. }: &Refused<Part>) -> FieldProblem {
    FieldProblem::of_object(match first {
        Some(other) => format!("{other} needs the same row of {table}"),
        None => format!("another program has the row of {table}"),
    })
}

impl Capability for Vpcs {
    type Part = Part;
    type Inputs = ZoneVpcs;
    type Group = Part;
    type Report = ();
    type SharedKey = Infallible;
    type Shared = ();

    const KINDS: &'static [()] = &[()];

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, part: &Part) -> Part {
        part.clone()
    }

    fn comment(&self, part: &Part) -> String {
        format!("patchbay: {part}")
    }

    fn parts(&self, cell: &VpcCell, _: &ZoneVpcs, part: &mut dyn FnMut(Part)) {
        match cell {
            VpcCell::Completeness => {}
            VpcCell::Router(name) | VpcCell::Balanced(name) => part(Part::Vpc(name.clone())),
            VpcCell::Subnet(name) => part(Part::Subnet(name.clone())),
            VpcCell::Eip(name) => part(Part::Eip(name.clone())),
            VpcCell::Nat(key) => part(Part::Nat(key.clone())),
            VpcCell::RouterRule(name) => part(Part::RouterRule(name.clone())),
            VpcCell::Group(name) => part(Part::Group(name.clone())),
            VpcCell::VirtualIp(name) => part(Part::VirtualIp(name.clone())),
            VpcCell::IpPool(name) => part(Part::IpPool(name.clone())),
            VpcCell::Port(name) => part(Part::Port(name.clone())),
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneVpcs) -> bool {
        match part {
            Part::Vpc(name) => inputs.routers.contains_key(name),
            Part::Subnet(name) => inputs.subnets.contains_key(name),
            Part::Eip(name) => inputs.eips.contains_key(name),
            Part::Nat(key) => inputs.nats.contains_key(key),
            Part::RouterRule(name) => inputs.router_rules.contains_key(name),
            Part::Group(name) => inputs.groups.contains_key(name),
            Part::VirtualIp(name) => inputs.virtual_ips.contains_key(name),
            Part::IpPool(name) => inputs.ip_pools.contains_key(name),
            Part::Port(name) => inputs.ports.contains_key(name),
        }
    }

    fn shared(&self, key: &Infallible, _: &Reader<'_, Self>) {
        match *key {}
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut PartRows<()>) {
        if reader.read(&VpcCell::Completeness).is_incomplete() {
            rows.keep_rest();
        }
        match part {
            Part::Vpc(name) => {
                let inputs = reader.read(&VpcCell::Router(name.clone()));
                if let Some(router) = inputs.routers.get(name) {
                    rows::router::put(self, (part, name), router, reader, rows);
                }
            }
            Part::Subnet(name) => {
                let inputs = reader.read(&VpcCell::Subnet(name.clone()));
                if let Some(subnet) = inputs.subnets.get(name) {
                    rows::subnet::put(self, (part, name), subnet, reader, rows);
                }
            }
            Part::Eip(name) => {
                let inputs = reader.read(&VpcCell::Eip(name.clone()));
                if let Some(eip) = inputs.eips.get(name) {
                    rows::port::put_eip(self, (part, name), eip, rows);
                }
            }
            Part::Nat(key) => {
                let inputs = reader.read(&VpcCell::Nat(key.clone()));
                if let Some(nat) = inputs.nats.get(key) {
                    rows::nat::put(self, (part, key), nat, rows);
                }
            }
            Part::RouterRule(name) => {
                let inputs = reader.read(&VpcCell::RouterRule(name.clone()));
                if let Some(balancer) = inputs.router_rules.get(name) {
                    rows::balancer::put_of_rule(self, (part, name), balancer, reader, rows);
                }
            }
            Part::Group(name) => {
                let inputs = reader.read(&VpcCell::Group(name.clone()));
                if let Some(group) = inputs.groups.get(name) {
                    rows::group::put(self, (part, name), group, reader, rows);
                }
            }
            Part::VirtualIp(name) => {
                let inputs = reader.read(&VpcCell::VirtualIp(name.clone()));
                if let Some(virtual_ip) = inputs.virtual_ips.get(name) {
                    rows::port::put_virtual_ip(self, (part, name), virtual_ip, rows);
                }
            }
            Part::IpPool(name) => {
                let inputs = reader.read(&VpcCell::IpPool(name.clone()));
                if let Some(pool) = inputs.ip_pools.get(name) {
                    rows::ip_pool::put(self, (part, name), pool, rows);
                }
            }
            Part::Port(name) => {
                let inputs = reader.read(&VpcCell::Port(name.clone()));
                if let Some(port) = inputs.ports.get(name) {
                    rows::port::put(self, (part, name), port, reader, rows);
                }
            }
        }
    }

    fn objects(&self, part: &Part, row: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        let pod = row.view().external_id(POD);
        match (part, pod) {
            (Part::Port(_), Some(pod)) => vec![ObjectName::new(object_kind::POD, pod)],
            _ => vec![ObjectName::new(part.kind(), part.name())],
        }
    }
}
