//! NetworkPolicies and EgressFirewalls of the manifests, as promises about packets.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::{
    EgressFirewall, Feature, FirewallAction, FirewallDestination, IpBlock, IpFamily,
    Pod as PodObject, PodPeer, Policy, PolicyDirection, PolicyPort, PolicyRule, PortNumbers,
    Protocol as Transport,
};
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion::{egress_firewall, network_policy};
use patchbay_resources::object::Object;

use super::pods::{Pod, PodName};
use super::questions::Protocol;

/// First packet of a connection between two pods.
#[derive(Clone, Copy)]
pub(super) struct Packet<'a> {
    pub(super) from: &'a Pod,
    pub(super) to: &'a Pod,
    pub(super) protocol: Protocol,
    pub(super) family: IpFamily,
}

/// The NetworkPolicies and EgressFirewalls with the labels that they select by. They are evaluated
/// without rows, so that packets judge the rows.
#[derive(Clone, Debug, Default)]
pub(super) struct NetworkPolicies {
    policies: Vec<Policy>,
    /// Firewalls that have an effect, by namespace.
    firewalls: BTreeMap<String, EgressFirewall>,
    /// Labels of namespaces, by name.
    namespaces: BTreeMap<String, BTreeMap<String, String>>,
    pods: BTreeMap<PodName, Arc<PodObject>>,
}

impl NetworkPolicies {
    pub(super) fn of(cluster: &Cluster) -> Self {
        let inventory = &cluster.inventory;
        let policies = inventory.network_policies.iter();
        let namespaces = inventory.namespaces.iter();
        let mut pods = BTreeMap::new();
        if let Some(objects) = cluster.zone_pods("") {
            pods.extend(objects.pods().map(|pod| (PodName::of(&pod.key), pod.clone())));
        }
        let firewalls = inventory.egress_firewalls.iter();
        let has_firewalls = cluster.settings().has_feature(Feature::EgressFirewall);
        let firewalls = firewalls.filter(|_| has_firewalls).map(|(_, object)| {
            let firewall = egress_firewall(&object.object);
            (firewall.namespace.to_string(), firewall)
        });
        Self {
            firewalls: firewalls.collect(),
            policies: policies.map(|(_, policy)| network_policy(&policy.object)).collect(),
            namespaces: namespaces
                .map(|(key, namespace)| (key.name.clone(), namespace.object.labels().clone()))
                .collect(),
            pods,
        }
    }

    /// `true` if the policies of both pods and the firewall of the sender let the packet pass.
    pub(super) fn allow(&self, packet: Packet<'_>) -> bool {
        PolicyDirection::BOTH.into_iter().all(|direction| self.allow_in(direction, packet))
            && self.allow_out(packet)
    }

    /// `true` if the firewall of the sender's namespace lets the packet pass. It is not about
    /// packets within the network. Pods have no addresses of nodes and no names.
    fn allow_out(&self, packet: Packet<'_>) -> bool {
        let firewall = self.firewalls.get(&packet.from.name.namespace);
        let mut ips = packet.to.ips();
        let (Some(firewall), Some(ip)) =
            (firewall, ips.find(|ip| IpFamily::of(*ip) == packet.family))
        else {
            return true;
        };
        let mut rules = firewall.rules.iter();
        let rule = rules.find(|rule| {
            let is_destination = match &rule.destination {
                FirewallDestination::Cidr { cidr, .. } => cidr.contains(&ip),
                FirewallDestination::Nodes(_) | FirewallDestination::Name(_) => false,
            };
            let mut ports = rule.ports.iter();
            is_destination
                && (rule.ports.is_empty()
                    || ports.any(|port| {
                        let number = match packet.protocol {
                            Protocol::Udp(number) => (port.protocol == Transport::Udp, number),
                            Protocol::Tcp(number) => (port.protocol == Transport::Tcp, number),
                            Protocol::Icmp => return false,
                        };
                        number.0 && port.port.is_none_or(|one| one == number.1)
                    }))
        });
        packet.from.network == packet.to.network
            || rule.is_none_or(|rule| rule.action == FirewallAction::Allow)
    }

    fn allow_in(&self, direction: PolicyDirection, packet: Packet<'_>) -> bool {
        let subject = match direction {
            PolicyDirection::Ingress => packet.to,
            PolicyDirection::Egress => packet.from,
        };
        let policies = self.policies.iter();
        let mut isolating = policies
            .filter(|policy| policy.isolates(direction) && self.is_about(policy, subject))
            .peekable();
        isolating.peek().is_none()
            || isolating.any(|policy| {
                let mut rules = policy.rules(direction).iter();
                rules.any(|rule| self.has_peer(rule, policy, direction, packet))
            })
    }

    /// `true` if a policy isolates a pod.
    fn is_about(&self, policy: &Policy, pod: &Pod) -> bool {
        *policy.key.namespace == *pod.name.namespace
            && policy.pods.as_ref().is_some_and(|selector| {
                let object = self.pods.get(&pod.name);
                object.is_some_and(|object| selector.matches(&object.labels))
            })
    }

    /// `true` if a rule of a policy allows the packet.
    fn has_peer(
        &self,
        rule: &PolicyRule,
        policy: &Policy,
        direction: PolicyDirection,
        packet: Packet<'_>,
    ) -> bool {
        let peer = match direction {
            PolicyDirection::Ingress => packet.from,
            PolicyDirection::Egress => packet.to,
        };
        let has_port = |has_names| {
            rule.ports.as_ref().is_none_or(|ports| {
                let mut ports = ports.iter();
                ports.any(|port| self.is_port(port, packet, has_names))
            })
        };
        // Labels select pods of the policy's own network only, and so do names of ports.
        let is_in_network = packet.from.network == packet.to.network;
        let is_ingress = direction == PolicyDirection::Ingress;
        let Some(peers) = &rule.peers else {
            return has_port(is_ingress || is_in_network);
        };
        let mut ips = peer.ips();
        let ip = ips.find(|ip| IpFamily::of(*ip) == packet.family);
        let mut blocks = peers.blocks.iter();
        let is_in_block = blocks.any(|block| ip.is_some_and(|ip| contains(block, ip)));
        let mut pods = peers.pods.iter();
        let is_selected = is_in_network && pods.any(|one| self.selects(one, policy, peer));
        // Destinations by address are no pods, and have no named ports.
        is_in_block && has_port(is_ingress) || is_selected && has_port(true)
    }

    fn selects(&self, peer: &PodPeer, policy: &Policy, pod: &Pod) -> bool {
        let has_namespace = match &peer.namespaces {
            None => *policy.key.namespace == *pod.name.namespace,
            Some(selector) => {
                let labels = self.namespaces.get(&pod.name.namespace);
                labels.is_some_and(|labels| selector.matches(labels))
            }
        };
        has_namespace
            && peer.pods.as_ref().is_none_or(|selector| {
                let object = self.pods.get(&pod.name);
                object.is_some_and(|object| selector.matches(&object.labels))
            })
    }

    /// `true` if the packet goes to a port of a rule. `has_names`: named ports count.
    fn is_port(&self, port: &PolicyPort, packet: Packet<'_>, has_names: bool) -> bool {
        let (protocol, number) = match packet.protocol {
            Protocol::Icmp => return false,
            Protocol::Udp(number) => (Transport::Udp, number),
            Protocol::Tcp(number) => (Transport::Tcp, number),
        };
        port.protocol == protocol
            && match &port.numbers {
                PortNumbers::All => true,
                PortNumbers::One(one) => *one == number,
                PortNumbers::Range(first, last) => (*first..=*last).contains(&number),
                PortNumbers::Name(_) if !has_names => false,
                PortNumbers::Name(name) => {
                    let receiver = self.pods.get(&packet.to.name);
                    let named = receiver.and_then(|pod| pod.named_port(name, protocol));
                    named == Some(number)
                }
            }
    }
}

fn contains(block: &IpBlock, ip: IpAddr) -> bool {
    let mut except = block.except.iter();
    block.cidr.contains(&ip) && !except.any(|range| range.contains(&ip))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use patchbay_model::ClusterSettings;
    use patchbay_resources::object::Time;

    use super::super::pods::placed;
    use super::*;

    const PODS: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Namespace, metadata: {name: blue, labels: {team: blue, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: sky, labels: {team: blue, k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: red, labels: {team: red, k8s.ovn.org/primary-user-defined-network: ''}}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterUserDefinedNetwork
  metadata: {name: blue}
  spec:
    namespaceSelector: {matchLabels: {team: blue}}
    network: {topology: Layer2, layer2: {role: Primary, subnets: [10.1.0.0/24]}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterUserDefinedNetwork
  metadata: {name: red}
  spec:
    namespaceSelector: {matchLabels: {team: red}}
    network: {topology: Layer2, layer2: {role: Primary, subnets: [10.2.0.0/24]}}
- apiVersion: v1
  kind: Pod
  metadata: {name: web, namespace: blue, labels: {app: web}}
  spec: {nodeName: n1, containers: [{name: c, ports: [{name: http, containerPort: 8080}]}]}
- {apiVersion: v1, kind: Pod, metadata: {name: db, namespace: blue, labels: {app: db}}, spec: {nodeName: n1}}
- {apiVersion: v1, kind: Pod, metadata: {name: far, namespace: sky, labels: {app: far}}, spec: {nodeName: n1}}
- {apiVersion: v1, kind: Pod, metadata: {name: other, namespace: red, labels: {app: db}}, spec: {nodeName: n1}}
";

    /// Pods that reach `blue/web` with a policy of this specification.
    fn allowed(spec: &str, protocol: Protocol) -> Vec<String> {
        let policy = format!(
            "- {{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: p, namespace: blue}}, spec: {spec}}}\n"
        );
        reaching(&policy, protocol)
    }

    /// Pods that reach `blue/web` with this object.
    fn reaching(object: &str, protocol: Protocol) -> Vec<String> {
        let manifests = format!("{PODS}{object}");
        let settings = ClusterSettings {
            features: [Feature::EgressFirewall].into(),
            ..ClusterSettings::default()
        };
        let cluster = Cluster::from_manifests(
            &["-".into()],
            &mut manifests.as_bytes(),
            None,
            settings,
            Time(Timestamp::UNIX_EPOCH),
        )
        .unwrap();
        let (pods, others) = placed(&cluster);
        assert!(others.is_empty(), "{others:?}");
        let policies = NetworkPolicies::of(&cluster);
        let to = pods.iter().find(|pod| pod.name.name == "web").unwrap();
        let packet = |from| Packet { from, to, protocol, family: IpFamily::V4 };
        let mut names: Vec<String> = pods
            .iter()
            .filter(|from| from.name != to.name && policies.allow(packet(from)))
            .map(|from| from.name.to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn peers_are_pods_of_the_network_or_addresses() {
        let all = ["blue/db", "red/other", "sky/far"];
        let icmp = |spec| allowed(spec, Protocol::Icmp);
        assert_eq!(icmp("{podSelector: {matchLabels: {app: db}}, ingress: []}"), all);
        assert!(icmp("{podSelector: {}, policyTypes: [Ingress]}").is_empty());
        assert_eq!(icmp("{podSelector: {}, ingress: [{}]}"), all);
        assert_eq!(icmp("{podSelector: {}, ingress: [{from: [{podSelector: {}}]}]}"), ["blue/db"]);
        assert_eq!(
            icmp("{podSelector: {}, ingress: [{from: [{namespaceSelector: {}}]}]}"),
            ["blue/db", "sky/far"]
        );
        assert_eq!(
            icmp("{podSelector: {}, ingress: [{from: [{ipBlock: {cidr: 10.2.0.0/16}}]}]}"),
            ["red/other"]
        );
        // The policy isolates what leaves `db`, and does not concern `far` and `other`.
        assert_eq!(
            icmp("{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress]}"),
            ["red/other", "sky/far"]
        );
    }

    #[test]
    fn a_firewall_is_about_other_networks_and_its_first_rule_that_matches() {
        let firewall = |namespace: &str, rules: &str, protocol| {
            let object = format!(
                "- {{apiVersion: k8s.ovn.org/v1, kind: EgressFirewall, metadata: {{name: default, namespace: {namespace}}}, spec: {{egress: [{rules}]}}}}\n"
            );
            reaching(&object, protocol)
        };
        let all = "{type: Deny, to: {cidrSelector: 0.0.0.0/0}}";
        let web =
            "{type: Allow, to: {cidrSelector: 10.1.0.0/24}, ports: [{protocol: TCP, port: 80}]}";
        let own = ["blue/db", "sky/far"];
        assert_eq!(firewall("red", all, Protocol::Icmp), own);
        assert_eq!(firewall("sky", all, Protocol::Icmp).len(), 3);
        let rules = format!("{web}, {all}");
        assert_eq!(firewall("red", &rules, Protocol::Tcp(80)).len(), 3);
        assert_eq!(firewall("red", &rules, Protocol::Tcp(81)), own);
        assert_eq!(firewall("red", &rules, Protocol::Icmp), own);
    }

    #[test]
    fn ports_are_those_of_the_receiving_pod() {
        let spec =
            "{podSelector: {}, ingress: [{from: [{podSelector: {}}], ports: [{port: http}]}]}";
        assert_eq!(allowed(spec, Protocol::Tcp(8080)), ["blue/db"]);
        for other in [Protocol::Tcp(80), Protocol::Udp(8080), Protocol::Icmp] {
            assert!(allowed(spec, other).is_empty(), "{other}");
        }
        let range =
            "{podSelector: {}, ingress: [{ports: [{protocol: UDP, port: 50, endPort: 60}]}]}";
        assert_eq!(allowed(range, Protocol::Udp(60)).len(), 3);
        assert!(allowed(range, Protocol::Udp(61)).is_empty());
    }
}
