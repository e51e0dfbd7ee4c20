//! ACLs and address sets that drop traffic between pods.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::NetworkId;
use patchbay_schemas::nb::{Acl, AddressSet};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::TypeError;
use smol_str::SmolStr;
use uuid::Uuid;

use super::{Evaluation, desired_id, rows_with_id};
use crate::connect::retained::RetainedRows;
use crate::desired::IsolationRows;
use crate::index::TableKind;
use crate::reconcile::{Action, Phase, Upsert};

impl<'a> Evaluation<'a, '_> {
    pub(super) fn isolation(
        &mut self,
        rows: &IsolationRows,
        there: &[(TableKind, &'a Row)],
        retained: &RetainedRows,
    ) -> Result<(), TypeError> {
        let index = self.context.index;
        let managed = self.managed;
        let names = index.identity(TableKind::AddressSet);
        for set in &rows.address_sets {
            // An address set that lost its owner is found by its name, which is unique.
            let ownerless = index
                .address_set(&SmolStr::new(&set.name))
                .filter(|row| !names.has_owner(row));
            let candidates: Vec<&'a Row> = there
                .iter()
                .filter(|(kind, row)| *kind == TableKind::AddressSet && names.name(row) == set.name)
                .map(|(_, row)| *row)
                .chain(ownerless.map(AsRef::as_ref))
                .collect();
            let mut set = set.clone();
            if !retained.linked.is_empty() {
                let sets = index.snapshot().typed::<AddressSet>();
                for row in &candidates {
                    set.addresses.extend(sets.read(row)?.addresses);
                }
            }
            let (upsert, differs) =
                self.match_existing(&managed.address_set, candidates.into_iter(), set);
            if differs {
                self.address_set(upsert)?;
            }
        }
        // For each ACL, the existing row or the index in `new_acls`.
        let mut shared = Vec::with_capacity(rows.shared.len());
        for acl in &rows.shared {
            shared.push(self.acl(there, acl, Phase::Isolate, None));
        }
        let mut wanted: BTreeMap<Uuid, BTreeSet<Uuid>> = shared
            .iter()
            .filter_map(|acl| Some((acl.ok()?, BTreeSet::new())))
            .collect();
        for isolated in &rows.switches {
            let network = Some(isolated.network);
            let own = self.acl(there, &isolated.pass_own, Phase::Connect, network);
            let Some(switch) = index.switch(&isolated.name) else {
                continue;
            };
            let (mut has, mut new) = (Vec::new(), Vec::new());
            for acl in shared.iter().chain([&own]) {
                match *acl {
                    Ok(acl) => {
                        wanted.entry(acl).or_default().insert(switch.uuid);
                        has.extend((!index.acls.has(switch.uuid, acl)).then_some(acl));
                    }
                    Err(place) => new.push(place),
                }
            }
            if !(has.is_empty() && new.is_empty()) {
                let there = has;
                let action = Action::Attach { switch, there, new };
                self.step(Phase::Isolate, None, action);
            }
        }
        let retained = self.retained_switches(retained);
        // ACLs on the switches of retained networks stay on these switches alone.
        for (_, acl) in there.iter().filter(|(kind, _)| *kind == TableKind::Acl) {
            let mut holders = index.acls.of(acl.uuid);
            if holders.any(|holder| retained.contains(&holder)) && self.kept.insert(acl.uuid) {
                wanted.insert(acl.uuid, BTreeSet::new());
            }
        }
        for (acl, mut switches) in wanted {
            switches.extend(&retained);
            self.detach_others(TableKind::Acl, acl, &switches, Phase::Release);
        }
        Ok(())
    }

    /// Existing row of an ACL, or its index in `new_acls`.
    fn acl(
        &mut self,
        there: &[(TableKind, &'a Row)],
        acl: &Acl,
        phase: Phase,
        network: Option<NetworkId>,
    ) -> Result<Uuid, usize> {
        let id = desired_id(&acl.external_ids);
        let candidates: Vec<&'a Row> =
            rows_with_id(there, TableKind::Acl, self.context, id).collect();
        let managed = self.managed;
        let (upsert, differs) =
            self.match_existing(&managed.acl, candidates.into_iter(), acl.clone());
        let Some(existing) = upsert.existing else {
            self.new_acls.push(upsert.wanted);
            return Err(self.new_acls.len() - 1);
        };
        if differs {
            self.step(phase, network, Action::Acl(Box::new(upsert)));
        }
        Ok(existing.uuid)
    }

    fn address_set(&mut self, upsert: Upsert<'a, AddressSet>) -> Result<(), TypeError> {
        let Some(existing) = upsert.existing else {
            let meanwhile = upsert.wanted.clone();
            self.step(Phase::Isolate, None, Action::Grow { upsert, meanwhile });
            return Ok(());
        };
        let snapshot = self.context.index.snapshot();
        let have = snapshot.typed::<AddressSet>().read(existing)?;
        let mut meanwhile = upsert.wanted.clone();
        meanwhile.addresses.extend(have.addresses.iter().cloned());
        let shrinks = meanwhile.addresses != upsert.wanted.addresses;
        let grows = meanwhile.addresses != have.addresses || !shrinks;
        if shrinks {
            let upsert = Upsert {
                existing: upsert.existing,
                wanted: upsert.wanted.clone(),
            };
            let action = Action::Shrink {
                upsert,
                grown: grows,
            };
            self.step(Phase::Release, None, action);
        }
        if grows {
            self.step(Phase::Isolate, None, Action::Grow { upsert, meanwhile });
        }
        Ok(())
    }
}
