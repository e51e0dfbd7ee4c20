//! Policies on the routers of source networks.

use patchbay_model::Connect;
use patchbay_schemas::row::Row;

use super::{Evaluation, desired_id, rows_with_id};
use crate::desired::{self, Link, Member};
use crate::index::TableKind;
use crate::reconcile::{Action, Phase, TargetRouter};

impl<'a> Evaluation<'a, '_> {
    pub(super) fn policies(
        &mut self,
        connect: &Connect,
        source: &Member,
        link: &Link<'a>,
        destination: &Member,
        rows: &[(TableKind, &'a Row)],
    ) {
        let index = self.context.index;
        let managed = self.managed;
        // Members without a router have no policies.
        let Some(router) = index.router(&source.router) else {
            return;
        };
        for policy in desired::policies(connect, source, link, destination) {
            let id = desired_id(&policy.external_ids);
            let candidates: Vec<&'a Row> =
                rows_with_id(rows, TableKind::Policy, self.context, id).collect();
            let child = self.child(
                &managed.policy,
                candidates.into_iter(),
                policy,
                TargetRouter::Network(router),
                &index.policies,
            );
            if let Some(child) = child {
                let action = Action::Policy(Box::new(child));
                self.step(Phase::Connect, Some(source.id), action);
            }
        }
    }
}
