//! Questions about all pairs of pods, compared with what the manifests promise.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use patchbay_model::{ConnectSubnets, Feature, IpFamily, Topology};
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion;
use serde::Deserialize;
use thiserror::Error;

use super::lab::Lab;
use super::outside;
use super::pods::{Pod, PodName};
use super::policies::{NetworkPolicies, Packet};
use super::questions::{Answer, Protocol, ProtocolError, QuestionError};
use super::release::Limit;
use super::row_trace::LabRows;

/// Pods that may exchange packets, according to the networks, ClusterNetworkConnects and
/// NetworkPolicies of the manifests.
#[derive(Clone, Debug, Default)]
pub struct Promises {
    /// Names of connected networks, each pair in both orders, with the IP families in which the
    /// connect has subnets.
    connected: BTreeSet<(String, String, IpFamily)>,
    /// Names of networks that a connect joins for services only. It drops the other packets between
    /// them, whatever another connect allows, also in IP families in which it has no subnets.
    services_only: BTreeSet<(String, String)>,
    policies: NetworkPolicies,
}

impl Promises {
    /// Reads the ClusterNetworkConnects with connectivity for pods, and the NetworkPolicies.
    pub fn of(cluster: &Cluster) -> Self {
        let networks = cluster.networks();
        let (mut connected, mut services_only) = (BTreeSet::new(), BTreeSet::new());
        let connects = cluster.connects().filter_map(|object| conversion::connect(object).ok());
        for connect in connects {
            let owners: Vec<(&str, &ConnectSubnets)> = connect
                .subnets
                .iter()
                .filter_map(|(owner, subnets)| {
                    let network = networks.by_id(owner.network_id)?;
                    Some((network.name.as_str(), subnets))
                })
                .collect();
            for (one, subnets) in &owners {
                for (other, other_subnets) in &owners {
                    let names = ((*one).to_owned(), (*other).to_owned());
                    if connect.connectivity.is_service_only() {
                        services_only.insert(names);
                    } else if connect.connectivity.pod_network {
                        let families = IpFamily::BOTH.into_iter().filter(|family| {
                            subnets.of(*family).is_some() && other_subnets.of(*family).is_some()
                        });
                        connected.extend(
                            families.map(|family| (names.0.clone(), names.1.clone(), family)),
                        );
                    }
                }
            }
        }
        Self { connected, services_only, policies: NetworkPolicies::of(cluster) }
    }

    /// `true` if packets of a protocol and IP family from one pod have to reach the other one.
    pub fn reaches(&self, from: &Pod, to: &Pod, protocol: Protocol, family: IpFamily) -> bool {
        let networks = (from.network.clone(), to.network.clone());
        let is_services_only = self.services_only.contains(&networks);
        let is_connected =
            !is_services_only && self.connected.contains(&(networks.0, networks.1, family));
        let has_path = from.network == to.network || is_connected;
        has_path && self.policies.allow(Packet { from, to, protocol, family })
    }
}

/// Question with the promised answer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Question {
    /// Asking pod.
    pub from: PodName,
    /// Asked pod.
    pub to: PodName,
    /// Protocol of the packets.
    pub protocol: Protocol,
    /// IP family of the packets.
    pub family: IpFamily,
    /// `true` if the asked pod has to be reached.
    pub is_promised: bool,
}

/// Question that was asked.
#[derive(Clone, Debug)]
pub struct CheckedQuestion {
    /// The question.
    pub question: Question,
    /// The answer.
    pub answer: Answer,
}

impl CheckedQuestion {
    /// `true` if the answer is the promised one.
    pub fn agrees(&self) -> bool {
        self.answer.verdict.is_reached() == self.question.is_promised
    }
}

/// Error: a file of questions cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum QuestionsError {
    /// The text is not a JSON list of questions.
    #[error("not a JSON list of questions: {0}")]
    Json(#[from] serde_json::Error),
    /// A question names no protocol.
    #[error("question {number}: {source}")]
    Protocol {
        /// Number of the question, from 1.
        number: usize,
        /// The error.
        source: ProtocolError,
    },
    /// A question cannot be asked.
    #[error("question {number}: {source}")]
    Question {
        /// Number of the question, from 1.
        number: usize,
        /// The error.
        source: QuestionError,
    },
}

/// Question of a file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawQuestion {
    from: String,
    to: String,
    protocol: Option<String>,
    /// `None`: each common family.
    family: Option<RawFamily>,
    /// `None`: what the manifests promise.
    reached: Option<bool>,
}

#[derive(Clone, Copy, Deserialize, Eq, PartialEq)]
#[serde(rename_all = "lowercase")]
enum RawFamily {
    Ipv4,
    Ipv6,
}

impl Lab {
    /// An echo question for each ordered pair of pods and each common IP family. With a database of
    /// all nodes, the answer that its rows give is the promised one.
    pub fn all_questions(&self, promises: &Promises) -> Vec<Question> {
        let rows = self.promising_rows();
        let is_promised = |from: &Pod, to: &Pod, family| {
            is_promised(promises, rows.as_ref(), (from, to), Protocol::Icmp, family)
        };
        let questions = self.pairs().flat_map(|(from, to)| {
            common_families(from, to).map(move |family| Question {
                from: from.name.clone(),
                to: to.name.clone(),
                protocol: Protocol::Icmp,
                family,
                is_promised: is_promised(from, to, family),
            })
        });
        questions.collect()
    }

    /// The rows that promise answers in place of the manifests. `None`: the manifests do.
    fn promising_rows(&self) -> Option<LabRows<'_>> {
        self.central.as_ref().map(|_| self.rows())
    }

    /// All ordered pairs of different pods.
    pub fn pairs(&self) -> impl Iterator<Item = (&Pod, &Pod)> {
        let pairs = self.pods().flat_map(|from| self.pods().map(move |to| (from, to)));
        pairs.filter(|(from, to)| from.name != to.name)
    }

    /// Reads questions: a JSON list of `{"from": POD, "to": POD}`, each with optional members
    /// `protocol` (`"icmp"`, `"udp 53"`, `"tcp 80"`), `family` (`"ipv4"`, `"ipv6"`) and `reached`
    /// (`true`, `false`; default: what the manifests promise).
    ///
    /// # Errors
    /// The text is something else, or a question names an unknown pod.
    pub fn read_questions(
        &self,
        text: &[u8],
        promises: &Promises,
    ) -> Result<Vec<Question>, QuestionsError> {
        let raw: Vec<RawQuestion> = serde_json::from_slice(text)?;
        let rows = self.promising_rows();
        let mut questions = Vec::new();
        for (raw, number) in raw.into_iter().zip(1..) {
            let protocol = match raw.protocol.as_deref() {
                None => Protocol::Icmp,
                Some(text) => {
                    text.parse().map_err(|source| QuestionsError::Protocol { number, source })?
                }
            };
            let error = |source| QuestionsError::Question { number, source };
            let from = self.pod(&raw.from).map_err(error)?;
            let to = self.pod(&raw.to).map_err(error)?;
            let asked = questions.len();
            let families = common_families(from, to).filter(|family| {
                raw.family
                    .is_none_or(|wanted| (wanted == RawFamily::Ipv4) == (*family == IpFamily::V4))
            });
            questions.extend(families.map(|family| Question {
                from: from.name.clone(),
                to: to.name.clone(),
                protocol,
                family,
                is_promised: raw.reached.unwrap_or_else(|| {
                    is_promised(promises, rows.as_ref(), (from, to), protocol, family)
                }),
            }));
            if questions.len() == asked {
                return Err(error(QuestionError::NoCommonFamily {
                    from: from.name.clone(),
                    to: to.name.clone(),
                }));
            }
        }
        Ok(questions)
    }

    /// Asks questions at the same time, at most 500 new flows in a second. Promised answers that do
    /// not come are asked for once more, because a busy machine may answer late.
    ///
    /// # Errors
    /// A question names a pod that is gone.
    pub async fn check(
        &self,
        questions: Vec<Question>,
    ) -> Result<Vec<CheckedQuestion>, QuestionError> {
        let mut checked = self.ask_all(questions).await?;
        let is_late = |one: &CheckedQuestion| one.question.is_promised && !one.agrees();
        let late: Vec<Question> =
            checked.iter().filter(|one| is_late(one)).map(|one| one.question.clone()).collect();
        let mut again = self.ask_all(late).await?.into_iter();
        for one in checked.iter_mut().filter(|one| is_late(one)) {
            if let Some(next) = again.next() {
                *one = next;
            }
        }
        Ok(checked)
    }

    async fn ask_all(
        &self,
        questions: Vec<Question>,
    ) -> Result<Vec<CheckedQuestion>, QuestionError> {
        let asked = join_all(questions.into_iter().map(|question| async {
            let Question { from, to, protocol, family, .. } = &question;
            let answer = self.ask(from, to, *protocol, Some(*family)).await?;
            Ok(CheckedQuestion { question, answer })
        }));
        asked.await.into_iter().collect()
    }

    /// Connections that the manifests promise and the release cannot keep, one sentence each.
    pub fn broken_promises(&self, cluster: &Cluster) -> Vec<String> {
        let networks = cluster.networks();
        let has_layer3 = networks.iter().any(|n| n.topology == Topology::Layer3);
        let connects = cluster.connects().filter_map(|object| conversion::connect(object).ok());
        let has_services_only = connects.into_iter().any(|c| c.connectivity.is_service_only());
        let has_egress_ips = cluster.settings().has_feature(Feature::EgressIp);
        let has_marks = has_egress_ips && !outside::marks(cluster).is_empty();
        let is_concerned = |limit| match limit {
            Limit::Layer3AcrossNodes => has_layer3 && cluster.connects().next().is_some(),
            Limit::ServicesOnly => has_services_only,
            Limit::MarksAcrossNodes => has_marks && self.nodes().nth(1).is_some(),
        };
        let limits = self.release().limits().into_iter();
        limits.filter(|(limit, _)| is_concerned(*limit)).map(|(_, text)| text).collect()
    }

    fn pod(&self, name: &str) -> Result<&Pod, QuestionError> {
        let name = self.find_pod(name)?;
        let found = self.pods().find(|pod| pod.name == name);
        found
            .ok_or_else(|| QuestionError::NoSuchPod { name: name.to_string(), similar: Vec::new() })
    }
}

/// `true` if packets from one pod have to reach the other one: by rows, or by the manifests.
fn is_promised(
    promises: &Promises,
    rows: Option<&LabRows<'_>>,
    (from, to): (&Pod, &Pod),
    protocol: Protocol,
    family: IpFamily,
) -> bool {
    let Some(rows) = rows else {
        return promises.reaches(from, to, protocol, family);
    };
    let course = rows.diagnose(&from.name, &to.name, protocol, Some(family));
    course.is_ok_and(|course| course.obstacle().is_none())
}

/// IP families in which both pods have addresses.
pub fn common_families<'a>(from: &'a Pod, to: &'a Pod) -> impl Iterator<Item = IpFamily> + use<'a> {
    let has = |pod: &Pod, family| pod.ips().any(|ip| IpFamily::of(ip) == family);
    IpFamily::BOTH.into_iter().filter(move |family| has(from, *family) && has(to, *family))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use patchbay_model::ClusterSettings;
    use patchbay_resources::object::Time;

    use super::super::pods::placed;
    use super::*;

    #[test]
    fn a_connect_joins_networks_in_the_families_of_its_subnets() {
        let networks = [(1, "blue"), (2, "red")].map(|(number, name)| {
            format!(
                "{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}, labels: {{network: {name}, k8s.ovn.org/primary-user-defined-network: ''}}}}}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {{name: {name}, labels: {{tenant: shop}}}}
spec:
  namespaceSelector: {{matchLabels: {{network: {name}}}}}
  network: {{topology: Layer2, layer2: {{role: Primary, subnets: [10.{number}.0.0/24, 'fd00:{number}::/64']}}}}
---
{{apiVersion: v1, kind: Pod, metadata: {{name: {name}, namespace: {name}}}, spec: {{nodeName: n1, containers: [{{name: c}}]}}}}
---
"
            )
        });
        let promised = |ranges: &str| {
            let manifests = format!(
                "{{apiVersion: v1, kind: Node, metadata: {{name: n1}}}}
---
{}
apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata: {{name: c}}
spec:
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector: {{networkSelector: {{matchLabels: {{tenant: shop}}}}}}
  connectSubnets: [{ranges}]
  connectivity: [PodNetwork]
",
                networks.concat()
            );
            let settings = ClusterSettings::default();
            let input = &mut manifests.as_bytes();
            let now = Time(Timestamp::UNIX_EPOCH);
            let cluster =
                Cluster::from_manifests(&["-".into()], input, None, settings, now).unwrap();
            let (pods, _) = placed(&cluster);
            let promises = Promises::of(&cluster);
            IpFamily::BOTH
                .map(|family| promises.reaches(&pods[0], &pods[1], Protocol::Icmp, family))
        };
        let ipv4 = "{cidr: 192.168.0.0/16, networkPrefix: 24}";
        let ipv6 = "{cidr: 'fd01::/112', networkPrefix: 120}";
        assert_eq!(promised(ipv4), [true, false]);
        assert_eq!(promised(ipv6), [false, true]);
        assert_eq!(promised(&format!("{ipv4}, {ipv6}")), [true, true]);
    }
}
