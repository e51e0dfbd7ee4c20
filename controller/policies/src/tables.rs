//! Tables of policies' rows.
//!
//! Rows belong to the network, namespace and policy that their external ids show, and go if these
//! do not want them. Members of the port groups are the selected ports and no others.
//!
//! # Order of changes
//!
//! A packet is let through if no port group of isolated ports has its port, or if an ACL allows it.
//! So that no packet is let through between two transactions that is let through neither before the
//! first nor after the last, changes have five phases:
//!
//! | phase | what changes |
//! | --- | --- |
//! | [`ISOLATE`] | isolated ports are added, with the ACLs that drop packets; new address sets; ports of namespaces; new and changed ACLs of a firewall, all at once |
//! | [`DISALLOW`] | ports and addresses leave what is allowed; ACLs that allow packets go |
//! | [`CHANGE`] | ACLs that allow packets change, each at once |
//! | [`ALLOW`] | ports and addresses join what is allowed; ACLs that allow packets come |
//! | [`RELEASE`] | ports are not isolated any more; address sets and ACLs of firewalls go |
//!
//! ACLs of a firewall that are still to go have lower priorities than its other ones. Without them
//! their packets would pass.
//!
//! Before the third phase an ACL allows at most what it has allowed, because its ports and
//! addresses are those of both before and after. From then on it allows at most what it will allow.

use patchbay_model::external_ids::key;
use patchbay_rows::{Holding, Identity, Layout, Owner, Phase, Phases, RowView, Table, table_row};
use patchbay_schemas::datum::{Map, Set};
use patchbay_schemas::nb::{
    Acl, AddressSet, LogicalRouter, LogicalSwitch, LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::typed::Field;
use patchbay_zone::{NetworkNamespace, SelectionKey};
use smol_str::SmolStr;

use super::capability::Part;

/// Router of the default network. A database with it is OVN-Kubernetes'.
pub(super) const DEFAULT_ROUTER: &str = "ovn_cluster_router";
/// End of the name of a network's controller, which owns its rows.
pub(super) const CONTROLLER: &str = "-network-controller";
/// Owner type of the rows that isolate pods.
pub(super) const NAMESPACE: &str = "NetpolNamespace";
/// Owner type of the rows that allow packets.
pub(super) const POLICY: &str = "NetworkPolicy";
/// Owner type of the port group of a namespace.
pub(super) const NAMESPACE_PORTS: &str = "Namespace";
/// Owner type of the ACLs that allow multicast in a namespace.
pub(super) const MULTICAST: &str = "MulticastNS";
/// Owner type of the ACLs of an EgressFirewall.
pub(super) const FIREWALL: &str = "EgressFirewall";
/// Network whose controller owns the ACLs of all EgressFirewalls.
pub(super) const DEFAULT_NETWORK: &str = "default";
/// Owner type of address sets.
pub(super) const SELECTION: &str = "PodSelector";

const ISOLATE: Phase = Phase(0);
const DISALLOW: Phase = Phase(1);
const CHANGE: Phase = Phase(2);
const ALLOW: Phase = Phase(3);
const RELEASE: Phase = Phase(4);

/// Phases of address sets in which addresses come and go. They are deleted last.
pub(super) const ADDRESS_PHASES: Phases = Phases { come: ISOLATE, change: ALLOW, go: DISALLOW };

table_row! {
    /// Group of ports that ACLs are about. Selected pods contribute the ports.
    pub(super) struct PolicyGroup of PortGroup {
        name: SmolStr,
        ports: Set,
        external_ids: Map,
    }
}

table_row! {
    /// Addresses of selected pods, which contribute them.
    pub(super) struct PeerAddresses of AddressSet {
        name: SmolStr,
        addresses: Set,
        external_ids: Map,
    }
}

table_row! {
    /// Port of a pod, which another program writes.
    pub(super) struct PortName of LogicalSwitchPort {
        name: SmolStr,
    }
}

table_row! {
    /// Switch that shows that a network is there.
    pub(super) struct SwitchName of LogicalSwitch {
        name: SmolStr,
    }
}

table_row! {
    /// Router that shows whose database it is.
    pub(super) struct RouterName of LogicalRouter {
        name: SmolStr,
    }
}

/// Tables, and the columns by which their rows hold each other.
#[derive(Debug)]
pub(super) struct Tables {
    pub(super) isolated: Gate,
    pub(super) allowed: Gate,
    /// Ports of namespaces, and the ACLs that allow multicast between them.
    pub(super) namespaces: Gate,
    /// ACLs of EgressFirewalls.
    pub(super) firewall_acls: Table<Acl>,
    pub(super) firewall_acls_of_group: Holding,
    pub(super) addresses: Table<PeerAddresses>,
    pub(super) ports: Table<PortName>,
    pub(super) switches: Table<SwitchName>,
    pub(super) routers: Table<RouterName>,
}

/// Port groups with their ACLs.
#[derive(Debug)]
pub(super) struct Gate {
    pub(super) groups: Table<PolicyGroup>,
    pub(super) acls: Table<Acl>,
    pub(super) acls_of_group: Holding,
}

impl Gate {
    fn declare(
        layout: &mut Layout<Part>,
        (groups, acls): (Phases, Phases),
        owner: fn(&RowView<'_>) -> Owner<Part>,
    ) -> Self {
        let ports = column::<_, PolicyGroup, _>(PortGroup::PORTS);
        let groups =
            layout.table(Identity::NAME).owned_by(owner).phases(groups).members(ports).declare();
        let acls =
            layout.table(Identity::ExternalId(key::ID)).owned_by(owner).phases(acls).declare();
        Self { acls_of_group: layout.holding(groups, column(PortGroup::ACLS), acls), groups, acls }
    }
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let isolated = Phases { come: ISOLATE, change: ISOLATE, go: RELEASE };
        let allowed = |change| Phases { come: ALLOW, change, go: DISALLOW };
        let addresses = column::<_, PeerAddresses, _>(AddressSet::ADDRESSES);
        let namespaces = Gate::declare(layout, (isolated, allowed(CHANGE)), namespace_row);
        let firewall_acls = layout
            .table(Identity::ExternalId(key::ID))
            .owned_by(firewall_row)
            .phases(Phases { come: ISOLATE, change: ISOLATE, go: RELEASE })
            .declare();
        Self {
            firewall_acls_of_group: layout.holding(
                namespaces.groups,
                column(PortGroup::ACLS),
                firewall_acls,
            ),
            firewall_acls,
            namespaces,
            isolated: Gate::declare(layout, (isolated, isolated), isolating_row),
            allowed: Gate::declare(layout, (allowed(ALLOW), allowed(CHANGE)), allowing_row),
            addresses: layout
                .table(Identity::NAME)
                .owned_by(address_set)
                .phases(Phases { go: RELEASE, ..ADDRESS_PHASES })
                .members(addresses)
                .declare(),
            ports: layout.table(Identity::NAME).shared().declare(),
            switches: layout.table(Identity::NAME).shared().declare(),
            routers: layout.table(Identity::NAME).shared().declare(),
        }
    }
}

/// A column of a table as one of a row type with fewer columns.
pub(super) const fn column<T, R, C>(of: Field<T, C>) -> Field<R, C> {
    Field::new(of.name())
}

/// Network and name of a row of this owner type.
fn owned<'a>(row: &RowView<'a>, owner_type: &str) -> Option<(&'a str, &'a str)> {
    let controller = row.external_id(key::OWNER_CONTROLLER)?;
    let network = controller.strip_suffix(CONTROLLER)?;
    let is_of_type = row.external_id(key::OWNER_TYPE) == Some(owner_type) && network != "default";
    is_of_type.then_some((network, row.external_id(key::NAME)?))
}

fn of_part(part: Option<Part>) -> Owner<Part> {
    part.map_or(Owner::Unowned, Owner::Part)
}

fn isolating_row(row: &RowView<'_>) -> Owner<Part> {
    of_part(owned(row, NAMESPACE).map(|(network, namespace)| {
        Part::Namespace(NetworkNamespace { network: network.into(), namespace: namespace.into() })
    }))
}

fn allowing_row(row: &RowView<'_>) -> Owner<Part> {
    of_part(owned(row, POLICY).and_then(|(network, name)| {
        let (namespace, name) = name.split_once(':')?;
        let place = NetworkNamespace { network: network.into(), namespace: namespace.into() };
        Some(Part::Policy(place, name.into()))
    }))
}

fn namespace_row(row: &RowView<'_>) -> Owner<Part> {
    let row = owned(row, NAMESPACE_PORTS).or_else(|| owned(row, MULTICAST));
    of_part(row.map(|(network, namespace)| {
        Part::Group(NetworkNamespace { network: network.into(), namespace: namespace.into() })
    }))
}

/// The ACLs of a firewall do not show its network: a namespace has one firewall.
fn firewall_row(row: &RowView<'_>) -> Owner<Part> {
    let controller = row.external_id(key::OWNER_CONTROLLER);
    let network = controller.and_then(|controller| controller.strip_suffix(CONTROLLER));
    let is_firewall =
        network == Some(DEFAULT_NETWORK) && row.external_id(key::OWNER_TYPE) == Some(FIREWALL);
    let namespace = row.external_id(key::NAME).filter(|_| is_firewall);
    of_part(namespace.map(|namespace| Part::Firewall(namespace.into())))
}

fn address_set(row: &RowView<'_>) -> Owner<Part> {
    of_part(owned(row, SELECTION).map(|(network, name)| {
        Part::Addresses(SelectionKey { network: network.into(), name: name.into() })
    }))
}
