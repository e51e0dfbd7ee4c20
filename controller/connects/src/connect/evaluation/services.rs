//! Load balancer group and the switches that use it.

use std::collections::BTreeSet;

use patchbay_model::names;
use patchbay_schemas::nb::LoadBalancerGroup;
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::TypeError;
use uuid::Uuid;

use super::Evaluation;
use crate::connect::retained::RetainedRows;
use crate::desired;
use crate::index::TableKind;
use crate::part::Part;
use crate::reconcile::{Action, Phase};

impl<'a> Evaluation<'a, '_> {
    /// Existing load balancer group of the connect.
    pub(in crate::connect) fn group(&self) -> Option<Uuid> {
        let name = names::load_balancer_group(self.name);
        let index = self.context.index;
        let rows = index.owned_of(self.name, Part::Services..=Part::Services);
        let identity = index.identity(TableKind::Group);
        let mut groups = rows.filter_map(|row| index.get(row.kind, row.uuid));
        groups
            .find(|row| identity.name(row) == name)
            .map(|row| row.uuid)
    }

    /// Switches of retained networks.
    pub(super) fn retained_switches(&self, retained: &RetainedRows) -> BTreeSet<Uuid> {
        let switches = retained.switches.iter();
        switches
            .filter_map(|name| self.context.index.switch(name))
            .map(|switch| switch.uuid)
            .collect()
    }

    pub(super) fn services(
        &mut self,
        mut wanted: desired::ServiceRows,
        rows: &[(TableKind, &'a Row)],
        retained: &RetainedRows,
    ) -> Result<(), TypeError> {
        let index = self.context.index;
        let managed = self.managed;
        let existing: Vec<&'a Row> = rows.iter().map(|(_, row)| *row).collect();
        if !retained.linked.is_empty() {
            let groups = index.snapshot().typed::<LoadBalancerGroup>();
            for row in &existing {
                let there = groups.read(row)?.load_balancer;
                wanted.group.load_balancer.extend(there);
            }
        }
        let (upsert, differs) =
            self.match_existing(&managed.group, existing.into_iter(), wanted.group);
        let group = upsert.existing.map(|row| row.uuid);
        if differs {
            self.step(Phase::Serve, None, Action::Group(upsert));
        }
        let mut switches = self.retained_switches(retained);
        let served = wanted.switches.iter();
        for switch in served.filter_map(|name| index.switch(name)) {
            switches.insert(switch.uuid);
            if group.is_none_or(|group| !index.groups.has(switch.uuid, group)) {
                self.step(Phase::Serve, None, Action::Serve { switch });
            }
        }
        if let Some(group) = group {
            self.detach_others(TableKind::Group, group, &switches, Phase::Disconnect);
        }
        Ok(())
    }
}
