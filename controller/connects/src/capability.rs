//! Connects on the row engine: which parts there are, and the rows of each.

use patchbay_model::{NetworkId, object_kind};
use patchbay_rows::{Capability, Layout, ObjectName, PartRow, PartRows, Reader};
use patchbay_schemas::typed::Ref;
use patchbay_zone::{Cell, Kind, ZoneObjects};
use smol_str::SmolStr;

use super::desired::{self, COPP};
use super::entries::{may_have, parts_of_all, parts_of_entry, parts_of_node};
use super::link_report::LinkReport;
use super::part::{ConnectPart, LinkId, Part};
use super::report::Notice;
use super::shared::{ConnectReader, Shared, SharedKey, Standing};
use super::summary::Summary;
use super::tables::{RouterRow, Tables, enabled};

/// The connects of a zone, as a capability of the row engine.
#[derive(Debug)]
pub(super) struct Connects {
    pub(super) tables: Tables,
}

/// Report of a part besides its rows.
#[derive(Debug, PartialEq)]
pub(super) enum PartReport {
    Link(LinkReport),
    Services(Box<[Notice]>),
    Summary(Box<Summary>),
}

/// Rows of a part of a connect.
pub(super) type Rows = PartRows<PartReport>;

impl Capability for Connects {
    type Part = ConnectPart;
    /// Name of the connect.
    type Group = SmolStr;
    type Inputs = ZoneObjects;
    type Report = PartReport;
    type SharedKey = SharedKey;
    type Shared = Shared;

    const KINDS: &'static [Kind] = &[Kind::Zone, Kind::Activity, Kind::Connects];

    fn declare(layout: &mut Layout<ConnectPart>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, part: &ConnectPart) -> SmolStr {
        part.connect.clone()
    }

    fn comment(&self, connect: &SmolStr) -> String {
        format!("patchbay: ClusterNetworkConnect {connect}")
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(ConnectPart)) {
        match cell {
            Cell::Connect(connect) => {
                for of in [Part::Router, Part::Services, Part::Isolation, Part::Summary] {
                    part(ConnectPart::new(connect, of));
                }
            }
            Cell::ConnectEntry(name, network) => {
                if let Some(connect) = inputs.connect(name) {
                    let part = &mut |of| part(ConnectPart::new(name, of));
                    parts_of_entry(inputs, connect, *network, part);
                }
            }
            Cell::ConnectableNetwork(id) => {
                parts_of_all(inputs, |network| network.id == *id, part);
            }
            Cell::Activity(name) => parts_of_all(inputs, |network| *network.name == **name, part),
            Cell::LocalNode => parts_of_all(inputs, |_| true, part),
            Cell::NodeId(id) => parts_of_node(inputs, *id, part),
            _ => {}
        }
    }

    fn exists(&self, part: &ConnectPart, inputs: &ZoneObjects) -> bool {
        may_have(inputs, &part.connect, part.part)
    }

    fn shared(&self, key: &SharedKey, reader: &Reader<'_, Self>) -> Shared {
        self.shared_value(key, reader)
    }

    fn rows(&self, part: &ConnectPart, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let connect = &part.connect;
        match part.part {
            Part::Link(id) => return self.link(connect, id, reader, rows),
            Part::Policies { source, destination } => {
                return self.policies(connect, (source, destination), reader, rows);
            }
            Part::Summary => return self.summary(connect, reader, rows),
            Part::Router | Part::Services | Part::Isolation | Part::Stray => {}
        }
        match Self::standing(connect, reader) {
            Standing::Absent => {}
            Standing::Held(_) => rows.keep_rest(),
            Standing::Planned => match part.part {
                Part::Router => self.router(connect, reader, rows),
                Part::Services => self.services(connect, reader, rows),
                Part::Isolation => self.isolation(connect, reader, rows),
                _ => {}
            },
        }
    }

    fn keeps(&self, part: &ConnectPart, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool {
        match part.part {
            Part::Link(id) => self.keeps_route(&part.connect, id, row, reader),
            _ => false,
        }
    }

    fn objects(
        &self,
        part: &ConnectPart,
        _: PartRow<'_>,
        reader: &Reader<'_, Self>,
    ) -> Vec<ObjectName> {
        let connect = ObjectName::new(object_kind::CONNECT, &part.connect);
        let others = match part.part {
            Part::Link(LinkId { network, index }) => {
                let node = (index > 0).then(|| node_object(index));
                [network_object(network)].into_iter().chain(node).collect()
            }
            // Policies between networks that are not isolated as the connect requires go.
            Part::Policies { source, destination }
                if Self::keeps_policies(&part.connect, (source, destination), reader) =>
            {
                vec![network_object(source), network_object(destination)]
            }
            Part::Policies { .. }
            | Part::Router
            | Part::Services
            | Part::Isolation
            | Part::Stray
            | Part::Summary => Vec::new(),
        };
        [connect].into_iter().chain(others).collect()
    }
}

/// Name of a network as rows of connects show it.
pub(super) fn network_object(id: NetworkId) -> ObjectName {
    ObjectName::new(object_kind::NETWORK_ID, id)
}

/// Name of a node as rows of connects show it.
fn node_object(id: u16) -> ObjectName {
    ObjectName::new(object_kind::NODE_ID, id)
}

impl Connects {
    fn router(&self, name: &SmolStr, reader: &ConnectReader<'_>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::Connect(name.clone()));
        let wanted = inputs.connect(name).zip(inputs.router_key(name));
        let copp = reader.row(self.tables.copps, COPP);
        if let (Some((connect, key)), Some(copp)) = (wanted, copp) {
            let router = desired::router(connect, key, Ref::new(copp.uuid()));
            let there = reader.row(self.tables.routers, &router.name);
            let enabled = enabled(there);
            rows.put(self.tables.routers, &RouterRow { enabled, ..router });
        } else {
            // An existing router does not wait for the row.
            rows.keep_rest();
        }
    }
}
