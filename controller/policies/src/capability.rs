//! Policies on the row engine: which parts there are, and the rows of each.

use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::{
    AttachedNetwork, FirewallDestination, IpFamily, PodKey, Policy, PolicyDirection, PolicyRule,
    PortNumbers, format_address,
};
use patchbay_rows::{Capability, Change, Engine, Layout, PartRows, PlanError, Reader};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::nb::{Acl, AclSeverity};
use patchbay_schemas::uuids::UuidSource;
use smol_str::SmolStr;

use super::acls::{
    Identified, RuleScene, address_set, isolated_group, isolating_acls, multicast_acls,
    namespace_group, policy_group,
};
use super::firewall::{FirewallScene, MAX_FIREWALL_RULES};
use super::inputs::{NetworkNamespace, PolicyCell, ZonePolicies, families};
use super::logging::AclLogging;
use super::ports::{Receivers, port_matches};
use super::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};
use super::selections::{PodSelector, PolicyPod, Selection, SelectionKey, Subject};
use super::tables::{ADDRESS_PHASES, DEFAULT_ROUTER, Gate, PeerAddresses, PolicyGroup, Tables};
use super::text::{text, text_map};

/// Number of the steps of a firewall, which are one transaction.
const FIREWALL_STEPS: u32 = 1;

/// Keeps the rows of one zone's policies as they should be. See `patchbay_rows`.
#[derive(Debug)]
pub struct PolicyController {
    engine: Engine<Policies>,
}

impl Default for PolicyController {
    fn default() -> Self {
        Self::new(UuidSource::random())
    }
}

impl PolicyController {
    /// A controller that takes the placeholders of new rows from `uuids`.
    pub fn new(uuids: UuidSource) -> Self {
        Self {
            engine: Engine::new(uuids),
        }
    }

    /// Sets the number of rows that a transaction changes at most, but at least one.
    #[must_use]
    pub fn with_transaction_rows(mut self, rows: usize) -> Self {
        self.engine = self.engine.with_transaction_rows(rows);
        self
    }

    /// Plans what makes the policies' rows right in the database. In a database with
    /// OVN-Kubernetes' default network, rows that are there stay as they are.
    ///
    /// # Errors
    /// The database's schema cannot express the rows.
    pub fn plan(
        &mut self,
        policies: &ZonePolicies,
        snapshot: &Snapshot,
    ) -> Result<Change, PlanError> {
        self.engine.plan(policies, snapshot).into_change()
    }

    /// Reasons why rules do not apply in a network as their policies say, as the last plan has found
    /// them. [`ZonePolicies::problems`] has those that the objects alone show.
    pub fn problems(&self) -> impl Iterator<Item = &PolicyProblem> {
        self.engine.reports().flat_map(|(_, problems)| problems)
    }

    /// Number of parts that the last plan has evaluated.
    pub fn evaluated_parts(&self) -> usize {
        self.engine.evaluated_parts()
    }
}

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Part {
    /// Address sets of selected pods.
    Addresses(SelectionKey),
    /// Isolation of the pods of a namespace in a network.
    Namespace(NetworkNamespace),
    /// What a policy allows in a network.
    Policy(NetworkNamespace, Arc<str>),
    /// The port group of a namespace in its primary network, and multicast between the ports.
    Group(NetworkNamespace),
    /// The EgressFirewall of a namespace.
    Firewall(Arc<str>),
    /// What a selected pod contributes to address sets and port groups.
    Member(SelectionKey, PodKey),
}

/// Rows to which the pods of a selection contribute.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Gathering {
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
pub(super) struct Policies {
    tables: Tables,
}

type Rows = PartRows<Vec<PolicyProblem>>;

impl Capability for Policies {
    type Part = Part;
    type Inputs = ZonePolicies;
    type Group = ();
    type Report = Vec<PolicyProblem>;
    type SharedKey = SelectionKey;
    type Shared = Gathering;

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self {
            tables: Tables::declare(layout),
        }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: policies".to_owned()
    }

    fn parts(&self, cell: &PolicyCell, inputs: &ZonePolicies, part: &mut dyn FnMut(Part)) {
        match cell {
            PolicyCell::Group(namespace) => {
                if let Some(group) = inputs.group(namespace) {
                    part(Part::Group(group.place(namespace)));
                }
            }
            PolicyCell::Firewall(namespace) => part(Part::Firewall(namespace.clone())),
            PolicyCell::Policies(place) => part(Part::Namespace(place.clone())),
            PolicyCell::Policy(place, name) => part(Part::Policy(place.clone(), name.clone())),
            PolicyCell::Uses(key) => part(Part::Addresses(key.clone())),
            PolicyCell::Member(key, pod) => part(Part::Member(key.clone(), pod.clone())),
            PolicyCell::Selection(_)
            | PolicyCell::Network(_)
            | PolicyCell::Namespace(_)
            | PolicyCell::Nodes
            | PolicyCell::Unread => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZonePolicies) -> bool {
        match part {
            Part::Addresses(key) => inputs.selection(key).is_some(),
            Part::Namespace(place) => inputs.policies(place).next().is_some(),
            Part::Policy(place, name) => inputs.policy(place, name).is_some(),
            Part::Group(place) => {
                let group = inputs.group(&place.namespace);
                group.is_some_and(|group| group.network == place.network)
            }
            Part::Firewall(namespace) => inputs.firewall(namespace).is_some(),
            Part::Member(key, pod) => {
                let selection = inputs.selection(key);
                selection.is_some_and(|selection| selection.pod(pod).is_some())
            }
        }
    }

    fn shared(&self, key: &SelectionKey, reader: &Reader<'_, Self>) -> Gathering {
        let inputs = reader.read(&PolicyCell::Uses(key.clone()));
        reader.read(&PolicyCell::Network(key.network.clone()));
        let selection = inputs.selection(key);
        let network = inputs.network(&key.network);
        let Some((selection, network)) = selection.zip(network) else {
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
        let place = NetworkNamespace {
            network: key.network.clone(),
            namespace: namespace.clone(),
        };
        for subject in selection.uses().subjects() {
            match subject {
                Subject::Namespace => found.namespaces.push(namespace_group(&place).name.into()),
                Subject::Policy(name, directions) => {
                    found.allowed.push(policy_group(&place, name).name.into());
                    let groups = directions.iter();
                    let groups = groups.map(|direction| isolated_group(&place, *direction));
                    found
                        .isolated
                        .extend(groups.map(|group| SmolStr::from(group.name)));
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
}

/// A network whose rows a part computes.
struct Scene<'r, 'a> {
    tables: &'r Tables,
    reader: &'r Reader<'a, Policies>,
    network: &'a AttachedNetwork,
    /// `true` if OVN-Kubernetes writes the rows of policies into the database, too.
    is_shared: bool,
}

impl Policies {
    /// The network with the port group of a namespace. `None`: there is none. The ACLs of a firewall
    /// stay then, if the namespace has one: it is about another network.
    fn primary(
        &self,
        namespace: &Arc<str>,
        reader: &Reader<'_, Self>,
        rows: &mut Rows,
    ) -> Option<Arc<str>> {
        let inputs = reader.read(&PolicyCell::Group(namespace.clone()));
        reader.read(&PolicyCell::Firewall(namespace.clone()));
        let group = inputs.group(namespace);
        let is_shared = reader.row(self.tables.routers, DEFAULT_ROUTER).is_some();
        if group.is_none() && (is_shared || inputs.firewall(namespace).is_some()) {
            rows.keep_rest();
        }
        group.map(|group| group.network.clone())
    }

    /// Addresses and ports of a selected pod. Switch ports count once they are there, and only those of
    /// the zone's node.
    fn member(&self, key: &SelectionKey, pod: &PodKey, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&PolicyCell::Member(key.clone(), pod.clone()));
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
            if !is_local || !rows_of.has_groups() {
                continue;
            }
            let Some(port) = reader.row(tables.ports, &place.port) else {
                continue;
            };
            let groups = [
                (tables.isolated.groups, &rows_of.isolated),
                (tables.allowed.groups, &rows_of.allowed),
                (tables.namespaces.groups, &rows_of.namespaces),
            ];
            for (table, names) in groups {
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
        let inputs = reader.read(&PolicyCell::Network(network.clone()));
        let Some(known) = inputs.network(network) else {
            if reader.read(&PolicyCell::Unread).may_exist(network) {
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
        Some(Scene {
            tables,
            reader,
            network: known,
            is_shared,
        })
    }
}

impl<'a> Scene<'_, 'a> {
    fn addresses(&self, key: &SelectionKey, rows: &mut Rows) {
        let inputs = self.reader.read(&PolicyCell::Uses(key.clone()));
        let selection = inputs.selection(key);
        if !selection.is_some_and(|selection| selection.uses().has_peers()) {
            return;
        }
        for family in families(self.network) {
            let row = address_set(&key.network, &key.name, family);
            let row = PeerAddresses {
                name: row.name.into(),
                addresses: Set::EMPTY,
                external_ids: text_map(row.external_ids),
            };
            if !self.is_kept(self.tables.addresses, &row.name) {
                rows.put(self.tables.addresses, &row).phases(ADDRESS_PHASES);
            }
        }
    }

    fn namespace(&self, place: &NetworkNamespace, rows: &mut Rows) {
        let inputs = self.reader.read(&PolicyCell::Policies(place.clone()));
        let policies: Vec<&Arc<Policy>> = inputs.policies(place).collect();
        if policies.is_empty() {
            return;
        }
        let severity = self.logging(place).0;
        for direction in PolicyDirection::BOTH {
            let group = isolated_group(place, direction);
            let acls = isolating_acls(place, direction, &group.name, severity);
            self.gate(&self.tables.isolated, group, &acls, rows);
        }
    }

    fn policy(&self, place: &NetworkNamespace, name: &Arc<str>, rows: &mut Rows) {
        let cell = PolicyCell::Policy(place.clone(), name.clone());
        let inputs = self.reader.read(&cell);
        let Some(policy) = inputs.policy(place, name) else {
            return;
        };
        let severity = self.logging(place).1;
        let group = policy_group(place, name);
        let (mut acls, mut problems) = (Vec::new(), Vec::new());
        for direction in PolicyDirection::BOTH {
            let rules = policy.rules(direction).unwrap_or_default();
            for (index, rule) in rules.iter().enumerate() {
                let receivers = self.receivers(policy, direction, rule);
                let ports = rule.ports.as_deref();
                let labelled = port_matches(ports, &receivers);
                let blocks = port_matches(ports, &receivers.of_blocks());
                let scene = RuleScene {
                    place,
                    policy: name,
                    direction,
                    index,
                    rule,
                    families: &families(self.network),
                    selections: &selections(policy, rule),
                    group: &group.name,
                    severity,
                };
                acls.extend(scene.acls(&labelled, &blocks));
                problems.extend(self.rule_problems(direction, index, rule));
            }
        }
        self.gate(&self.tables.allowed, group, &acls, rows);
        if !problems.is_empty() {
            let subject = PolicySubject::Policy(policy.key.clone());
            let problems = problems.into_iter().map(|reason| PolicyProblem {
                subject: subject.clone(),
                reason,
            });
            rows.report(problems.collect());
        }
    }

    fn group(&self, place: &NetworkNamespace, rows: &mut Rows) {
        let cell = PolicyCell::Group(place.namespace.clone());
        let group = self.reader.read(&cell).group(&place.namespace);
        let Some(known) = group.filter(|group| group.network == place.network) else {
            return;
        };
        let selector = PodSelector::of_namespace(&place.namespace);
        let group = namespace_group(place);
        let acls = known.has_multicast.then(|| {
            let families = families(self.network);
            multicast_acls(place, &group.name, &selector.to_string(), &families)
        });
        let acls = acls.iter().flatten().cloned().collect::<Vec<_>>();
        self.gate(&self.tables.namespaces, group, &acls, rows);
    }

    fn firewall(&self, namespace: &Arc<str>, rows: &mut Rows) {
        let inputs = self.reader.read(&PolicyCell::Firewall(namespace.clone()));
        let Some(firewall) = inputs.firewall(namespace) else {
            return;
        };
        let is_usable = firewall.problems.is_empty() && firewall.rules.len() <= MAX_FIREWALL_RULES;
        if !is_usable {
            return rows.keep_rest();
        }
        let place = NetworkNamespace {
            network: self.network.name.clone(),
            namespace: namespace.clone(),
        };
        let group = namespace_group(&place).name;
        let (deny, allow) = self.logging(&place);
        let scene = FirewallScene {
            namespace,
            group: &group,
            subnets: &self.network.subnets,
            logging: AclLogging {
                deny,
                allow,
                pass: None,
            },
        };
        for (index, rule) in firewall.rules.iter().enumerate() {
            let nodes = match &rule.destination {
                FirewallDestination::Nodes(selector) => {
                    let inputs = self.reader.read(&PolicyCell::Nodes);
                    inputs.node_addresses(selector).collect()
                }
                FirewallDestination::Cidr { .. } | FirewallDestination::Name(_) => Vec::new(),
            };
            let Some(acl) = scene.acl(index, rule, nodes) else {
                continue;
            };
            rows.put(self.tables.firewall_acls, &self.known_columns(&acl))
                .held_by(self.tables.firewall_acls_of_group, group.as_str())
                .together(FIREWALL_STEPS);
        }
    }

    /// An ACL without the columns that the database lacks.
    fn known_columns(&self, acl: &Acl) -> Acl {
        let has_tiers = self.reader.has_column(self.tables.firewall_acls, "tier");
        Acl {
            tier: if has_tiers { acl.tier } else { 0 },
            ..acl.clone()
        }
    }

    /// Puts a port group with its ACLs. Selected pods contribute the ports.
    fn gate(&self, gate: &Gate, group: Identified, acls: &[Acl], rows: &mut Rows) {
        let row = PolicyGroup {
            name: group.name.into(),
            ports: Set::EMPTY,
            external_ids: text_map(group.external_ids),
        };
        if self.is_kept(gate.groups, &row.name) {
            return;
        }
        rows.put(gate.groups, &row);
        for acl in acls {
            rows.put(gate.acls, &self.known_columns(acl))
                .held_by(gate.acls_of_group, row.name.clone());
        }
    }

    /// Returns `true` for a row that OVN-Kubernetes keeps up to date.
    fn is_kept<T>(&self, table: patchbay_rows::Table<T>, name: &SmolStr) -> bool {
        self.is_shared && self.reader.row(table, name).is_some()
    }

    /// Severities of ACLs that drop packets, and of those of rules.
    fn logging(&self, place: &NetworkNamespace) -> (Option<AclSeverity>, Option<AclSeverity>) {
        let cell = PolicyCell::Namespace(place.namespace.clone());
        let logging = self.reader.read(&cell).logging(&place.namespace);
        (logging.deny, logging.allow)
    }

    /// Pods of the zone's node that a selector selects. `None`: it cannot be read.
    fn local_pods(
        &self,
        selector: Option<&PodSelector>,
    ) -> impl Iterator<Item = &'a Arc<PolicyPod>> + use<'a> {
        let pods = selector.map(|selector| self.selected(selector));
        pods.into_iter()
            .flatten()
            .filter(|(zone, pod)| pod.pod.node.as_ref() == Some(zone))
            .map(|(_, pod)| pod)
    }

    fn selected(
        &self,
        selector: &PodSelector,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<PolicyPod>)> + use<'a> {
        let key = selector.key(&self.network.name);
        let inputs = self.reader.read(&PolicyCell::Selection(key.clone()));
        let zone = inputs.zone();
        let selection = inputs.selection(&key).into_iter();
        selection
            .flat_map(Selection::pods)
            .map(move |pod| (zone, pod))
    }

    /// Pods that give numbers to the named ports of a rule.
    fn receivers(
        &self,
        policy: &Policy,
        direction: PolicyDirection,
        rule: &PolicyRule,
    ) -> Receivers<'a> {
        let has_names = named_ports(rule).next().is_some();
        let pods = match direction {
            _ if !has_names => Vec::new(),
            PolicyDirection::Ingress => {
                let selector = PodSelector::of_policy(policy);
                self.local_pods(selector.as_ref())
                    .map(|pod| &**pod)
                    .collect()
            }
            PolicyDirection::Egress => {
                let peers = rule.peers.iter().flat_map(|peers| &peers.pods);
                let pods = peers.flat_map(|peer| {
                    self.selected(&PodSelector::of_peer(peer, &policy.key.namespace))
                });
                pods.map(|(_, pod)| &**pod).collect()
            }
        };
        Receivers {
            network: &self.network.name,
            direction,
            pods,
        }
    }

    fn rule_problems(
        &self,
        direction: PolicyDirection,
        index: usize,
        rule: &PolicyRule,
    ) -> Vec<PolicyProblemReason> {
        let field = match direction {
            PolicyDirection::Ingress => format!("ingress[{index}]"),
            PolicyDirection::Egress => format!("egress[{index}]"),
        };
        let mut problems = Vec::new();
        let has_labelled = rule
            .peers
            .as_ref()
            .is_some_and(|peers| !peers.pods.is_empty());
        if has_labelled && self.network.subnets.is_empty() {
            problems.push(PolicyProblemReason::NoAddresses {
                field: field.clone(),
                network: self.network.name.clone(),
            });
        }
        let has_blocks = rule
            .peers
            .as_ref()
            .is_none_or(|peers| !peers.blocks.is_empty());
        if direction == PolicyDirection::Egress && has_blocks {
            problems.extend(
                named_ports(rule).map(|name| PolicyProblemReason::NamedPort {
                    field: field.clone(),
                    name: name.to_owned(),
                }),
            );
        }
        problems
    }
}

/// Names of the selections of a rule's peers.
fn selections(policy: &Policy, rule: &PolicyRule) -> Vec<String> {
    let peers = rule.peers.iter().flat_map(|peers| &peers.pods);
    let namespace = &policy.key.namespace;
    peers
        .map(|peer| PodSelector::of_peer(peer, namespace).to_string())
        .collect()
}

fn named_ports(rule: &PolicyRule) -> impl Iterator<Item = &str> {
    let ports = rule.ports.iter().flatten();
    ports.filter_map(|port| match &port.numbers {
        PortNumbers::Name(name) => Some(name.as_str()),
        _ => None,
    })
}
