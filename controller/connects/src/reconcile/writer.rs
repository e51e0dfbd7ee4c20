//! Transaction of one connect from its steps.

use std::collections::HashSet;

use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::{Change, PlanError};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::nb::{Acl, AddressSet, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use patchbay_schemas::row::Row;
use uuid::Uuid;

use super::ManagedColumns;
use super::holders::HolderChanges;
use super::rows::{RowChanges, WrittenRow};
use super::steps::{Action, Child, Step, TargetRouter, Upsert};
use crate::desired::RouterRow;
use crate::index::{Index, TableKind};

/// Builder of the transaction of one connect.
pub(crate) struct Writer<'a> {
    managed: &'a ManagedColumns,
    index: &'a Index,
    rows: RowChanges,
    routers: HolderChanges<'a, LogicalRouter>,
    switches: HolderChanges<'a, LogicalSwitch>,
    /// Connect router to insert.
    new_router: Option<RouterRow>,
    /// References of the new router: ports, policies and routes.
    new_router_holds: [Vec<Atom>; 3],
    /// New ACLs, with their placeholders once inserted.
    new_acls: Vec<(Acl, Option<Uuid>)>,
    /// Load balancer group.
    group: Option<Uuid>,
    /// Routers to delete with all rows that they refer to.
    dissolved: HashSet<Uuid>,
    /// `true` if all steps are in this transaction.
    has_all_steps: bool,
}

impl<'a> Writer<'a> {
    /// Creates a writer. `new_acls` are inserted when a step refers to them.
    pub(crate) fn new(
        managed: &'a ManagedColumns,
        index: &'a Index,
        txn: TxnBuilder,
        new_acls: Vec<Acl>,
        group: Option<Uuid>,
    ) -> Self {
        let snapshot = index.snapshot();
        Self {
            managed,
            index,
            rows: RowChanges::new(txn),
            routers: HolderChanges::new(snapshot),
            switches: HolderChanges::new(snapshot),
            new_router: None,
            new_router_holds: Default::default(),
            new_acls: new_acls.into_iter().map(|acl| (acl, None)).collect(),
            group,
            dissolved: HashSet::new(),
            has_all_steps: true,
        }
    }

    /// Returns the transaction with all steps, or with the first steps up to about `limit` rows.
    pub(crate) fn write(
        mut self,
        mut steps: Vec<Step<'a>>,
        limit: usize,
        comment: String,
    ) -> Result<Change, PlanError> {
        steps.sort_by_key(|step| (step.phase, step.batch));
        self.has_all_steps = steps.iter().map(Step::row_count).sum::<usize>() <= limit;
        if self.has_all_steps {
            let gone = steps.iter().filter_map(|step| match step.action {
                Action::Delete {
                    kind: TableKind::Router,
                    row,
                } => Some(row),
                _ => None,
            });
            self.dissolved = gone.collect();
        }
        let mut row_count = 0;
        let mut last = None;
        let mut more = false;
        for step in steps {
            let place = step.batch.map(|network| (step.phase, network));
            let may_cut = place.is_none() || place != last;
            if !self.has_all_steps && row_count >= limit.max(1) && may_cut {
                more = true;
                break;
            }
            last = place;
            row_count += step.row_count();
            self.take(step.action)?;
        }
        if let Some(router) = self.new_router.take() {
            let [ports, policies, static_routes] = self.new_router_holds.map(Set::from_vec);
            self.rows.insert(&RouterRow {
                ports,
                policies,
                static_routes,
                ..router
            })?;
        }
        self.rows.hold(self.routers)?;
        self.rows.hold(self.switches)?;
        Ok(Change {
            more,
            ..self.rows.finish(comment)
        })
    }

    fn take(&mut self, action: Action<'a>) -> Result<(), PlanError> {
        let managed = self.managed;
        match action {
            Action::Router(Upsert {
                existing: None,
                wanted,
            }) => self.new_router = Some(wanted),
            Action::Router(upsert) => {
                self.rows
                    .upsert(&managed.router, upsert.existing, &upsert.wanted)?;
            }
            Action::Port(child) => {
                let written =
                    self.rows
                        .upsert(&managed.port, child.upsert.existing, &child.upsert.wanted)?;
                self.update_routers(TableKind::Port, written, &child);
            }
            Action::Policy(child) => {
                let written = self.rows.upsert(
                    &managed.policy,
                    child.upsert.existing,
                    &child.upsert.wanted,
                )?;
                self.update_routers(TableKind::Policy, written, &child);
            }
            Action::Route(child) => {
                let written = self.rows.upsert(
                    &managed.route,
                    child.upsert.existing,
                    &child.upsert.wanted,
                )?;
                self.update_routers(TableKind::Route, written, &child);
            }
            Action::Acl(upsert) => {
                self.rows
                    .upsert(&managed.acl, upsert.existing, &upsert.wanted)?;
            }
            Action::Attach { switch, there, new } => self.attach(switch, &there, &new)?,
            Action::Grow { upsert, meanwhile } => {
                let wanted = if self.has_all_steps {
                    &upsert.wanted
                } else {
                    &meanwhile
                };
                self.rows
                    .upsert(&managed.address_set, upsert.existing, wanted)?;
            }
            Action::Shrink { upsert, grown } => {
                if !(self.has_all_steps && grown) {
                    self.rows
                        .upsert(&managed.address_set, upsert.existing, &upsert.wanted)?;
                }
            }
            Action::Group(upsert) => {
                let written = self
                    .rows
                    .upsert(&managed.group, upsert.existing, &upsert.wanted)?;
                self.group = Some(written.uuid);
            }
            Action::Serve { switch } => {
                if let Some(group) = self.group {
                    let groups = self.index.groups.column;
                    self.switches.attach(switch, groups, group);
                }
            }
            Action::Leave { held, holder, row } => self.leave(held, holder, row),
            Action::Delete { kind, row } => match kind {
                TableKind::Router => self.rows.delete::<LogicalRouter>(row)?,
                TableKind::AddressSet => self.rows.delete::<AddressSet>(row)?,
                TableKind::Group => self.rows.delete::<LoadBalancerGroup>(row)?,
                // OVSDB deletes unreferenced rows of other tables.
                _ => {}
            },
        }
        Ok(())
    }

    /// Makes the target router the only router that refers to a row.
    fn update_routers<T>(&mut self, kind: TableKind, row: WrittenRow, child: &Child<'a, T>) {
        if child.enters {
            match child.router {
                TargetRouter::Connect(None) => {
                    let [ports, policies, routes] = &mut self.new_router_holds;
                    let held = match kind {
                        TableKind::Port => ports,
                        TableKind::Policy => policies,
                        _ => routes,
                    };
                    held.push(Atom::Uuid(row.uuid));
                }
                TargetRouter::Connect(Some(router)) | TargetRouter::Network(router) => {
                    let column = self.reference_column(kind);
                    self.routers.attach(router, column, row.uuid);
                }
            }
        }
        for router in &child.leaves {
            let column = self.reference_column(kind);
            self.routers.detach(router, column, row.uuid);
        }
    }

    fn leave(&mut self, held: TableKind, holder: &'a Row, row: Uuid) {
        let column = self.reference_column(held);
        match held {
            // Groups are in a root table and stay without references.
            TableKind::Group => self.switches.detach(holder, column, row),
            TableKind::Acl => {
                self.rows.count_deleted(row);
                self.switches.detach(holder, column, row);
            }
            _ => {
                self.rows.count_deleted(row);
                if !self.dissolved.contains(&holder.uuid) {
                    self.routers.detach(holder, column, row);
                }
            }
        }
    }

    fn attach(&mut self, switch: &'a Row, there: &[Uuid], new: &[usize]) -> Result<(), PlanError> {
        let acls = self.index.acls.column;
        for uuid in there {
            self.switches.attach(switch, acls, *uuid);
        }
        for place in new {
            let (acl, placeholder) = &mut self.new_acls[*place];
            let uuid = match placeholder {
                Some(uuid) => *uuid,
                None => *placeholder.insert(self.rows.insert(acl)?.uuid),
            };
            self.switches.attach(switch, acls, uuid);
        }
        Ok(())
    }

    fn reference_column(&self, kind: TableKind) -> super::ReferenceColumn {
        let holders = match kind {
            TableKind::Port => &self.index.ports,
            TableKind::Policy => &self.index.policies,
            TableKind::Acl => &self.index.acls,
            TableKind::Group => &self.index.groups,
            _ => &self.index.routes,
        };
        holders.column
    }
}
