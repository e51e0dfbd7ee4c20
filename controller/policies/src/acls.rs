//! ACLs that isolate pods, and those that allow what rules allow.

use std::collections::BTreeMap;

use ipnet::IpNet;
use patchbay_model::external_ids::{hashed_name, key};
use patchbay_model::{AttachedNetwork, IpBlock, IpFamily, PolicyDirection, PolicyRule};
use patchbay_schemas::nb::{Acl, AclAction, AclDirection, AclSeverity};
use patchbay_zone::NetworkNamespace;

use super::ports::{PortMatch, ip_word};
use super::tables::{CONTROLLER, MULTICAST, NAMESPACE, NAMESPACE_PORTS, POLICY, SELECTION};

/// Meter of all ACLs that may be logged.
const METER: &str = "acl-logging";
/// Tier of the ACLs of policies.
const TIER: i64 = 2;
const MULTICAST_PRIORITY: i64 = 1012;
const DENY_PRIORITY: i64 = 1000;
const ALLOW_PRIORITY: i64 = 1001;
/// Limit of the length of an ACL's name.
const MAX_NAME_BYTES: usize = 63;
/// Index of the ACL for peers by labels, and of the one without peers.
const NO_BLOCK: &str = "-1";
/// Index of the ACL for peers by address.
const ALL_BLOCKS: &str = "-2";
const DIRECTION: &str = "direction";

type TextMap = BTreeMap<String, String>;

/// Identity of a row: its owner, and the values that distinguish it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Identified {
    /// Name of a row that is named by hash.
    pub(super) name: String,
    /// External ids.
    pub(super) external_ids: TextMap,
}

/// External ids of a row of a network. `object` is the value of `k8s.ovn.org/name`; `values` come
/// after it.
pub(super) fn identified(
    network: &str,
    owner_type: &str,
    object: &str,
    values: &[(&str, &str)],
) -> Identified {
    let controller = format!("{network}{CONTROLLER}");
    let mut id = format!("{controller}:{owner_type}:{object}");
    let mut external_ids = TextMap::new();
    for (key, value) in values {
        id.extend([":", value]);
        external_ids.insert((*key).to_owned(), (*value).to_owned());
    }
    let name = hashed_name(&id);
    external_ids.insert(key::OWNER_CONTROLLER.to_owned(), controller);
    external_ids.insert(key::OWNER_TYPE.to_owned(), owner_type.to_owned());
    external_ids.insert(key::NAME.to_owned(), object.to_owned());
    external_ids.insert(key::ID.to_owned(), id);
    Identified { name, external_ids }
}

/// Port group of the isolated pods of a namespace.
pub(super) fn isolated_group(place: &NetworkNamespace, direction: PolicyDirection) -> Identified {
    let values = [(DIRECTION, &*direction.to_string())];
    identified(&place.network, NAMESPACE, &place.namespace, &values)
}

/// Port group of the pods that a policy is about.
pub(super) fn policy_group(place: &NetworkNamespace, policy: &str) -> Identified {
    identified(&place.network, POLICY, &policy_name(place, policy), &[])
}

/// Port group of all pods of a namespace.
pub(super) fn namespace_group(place: &NetworkNamespace) -> Identified {
    identified(&place.network, NAMESPACE_PORTS, &place.namespace, &[])
}

/// Address set of selected pods.
pub(super) fn address_set(network: &str, selection: &str, family: IpFamily) -> Identified {
    let values = [(key::IP_FAMILY, &*family.to_string())];
    identified(network, SELECTION, selection, &values)
}

fn policy_name(place: &NetworkNamespace, policy: &str) -> String {
    format!("{}:{policy}", place.namespace)
}

/// ACLs of a group of isolated ports: packets are dropped, except those that resolve addresses.
pub(super) fn isolating_acls(
    place: &NetworkNamespace,
    direction: PolicyDirection,
    group: &str,
    severity: Option<AclSeverity>,
) -> [Acl; 2] {
    let ports = group_match(direction, group);
    let acl = |kind: &str| {
        let values = [(DIRECTION, &*direction.to_string()), (key::TYPE, kind)];
        let ids = identified(&place.network, NAMESPACE, &place.namespace, &values);
        Acl {
            external_ids: ids.external_ids,
            ..acl(direction, format!("NP:{}:{direction}", place.namespace))
        }
    };
    [
        Acl {
            action: AclAction::Allow,
            priority: ALLOW_PRIORITY,
            r#match: format!("{ports} && (arp || nd)"),
            ..acl("arpAllow")
        },
        Acl {
            action: AclAction::Drop,
            priority: DENY_PRIORITY,
            r#match: ports.clone(),
            log: severity.is_some(),
            severity,
            ..acl("defaultDeny")
        },
    ]
}

/// ACLs that allow multicast between the ports of a namespace's group. `selection`: name of the
/// selection of its pods.
pub(super) fn multicast_acls(
    place: &NetworkNamespace,
    group: &str,
    selection: &str,
    families: &[IpFamily],
) -> [Acl; 2] {
    PolicyDirection::BOTH.map(|direction| {
        let values = [(DIRECTION, &*direction.to_string())];
        let ids = identified(&place.network, MULTICAST, &place.namespace, &values);
        let terms = families.iter().map(|family| {
            let set = address_set(&place.network, selection, *family).name;
            multicast_match(direction, *family, &set)
        });
        let terms = any_of(&terms.collect::<Vec<_>>()).unwrap_or_default();
        Acl {
            name: None,
            action: AclAction::Allow,
            priority: MULTICAST_PRIORITY,
            r#match: format!("{} && {terms}", group_match(direction, group)),
            external_ids: ids.external_ids,
            ..acl(direction, String::new())
        }
    })
}

/// Match of multicast packets, and of messages about group members. Pods receive only packets of
/// the pods of the set. Of IPv6 groups it has those that are not assigned permanently (RFC 3307,
/// section 4.3).
fn multicast_match(direction: PolicyDirection, family: IpFamily, set: &str) -> String {
    let groups = match family {
        IpFamily::V4 => "ip4.mcast",
        IpFamily::V6 => "(ip6.dst[120..127] == 0xff && ip6.dst[116] == 1)",
    };
    match (direction, family) {
        (PolicyDirection::Egress, IpFamily::V4) => groups.to_owned(),
        (PolicyDirection::Egress, IpFamily::V6) => format!("(mldv1 || mldv2 || {groups})"),
        (PolicyDirection::Ingress, IpFamily::V4) => {
            format!("(igmp || (ip4.src == ${set} && {groups}))")
        }
        (PolicyDirection::Ingress, IpFamily::V6) => {
            format!("(mldv1 || mldv2 || (ip6.src == ${set} && {groups}))")
        }
    }
}

/// A rule of a policy in a network.
pub(super) struct RuleScene<'a> {
    pub(super) place: &'a NetworkNamespace,
    pub(super) policy: &'a str,
    pub(super) direction: PolicyDirection,
    pub(super) index: usize,
    pub(super) rule: &'a PolicyRule,
    /// Families of the network's addresses.
    pub(super) families: &'a [IpFamily],
    /// Names of the selections of the rule's peers.
    pub(super) selections: &'a [String],
    /// Name of the policy's port group.
    pub(super) group: &'a str,
    pub(super) severity: Option<AclSeverity>,
}

impl RuleScene<'_> {
    /// ACLs that allow what the rule allows. The matches of ports are those for peers by labels,
    /// and for peers by address.
    pub(super) fn acls(&self, labelled: &[PortMatch], blocks: &[PortMatch]) -> Vec<Acl> {
        let of = |ports: &[PortMatch], block, peers: Option<String>| -> Vec<Acl> {
            let peers = peers.iter();
            let acls = peers.flat_map(|peers| ports.iter().map(|one| self.acl(one, block, peers)));
            acls.collect()
        };
        let mut acls = of(labelled, NO_BLOCK, self.labelled_peers());
        acls.extend(of(blocks, ALL_BLOCKS, self.block_peers()));
        acls
    }

    fn acl(&self, ports: &PortMatch, block: &str, peers: &str) -> Acl {
        let Self { place, policy, direction, index, severity, .. } = self;
        let values = [
            (DIRECTION, &*direction.to_string()),
            ("gress-index", &*index.to_string()),
            ("port-policy-protocol", ports.protocol),
            ("ip-block-index", block),
        ];
        let name = policy_name(place, policy);
        let group = group_match(*direction, self.group);
        let parts: Vec<&str> =
            [Some(peers), ports.text.as_deref(), Some(&group)].into_iter().flatten().collect();
        Acl {
            action: AclAction::AllowRelated,
            priority: ALLOW_PRIORITY,
            external_ids: identified(&place.network, POLICY, &name, &values).external_ids,
            r#match: parts.join(" && "),
            log: severity.is_some(),
            severity: *severity,
            ..acl(*direction, format!("NP:{name}:{direction}:{index}"))
        }
    }

    /// Match of all packets, or of the peers by labels. `None`: the rule has no such peers.
    fn labelled_peers(&self) -> Option<String> {
        let side = self.side();
        if self.rule.peers.is_none() {
            return Some(match self.families {
                [IpFamily::V6] => "ip6".to_owned(),
                [_, _] => "(ip4 || ip6)".to_owned(),
                _ => "ip4".to_owned(),
            });
        }
        if self.selections.is_empty() {
            return None;
        }
        let of_family = self.families.iter().map(|family| {
            let mut sets: Vec<String> = self
                .selections
                .iter()
                .map(|name| address_set(&self.place.network, name, *family).name)
                .map(|name| format!("${name}"))
                .collect();
            sets.sort_unstable();
            sets.dedup();
            format!("{}.{side} == {{{}}}", ip_word(*family), sets.join(", "))
        });
        any_of(&of_family.collect::<Vec<_>>())
    }

    /// Match of the peers by address. `None`: the rule has no such peers.
    fn block_peers(&self) -> Option<String> {
        let blocks = self.rule.peers.iter().flat_map(|peers| &peers.blocks);
        let terms = blocks.map(|block| block_match(block, self.side()));
        any_of(&terms.collect::<Vec<_>>())
    }

    fn side(&self) -> &'static str {
        match self.direction {
            PolicyDirection::Ingress => "src",
            PolicyDirection::Egress => "dst",
        }
    }
}

fn block_match(block: &IpBlock, side: &str) -> String {
    // OVN refuses addresses with host bits.
    let (cidr, except) = (block.cidr.trunc(), block.except.iter().map(IpNet::trunc));
    let field = format!("{}.{side}", ip_word(IpFamily::of_net(cidr)));
    if block.except.is_empty() {
        return format!("{field} == {cidr}");
    }
    let except: Vec<String> = except.map(|net| net.to_string()).collect();
    format!("({field} == {cidr} && {field} != {{{}}})", except.join(", "))
}

/// Match of packets that one of the terms matches. `None`: there are none.
fn any_of(terms: &[String]) -> Option<String> {
    match terms {
        [] => None,
        [term] => Some(term.clone()),
        terms => Some(format!("({})", terms.join(" || "))),
    }
}

pub(super) fn group_match(direction: PolicyDirection, group: &str) -> String {
    match direction {
        PolicyDirection::Ingress => format!("outport == @{group}"),
        PolicyDirection::Egress => format!("inport == @{group}"),
    }
}

/// Columns that all ACLs of a direction have. Egress is checked after load balancing, so that
/// policies are about endpoints and not about services.
pub(super) fn acl(direction: PolicyDirection, mut name: String) -> Acl {
    let mut end = MAX_NAME_BYTES.min(name.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    name.truncate(end);
    let (direction, options) = match direction {
        PolicyDirection::Ingress => (AclDirection::ToLport, TextMap::new()),
        PolicyDirection::Egress => {
            (AclDirection::FromLport, [("apply-after-lb".to_owned(), "true".to_owned())].into())
        }
    };
    Acl {
        name: Some(name),
        direction,
        options,
        meter: Some(METER.to_owned()),
        tier: TIER,
        ..Acl::default()
    }
}

/// IP families of a network's addresses. Empty: the network does not manage addresses.
pub(super) fn families(network: &AttachedNetwork) -> Vec<IpFamily> {
    let mut families = IpFamily::BOTH.to_vec();
    families.retain(|family| {
        let mut subnets = network.subnets.iter();
        subnets.any(|subnet| IpFamily::of_net(*subnet) == *family)
    });
    families
}
