//! Contents of the rows.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::IpFamily;
use patchbay_model::external_ids::{hashed_name, key, node_addresses_id, reachable_services_id};
use patchbay_schemas::datum::Map;
use patchbay_schemas::nb::{
    AddressSet, LogicalRouterPolicy, LogicalRouterPolicyAction, QoS, QoSDirection,
};

/// Owner of the rows: the controller of the default network, also for other networks.
const CONTROLLER: &str = "default-network-controller";
/// Owner type of the rows.
const OWNER_TYPE: &str = "EgressIP";
/// External id of the network of a row.
pub(super) const NETWORK: &str = "network";
/// Owner type of the address sets of EgressServices.
const SERVICE_OWNER_TYPE: &str = "EgressService";
/// Name of the address sets of served pods.
const SERVED: &str = "egressip-served-pods";
/// Name of the address sets of pods behind EgressServices.
const SERVICE_PODS: &str = "egresssvc-served-pods";
/// Priority of policies that keep packets in the cluster.
const STAY_PRIORITY: i64 = 102;
/// Priority of policies that lead packets to the egress node.
const LEAVE_PRIORITY: i64 = 100;
/// Priority of policies that mark packets on the egress node.
const MARK_PRIORITY: i64 = 95;
/// Priority of the rule that marks replies.
const REPLY_PRIORITY: i64 = 103;
/// Mark of replies of served pods.
const REPLY_MARK: i64 = 42;
/// Mark of packets of served pods to nodes.
const NODE_MARK: &str = "1008";
/// Name of the rule that marks replies.
const REPLY_RULE: &str = "EgressIP-Mark-Reply-Traffic";

type TextMap = BTreeMap<String, String>;

fn version(family: IpFamily) -> &'static str {
    match family {
        IpFamily::V4 => "ip4",
        IpFamily::V6 => "ip6",
    }
}

/// External ids of a policy or rule. `family` is `ip4`, `ip6`, or `ip` for both.
fn external_ids(network: &str, priority: i64, name: &str, family: &str) -> TextMap {
    let priority = priority.to_string();
    let id = format!("{CONTROLLER}:{OWNER_TYPE}:{priority}:{name}:{family}:{network}");
    [
        (key::OWNER_CONTROLLER, CONTROLLER),
        (key::OWNER_TYPE, OWNER_TYPE),
        (key::NAME, name),
        (key::ID, &id),
        (key::IP_FAMILY, family),
        (NETWORK, network),
        ("priority", &priority),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .into()
}

fn set_ids(owner_type: &str, name: &str, family: IpFamily, network: Option<&str>) -> TextMap {
    let family = family.to_string();
    let end = network.map(|network| format!(":{network}")).unwrap_or_default();
    let id = format!("{CONTROLLER}:{owner_type}:{name}:{family}{end}");
    let network = network.map(|network| (NETWORK, network));
    [
        (key::OWNER_CONTROLLER, CONTROLLER),
        (key::OWNER_TYPE, owner_type),
        (key::NAME, name),
        (key::ID, &id),
        (key::IP_FAMILY, &family),
    ]
    .into_iter()
    .chain(network)
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .collect()
}

fn set_name(external_ids: &TextMap) -> String {
    hashed_name(&external_ids[key::ID])
}

fn served_name(network: &str, family: IpFamily) -> String {
    set_name(&set_ids(OWNER_TYPE, SERVED, family, Some(network)))
}

fn service_pods_name(family: IpFamily) -> String {
    set_name(&set_ids(SERVICE_OWNER_TYPE, SERVICE_PODS, family, None))
}

/// Returns `true` if a row of a network with these external ids is one of EgressIPs.
pub(super) fn is_egress_row(external_ids: &Map) -> bool {
    external_ids.get_str(key::OWNER_CONTROLLER) == Some(CONTROLLER)
        && external_ids.get_str(key::OWNER_TYPE) == Some(OWNER_TYPE)
        && external_ids.get_str(NETWORK) != Some("default")
}

/// Address set of the pods of a network that EgressIPs serve on the zone's node, without the
/// addresses.
pub(super) fn served_set(network: &str, family: IpFamily) -> AddressSet {
    let external_ids = set_ids(OWNER_TYPE, SERVED, family, Some(network));
    AddressSet { name: set_name(&external_ids), external_ids, ..AddressSet::default() }
}

/// Name of the address set of served pods.
pub(super) fn served_set_name(network: &str, family: IpFamily) -> String {
    set_name(&set_ids(OWNER_TYPE, SERVED, family, Some(network)))
}

/// Address set that policies name beside the one of served pods. EgressServices are not supported,
/// so it stays as another program fills it.
pub(super) fn service_pods_set(family: IpFamily) -> AddressSet {
    let external_ids = set_ids(SERVICE_OWNER_TYPE, SERVICE_PODS, family, None);
    AddressSet { name: set_name(&external_ids), external_ids, ..AddressSet::default() }
}

/// Policies that keep packets of a network's pods from being led to an egress node. Those for
/// several subnets have equal external ids.
pub(super) fn stay_policies(
    network: &str,
    subnets: &[IpNet],
    join_subnets: &[IpNet],
    families: &[IpFamily],
) -> Vec<LogicalRouterPolicy> {
    let stay = |name: &str, family: &str, matched: String| LogicalRouterPolicy {
        priority: STAY_PRIORITY,
        action: LogicalRouterPolicyAction::Allow,
        r#match: matched,
        external_ids: external_ids(network, STAY_PRIORITY, name, family),
        ..LogicalRouterPolicy::default()
    };
    let reply = format!("pkt.mark == {REPLY_MARK}");
    let mut policies = vec![stay("EIP-No-Reroute-reply-traffic", "ip", reply)];
    for family in IpFamily::BOTH {
        let version = version(family);
        let of_family = |nets: &[IpNet]| -> Vec<String> {
            let nets = nets.iter().filter(|net| IpFamily::of_net(**net) == family);
            nets.map(ToString::to_string).collect()
        };
        let (pods, join) = (of_family(subnets), of_family(join_subnets));
        let served = format!(
            "({version}.src == ${} || {version}.src == ${})",
            served_name(network, family),
            service_pods_name(family)
        );
        if families.contains(&family) {
            let nodes = hashed_name(&node_addresses_id(family));
            policies.push(LogicalRouterPolicy {
                options: [("pkt_mark".to_owned(), NODE_MARK.to_owned())].into(),
                ..stay(
                    "EIP-No-Reroute-Pod-To-Node",
                    version,
                    format!("{served} && {version}.dst == ${nodes}"),
                )
            });
        }
        if pods.is_empty() {
            continue;
        }
        for (name, destinations) in
            [("EIP-No-Reroute-Pod-To-Pod", &pods), ("EIP-No-Reroute-Pod-To-Join", &join)]
        {
            let from_all = pods.iter();
            let pairs = from_all.flat_map(|from| destinations.iter().map(move |to| (from, to)));
            policies.extend(pairs.map(|(from, to)| {
                let matched = format!("{version}.src == {from} && {version}.dst == {to}");
                stay(name, version, matched)
            }));
        }
        let services = hashed_name(&reachable_services_id(family));
        policies.push(stay(
            "EIP-No-Reroute-Pod-To-CDN-Svc",
            version,
            format!("{served} && {version}.dst == ${services}"),
        ));
    }
    policies
}

/// Rules that mark replies of served pods, so that they are not led to an egress node.
pub(super) fn reply_rules(network: &str, families: &[IpFamily]) -> Vec<QoS> {
    let rule = |family: &IpFamily| {
        let (version, served) = (version(*family), served_name(network, *family));
        QoS {
            action: [("mark".to_owned(), REPLY_MARK)].into(),
            direction: QoSDirection::FromLport,
            priority: REPLY_PRIORITY,
            r#match: format!("{version}.src == ${served} && ct.trk && ct.rpl"),
            external_ids: external_ids(network, REPLY_PRIORITY, REPLY_RULE, version),
            ..QoS::default()
        }
    };
    families.iter().map(rule).collect()
}

/// Policies of a pod that an EgressIP serves.
pub(super) struct PodPolicies<'a> {
    pub(super) network: &'a str,
    pub(super) egress_ip: &'a str,
    /// Namespace and name.
    pub(super) pod: &'a str,
    pub(super) mark: u32,
}

impl PodPolicies<'_> {
    /// Leads packets of the pod's address to egress nodes.
    pub(super) fn leave_policy(
        &self,
        address: IpAddr,
        next_hops: &BTreeSet<IpAddr>,
    ) -> LogicalRouterPolicy {
        let version = version(IpFamily::of(address));
        LogicalRouterPolicy {
            action: LogicalRouterPolicyAction::Reroute,
            r#match: format!("{version}.src == {address}"),
            nexthops: next_hops.iter().map(ToString::to_string).collect(),
            ..self.policy(LEAVE_PRIORITY, version)
        }
    }

    /// Marks packets of the pod's address on the egress node, unless they have a mark.
    pub(super) fn mark_policy(&self, address: IpAddr) -> LogicalRouterPolicy {
        let version = version(IpFamily::of(address));
        LogicalRouterPolicy {
            action: LogicalRouterPolicyAction::Allow,
            r#match: format!("{version}.src == {address} && pkt.mark == 0"),
            ..self.policy(MARK_PRIORITY, version)
        }
    }

    /// Identities of the policies of both families.
    pub(super) fn ids(&self) -> impl Iterator<Item = String> {
        let priorities = [LEAVE_PRIORITY, MARK_PRIORITY].into_iter();
        let keys = priorities.flat_map(|priority| IpFamily::BOTH.map(|family| (priority, family)));
        keys.filter_map(|(priority, family)| {
            let policy = self.policy(priority, version(family));
            policy.external_ids.get(key::ID).cloned()
        })
    }

    fn policy(&self, priority: i64, family: &str) -> LogicalRouterPolicy {
        let name = format!("{}_{}", self.egress_ip, self.pod);
        LogicalRouterPolicy {
            priority,
            options: [("pkt_mark".to_owned(), self.mark.to_string())].into(),
            external_ids: external_ids(self.network, priority, &name, family),
            ..LogicalRouterPolicy::default()
        }
    }
}
