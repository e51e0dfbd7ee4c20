//! Ports and routes of a link.

use patchbay_model::{NodeId, Topology};
use patchbay_rows::{Owner, PartRow, RowView};
use patchbay_zone::Cell;
use smol_str::SmolStr;

use crate::capability::{Connects, PartReport, Rows};
use crate::desired::{self, Link, Member};
use crate::link_report::{LinkReport, LinkSkip};
use crate::part::{ConnectPart, LinkId, Part};
use crate::report::NodeSkip;
use crate::shared::{AnnotatedNetwork, ConnectReader, Standing};
use crate::tables::{PortRow, enabled, owner_of_port};

impl Connects {
    pub(crate) fn link(
        &self,
        connect: &SmolStr,
        id: LinkId,
        reader: &ConnectReader<'_>,
        rows: &mut Rows,
    ) {
        let network = Self::network(connect, id.network, reader);
        match &network.standing {
            Standing::Absent => return,
            Standing::Held(reason) => {
                if Self::holds_link(connect, id, reason, reader) {
                    rows.keep_rest();
                }
                return;
            }
            Standing::Planned => {}
        }
        let found = self.find_link(connect, &network, id, reader);
        let (Some(found), Some(member)) = (found, &network.member) else {
            // Those of a network that is left stay because of the scope.
            if !network.is_left && Self::retains_link(&network, id, reader) {
                rows.keep_rest();
            }
            return;
        };
        match found {
            Err(reason) => {
                if Self::retains_link(&network, id, reader) {
                    rows.keep_rest();
                }
                let node = node_name(member, id, reader);
                let skip = Box::new(LinkSkip { node, reason });
                rows.report(PartReport::Link(LinkReport::Skipped(skip)));
            }
            Ok(link) => {
                self.link_rows(member, &link, reader, rows);
                let report = link_report(member, id, &link, reader);
                rows.report(PartReport::Link(report));
            }
        }
    }

    fn link_rows(
        &self,
        member: &Member,
        link: &Link<'_>,
        reader: &ConnectReader<'_>,
        rows: &mut Rows,
    ) {
        let tables = &self.tables;
        let router = member.link_rows.router();
        let with_enabled = |port: PortRow| PortRow {
            enabled: enabled(reader.row(tables.ports, &port.name)),
            ..port
        };
        rows.put(tables.ports, &with_enabled(link.connect_port(member)))
            .held_by(tables.router_ports, router.clone());
        if let Some(port) = link.network_port(member) {
            rows.put(tables.ports, &with_enabled(port))
                .held_by(tables.router_ports, member.router.as_str());
        }
        for route in desired::routes(member, link) {
            rows.put(tables.routes, &route).held_by(tables.router_routes, router.clone());
        }
    }

    /// The link, if there should be one, with the names and the key that it needs.
    ///
    /// Of several links that need one name or key, the first one has it.
    fn find_link<'a>(
        &self,
        connect: &SmolStr,
        network: &AnnotatedNetwork,
        id: LinkId,
        reader: &ConnectReader<'a>,
    ) -> Option<Result<Link<'a>, NodeSkip>> {
        let member = network.member.as_ref()?;
        let link = match Self::attachment(member, id, reader)? {
            Ok(link) => link,
            Err(reason) => return Some(Err(reason)),
        };
        let holder = reader.claim("tunnel key", (connect, link.key));
        let names = [Some(link.name.clone()), link.network_name(member)];
        for name in names.into_iter().flatten() {
            let port = reader.row(self.tables.ports, &name);
            let is_taken = port.is_some_and(|port| Self::is_foreign(connect, id, port, reader))
                || reader.claim_row(self.tables.ports, &name).is_some();
            if is_taken {
                return Some(Err(NodeSkip::NameTaken(name.to_string())));
            }
        }
        Some(match holder {
            None => Ok(link),
            Some(holder) => Err(NodeSkip::SharedTunnelKey {
                key: link.key.get(),
                port: Self::port_name(holder, reader),
            }),
        })
    }

    /// The attachment of a network, if there should be one.
    pub(crate) fn attachment<'a>(
        member: &Member,
        id: LinkId,
        reader: &ConnectReader<'a>,
    ) -> Option<Result<Link<'a>, NodeSkip>> {
        if !member.is_connected() {
            return None;
        }
        match member.topology {
            Topology::Layer2 | Topology::Vpc => {
                let is_made = id.index == 0 && member.is_active_here;
                is_made.then(|| Link::of_layer2(member))
            }
            Topology::Layer3 => {
                let node_id = NodeId::try_new(id.index.into()).ok()?;
                let inputs = reader.read(&Cell::Link(node_id, member.id));
                let node = inputs.node_ids().owner(node_id)?;
                let is_local = *node.name == *member.zone;
                member
                    .is_active_on(&node.name)
                    .then(|| Link::of_layer3(member, (node_id, node), is_local))
            }
        }
    }

    /// `true` if a port belongs to another program or connect, or to a link whose rows are
    /// retained.
    fn is_foreign(
        connect: &SmolStr,
        id: LinkId,
        port: RowView<'_>,
        reader: &ConnectReader<'_>,
    ) -> bool {
        if reader.is_own(port) {
            return false;
        }
        match owner_of_port(&port) {
            Owner::Unowned => false,
            Owner::Other => true,
            Owner::Part(owner) if owner.connect != *connect => true,
            Owner::Part(owner) => match owner.part {
                Part::Link(other) if other != id => {
                    let network = Self::network(connect, other.network, reader);
                    Self::retains_link(&network, other, reader)
                }
                _ => false,
            },
        }
    }

    /// Name of a link's port on the connect router.
    fn port_name(holder: &ConnectPart, reader: &ConnectReader<'_>) -> String {
        let Part::Link(id) = holder.part else {
            return String::new();
        };
        let network = Self::network(&holder.connect, id.network, reader);
        let member = network.member.as_ref();
        let link = member.and_then(|member| Self::attachment(member, id, reader)?.ok());
        link.map_or_else(String::new, |link| link.name.into())
    }

    /// `true` if a route stays although it is not wanted: as in OVN-Kubernetes, the node has no
    /// subnet of the route's IP family, or one that cannot be read. A route to a refused subnet
    /// goes.
    pub(crate) fn keeps_route(
        &self,
        connect: &SmolStr,
        id: LinkId,
        row: PartRow<'_>,
        reader: &ConnectReader<'_>,
    ) -> bool {
        if !row.is_of(self.tables.routes) {
            return false;
        }
        let network = Self::network(connect, id.network, reader);
        let Some(Ok(link)) = self.find_link(connect, &network, id, reader) else {
            return false;
        };
        let Some(member) = &network.member else {
            return false;
        };
        let prefix = row.view().column("ip_prefix");
        let prefix = prefix.and_then(|prefix| prefix.as_scalar()?.as_str()?.parse().ok());
        prefix.is_some_and(|prefix| link.keeps_route(prefix, member))
    }
}

/// Name of a link's node. `None`: the single link of a layer2 network.
fn node_name(member: &Member, id: LinkId, reader: &ConnectReader<'_>) -> Option<String> {
    let id =
        NodeId::try_new(id.index.into()).ok().filter(|_| member.topology == Topology::Layer3)?;
    let inputs = reader.read(&Cell::NodeId(id));
    inputs.node_ids().owner(id).map(|node| node.name.clone())
}

fn link_report(
    member: &Member,
    id: LinkId,
    link: &Link<'_>,
    reader: &ConnectReader<'_>,
) -> LinkReport {
    let is_local = link.is_local;
    let routes = link.route_count(member);
    if routes > 0 {
        return LinkReport::Made { is_local, routes: u16::try_from(routes).unwrap_or(u16::MAX) };
    }
    let skip = LinkSkip {
        node: node_name(member, id, reader),
        reason: link.reason_without_routes(member),
    };
    LinkReport::Unrouted { is_local, skip: Box::new(skip) }
}
