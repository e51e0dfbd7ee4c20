//! Policies on the routers of source networks.

use patchbay_model::{NetworkId, Topology};
use patchbay_zone::Cell;
use smol_str::SmolStr;

use crate::capability::{Connects, PartReport, Rows};
use crate::desired::{self, Link, Member};
use crate::part::{ConnectPart, LinkId, Part};
use crate::shared::{AnnotatedNetwork, ConnectReader, Standing};
use crate::tables::WAYS;

impl Connects {
    pub(crate) fn policies(
        &self,
        connect: &SmolStr,
        (source, destination): (NetworkId, NetworkId),
        reader: &ConnectReader<'_>,
        rows: &mut Rows,
    ) {
        let from = Self::network(connect, source, reader);
        let to = Self::network(connect, destination, reader);
        match &from.standing {
            Standing::Absent => return,
            Standing::Held(reason) => {
                if self.holds_policies(connect, reason, reader)
                    && Self::holds_network(connect, source, reason, reader)
                    && Self::holds_network(connect, destination, reason, reader)
                {
                    rows.keep_rest();
                }
                return;
            }
            Standing::Planned => {}
        }
        let link =
            from.member.as_ref().and_then(|member| Self::local_link(connect, member, reader));
        if let (Some(link), Some(from), Some(to)) = (&link, &from.member, &to.member)
            && source != destination
        {
            for policy in desired::policies(from, link, to) {
                rows.put(self.tables.policies, &policy)
                    .held_by(self.tables.router_policies, from.router.as_str())
                    .together(source.get().into());
            }
            // They come with the policies, so that no other packet takes the routes.
            for route in desired::ways(from, link, to) {
                rows.put(self.tables.routes, &route)
                    .held_by(self.tables.router_routes, from.router.as_str())
                    .phases(WAYS)
                    .together(source.get().into());
            }
            return;
        }
        // Those of a network that is left stay because of the scope.
        let is_left = from.is_left || to.is_left;
        if !is_left && Self::keeps_policies(connect, (source, destination), reader) {
            rows.keep_rest();
        }
    }

    /// `true` if policies that are not wanted stay.
    pub(crate) fn keeps_policies(
        connect: &SmolStr,
        (source, destination): (NetworkId, NetworkId),
        reader: &ConnectReader<'_>,
    ) -> bool {
        let from = Self::network(connect, source, reader);
        let to = Self::network(connect, destination, reader);
        let link =
            from.member.as_ref().and_then(|member| Self::local_link(connect, member, reader));
        let is_linked = link.is_some() || from.retains_local_link();
        (is_linked || from.is_unknown())
            && Self::is_connected(connect, source, &from, reader)
            && Self::is_connected(connect, destination, &to, reader)
    }

    /// Link of a network in this zone, if it has its ports.
    fn local_link<'a>(
        connect: &SmolStr,
        member: &Member,
        reader: &ConnectReader<'a>,
    ) -> Option<Link<'a>> {
        let id = match member.topology {
            Topology::Layer2 | Topology::Vpc => LinkId { network: member.id, index: 0 },
            Topology::Layer3 => {
                LinkId::layer3(member.id, reader.read(&Cell::LocalNode).local_node().id?)
            }
        };
        let report = reader.report(&ConnectPart::new(connect, Part::Link(id)));
        let has_ports = matches!(report, Some(PartReport::Link(link)) if link.has_ports());
        if !has_ports {
            return None;
        }
        Self::attachment(member, id, reader)?.ok()
    }

    /// `true` if policies of a network stay while it is not known, or if it is known.
    ///
    /// With service-only connectivity, an unknown network stays connected only if it is isolated
    /// already, because the ACLs that it needs cannot be computed.
    fn is_connected(
        connect: &SmolStr,
        id: NetworkId,
        network: &AnnotatedNetwork,
        reader: &ConnectReader<'_>,
    ) -> bool {
        if !network.is_unknown() {
            return network.member.is_some();
        }
        let inputs = reader.read(&Cell::Connect(connect.clone()));
        let of_connect = inputs.connect(connect);
        let is_isolated = of_connect.is_some_and(|it| it.connectivity.is_service_only());
        let rows = Self::retained(connect, id, reader);
        rows.is_linked && (!is_isolated || rows.is_isolated)
    }
}
