//! VPCs on the row engine: which parts there are, and the rows of each.

use std::convert::Infallible;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::object_kind;
use patchbay_rows::{
    Capability, Engine, KeptRow, Layout, ObjectName, PartRow, PartRows, Plan, Reader, Scope,
};
use patchbay_schemas::uuids::UuidSource;

use super::inputs::{VpcCell, ZoneVpcs};
use super::part::{Part, RefusedRow};
use super::rows;
use super::tables::Tables;

/// External id of a pod's port: namespace and name of the pod.
pub(super) const POD: &str = "pod";

/// Keeps the rows of all VPCs as they should be. See `patchbay_rows`.
#[derive(Debug)]
pub struct VpcController {
    engine: Engine<Vpcs>,
}

impl Default for VpcController {
    fn default() -> Self {
        Self::new(UuidSource::random())
    }
}

impl VpcController {
    /// A controller that takes the placeholders of new rows from `uuids`.
    pub fn new(uuids: UuidSource) -> Self {
        Self {
            engine: Engine::new(uuids),
        }
    }

    /// Sets which rows go that no object wants: see [`Engine::set_scope`].
    pub fn set_scope(&mut self, scope: Option<Arc<Scope>>) {
        self.engine.set_scope(scope);
    }

    /// Rows that stay because of the scope.
    pub fn kept(&self) -> impl Iterator<Item = &KeptRow> {
        self.engine.kept()
    }

    /// Plans what makes the rows right in the database: a transaction for each object. Rows that
    /// refer to new rows of other objects wait for the next plan.
    pub fn plan(&mut self, vpcs: &ZoneVpcs, snapshot: &Snapshot) -> Plan<Part> {
        self.engine.plan(vpcs, snapshot)
    }

    /// Rows that are not made, as the last plan has found them.
    pub fn refused(&self) -> impl Iterator<Item = RefusedRow> {
        let refused = self.engine.refused();
        refused.flat_map(|(part, rows)| rows.iter().map(|row| RefusedRow::new(part, row)))
    }
}

/// VPCs, as a capability of the row engine.
#[derive(Debug)]
pub(super) struct Vpcs {
    pub(super) tables: Tables,
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
        Self {
            tables: Tables::declare(layout),
        }
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
            VpcCell::Router(name) => part(Part::Vpc(name.clone())),
            VpcCell::Subnet(name) => part(Part::Subnet(name.clone())),
            VpcCell::Eip(name) => part(Part::Eip(name.clone())),
            VpcCell::Nat(key) => part(Part::Nat(key.clone())),
            VpcCell::Port(name) => part(Part::Port(name.clone())),
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneVpcs) -> bool {
        match part {
            Part::Vpc(name) => inputs.routers.contains_key(name),
            Part::Subnet(name) => inputs.subnets.contains_key(name),
            Part::Eip(name) => inputs.eips.contains_key(name),
            Part::Nat(key) => inputs.nats.contains_key(key),
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
            Part::Port(name) => {
                let inputs = reader.read(&VpcCell::Port(name.clone()));
                if let Some(port) = inputs.ports.get(name) {
                    rows::port::put(self, (part, name), port, rows);
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
