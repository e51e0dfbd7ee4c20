//! From steps to a transaction.

use std::collections::HashSet;

use patchbay_engine::txn::TxnBuilder;
use patchbay_rows::{Change, PlanError};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::nb::{Acl, AddressSet, LoadBalancerGroup, LogicalRouter, LogicalSwitch};
use patchbay_schemas::row::Row;
use uuid::Uuid;

use super::Decided;
use super::holders::HolderChanges;
use super::rows::{RowChanges, Settled};
use super::steps::{Action, At, Child, Put, Step};
use crate::desired::RouterRow;
use crate::index::{Index, Kind};

/// Makes the transaction of one connect.
pub(crate) struct Writer<'a> {
    decided: &'a Decided,
    index: &'a Index,
    rows: RowChanges,
    routers: HolderChanges<'a, LogicalRouter>,
    switches: HolderChanges<'a, LogicalSwitch>,
    /// A connect router that comes.
    new_router: Option<RouterRow>,
    /// What it is going to hold: ports, policies and routes.
    new_router_holds: [Vec<Atom>; 3],
    /// ACLs that come, and their placeholders as soon as they have come.
    new_acls: Vec<(Acl, Option<Uuid>)>,
    /// The load balancer group.
    group: Option<Uuid>,
    /// Routers that go with everything that they hold.
    dissolved: HashSet<Uuid>,
    /// Whether all steps are in this transaction.
    whole: bool,
}

impl<'a> Writer<'a> {
    /// A writer of transactions in which `new_acls` may come.
    pub(crate) fn new(
        decided: &'a Decided,
        index: &'a Index,
        txn: TxnBuilder,
        new_acls: Vec<Acl>,
        group: Option<Uuid>,
    ) -> Self {
        let snapshot = index.snapshot();
        Self {
            decided,
            index,
            rows: RowChanges::new(txn),
            routers: HolderChanges::new(snapshot),
            switches: HolderChanges::new(snapshot),
            new_router: None,
            new_router_holds: Default::default(),
            new_acls: new_acls.into_iter().map(|acl| (acl, None)).collect(),
            group,
            dissolved: HashSet::new(),
            whole: true,
        }
    }

    /// The transaction with the first steps: all of them, or about as many rows as `limit` says.
    pub(crate) fn write(
        mut self,
        mut steps: Vec<Step<'a>>,
        limit: usize,
        comment: String,
    ) -> Result<Change, PlanError> {
        steps.sort_by_key(|step| (step.phase, step.together));
        self.whole = steps.iter().map(Step::weight).sum::<usize>() <= limit;
        if self.whole {
            let gone = steps.iter().filter_map(|step| match step.action {
                Action::Delete {
                    kind: Kind::Router,
                    row,
                } => Some(row),
                _ => None,
            });
            self.dissolved = gone.collect();
        }
        let mut weight = 0;
        let mut last = None;
        let mut more = false;
        for step in steps {
            let place = step.together.map(|network| (step.phase, network));
            let may_cut = place.is_none() || place != last;
            if !self.whole && weight >= limit.max(1) && may_cut {
                more = true;
                break;
            }
            last = place;
            weight += step.weight();
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
        let decided = self.decided;
        match action {
            Action::Router(Put {
                existing: None,
                wanted,
            }) => self.new_router = Some(wanted),
            Action::Router(put) => {
                self.rows.put(&decided.router, put.existing, &put.wanted)?;
            }
            Action::Port(child) => {
                let settled =
                    self.rows
                        .put(&decided.port, child.put.existing, &child.put.wanted)?;
                self.place(Kind::Port, settled, &child);
            }
            Action::Policy(child) => {
                let settled =
                    self.rows
                        .put(&decided.policy, child.put.existing, &child.put.wanted)?;
                self.place(Kind::Policy, settled, &child);
            }
            Action::Route(child) => {
                let settled =
                    self.rows
                        .put(&decided.route, child.put.existing, &child.put.wanted)?;
                self.place(Kind::Route, settled, &child);
            }
            Action::Acl(put) => {
                self.rows.put(&decided.acl, put.existing, &put.wanted)?;
            }
            Action::Attach { switch, there, new } => self.attach(switch, &there, &new)?,
            Action::Grow { put, meanwhile } => {
                let wanted = if self.whole { &put.wanted } else { &meanwhile };
                self.rows.put(&decided.address_set, put.existing, wanted)?;
            }
            Action::Shrink { put, grown } => {
                if !(self.whole && grown) {
                    self.rows
                        .put(&decided.address_set, put.existing, &put.wanted)?;
                }
            }
            Action::Group(put) => {
                let settled = self.rows.put(&decided.group, put.existing, &put.wanted)?;
                self.group = Some(settled.uuid);
            }
            Action::Serve { switch } => {
                if let Some(group) = self.group {
                    let groups = self.index.groups.holding;
                    self.switches.attach(switch, groups, group);
                }
            }
            Action::Leave { held, holder, row } => self.leave(held, holder, row),
            Action::Delete { kind, row } => match kind {
                Kind::Router => self.rows.delete::<LogicalRouter>(row)?,
                Kind::AddressSet => self.rows.delete::<AddressSet>(row)?,
                Kind::Group => self.rows.delete::<LoadBalancerGroup>(row)?,
                // Rows of other tables go by themselves.
                _ => {}
            },
        }
        Ok(())
    }

    /// Lets the right router hold a row, and no other one.
    fn place<T>(&mut self, kind: Kind, row: Settled, child: &Child<'a, T>) {
        if child.enters {
            match child.router {
                At::Connect(None) => {
                    let [ports, policies, routes] = &mut self.new_router_holds;
                    let held = match kind {
                        Kind::Port => ports,
                        Kind::Policy => policies,
                        _ => routes,
                    };
                    held.push(Atom::Uuid(row.uuid));
                }
                At::Connect(Some(router)) | At::Network(router) => {
                    let holding = self.holding(kind);
                    self.routers.attach(router, holding, row.uuid);
                }
            }
        }
        for router in &child.leaves {
            let holding = self.holding(kind);
            self.routers.detach(router, holding, row.uuid);
        }
    }

    fn leave(&mut self, held: Kind, holder: &'a Row, row: Uuid) {
        let holding = self.holding(held);
        match held {
            // Groups do not go with the switches that use them.
            Kind::Group => self.switches.detach(holder, holding, row),
            Kind::Acl => {
                self.rows.count_deleted(row);
                self.switches.detach(holder, holding, row);
            }
            _ => {
                self.rows.count_deleted(row);
                if !self.dissolved.contains(&holder.uuid) {
                    self.routers.detach(holder, holding, row);
                }
            }
        }
    }

    fn attach(&mut self, switch: &'a Row, there: &[Uuid], new: &[usize]) -> Result<(), PlanError> {
        let acls = self.index.acls.holding;
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

    fn holding(&self, kind: Kind) -> super::Holding {
        let holders = match kind {
            Kind::Port => &self.index.ports,
            Kind::Policy => &self.index.policies,
            Kind::Acl => &self.index.acls,
            Kind::Group => &self.index.groups,
            _ => &self.index.routes,
        };
        holders.holding
    }
}
