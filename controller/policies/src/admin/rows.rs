//! Rows of a policy of an administrator.

use std::collections::BTreeSet;
use std::net::IpAddr;

use patchbay_model::external_ids::key;
use patchbay_model::{
    AdminAction, AdminPolicy, AdminPolicyKey, AdminPolicyKind, AdminRule, IpFamily, Pod, PodScope,
    PolicyDirection, Protocol, format_address,
};
use patchbay_schemas::nb::{Acl, AclAction};
use patchbay_zone::{AclLogging, ZoneObjects};

use crate::acls::{Identified, acl, group_match, identified};
use crate::ports::{PortMatch, Receivers, ip_word, port_matches, word};
use crate::tables::DEFAULT_NETWORK;

/// Priority of the first rule of the AdminNetworkPolicies with priority 0. Each other rule is one
/// lower.
const FIRST_PRIORITY: i64 = 30_000;
/// Distance of the priorities of two AdminNetworkPolicies: the largest number of rules.
const POLICY_PRIORITIES: i64 = patchbay_model::MAX_ADMIN_RULES as i64;
/// Priority of the first rule of the BaselineAdminNetworkPolicy.
const FIRST_BASELINE_PRIORITY: i64 = 1750;
/// Tier of AdminNetworkPolicies: before that of NetworkPolicies.
const ADMIN_TIER: i64 = 1;
/// Tier of the BaselineAdminNetworkPolicy: after that of NetworkPolicies.
const BASELINE_TIER: i64 = 3;
const DIRECTION: &str = "direction";
const RULE_INDEX: &str = "gress-index";
/// End of the protocol in the identity of an ACL of named ports.
const NAMED_PORTS: &str = "-namedPort";

/// Everything that the database has of a policy, without what pods contribute.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AdminPolicyRows {
    pub(super) group: Identified,
    pub(super) acls: Vec<Acl>,
    pub(super) address_sets: Vec<AddressSetRow>,
}

/// An address set, with the addresses of nodes and the subnets of its rule.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct AddressSetRow {
    pub(super) ids: Identified,
    pub(super) addresses: BTreeSet<String>,
}

/// Contribution of a pod to the rows of a policy.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Membership {
    /// Port group of its port.
    pub(super) group: Option<String>,
    /// Address sets of its addresses.
    pub(super) addresses: Vec<(String, IpAddr)>,
}

/// A policy in a zone.
pub(super) struct PolicyScene<'a> {
    pub(super) policy: &'a AdminPolicy,
    pub(super) inputs: &'a ZoneObjects,
    pub(super) logging: AclLogging,
}

/// Owner type of the rows of a kind.
pub(super) const fn owner_type(kind: AdminPolicyKind) -> &'static str {
    match kind {
        AdminPolicyKind::Admin => "AdminNetworkPolicy",
        AdminPolicyKind::Baseline => "BaselineAdminNetworkPolicy",
    }
}

/// Kind of the policies with this owner type.
pub(super) fn kind_of(text: &str) -> Option<AdminPolicyKind> {
    let kinds = [AdminPolicyKind::Admin, AdminPolicyKind::Baseline];
    kinds.into_iter().find(|kind| owner_type(*kind) == text)
}

fn ids(policy: &AdminPolicyKey, values: &[(&str, &str)]) -> Identified {
    let owner = owner_type(policy.kind);
    identified(DEFAULT_NETWORK, owner, &policy.name, values)
}

impl<'a> PolicyScene<'a> {
    pub(super) fn new(policy: &'a AdminPolicy, inputs: &'a ZoneObjects) -> Self {
        let (logging, _) = AclLogging::read(&policy.logging);
        Self { policy, inputs, logging }
    }

    pub(super) fn rows(&self) -> AdminPolicyRows {
        let group = ids(&self.policy.key, &[]);
        let (mut acls, mut address_sets) = (Vec::new(), Vec::new());
        for rule in self.rules() {
            acls.extend(rule.acls(&group.name));
            address_sets.extend(rule.address_sets());
        }
        AdminPolicyRows { group, acls, address_sets }
    }

    /// Contribution of a pod.
    pub(super) fn membership(&self, pod: &Pod) -> Membership {
        let inputs = self.inputs;
        let is_local = pod.node.as_ref() == Some(inputs.zone());
        let is_subject = is_local && inputs.is_in_scope(&self.policy.subject, pod);
        let group = is_subject.then(|| ids(&self.policy.key, &[]).name);
        let mut addresses = Vec::new();
        for rule in self.rules() {
            let mut scopes = rule.rule.pods.iter();
            if !scopes.any(|scope| inputs.is_in_scope(scope, pod)) {
                continue;
            }
            for family in inputs.families() {
                let set = rule.address_set_ids(family).name;
                let of_pod = pod.addresses_in_default_network().into_iter();
                let of_family = of_pod.filter(|address| IpFamily::of(*address) == family);
                addresses.extend(of_family.map(|address| (set.clone(), address)));
            }
        }
        Membership { group, addresses }
    }

    fn rules(&self) -> impl Iterator<Item = RuleScene<'_>> {
        PolicyDirection::BOTH.into_iter().flat_map(move |direction| {
            let rules = match direction {
                PolicyDirection::Ingress => &self.policy.ingress,
                PolicyDirection::Egress => &self.policy.egress,
            };
            let rules = rules.iter().enumerate();
            rules.map(move |(index, rule)| RuleScene { of: self, direction, index, rule })
        })
    }

    /// Pods of the subject on the zone's node.
    fn subject(&self) -> impl Iterator<Item = &Pod> {
        let pods = self.inputs.pods_in_scope(&self.policy.subject);
        pods.filter(|pod| pod.node.as_ref() == Some(self.inputs.zone()))
    }
}

/// A rule of a policy.
struct RuleScene<'a> {
    of: &'a PolicyScene<'a>,
    direction: PolicyDirection,
    index: usize,
    rule: &'a AdminRule,
}

impl RuleScene<'_> {
    fn ids(&self, last: (&str, &str)) -> Identified {
        let (direction, index) = (self.direction.to_string(), self.index.to_string());
        let values = [(DIRECTION, direction.as_str()), (RULE_INDEX, index.as_str()), last];
        ids(&self.of.policy.key, &values)
    }

    fn address_set_ids(&self, family: IpFamily) -> Identified {
        self.ids((key::IP_FAMILY, &family.to_string()))
    }

    fn address_sets(&self) -> Vec<AddressSetRow> {
        let nodes: Vec<IpAddr> = self
            .rule
            .nodes
            .iter()
            .flat_map(|selector| self.of.inputs.addresses_of_nodes(selector))
            .collect();
        let families = self.of.inputs.families().into_iter();
        let sets = families.map(|family| {
            let nodes = nodes.iter().copied().filter(|address| IpFamily::of(*address) == family);
            let networks =
                self.rule.networks.iter().filter(|network| IpFamily::of_net(**network) == family);
            AddressSetRow {
                ids: self.address_set_ids(family),
                addresses: nodes
                    .map(format_address)
                    .chain(networks.map(|network| network.trunc().to_string()))
                    .collect(),
            }
        });
        sets.collect()
    }

    /// Peers by labels. One that several selectors select comes several times.
    fn peers(&self) -> impl Iterator<Item = &Pod> {
        let scopes = self.rule.pods.iter();
        scopes.flat_map(|scope: &PodScope| self.of.inputs.pods_in_scope(scope))
    }

    /// The ACLs, for the port group of this name.
    fn acls(&self, group: &str) -> Vec<Acl> {
        let (group, peers) = (group_match(self.direction, group), self.peer_match());
        let has_ports = !self.rule.ports.is_empty() || !self.rule.named_ports.is_empty();
        let receivers = Receivers {
            network: "",
            direction: self.direction,
            has_others: false,
            pods: Vec::new(),
        };
        let ports = has_ports.then_some(self.rule.ports.as_slice());
        let numbered = port_matches(ports, &receivers).into_iter().map(|ports| {
            let PortMatch { protocol, text } = ports;
            let parts: Vec<String> =
                [Some(group.clone()), Some(peers.clone()), text].into_iter().flatten().collect();
            self.acl(protocol, parts.join(" && "))
        });
        let named = Protocol::ALL.into_iter().filter_map(|protocol| {
            // Packets to a named port are matched by the receiver's address: on the way in without
            // the group, on the way out without the peers.
            let first = match self.direction {
                PolicyDirection::Ingress => &peers,
                PolicyDirection::Egress => &group,
            };
            let receivers = self.named_ports(protocol)?;
            let protocol = word(protocol);
            let text = format!("{first} && {protocol} && ({receivers})");
            Some(self.acl(&format!("{protocol}{NAMED_PORTS}"), text))
        });
        numbered.chain(named).collect()
    }

    fn acl(&self, protocol: &str, text: String) -> Acl {
        let policy = self.of.policy;
        let (prefix, tier, first) = match policy.key.kind {
            AdminPolicyKind::Admin => {
                ("ANP", ADMIN_TIER, FIRST_PRIORITY - policy.priority * POLICY_PRIORITIES)
            }
            AdminPolicyKind::Baseline => ("BANP", BASELINE_TIER, FIRST_BASELINE_PRIORITY),
        };
        let name = format!("{prefix}:{}:{}:{}", policy.key.name, self.direction, self.index);
        let logging = self.of.logging;
        let (action, severity) = match self.rule.action {
            AdminAction::Allow => (AclAction::AllowRelated, logging.allow),
            AdminAction::Deny => (AclAction::Drop, logging.deny),
            AdminAction::Pass => (AclAction::Pass, logging.pass),
        };
        // A policy has at most `MAX_ADMIN_RULES` rules.
        let offset = i64::try_from(self.index).unwrap_or(POLICY_PRIORITIES);
        Acl {
            action,
            priority: first - offset,
            r#match: text,
            external_ids: self.ids(("port-policy-protocol", protocol)).external_ids,
            log: severity.is_some(),
            severity,
            tier,
            ..acl(self.direction, name)
        }
    }

    /// Match of the address sets.
    fn peer_match(&self) -> String {
        let side = match self.direction {
            PolicyDirection::Ingress => "src",
            PolicyDirection::Egress => "dst",
        };
        let families = self.of.inputs.families().into_iter();
        let terms: Vec<String> = families
            .map(|family| {
                let name = self.address_set_ids(family).name;
                format!("{}.{side} == ${name}", ip_word(family))
            })
            .collect();
        format!("(({}))", terms.join(" || "))
    }

    /// Match of the addresses and numbers of the named ports of a protocol. `None`: no pod has one.
    ///
    /// As in OVN-Kubernetes, the receivers of ingress are the pods of the subject on the zone's
    /// node, and the peers.
    fn named_ports(&self, protocol: Protocol) -> Option<String> {
        let is_ingress = self.direction == PolicyDirection::Ingress;
        let subject = self.of.subject().filter(|_| is_ingress);
        let receivers: Vec<&Pod> = subject.chain(self.peers()).collect();
        let mut terms = Vec::new();
        for name in &self.rule.named_ports {
            let mut of_name: Vec<(String, String)> =
                receivers.iter().flat_map(|pod| terms_of_pod(pod, name, protocol)).collect();
            of_name.sort_by(|(one, _), (other, _)| one.cmp(other));
            terms.extend(of_name.into_iter().map(|(_, term)| term));
        }
        (!terms.is_empty()).then(|| terms.join(" || "))
    }
}

/// Addresses of a pod, with the matches of a named port there.
fn terms_of_pod(pod: &Pod, name: &str, protocol: Protocol) -> Vec<(String, String)> {
    let ports =
        pod.container_ports.iter().filter(|port| port.name == name && port.protocol == protocol);
    let addresses = pod.addresses_in_default_network();
    let terms = ports.flat_map(|port| {
        addresses.iter().map(|address| {
            let (word, ip) = (word(protocol), ip_word(IpFamily::of(*address)));
            let text = format_address(*address);
            let term = format!("({ip}.dst == {text} && {word}.dst == {})", port.number);
            (text, term)
        })
    });
    terms.collect()
}
