//! Connect router, link ports and routes.

use patchbay_model::external_ids::key;
use patchbay_model::{Connect, DatapathKey, names};
use patchbay_schemas::nb::{Copp, LogicalRouterStaticRoute};
use patchbay_schemas::row::Row;
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::{Evaluation, rows_with_id};
use crate::desired::{self, Link, Member, PortRow};
use crate::index::TableKind;
use crate::part::Part;
use crate::reconcile::{Action, Phase, TargetRouter};

impl<'a> Evaluation<'a, '_> {
    /// Existing connect router: the owned one, or a router of its name without an owner.
    pub(super) fn connect_router(&self) -> Option<&'a Row> {
        let index = self.context.index;
        let mut owned = index
            .owned_of(self.name, Part::Router..=Part::Router)
            .filter_map(|row| index.get(row.kind, row.uuid));
        let ownerless = || {
            let row = index.router(&names::connect_router(self.name))?;
            (!index.identity(TableKind::Router).has_owner(row)).then_some(row)
        };
        owned.next().or_else(ownerless).map(AsRef::as_ref)
    }

    pub(super) fn router(&mut self, connect: &Connect, key: DatapathKey, copp: Option<Ref<Copp>>) {
        let existing = self.connect_router();
        let Some(copp) = copp else {
            self.kept.extend(existing.map(|row| row.uuid));
            return;
        };
        let wanted = desired::router(connect, key, copp);
        let (upsert, differs) =
            self.match_existing(&self.managed.router, existing.into_iter(), wanted);
        if differs {
            self.step(Phase::Link, None, Action::Router(upsert));
        }
    }

    pub(super) fn link(
        &mut self,
        connect: &Connect,
        member: &Member,
        link: &Link<'a>,
        router: TargetRouter<'a>,
        rows: &[(TableKind, &'a Row)],
    ) {
        let index = self.context.index;
        self.port(link.connect_port(connect, member), link.existing, router);
        if let Some(port) = link.network_port(connect, member)
            && let Some(router) = index.router(&member.router)
        {
            let existing = index.port(&port.name).map(AsRef::as_ref);
            self.port(port, existing, TargetRouter::Network(router));
        }
        if link.has_unreadable_subnets(member) {
            let routes = rows.iter().filter(|(kind, row)| {
                *kind == TableKind::Route && !self.is_refused(row, link, member)
            });
            let routes: Vec<Uuid> = routes.map(|(_, row)| row.uuid).collect();
            self.kept.extend(routes);
        }
        for route in desired::routes(member, link) {
            let id = route.external_ids.get_str(key::ID).unwrap_or_default();
            let candidates: Vec<&'a Row> =
                rows_with_id(rows, TableKind::Route, self.context, id).collect();
            let child = self.child(
                &self.managed.route,
                candidates.into_iter(),
                route,
                router,
                &index.routes,
            );
            if let Some(child) = child {
                self.step(Phase::Link, None, Action::Route(child));
            }
        }
    }

    /// `true` if an existing route leads to a subnet that is refused to the link's node.
    fn is_refused(&self, route: &Row, link: &Link<'_>, member: &Member) -> bool {
        let routes = self
            .context
            .index
            .snapshot()
            .typed::<LogicalRouterStaticRoute>();
        let prefix = routes.read(route).ok();
        let prefix = prefix.and_then(|route| route.ip_prefix.parse().ok());
        prefix.is_some_and(|prefix| link.refuses(prefix, member))
    }

    fn port(&mut self, port: PortRow, existing: Option<&'a Row>, router: TargetRouter<'a>) {
        let holders = &self.context.index.ports;
        let child = self.child(
            &self.managed.port,
            existing.into_iter(),
            port,
            router,
            holders,
        );
        if let Some(child) = child {
            self.step(Phase::Link, None, Action::Port(child));
        }
    }
}
