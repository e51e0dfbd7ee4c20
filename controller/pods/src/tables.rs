//! Tables of pods' rows.
//!
//! A port belongs to the pod that its external ids and its name show, and goes if the pod does not
//! want it. DHCP options belong to the virtual machine that they name. Switches and port groups are
//! those of the networks, and ports on the default network are those of OVN-Kubernetes: their
//! members are managed one by one.
//!
//! All changes have one phase. A port reaches what its network lets it reach. The port groups of
//! policies are in the hands of those that write policies: a new port that they guard is disabled
//! until it is in them.

use patchbay_model::PodKey;
use patchbay_model::external_ids::key;
use patchbay_model::names::network_prefix;
use patchbay_rows::{Holding, Identity, Layout, Owner, RowView, Table, table_row};
use patchbay_schemas::datum::{Map, Set};
use patchbay_schemas::nb::{
    Acl, DhcpOptions, LogicalRouter, LogicalSwitch, LogicalSwitchPort, PortGroup,
};
use patchbay_schemas::typed::Field;
use patchbay_zone::MachineKey;
use smol_str::SmolStr;

use super::capability::Part;
use super::{dhcp, isolation};

/// Router of the default network. A database with it is OVN-Kubernetes'.
pub(super) const DEFAULT_ROUTER: &str = "ovn_cluster_router";
/// External id with the key of a port's attachment.
pub(super) const ATTACHMENT: &str = "k8s.ovn.org/nad";
/// External id of ports of pods, with the value `true`.
pub(super) const POD: &str = "pod";
/// External id with the namespace of a port's pod.
pub(super) const NAMESPACE: &str = "namespace";

table_row! {
    /// Port of a pod in a network.
    pub(super) struct PodPort of LogicalSwitchPort {
        name: SmolStr,
        r#type: SmolStr,
        addresses: Set,
        port_security: Set,
        options: Map,
        external_ids: Map,
        enabled: Option<bool>,
    }
}

table_row! {
    /// Port that another program writes.
    pub(super) struct ForeignPort of LogicalSwitchPort {
        name: SmolStr,
    }
}

table_row! {
    /// Switch that holds ports.
    pub(super) struct SwitchName of LogicalSwitch {
        name: SmolStr,
    }
}

table_row! {
    /// Port group that holds ports and ACLs.
    pub(super) struct GroupName of PortGroup {
        name: SmolStr,
    }
}

table_row! {
    /// Port group of policies, whose ports show which ports it guards.
    pub(super) struct Gate of PortGroup {
        name: SmolStr,
        ports: Set,
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
    pub(super) ports: Table<PodPort>,
    pub(super) default_ports: Table<ForeignPort>,
    pub(super) acls: Table<Acl>,
    pub(super) dhcp: Table<DhcpOptions>,
    pub(super) routers: Table<RouterName>,
    pub(super) gates: Table<Gate>,
    pub(super) ports_of_switch: Holding,
    pub(super) ports_of_group: Holding,
    pub(super) acls_of_group: Holding,
    pub(super) dhcp_v4: Holding,
    pub(super) dhcp_v6: Holding,
}

impl Tables {
    pub(super) fn declare(layout: &mut Layout<Part>) -> Self {
        let by_name = Identity::NAME;
        let ports = layout.table(by_name).owned_by(pod_port).declare();
        let default_ports = layout.table(by_name).shared().declare();
        let by_id = Identity::ExternalId(key::ID);
        let acls = layout.table(by_id).shared().owned_by(open_port).declare();
        let dhcp = layout.table(by_id).owned_by(dhcp_options).declare();
        let routers = layout.table(by_name).shared().declare();
        let gates = layout.table(by_name).shared().declare();
        let switches = layout.table::<SwitchName>(by_name).shared().declare();
        let groups = layout.table::<GroupName>(by_name).shared().declare();
        Self {
            ports_of_switch: layout.holding(switches, column(LogicalSwitch::PORTS), ports),
            ports_of_group: layout.holding(groups, column(PortGroup::PORTS), default_ports),
            acls_of_group: layout.holding(groups, column(PortGroup::ACLS), acls),
            dhcp_v4: layout.holding(ports, column(LogicalSwitchPort::DHCPV4_OPTIONS), dhcp),
            dhcp_v6: layout.holding(ports, column(LogicalSwitchPort::DHCPV6_OPTIONS), dhcp),
            ports,
            default_ports,
            acls,
            dhcp,
            routers,
            gates,
        }
    }
}

/// A column of a table as one of a row type with fewer columns.
const fn column<T, R, C>(of: Field<T, C>) -> Field<R, C> {
    Field::new(of.name())
}

fn of_pod(key: Option<PodKey>) -> Owner<Part> {
    key.map_or(Owner::Unowned, |key| Owner::Part(Part::Pod(key)))
}

/// Ports of pods in user-defined networks. The name ends in the name of the pod.
fn pod_port(row: &RowView<'_>) -> Owner<Part> {
    let key = || {
        row.external_id(key::NETWORK)?;
        let attachment = row.external_id(ATTACHMENT)?;
        let namespace = row.external_id(NAMESPACE)?;
        let name = row
            .name()
            .strip_prefix(&network_prefix(attachment))?
            .strip_prefix(namespace)?
            .strip_prefix('_')?;
        Some(PodKey::new(namespace, name))
    };
    of_pod(row.external_id(POD).filter(|is| *is == "true").and_then(|_| key()))
}

/// ACLs that open ports of pods on the default network.
fn open_port(row: &RowView<'_>) -> Owner<Part> {
    let is = |key, value| row.external_id(key) == Some(value);
    let is_of_isolation =
        is(key::OWNER_CONTROLLER, isolation::OWNER) && is(key::OWNER_TYPE, isolation::OWNER_TYPE);
    let pod = row
        .external_id(key::NAME)
        .filter(|_| is_of_isolation)
        .and_then(|name| name.strip_prefix(isolation::OPEN_PORT)?.split_once('/'));
    of_pod(pod.map(|(namespace, name)| PodKey::new(namespace, name)))
}

fn dhcp_options(row: &RowView<'_>) -> Owner<Part> {
    let part = || {
        let controller = row.external_id(key::OWNER_CONTROLLER)?;
        let network = controller.strip_suffix(dhcp::CONTROLLER)?;
        let (namespace, name) = row.external_id(key::NAME)?.split_once('/')?;
        Some(Part::Machine {
            network: network.into(),
            machine: MachineKey { namespace: namespace.into(), name: name.into() },
        })
    };
    let owner_type = row.external_id(key::OWNER_TYPE);
    let part = owner_type.filter(|of| *of == dhcp::OWNER_TYPE).and_then(|_| part());
    part.map_or(Owner::Unowned, Owner::Part)
}
