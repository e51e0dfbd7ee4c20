//! Values that many parts of a connect read.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::external_ids::{AclKind, OwnedRow, address_set_name, key};
use patchbay_model::{Connect, Databases, Network, NetworkId, NodeId, OwnerKey, Topology, names};
use patchbay_rows::{Reader, Scope};
use patchbay_schemas::typed::TableRow as _;
use patchbay_zone::Cell;
use smol_str::SmolStr;

use super::capability::{Connects, network_object};
use super::desired::{COPP, Member};
use super::entries::network_of;
use super::part::{ConnectPart, LinkId, Part};
use super::report::{HeldReason, NetworkSkip};
use super::schema_facts::has_pass_action;
use super::tables::{AddressSetRow, RouterRow, is_of_other};

/// Key of a shared value.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(super) enum SharedKey {
    /// Condition of a connect under which its rows can or cannot be planned.
    Standing(SmolStr),
    /// A network of a connect's subnet annotation.
    Network(SmolStr, NetworkId),
    /// Rows that a network keeps while it is not known.
    Retained(SmolStr, NetworkId),
}

/// Value that many parts read.
#[derive(Debug, PartialEq)]
pub(super) enum Shared {
    Standing(Standing),
    Network(Arc<AnnotatedNetwork>),
    Retained(Arc<RetainedNetwork>),
}

/// Condition of a connect under which its rows can or cannot be planned.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) enum Standing {
    /// The connect is gone, and so are its rows.
    #[default]
    Absent,
    /// The rows stay as they are.
    Held(HeldReason),
    /// The rows follow from the connect.
    Planned,
}

/// A network of a connect's subnet annotation, in this zone.
#[derive(Debug, Default, PartialEq)]
pub(super) struct AnnotatedNetwork {
    pub(super) standing: Standing,
    /// The network. `None`: it is not known.
    pub(super) member: Option<Member>,
    /// Entries of the annotation that no network fits, with the name of the network if one has the
    /// id.
    pub(super) unknown: Vec<(OwnerKey, Option<String>, NetworkSkip)>,
    /// `true` if the connect has links of the network, although the annotation does not list it and
    /// the inputs do not name it. They stay because of the scope.
    pub(super) is_left: bool,
}

impl AnnotatedNetwork {
    /// `true` if the inputs lack the network, and the annotation lists it or the scope keeps its rows.
    pub(super) fn is_unknown(&self) -> bool {
        let mut reasons = self.unknown.iter().map(|(.., reason)| reason);
        self.is_left || reasons.any(|reason| matches!(reason, NetworkSkip::Unknown))
    }

    /// `true` if the rows of the network are retained: until it returns or leaves the annotation,
    /// or until the zone's node has an id.
    pub(super) fn is_retained(&self) -> bool {
        self.is_unknown() || self.member.as_ref().is_some_and(Member::waits_for_local_id)
    }

    /// `true` if the network's link in this zone is retained, because the id of the zone's node
    /// cannot be read.
    pub(super) fn retains_local_link(&self) -> bool {
        let obstacle = self.member.as_ref().and_then(|member| member.obstacle.as_ref());
        matches!(obstacle, Some(NetworkSkip::UnreadableLocalId(_)))
    }
}

/// Rows that a network keeps while it is not known.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RetainedNetwork {
    /// `true` if the network has links.
    pub(super) is_linked: bool,
    /// `true` if its switch has the ACLs that isolate pods.
    pub(super) is_isolated: bool,
    /// Names of its switches.
    pub(super) switches: BTreeSet<String>,
}

/// Reader of the capability.
pub(super) type ConnectReader<'a> = Reader<'a, Connects>;

impl Connects {
    pub(super) fn standing(connect: &SmolStr, reader: &ConnectReader<'_>) -> Standing {
        match &*reader.shared(&SharedKey::Standing(connect.clone())) {
            Shared::Standing(standing) => standing.clone(),
            _ => Standing::Absent,
        }
    }

    /// A network of the connect's subnet annotation.
    pub(super) fn network(
        connect: &SmolStr,
        id: NetworkId,
        reader: &ConnectReader<'_>,
    ) -> Arc<AnnotatedNetwork> {
        match &*reader.shared(&SharedKey::Network(connect.clone(), id)) {
            Shared::Network(network) => network.clone(),
            _ => Arc::default(),
        }
    }

    /// All networks of the connect's subnet annotation, by id, and those that are left.
    pub(super) fn networks(
        connect: &SmolStr,
        reader: &ConnectReader<'_>,
    ) -> BTreeMap<NetworkId, Arc<AnnotatedNetwork>> {
        let inputs = reader.read(&Cell::Connect(connect.clone()));
        let owners = inputs.connect(connect).map(|connect| connect.subnets.owners());
        let ids = owners.into_iter().flatten().map(|owner| owner.network_id);
        ids.chain(Self::left_networks(connect, reader))
            .map(|id| (id, Self::network(connect, id, reader)))
            .collect()
    }

    /// Ids of the networks whose links the scope keeps: see [`AnnotatedNetwork::is_left`].
    fn left_networks(connect: &SmolStr, reader: &ConnectReader<'_>) -> BTreeSet<NetworkId> {
        if reader.scope().is_none() {
            return BTreeSet::new();
        }
        let links = reader.owned_in(ConnectPart::range(connect, Part::all_links()));
        let ids: BTreeSet<NetworkId> = links
            .filter_map(|(part, _)| match part.part {
                Part::Link(link) => Some(link.network),
                _ => None,
            })
            .collect();
        ids.into_iter().filter(|id| Self::network(connect, *id, reader).is_left).collect()
    }

    /// `true` if the scope keeps the links of a network that the annotation does not list.
    fn is_left(connect: &SmolStr, id: NetworkId, reader: &ConnectReader<'_>) -> bool {
        let is_kept = |scope: &Scope| !scope.may_go(&network_object(id));
        reader.scope().is_some_and(is_kept)
            && reader.read(&Cell::ConnectableNetwork(id)).connectable_network(id).is_none()
            && reader.owned_in(ConnectPart::range(connect, Part::links_of(id))).next().is_some()
    }

    /// Rows that a network keeps while it is not known.
    pub(super) fn retained(
        connect: &SmolStr,
        id: NetworkId,
        reader: &ConnectReader<'_>,
    ) -> Arc<RetainedNetwork> {
        match &*reader.shared(&SharedKey::Retained(connect.clone(), id)) {
            Shared::Retained(retained) => retained.clone(),
            _ => Arc::default(),
        }
    }

    pub(super) fn shared_value(&self, key: &SharedKey, reader: &ConnectReader<'_>) -> Shared {
        match key {
            SharedKey::Standing(connect) => Shared::Standing(self.find_standing(connect, reader)),
            SharedKey::Network(connect, id) => {
                Shared::Network(Arc::new(self.resolve(connect, *id, reader)))
            }
            SharedKey::Retained(connect, id) => {
                Shared::Retained(Arc::new(self.find_retained(connect, *id, reader)))
            }
        }
    }

    fn find_standing(&self, name: &SmolStr, reader: &ConnectReader<'_>) -> Standing {
        let inputs = reader.read(&Cell::Connect(name.clone()));
        let Some(input) = inputs.connect_input(name) else {
            return Standing::Absent;
        };
        let connect = match &input.connect {
            Ok(connect) => connect,
            Err(error) => return Standing::Held(HeldReason::from(error)),
        };
        // A connect without a tunnel key may be refused: rows are then those of a former connect of
        // its name.
        if let Some(refusal) = &input.refusal {
            return Standing::Held(HeldReason::NotAccepted(refusal.clone()));
        }
        if inputs.router_key(name).is_none() {
            return Standing::Held(HeldReason::NoTunnelKey);
        }
        let router = || ConnectPart::range(name, Part::Router..=Part::Router);
        // Only a new router needs the Copp row.
        if reader.row(self.tables.copps, COPP).is_none()
            && reader.owned_in(router()).next().is_none()
        {
            return Standing::Held(HeldReason::NoCopp(COPP));
        }
        match self.find_foreign(connect, reader) {
            Some((table, name)) => {
                let message = format!("{table} {name} belongs to another owner");
                Standing::Held(HeldReason::Refused(message))
            }
            None => Standing::Planned,
        }
    }

    /// Table and name of a row of another owner that has the name of one of the connect's rows: the
    /// router, or an address set to which ACLs refer by name.
    fn find_foreign(
        &self,
        connect: &Connect,
        reader: &ConnectReader<'_>,
    ) -> Option<(&'static str, String)> {
        let router = names::connect_router(&connect.name);
        let routers: Vec<_> = reader.rows(self.tables.routers, &router).collect();
        if !routers.is_empty() && routers.iter().all(is_of_other) {
            return Some((RouterRow::TABLE, router));
        }
        if !connect.connectivity.is_service_only() {
            return None;
        }
        let families = &reader.read(&Cell::Zone).settings().families;
        let mut sets = families.iter().map(|family| address_set_name(&connect.name, *family));
        let taken = sets.find(|name| {
            let set = reader.row(self.tables.address_sets, name);
            set.is_some_and(|row| is_of_other(&row))
        });
        Some((AddressSetRow::TABLE, taken?))
    }

    /// Resolves the entries of the subnet annotation with one network id.
    fn resolve(
        &self,
        name: &SmolStr,
        id: NetworkId,
        reader: &ConnectReader<'_>,
    ) -> AnnotatedNetwork {
        let mut found = AnnotatedNetwork {
            standing: Self::standing(name, reader),
            ..AnnotatedNetwork::default()
        };
        if found.standing != Standing::Planned {
            return found;
        }
        reader.read(&Cell::Connect(name.clone()));
        reader.read(&Cell::ConnectEntry(name.clone(), id));
        let inputs = reader.read(&Cell::ConnectableNetwork(id));
        let Some(connect) = inputs.connect(name) else {
            return found;
        };
        let network = network_of(inputs, connect, id);
        for topology in Topology::ALL {
            let owner = OwnerKey { topology, network_id: id };
            let Some(subnets) = connect.subnets.get(owner) else {
                continue;
            };
            match network {
                Some(network) if network.topology == topology => {
                    let inputs = reader.read(&Cell::Zone);
                    let mut member = Member::new(connect, network, subnets, inputs.zone());
                    member.vpc = connect.vpcs.get(&id).cloned();
                    member.adds_ways = inputs.settings().databases == Databases::Central;
                    found.member = Some(self.place(member, connect, network, reader));
                }
                Some(network) => {
                    let reason = NetworkSkip::OtherTopology(network.topology);
                    found.unknown.push((owner, Some(network.name.clone()), reason));
                }
                None => found.unknown.push((owner, None, NetworkSkip::Unknown)),
            }
        }
        found.is_left = found.unknown.is_empty() && Self::is_left(name, id, reader);
        found
    }

    /// Finds a network's place in the zone, or what prevents that it has one.
    fn place(
        &self,
        mut member: Member,
        connect: &Connect,
        network: &Network,
        reader: &ConnectReader<'_>,
    ) -> Member {
        let inputs = reader.read(&Cell::LocalNode);
        let local = inputs.local_node();
        let zone = inputs.zone();
        reader.read(&Cell::Activity(member.name.clone()));
        member.active_nodes = inputs.nodes_with_users(&member.name);
        let has_router = reader.row(self.tables.routers, &member.router).is_some();
        member.is_active_here = local.is_there && member.is_active_on(zone);
        member.has_switch = reader.row(self.tables.switches, &member.switch).is_some();
        let isolated = connect.connectivity.is_service_only();
        member.obstacle = if isolated && member.vpc.is_some() {
            Some(NetworkSkip::ServicesOfVpc)
        } else if isolated && !has_pass_action(reader.schema()) {
            Some(NetworkSkip::NoPassAction)
        } else if !member.is_active_here {
            None
        } else if !has_router {
            Some(NetworkSkip::NoRouter(member.router.clone()))
        } else if isolated && !member.has_switch {
            Some(NetworkSkip::NoSwitch(member.switch.clone()))
        } else if network.pod_subnets.is_empty() {
            Some(NetworkSkip::NoSubnets)
        } else if member.topology == Topology::Layer3 && local.lacks_id {
            Some(if local.has_unreadable_id {
                NetworkSkip::UnreadableLocalId(zone.to_string())
            } else {
                NetworkSkip::NoLocalId(zone.to_string())
            })
        } else {
            None
        };
        member
    }

    /// `true` if the rows of a link are retained. Links of deleted nodes are not.
    pub(super) fn retains_link(
        network: &AnnotatedNetwork,
        id: LinkId,
        reader: &ConnectReader<'_>,
    ) -> bool {
        let node = NodeId::try_new(id.index.into()).ok();
        let has_node = || {
            node.is_some_and(|node| {
                reader.read(&Cell::NodeId(node)).node_ids().owner(node).is_some()
            })
        };
        network.is_left
            || network.is_retained() && (id.index == 0 || has_node())
            || Self::is_unreadable(network, reader) && !has_node()
    }

    /// `true` if this network may have links on nodes whose ids cannot be read.
    fn is_unreadable(network: &AnnotatedNetwork, reader: &ConnectReader<'_>) -> bool {
        let has_links = |member: &Member| {
            member.topology == Topology::Layer3
                && (member.is_connected() || member.waits_for_local_id())
        };
        reader.read(&Cell::UnreadableIds).node_ids().has_unreadable()
            && (network.is_unknown() || network.member.as_ref().is_some_and(has_links))
    }

    /// `true` if the links of a network stay while the connect is held. Those of a connect that is
    /// not accepted go once its annotation does not name the network, or the node is gone.
    pub(super) fn holds_link(
        connect: &SmolStr,
        id: LinkId,
        reason: &HeldReason,
        reader: &ConnectReader<'_>,
    ) -> bool {
        if !matches!(reason, HeldReason::NotAccepted(_)) {
            return true;
        }
        let node = NodeId::try_new(id.index.into()).ok();
        let has_node = || {
            node.is_some_and(|node| {
                reader.read(&Cell::NodeId(node)).node_ids().owner(node).is_some()
            })
        };
        Self::holds_network(connect, id.network, reason, reader)
            && (id.index == 0
                || has_node()
                || reader.read(&Cell::UnreadableIds).node_ids().has_unreadable())
    }

    /// `true` if the rows of a network stay while the connect is held.
    pub(super) fn holds_network(
        connect: &SmolStr,
        id: NetworkId,
        reason: &HeldReason,
        reader: &ConnectReader<'_>,
    ) -> bool {
        if !matches!(reason, HeldReason::NotAccepted(_)) {
            return true;
        }
        reader.read(&Cell::Connect(connect.clone()));
        let inputs = reader.read(&Cell::ConnectEntry(connect.clone(), id));
        let is_named = |of_connect: &Connect| {
            let topologies = Topology::ALL.into_iter();
            let mut owners = topologies.map(|topology| OwnerKey { topology, network_id: id });
            owners.any(|owner| of_connect.subnets.get(owner).is_some())
        };
        inputs.connect(connect).is_some_and(is_named)
    }

    /// `true` if policies of a held connect may stay. Those of a connect that is not accepted go if it
    /// is for services only and has no ACLs that drop other traffic: this restriction came while the
    /// zone had no pass.
    pub(super) fn holds_policies(
        &self,
        connect: &SmolStr,
        reason: &HeldReason,
        reader: &ConnectReader<'_>,
    ) -> bool {
        if !matches!(reason, HeldReason::NotAccepted(_)) {
            return true;
        }
        let inputs = reader.read(&Cell::Connect(connect.clone()));
        let is_restricted =
            inputs.connect(connect).is_some_and(|it| it.connectivity.is_service_only());
        let id = OwnedRow::Acl(AclKind::DropPod).id(connect);
        let parts = ConnectPart::range(connect, Part::Isolation..=Part::Isolation);
        !is_restricted
            || reader.owned_in(parts).any(|(_, row)| {
                row.is_of(self.tables.acls) && row.view().external_id(key::ID) == id.as_deref()
            })
    }

    /// Finds the rows of a network that is not known from its ports.
    fn find_retained(
        &self,
        connect: &SmolStr,
        id: NetworkId,
        reader: &ConnectReader<'_>,
    ) -> RetainedNetwork {
        let mut found = RetainedNetwork::default();
        let network = Self::network(connect, id, reader);
        let zone = reader.read(&Cell::Zone).zone();
        for (of, row) in reader.owned_in(ConnectPart::range(connect, Part::links_of(id))) {
            let Part::Link(link) = of.part else { continue };
            if !Self::retains_link(&network, link, reader) {
                continue;
            }
            found.is_linked = true;
            if row.is_of(self.tables.ports) {
                // The identity of a port ends with the name of its router.
                let id = row.view().external_id(key::ID).unwrap_or_default();
                let router = id.rsplit(':').next().unwrap_or_default();
                found.switches.extend(names::switch_of_router(router, zone));
            }
        }
        let mut switches = found.switches.iter();
        found.is_isolated = switches.any(|switch| self.is_isolated(connect, id, switch, reader));
        found
    }

    /// `true` if a switch has the ACLs that isolate the network's pods.
    fn is_isolated(
        &self,
        connect: &SmolStr,
        network: NetworkId,
        switch: &str,
        reader: &ConnectReader<'_>,
    ) -> bool {
        let Some(switch) = reader.row(self.tables.switches, switch) else {
            return false;
        };
        let has = |kind| {
            let id = OwnedRow::Acl(kind).id(connect);
            let parts = ConnectPart::range(connect, Part::Isolation..=Part::Isolation);
            reader.owned_in(parts).any(|(_, row)| {
                let mut holders = reader.holders(self.tables.switch_acls, row);
                row.is_of(self.tables.acls)
                    && row.view().external_id(key::ID) == id.as_deref()
                    && holders.any(|holder| holder.uuid() == switch.uuid())
            })
        };
        has(AclKind::PassSameNetwork(network)) && has(AclKind::DropPod)
    }
}
