//! Rows of the parts of policies in a network.

use std::sync::Arc;

use patchbay_model::{
    AttachedNetwork, FieldProblem, FirewallDestination, ObjectProblem, Policy, PolicyDirection,
    PolicyRule,
};
use patchbay_rows::Reader;
use patchbay_schemas::datum::Set;
use patchbay_schemas::nb::{Acl, AclSeverity};
use patchbay_zone::{
    AclLogging, Cell, MAX_FIREWALL_RULES, NetworkNamespace, PlacedPod, PodSelector, Selection,
    SelectionKey,
};
use smol_str::SmolStr;

use super::{Policies, Rows};
use crate::acls::{
    Identified, RuleScene, address_set, families, isolated_group, isolating_acls, multicast_acls,
    namespace_group, policy_group,
};
use crate::firewall::{FirewallScene, unread_node};
use crate::ports::{Receivers, port_matches};
use crate::tables::{ADDRESS_PHASES, Gate, PeerAddresses, PolicyGroup, Tables};
use crate::text::text_map;

/// Number of the steps of a firewall, which are one transaction.
const FIREWALL_STEPS: u32 = 1;

/// A network whose rows a part computes.
pub(super) struct Scene<'r, 'a> {
    pub(super) tables: &'r Tables,
    pub(super) reader: &'r Reader<'a, Policies>,
    pub(super) network: &'a AttachedNetwork,
    /// `true` if OVN-Kubernetes writes the rows of policies into the database, too.
    pub(super) is_shared: bool,
}

impl<'a> Scene<'_, 'a> {
    pub(super) fn addresses(&self, key: &SelectionKey, rows: &mut Rows) {
        let inputs = self.reader.read(&Cell::Uses(key.clone()));
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

    pub(super) fn namespace(&self, place: &NetworkNamespace, rows: &mut Rows) {
        let inputs = self.reader.read(&Cell::Policies(place.clone()));
        let policies: Vec<&Arc<Policy>> = inputs.policies_in(place).collect();
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

    pub(super) fn policy(&self, place: &NetworkNamespace, name: &Arc<str>, rows: &mut Rows) {
        let cell = Cell::Policy(place.clone(), name.clone());
        let inputs = self.reader.read(&cell);
        let Some(policy) = inputs.policy(place, name) else {
            return;
        };
        let severity = self.logging(place).1;
        let group = policy_group(place, name);
        let (mut acls, mut problems) = (Vec::new(), Vec::new());
        for direction in PolicyDirection::BOTH {
            for (index, rule) in policy.rules(direction).iter().enumerate() {
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
                if direction == PolicyDirection::Egress {
                    problems.extend(self.egress_problems(index, rule));
                }
            }
        }
        self.gate(&self.tables.allowed, group, &acls, rows);
        if !problems.is_empty() {
            let problems =
                problems.into_iter().map(|problem| ObjectProblem::new(&policy.key, problem));
            rows.report(problems.collect());
        }
    }

    pub(super) fn group(&self, place: &NetworkNamespace, rows: &mut Rows) {
        let cell = Cell::Group(place.clone());
        let Some(known) = self.reader.read(&cell).group(place) else {
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

    pub(super) fn firewall(&self, namespace: &Arc<str>, rows: &mut Rows) {
        let inputs = self.reader.read(&Cell::Firewall(namespace.clone()));
        let Some(firewall) = inputs.firewall(namespace) else {
            return;
        };
        let is_usable = firewall.problems.is_empty() && firewall.rules.len() <= MAX_FIREWALL_RULES;
        let mut rules = firewall.rules.iter();
        let has_nodes = rules.any(|rule| matches!(rule.destination, FirewallDestination::Nodes(_)));
        let has_unread_node = has_nodes && {
            let inputs = self.reader.read(&Cell::NodeLabels);
            let mut rules = firewall.rules.iter();
            rules.any(|rule| unread_node(inputs, &rule.destination).is_some())
        };
        if !is_usable || has_unread_node {
            return rows.keep_rest();
        }
        let place =
            NetworkNamespace { network: self.network.name.clone(), namespace: namespace.clone() };
        let group = namespace_group(&place).name;
        let (deny, allow) = self.logging(&place);
        let scene = FirewallScene {
            namespace,
            group: &group,
            subnets: &self.network.subnets,
            logging: AclLogging { deny, allow, pass: None },
        };
        for (index, rule) in firewall.rules.iter().enumerate() {
            let nodes = match &rule.destination {
                FirewallDestination::Nodes(selector) => {
                    let inputs = self.reader.read(&Cell::NodeLabels);
                    inputs.addresses_of_nodes(selector).collect()
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
        Acl { tier: if has_tiers { acl.tier } else { 0 }, ..acl.clone() }
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
        let cell = Cell::Namespace(place.namespace.clone());
        let logging = self.reader.read(&cell).logging(&place.namespace);
        (logging.deny, logging.allow)
    }

    /// Pods of the zone's node that a selector selects. `None`: it cannot be read.
    fn local_pods(
        &self,
        selector: Option<&PodSelector>,
    ) -> impl Iterator<Item = &'a Arc<PlacedPod>> + use<'a> {
        let pods = selector.map(|selector| self.selected(selector));
        pods.into_iter()
            .flatten()
            .filter(|(zone, pod)| pod.pod.node.as_ref() == Some(zone))
            .map(|(_, pod)| pod)
    }

    fn selected(
        &self,
        selector: &PodSelector,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<PlacedPod>)> + use<'a> {
        let key = selector.key(&self.network.name);
        let inputs = self.reader.read(&Cell::Selection(key.clone()));
        let zone = inputs.zone();
        let selection = inputs.selection(&key).into_iter();
        selection.flat_map(Selection::pods).map(move |pod| (zone, pod))
    }

    /// Pods that give numbers to the named ports of a rule.
    fn receivers(
        &self,
        policy: &Policy,
        direction: PolicyDirection,
        rule: &PolicyRule,
    ) -> Receivers<'a> {
        let has_names = rule.named_ports().next().is_some();
        let pods = match direction {
            _ if !has_names => Vec::new(),
            PolicyDirection::Ingress => {
                let selector = PodSelector::of_policy(policy);
                self.local_pods(selector.as_ref()).map(|pod| &**pod).collect()
            }
            PolicyDirection::Egress => {
                let namespace = &policy.key.namespace;
                let selectors = rule.peers.as_ref().map_or_else(
                    || vec![PodSelector::of_network()],
                    |peers| {
                        let peers = peers.pods.iter();
                        peers.map(|peer| PodSelector::of_peer(peer, namespace)).collect()
                    },
                );
                let pods = selectors.iter().flat_map(|one| self.selected(one));
                pods.map(|(_, pod)| &**pod).collect()
            }
        };
        Receivers {
            network: &self.network.name,
            direction,
            has_others: direction == PolicyDirection::Egress && rule.peers.is_none(),
            pods,
        }
    }

    /// Named ports of an egress rule's destinations by address, which give them no numbers. The
    /// same holds in a network that knows no addresses of pods.
    fn egress_problems(&self, index: usize, rule: &PolicyRule) -> Vec<FieldProblem> {
        let peers = rule.peers.as_ref();
        let has_unknown =
            peers.map_or(self.network.subnets.is_empty(), |peers| !peers.blocks.is_empty());
        let names = rule.named_ports().filter(|_| has_unknown);
        let problems = names.map(|name| {
            let reason = format!(
                "port {name:?} is that of a pod, so it allows nothing to peers with ipBlock and in \
                 networks without addresses"
            );
            FieldProblem::new(format!("spec.egress[{index}].ports"), reason)
        });
        problems.collect()
    }
}

/// Names of the selections of a rule's peers.
fn selections(policy: &Policy, rule: &PolicyRule) -> Vec<String> {
    let peers = rule.peers.iter().flat_map(|peers| &peers.pods);
    let namespace = &policy.key.namespace;
    peers.map(|peer| PodSelector::of_peer(peer, namespace).to_string()).collect()
}
