//! Updates the index from row changes.

use std::collections::BTreeSet;

use patchbay_model::NetworkId;
use patchbay_model::external_ids::key;
use patchbay_model::names::{self, LOAD_BALANCER_GROUP_PREFIX};
use patchbay_schemas::nb::LoadBalancer;
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::{ColumnHolders, IdentityColumns, Index, Owned, TableKind, Touched};
use crate::desired::COPP;
use crate::part::{LinkId, Part};

/// External id and value that mark the load balancers of services.
const SERVICE_KIND: (&str, &str) = ("k8s.ovn.org/kind", "Service");
/// External id with the network name of a load balancer.
const NETWORK_KEY: &str = "k8s.ovn.org/network";
/// Name suffix of load balancers that are the same on all nodes.
const CLUSTER_SUFFIX: &str = "_cluster";

impl Index {
    pub(super) fn row(
        &mut self,
        kind: TableKind,
        old: Option<&Row>,
        new: Option<&Row>,
        touched: &mut Touched,
    ) {
        let [old_part, new_part] = [old, new].map(|row| self.owner_and_part(kind, row?));
        let parts = [(old, old_part, false), (new, new_part, true)];
        for (row, part, is_new) in parts {
            let (Some(row), Some((connect, part))) = (row, part) else {
                continue;
            };
            touched.mark_part(connect, part);
            touched.rows.insert(row.uuid);
            if old_part != new_part {
                let uuid = row.uuid;
                self.set_owned(connect, Owned { part, kind, uuid }, is_new, touched);
            }
        }
        match kind {
            TableKind::Router | TableKind::Switch => self.update_holder(kind, old, new, touched),
            TableKind::LoadBalancer => {
                let identity = self.identity(kind);
                for (row, is_new) in [(old, false), (new, true)] {
                    if let Some(network) = row.and_then(|row| network_of(identity, row)) {
                        let uuid = row.map_or(Uuid::nil(), |row| row.uuid);
                        self.set_load_balancer(network, Ref::new(uuid), is_new);
                        touched.load_balancers.insert(network.to_owned());
                    }
                }
            }
            TableKind::Copp => {
                let identity = self.identity(kind);
                for (row, is_new) in [(old, false), (new, true)] {
                    if let Some(row) = row.filter(|row| identity.name(row) == COPP) {
                        touched.copp = true;
                        if is_new {
                            self.copps.insert(row.uuid);
                        } else {
                            self.copps.remove(&row.uuid);
                        }
                    }
                }
            }
            _ => {}
        }
    }

    /// Returns the connect that owns a row, and the row's part.
    pub(super) fn owner_and_part<'r>(
        &self,
        kind: TableKind,
        row: &'r Row,
    ) -> Option<(&'r str, Part)> {
        let identity = self.identity(kind);
        let network = |id: Option<&str>| -> Option<NetworkId> { id?.parse().ok() };
        let (connect, part) = match kind {
            TableKind::Router => (identity.owner(row)?, Some(Part::Router)),
            TableKind::Port | TableKind::Route => {
                let keys = [key::NETWORK_ID, key::NODE_ID];
                let (connect, [network_id, index]) = identity.owner_with(row, keys)?;
                let link = network(network_id).and_then(|network| {
                    let index = index?.parse().ok()?;
                    Some(Part::Link(LinkId { network, index }))
                });
                (connect, link)
            }
            TableKind::Policy => {
                let keys = [key::SOURCE_NETWORK_ID, key::DESTINATION_NETWORK_ID];
                let (connect, [source, destination]) = identity.owner_with(row, keys)?;
                let policies = network(source).and_then(|source| {
                    let destination = network(destination)?;
                    Some(Part::Policies {
                        source,
                        destination,
                    })
                });
                (connect, policies)
            }
            TableKind::Acl | TableKind::AddressSet => (identity.owner(row)?, Some(Part::Isolation)),
            // Groups have no external ids; the name contains the owner. The prefix alone names none.
            TableKind::Group => {
                let connect = identity
                    .name(row)
                    .strip_prefix(LOAD_BALANCER_GROUP_PREFIX)?;
                (
                    Some(connect).filter(|connect| !connect.is_empty())?,
                    Some(Part::Services),
                )
            }
            TableKind::Switch | TableKind::LoadBalancer | TableKind::Copp => return None,
        };
        Some((connect, part.unwrap_or(Part::Stray)))
    }

    fn set_owned(&mut self, connect: &str, row: Owned, is_there: bool, touched: &mut Touched) {
        if is_there {
            match touched.gained.get_mut(connect) {
                Some(gained) => gained.push(row),
                None => {
                    touched.gained.insert(connect.to_owned(), vec![row]);
                }
            }
            return;
        }
        self.join_gained(touched);
        if let Some(owned) = self.owned.get_mut(connect) {
            owned.remove(&row);
            if owned.is_empty() {
                self.owned.remove(connect);
            }
        }
    }

    /// Adds new rows to the index: few rows one by one, many by a merge that costs one pass over
    /// all rows.
    pub(super) fn join_gained(&mut self, touched: &mut Touched) {
        for (connect, gained) in std::mem::take(&mut touched.gained) {
            let owned = self.owned.entry(connect).or_default();
            if gained.len() < owned.len() / 16 {
                owned.extend(gained);
            } else {
                owned.append(&mut BTreeSet::from_iter(gained));
            }
        }
    }

    /// Updates names and references of a router or switch.
    fn update_holder(
        &mut self,
        kind: TableKind,
        old: Option<&Row>,
        new: Option<&Row>,
        touched: &mut Touched,
    ) {
        let identity = self.identity(kind);
        let (old_name, new_name) = (
            old.map(|row| identity.name(row)),
            new.map(|row| identity.name(row)),
        );
        if old_name != new_name {
            let names = match kind {
                TableKind::Router => &mut self.routers,
                _ => &mut self.switches,
            };
            if let (Some(row), Some(name)) = (old, old_name)
                && let Some(uuids) = names.get_mut(name)
            {
                uuids.remove(&row.uuid);
                if uuids.is_empty() {
                    names.remove(name);
                }
            }
            if let (Some(row), Some(name)) = (new, new_name) {
                names.entry(name.to_owned()).or_default().insert(row.uuid);
            }
            let changed = [old_name, new_name].into_iter().flatten();
            touched
                .router_and_switch_names
                .extend(changed.map(str::to_owned));
        }
        if kind == TableKind::Router {
            // A connect router that lost its owner is found by its name.
            for name in [old_name, new_name].into_iter().flatten() {
                if let Some(connect) = name.strip_prefix(&names::connect_router("")) {
                    touched.mark_part(connect, Part::Router);
                }
            }
        }
        let columns: &mut [(TableKind, &mut ColumnHolders)] = match kind {
            TableKind::Router => &mut [
                (TableKind::Port, &mut self.ports),
                (TableKind::Policy, &mut self.policies),
                (TableKind::Route, &mut self.routes),
            ],
            _ => &mut [
                (TableKind::Acl, &mut self.acls),
                (TableKind::Group, &mut self.groups),
            ],
        };
        for (held, holders) in columns {
            let rows = holders.update(old, new).into_iter();
            touched.moved.extend(rows.map(|uuid| (*held, uuid)));
        }
    }

    /// Marks the parts of unchanged rows that other rows refer to than before.
    pub(super) fn mark_moved_rows(&self, touched: &mut Touched) {
        for (kind, uuid) in std::mem::take(&mut touched.moved) {
            if touched.rows.contains(&uuid) {
                continue;
            }
            let row = self.get(kind, uuid);
            if let Some((connect, part)) = row.and_then(|row| self.owner_and_part(kind, row)) {
                touched.mark_part(connect, part);
            }
        }
    }

    fn set_load_balancer(&mut self, network: &str, row: Ref<LoadBalancer>, is_there: bool) {
        if is_there {
            let rows = self.load_balancers.entry(network.to_owned());
            rows.or_default().insert(row);
        } else if let Some(rows) = self.load_balancers.get_mut(network) {
            rows.remove(&row);
            if rows.is_empty() {
                self.load_balancers.remove(network);
            }
        }
    }
}

/// Network of a load balancer that serves services on all nodes.
fn network_of(identity: IdentityColumns, row: &Row) -> Option<&str> {
    let is_cluster_wide = identity.external_id(row, SERVICE_KIND.0) == Some(SERVICE_KIND.1)
        && identity.name(row).ends_with(CLUSTER_SUFFIX);
    is_cluster_wide.then(|| identity.external_id(row, NETWORK_KEY))?
}
