//! Policies on the row engine: which parts there are, and the network of each.

mod scene;

use std::sync::Arc;

use patchbay_model::names::network_in_rows;
use patchbay_model::{
    ClusterSettings, IpFamily, ObjectProblem, PodKey, format_address, object_kind,
};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader};
use patchbay_schemas::atom::Atom;
use patchbay_zone::{
    Cell, Kind, NetworkNamespace, SelectionKey, Subject, ZoneCapability, ZoneObjects, pod_kinds,
    reported_problems,
};
use smol_str::SmolStr;

use super::acls::{address_set, families, isolated_group, namespace_group, policy_group};
use super::problems::object_problems;
use super::tables::{DEFAULT_ROUTER, Tables};
use super::text::text;
use scene::Scene;

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// Address sets of selected pods.
    Addresses(SelectionKey),
    /// Isolation of the pods of a namespace in a network.
    Namespace(NetworkNamespace),
    /// ACLs of a policy in a network.
    Policy(NetworkNamespace, Arc<str>),
    /// The port group of a namespace in a network, and multicast between the ports.
    Group(NetworkNamespace),
    /// The EgressFirewall of a namespace.
    Firewall(Arc<str>),
    /// Contribution of a selected pod to address sets and port groups.
    Member(SelectionKey, PodKey),
}

/// Rows to which the pods of a selection contribute.
#[derive(Debug, Default, PartialEq)]
pub struct Gathering {
    /// Names of address sets.
    sets: Vec<(IpFamily, SmolStr)>,
    /// Names of port groups.
    isolated: Vec<SmolStr>,
    allowed: Vec<SmolStr>,
    namespaces: Vec<SmolStr>,
}

impl Part {
    /// Network of the part. `None`: the namespace's primary one.
    fn network(&self) -> Option<&Arc<str>> {
        match self {
            Self::Addresses(key) | Self::Member(key, _) => Some(&key.network),
            Self::Namespace(place) | Self::Policy(place, _) | Self::Group(place) => {
                Some(&place.network)
            }
            Self::Firewall(_) => None,
        }
    }
}

impl Gathering {
    fn has_groups(&self) -> bool {
        let mut groups = [&self.isolated, &self.allowed, &self.namespaces].into_iter();
        groups.any(|names| !names.is_empty())
    }
}

/// The policies of a zone, as a capability of the row engine.
#[derive(Debug)]
pub struct Policies {
    tables: Tables,
}

type Rows = PartRows<Vec<ObjectProblem>>;

impl ZoneCapability for Policies {
    const NAME: &'static str = "policies";

    fn needs(settings: &ClusterSettings) -> Vec<&'static str> {
        pod_kinds(settings)
    }

    /// With a feature, namespaces without pods and policies have rows, too.
    fn specified_by(settings: &ClusterSettings) -> &'static [&'static str] {
        const KINDS: &[&str] = &[
            object_kind::POD,
            object_kind::NETWORK_POLICY,
            object_kind::MULTI_NETWORK_POLICY,
            object_kind::EGRESS_FIREWALL,
        ];
        if settings.features.is_empty() { KINDS } else { &[] }
    }

    fn problems(engine: &Engine<Self>, inputs: &ZoneObjects) -> Vec<ObjectProblem> {
        let found = reported_problems(engine);
        object_problems(inputs).into_iter().chain(found).collect()
    }
}

impl Capability for Policies {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = Vec<ObjectProblem>;
    type SharedKey = SelectionKey;
    type Shared = Gathering;

    const KINDS: &'static [Kind] = &[Kind::Nodes, Kind::Networks, Kind::Namespaces, Kind::Policies];

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: policies".to_owned()
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        match cell {
            Cell::Group(place) if inputs.group(place).is_some() => {
                part(Part::Group(place.clone()));
            }
            Cell::Firewall(namespace) => part(Part::Firewall(namespace.clone())),
            Cell::Policies(place) => part(Part::Namespace(place.clone())),
            Cell::Policy(place, name) => part(Part::Policy(place.clone(), name.clone())),
            Cell::Uses(key) => part(Part::Addresses(key.clone())),
            Cell::Member(key, pod) => part(Part::Member(key.clone(), pod.clone())),
            _ => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        match part {
            Part::Addresses(key) => inputs.selection(key).is_some(),
            Part::Namespace(place) => inputs.policies_in(place).next().is_some(),
            Part::Policy(place, name) => inputs.policy(place, name).is_some(),
            Part::Group(place) => inputs.group(place).is_some(),
            Part::Firewall(namespace) => inputs.firewall(namespace).is_some(),
            Part::Member(key, pod) => {
                let selection = inputs.selection(key);
                selection.is_some_and(|selection| selection.pod(pod).is_some())
            }
        }
    }

    fn shared(&self, key: &SelectionKey, reader: &Reader<'_, Self>) -> Gathering {
        let inputs = reader.read(&Cell::Uses(key.clone()));
        reader.read(&Cell::AttachedNetwork(key.network.clone()));
        let Some((selection, network)) =
            inputs.selection(key).zip(inputs.attached_network(&key.network))
        else {
            return Gathering::default();
        };
        let mut found = Gathering::default();
        if selection.uses().has_peers() {
            let sets = families(network).into_iter().map(|family| {
                let set = address_set(&key.network, &key.name, family);
                (family, set.name.into())
            });
            found.sets.extend(sets);
        }
        let Some(namespace) = selection.namespace() else {
            return found;
        };
        let place = NetworkNamespace { network: key.network.clone(), namespace: namespace.clone() };
        for subject in selection.uses().subjects() {
            match subject {
                // As in OVN-Kubernetes, the group is empty in a network without addresses.
                Subject::Namespace if network.subnets.is_empty() => {}
                Subject::Namespace => found.namespaces.push(namespace_group(&place).name.into()),
                Subject::Policy(name, directions) => {
                    found.allowed.push(policy_group(&place, name).name.into());
                    let groups =
                        directions.iter().map(|direction| isolated_group(&place, *direction));
                    found.isolated.extend(groups.map(|group| SmolStr::from(group.name)));
                }
            }
        }
        found
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        if let Part::Member(key, pod) = part {
            return self.member(key, pod, reader, rows);
        }
        let primary = || match part {
            Part::Firewall(namespace) => self.primary(namespace, reader, rows),
            _ => None,
        };
        let Some(network) = part.network().cloned().or_else(primary) else {
            return;
        };
        let Some(scene) = self.scene(&network, reader, rows) else {
            return;
        };
        match part {
            Part::Addresses(key) => scene.addresses(key, rows),
            Part::Namespace(place) => scene.namespace(place, rows),
            Part::Policy(place, name) => scene.policy(place, name, rows),
            Part::Group(place) => scene.group(place, rows),
            Part::Firewall(namespace) => scene.firewall(namespace, rows),
            Part::Member(..) => {}
        }
    }

    fn objects(&self, part: &Part, _: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        let network = part
            .network()
            .map(|network| ObjectName::new(object_kind::NETWORK, network_in_rows(network)));
        let object = match part {
            Part::Policy(NetworkNamespace { namespace, .. }, name) => {
                let name = format_args!("{namespace}/{name}");
                Some(ObjectName::new(object_kind::NETWORK_POLICY, name))
            }
            Part::Namespace(place) | Part::Group(place) => {
                Some(ObjectName::new(object_kind::NAMESPACE, &place.namespace))
            }
            Part::Firewall(namespace) => {
                Some(ObjectName::new(object_kind::EGRESS_FIREWALL, namespace))
            }
            Part::Addresses(_) | Part::Member(..) => None,
        };
        object.into_iter().chain(network).collect()
    }

    /// A policy's packets are dropped by the ACLs of its namespace, and its ACLs name address sets of
    /// its network. The ACLs of a firewall are those of the namespace's group.
    fn is_needed_by(&self, part: &Part, other: &Part) -> bool {
        match (part, other) {
            (Part::Namespace(place), Part::Policy(of, _)) => place == of,
            (Part::Addresses(key), Part::Policy(of, _)) => key.network == of.network,
            (Part::Group(place), Part::Firewall(namespace)) => place.namespace == *namespace,
            _ => false,
        }
    }
}

impl Policies {
    /// The network with the port group of a namespace. `None`: there is none. The ACLs of a
    /// firewall stay then, if the namespace has one: it is about another network.
    fn primary(
        &self,
        namespace: &Arc<str>,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) -> Option<Arc<str>> {
        let inputs = reader.read(&Cell::PrimaryNetwork(namespace.clone()));
        reader.read(&Cell::Firewall(namespace.clone()));
        let network = inputs.attached_primary_of(namespace).filter(|network| {
            let place =
                NetworkNamespace { network: (*network).clone(), namespace: namespace.clone() };
            let inputs = reader.read(&Cell::Group(place.clone()));
            inputs.group(&place).is_some()
        });
        let is_shared = reader.row(self.tables.routers, DEFAULT_ROUTER).is_some();
        if network.is_none() && (is_shared || inputs.firewall(namespace).is_some()) {
            rows.keep_rest();
        }
        network.cloned()
    }

    /// Addresses and ports of a selected pod. Switch ports count once they are there, and only
    /// those of the zone's node. As in OVN-Kubernetes, a namespace's group has its ports of other
    /// zones, too.
    fn member(&self, key: &SelectionKey, pod: &PodKey, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::Member(key.clone(), pod.clone()));
        let selection = inputs.selection(key);
        let Some(pod) = selection.and_then(|selection| selection.pod(pod)) else {
            return;
        };
        let tables = &self.tables;
        let rows_of = reader.shared(key);
        let is_local = pod.pod.node.as_ref() == Some(inputs.zone());
        for place in pod.places_in(&key.network) {
            for (family, set) in &rows_of.sets {
                let addresses = place.addresses.addresses.iter();
                for net in addresses.filter(|net| IpFamily::of_net(**net) == *family) {
                    let address = text(format_address(net.addr()));
                    rows.member(tables.addresses, set.clone(), address);
                }
            }
            let is_grouped = is_local || !rows_of.namespaces.is_empty();
            if !is_grouped || !rows_of.has_groups() || !place.is_in_zone(inputs.zone()) {
                continue;
            }
            let Some(port) = reader.row(tables.ports, &place.port) else {
                continue;
            };
            let groups = [
                (tables.isolated.groups, &rows_of.isolated, is_local),
                (tables.allowed.groups, &rows_of.allowed, is_local),
                (tables.namespaces.groups, &rows_of.namespaces, true),
            ]
            .into_iter()
            .filter(|(_, _, has_port)| *has_port);
            for (table, names, _) in groups {
                for name in names {
                    rows.member(table, name.clone(), Atom::Uuid(port.uuid()));
                }
            }
        }
    }

    /// The network of a part. `None`: the part has no rows, or they stay as they are.
    fn scene<'r, 'a>(
        &'r self,
        network: &Arc<str>,
        reader: &'r Reader<'a, Self>,
        rows: &mut Rows,
    ) -> Option<Scene<'r, 'a>> {
        let tables = &self.tables;
        let is_shared = reader.row(tables.routers, DEFAULT_ROUTER).is_some();
        if is_shared {
            rows.keep_rest();
        }
        let inputs = reader.read(&Cell::AttachedNetwork(network.clone()));
        let Some(known) = inputs.attached_network(network) else {
            if reader.read(&Cell::Unread).may_exist(network) {
                rows.keep_rest();
            }
            return None;
        };
        // The rows wait for those of the network, and are there before a switch comes again.
        let switch = known.switch(inputs.zone());
        if reader.row(tables.switches, &switch).is_none() {
            rows.keep_rest();
            return None;
        }
        Some(Scene { tables, reader, network: known, is_shared })
    }
}
