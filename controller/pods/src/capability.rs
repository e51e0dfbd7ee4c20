//! Pods on the row engine: which parts there are, and the rows of each.

use std::convert::Infallible;
use std::sync::Arc;

use patchbay_model::external_ids::key as id_key;
use patchbay_model::names::{network_in_rows, network_prefix};
use patchbay_model::{
    AttachedTopology, ClusterSettings, Databases, FieldProblem, NadKey, ObjectProblem, Pod,
    PodAttachment, PodKey, PodPlace, PrimaryDefinition, ServiceKey, VIRTUAL_MACHINE_NAME,
    object_kind,
};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader, RowView};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{LogicalSwitchPort, PortGroup};
use patchbay_zone::{
    Cell, Kind, MachineKey, ZoneCapability, ZoneObjects, pod_kinds, reported_problems,
};

use super::dhcp;
use super::isolation::{ISOLATED_PORTS, open_ports};
use super::migration::PortState;
use super::ports::{Binding, CHASSIS, POD_UID, port};
use super::tables::{DEFAULT_ROUTER, ForeignPort, PodPort, Tables};

/// Namespace and name of the service of the cluster's name server.
const NAME_SERVER: (&str, &str) = ("kube-system", "kube-dns");

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// DHCP options of a virtual machine in a network.
    Machine { network: Arc<str>, machine: MachineKey },
    /// Ports of a pod, and its isolation from the default network.
    Pod(PodKey),
}

/// The pods of a zone, as a capability of the row engine.
#[derive(Debug)]
pub struct Pods {
    tables: Tables,
}

type Rows = PartRows<Vec<ObjectProblem>>;

impl ZoneCapability for Pods {
    const NAME: &'static str = "pods";

    fn needs(settings: &ClusterSettings) -> Vec<&'static str> {
        pod_kinds(settings)
    }

    fn specified_by(_: &ClusterSettings) -> &'static [&'static str] {
        &[object_kind::POD]
    }

    /// New ports wait for the port groups of policies.
    fn waits_for(_: &ZoneObjects) -> &'static [&'static str] {
        &["policies"]
    }

    fn problems(engine: &Engine<Self>, _: &ZoneObjects) -> Vec<ObjectProblem> {
        reported_problems(engine).collect()
    }
}

impl Capability for Pods {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = Vec<ObjectProblem>;
    type SharedKey = Infallible;
    type Shared = ();

    const KINDS: &'static [Kind] =
        &[Kind::Zone, Kind::Nodes, Kind::Networks, Kind::Pods, Kind::Services];

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: pods".to_owned()
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        let mut machine = |key: &MachineKey| {
            for pod in inputs.machine(key) {
                for place in inputs.places(pod).filter(dhcp::is_used) {
                    part(Part::Machine {
                        network: place.network.name.clone(),
                        machine: key.clone(),
                    });
                }
            }
        };
        match cell {
            Cell::Pod(key) if inputs.pod(key).is_some() => part(Part::Pod(key.clone())),
            Cell::Machine(key) => machine(key),
            Cell::PrimaryNetwork(_) | Cell::Definition(_) => {
                inputs.machines().for_each(machine);
            }
            _ => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        match part {
            Part::Pod(key) => inputs.pod(key).is_some(),
            Part::Machine { machine, .. } => inputs.machine(machine).next().is_some(),
        }
    }

    fn shared(&self, key: &Infallible, _: &Reader<'_, Self>) {
        match *key {}
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        if reader.row(self.tables.routers, DEFAULT_ROUTER).is_some() {
            rows.keep_rest();
        }
        match part {
            Part::Pod(key) => self.pod(key, reader, rows),
            Part::Machine { network, machine } => self.machine(network, machine, reader, rows),
        }
    }

    fn objects(&self, part: &Part, row: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        let of = |network: &str| ObjectName::new(object_kind::NETWORK, network_in_rows(network));
        match part {
            Part::Pod(key) => {
                let pod = ObjectName::new(object_kind::POD, key);
                let network = row.view().external_id(id_key::NETWORK).map(of);
                [pod].into_iter().chain(network).collect()
            }
            Part::Machine { network, machine } => {
                let MachineKey { namespace, name } = machine;
                let name = format_args!("{namespace}/{name}");
                vec![ObjectName::new(object_kind::VIRTUAL_MACHINE, name), of(network)]
            }
        }
    }
}

/// The inputs, of which a pod's attachments are read.
fn read_attachments<'a>(pod: &Pod, reader: &Reader<'a, Pods>) -> &'a ZoneObjects {
    let inputs = reader.read(&Cell::PrimaryNetwork(pod.key.namespace.clone()));
    if let PrimaryDefinition::Definition(key) = inputs.primary_definition(&pod.key.namespace) {
        reader.read(&Cell::Definition(key.clone()));
    }
    for selection in pod.selections.iter().flatten() {
        reader.read(&Cell::Definition(NadKey {
            namespace: selection.namespace.clone(),
            name: selection.name.clone(),
        }));
    }
    inputs
}

impl Pods {
    fn pod(&self, key: &PodKey, reader: &Reader<'_, Self>, rows: &mut Rows) {
        reader.read(&Cell::Zone);
        let inputs = reader.read(&Cell::Pod(key.clone()));
        let Some(pod) = inputs.pod(key) else {
            return;
        };
        let inputs = read_attachments(pod, reader);
        let (attachments, problems) = inputs.attachments(pod);
        self.keep_unread(&attachments, reader, rows);
        if !pod.is_wired() {
            return;
        }
        let surplus = self.ports(pod, &attachments, reader, rows);
        self.isolate(pod, reader, rows);
        // Other zones have the same problems.
        if pod.node.as_ref() == Some(inputs.zone()) {
            let of_fields = pod.problems.iter().cloned();
            let report: Vec<ObjectProblem> = of_fields
                .chain(problems)
                .chain(surplus)
                .map(|problem| ObjectProblem::new(key, problem))
                .collect();
            if !report.is_empty() {
                rows.report(report);
            }
        }
    }

    /// Keeps the ports in networks that may exist although they are not known.
    fn keep_unread(
        &self,
        attachments: &[PodAttachment],
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        let inputs = reader.read(&Cell::Unread);
        let ports = reader.owned().filter(|row| row.is_of(self.tables.ports));
        for row in ports {
            let network = row.view().external_id(id_key::NETWORK).unwrap_or_default();
            let mut known = attachments.iter().map(|one| &*one.network.name);
            if !known.any(|name| name == network)
                && inputs.may_have_prefix(&network_prefix(network))
            {
                rows.keep(row);
            }
        }
    }

    /// Makes the ports of a pod. The pod of a virtual machine that has two older ones gets none.
    fn ports(
        &self,
        pod: &Arc<Pod>,
        attachments: &[PodAttachment],
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) -> Option<FieldProblem> {
        let node = pod.node.as_ref()?;
        let mut surplus = None;
        let inputs = reader.read(&Cell::Node(node.clone()));
        let zone = inputs.zone();
        let chassis = inputs.node(node).map(|node| &node.chassis);
        for attachment in attachments {
            let Some(place) = attachment.place(pod) else {
                continue;
            };
            if !place.is_in_zone(zone) || !is_configured(&place) {
                continue;
            }
            let known = chassis.and_then(|chassis| Some((chassis, chassis.id()?)));
            let Some((chassis, id)) = known.filter(|_| has_tunnel_key(&place)) else {
                // As in OVN-Kubernetes, a port stays while it could not be made.
                let mut own = reader.owned().filter(|row| row.is_of(self.tables.ports));
                if let Some(row) = own.find(|row| row.view().name() == place.port) {
                    rows.keep(row);
                }
                continue;
            };
            let existing = reader.row(self.tables.ports, &place.port);
            let kept = existing
                .filter(|_| chassis.is_changed())
                .and_then(|row| kept_chassis(&place, zone, row));
            let Some(mut state) = port_state(&place, existing, reader) else {
                surplus = MachineKey::of(pod).map(surplus_problem);
                continue;
            };
            if state == PortState::USUAL && self.waits(&place, existing, reader) {
                state = PortState::WAITING;
            }
            // In a database of all nodes, the port is where its interface is.
            let is_central = inputs.settings().databases == Databases::Central;
            let binding = Binding {
                chassis: Some(kept.unwrap_or(id)).filter(|_| !is_central),
                has_uid: existing.is_none_or(has_uid),
            };
            let row = port(&place, &attachment.key, &binding, zone, state);
            self.put_port(&row, &place, zone, rows);
        }
        surplus
    }

    /// `true` if a port is new, or was disabled as a new one, and is not yet in all port groups
    /// whose ACLs drop its packets.
    fn waits(
        &self,
        place: &PodPlace,
        existing: Option<RowView<'_>>,
        reader: &Reader<'_, Self>,
    ) -> bool {
        let tables = &self.tables;
        let is_enabled = |row: RowView<'_>| {
            let enabled = row.column(LogicalSwitchPort::ENABLED.name());
            enabled.and_then(Datum::as_scalar) != Some(&Atom::Boolean(false))
        };
        if existing.is_some_and(is_enabled)
            || reader.row(tables.routers, DEFAULT_ROUTER).is_some()
            || MachineKey::of(&place.pod).is_some()
        {
            return false;
        }
        let inputs = reader.read(&Cell::Gates(place.port.as_str().into()));
        let mut gates = inputs.gates(&place.port).iter();
        gates.any(|group| {
            let group = reader.row(tables.gates, group);
            let ports = group.and_then(|row| row.column(PortGroup::PORTS.name())?.as_set());
            let port = existing.map(|row| Atom::Uuid(row.uuid()));
            let is_member = ports.zip(port).is_some_and(|(ports, port)| ports.contains(&port));
            !is_member
        })
    }

    fn put_port(&self, row: &PodPort, place: &PodPlace, zone: &str, rows: &mut Rows) {
        let tables = &self.tables;
        let mut added = rows.put(tables.ports, row);
        added.held_by(tables.ports_of_switch, place.network.switch(zone));
        let machine = MachineKey::of(&place.pod).filter(|_| dhcp::is_used(place));
        let subnets = machine.iter().flat_map(|_| &place.network.subnets);
        for subnet in subnets {
            let holding = if subnet.addr().is_ipv4() { tables.dhcp_v4 } else { tables.dhcp_v6 };
            if let Some(machine) = &machine {
                added.holds(holding, dhcp::id(&place.network.name, machine, *subnet));
            }
        }
    }

    /// Isolates the pod's port on the default network, once that is there. A pod that is not
    /// attached to its primary network is isolated, too.
    fn isolate(&self, pod: &Pod, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let tables = &self.tables;
        let inputs = read_attachments(pod, reader);
        let is_local = pod.node.as_ref() == Some(inputs.zone());
        if !is_local || !inputs.has_primary_network(&pod.key.namespace) {
            return;
        }
        let name = pod.key.default_port();
        if reader.row(tables.default_ports, &name).is_some() {
            let row = ForeignPort { name: name.into() };
            rows.put(tables.default_ports, &row).held_by(tables.ports_of_group, ISOLATED_PORTS);
        }
        for acl in open_ports(pod) {
            rows.put(tables.acls, &acl).held_by(tables.acls_of_group, ISOLATED_PORTS);
        }
    }

    fn machine(
        &self,
        network: &Arc<str>,
        machine: &MachineKey,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) {
        reader.read(&Cell::Zone);
        let (namespace, name) = NAME_SERVER;
        let name_server = ServiceKey { namespace: namespace.into(), name: name.into() };
        let inputs = reader.read(&Cell::Service(name_server.clone()));
        let name_servers =
            inputs.service(&name_server).map_or(&[][..], |service| &service.cluster_ips);
        let inputs = reader.read(&Cell::Machine(machine.clone()));
        let pods = inputs.machine(machine).filter(|pod| pod.is_wired());
        let mut places = pods.flat_map(|pod| read_attachments(pod, reader).places(pod));
        let place = places.find(|place| place.network.name == *network && dhcp::is_used(place));
        if let Some(place) = place {
            for options in dhcp::options(machine, &place, inputs, name_servers) {
                rows.put(self.tables.dhcp, &options);
            }
        }
    }
}

/// Returns `true` unless the pod is that of a virtual machine without a name in a network in which
/// machines migrate.
fn is_configured(place: &PodPlace) -> bool {
    let mut problems = place.pod.problems.iter();
    !problems.any(|problem| problem.is_of_annotation(VIRTUAL_MACHINE_NAME))
        || place.network.topology == AttachedTopology::Layer3
}

/// Problem of a pod of a virtual machine that has two older pods.
fn surplus_problem(machine: MachineKey) -> FieldProblem {
    let MachineKey { namespace, name } = machine;
    FieldProblem::of_object(format!(
        "virtual machine {namespace}/{name} has two older pods that are alive, so this one has no \
         port until one of them ends"
    ))
}

/// Returns `true` unless the port's key in tunnels is missing, by which other zones know it.
fn has_tunnel_key(place: &PodPlace) -> bool {
    !place.network.has_remote_ports() || place.addresses.tunnel_id.is_some_and(|id| id != 0)
}

/// Returns `true` if a port is bound to an interface of one pod only. As in OVN-Kubernetes, a port
/// that was made without stays so, because the interface may not have the pod's UID either.
fn has_uid(port: RowView<'_>) -> bool {
    let options = port.column("options").and_then(Datum::as_map);
    let uid = options.and_then(|options| options.get_str(POD_UID));
    uid.is_some_and(|uid| !uid.is_empty())
}

/// The chassis to which a port of another zone stays bound although its node has got another
/// chassis id. `None`: the port is of the zone, or of an earlier pod.
fn kept_chassis<'a>(place: &PodPlace, zone: &str, existing: RowView<'a>) -> Option<&'a str> {
    let is_remote = place.pod.node.as_deref() != Some(zone);
    let options = existing.column("options")?.as_map()?;
    let is_of_pod = options.get_str(POD_UID) == Some(&*place.pod.uid) && !place.pod.uid.is_empty();
    options.get_str(CHASSIS).filter(|_| is_remote && is_of_pod)
}

/// State of the port, which another migration may have changed before. `None`: the pod has none.
fn port_state(
    place: &PodPlace,
    existing: Option<RowView<'_>>,
    reader: &Reader<'_, Pods>,
) -> Option<PortState> {
    let Some(key) = MachineKey::of(&place.pod) else {
        return Some(PortState::USUAL);
    };
    if place.network.topology == AttachedTopology::Layer3 {
        return Some(PortState::USUAL);
    }
    let inputs = reader.read(&Cell::Machine(key.clone()));
    let enabled = existing.and_then(|row| row.column(LogicalSwitchPort::ENABLED.name()));
    let was_set = enabled.is_some_and(|enabled| !enabled.is_empty());
    PortState::of(&place.pod, inputs.machine(&key), was_set)
}
