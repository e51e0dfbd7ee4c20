//! Labs of the tests.

use jiff::Timestamp;
use patchbay_lab::{
    Answer, Diagnosis, Lab, Pod, Protocol, Question, Release, Verdict, common_families,
    with_default_pods,
};
use patchbay_model::ClusterSettings;
use patchbay_ovn_programs::testing;
use patchbay_reconcile::Cluster;
use patchbay_resources::object::Time;

/// Number of times that a question with a promised answer is asked.
const ATTEMPTS: usize = 10;

/// The newest release of OVN. `None`: it is not available; standard error has the reason.
pub(crate) fn release() -> Option<Release> {
    let unpacked = testing::Release::newest()?;
    let release = Release::find(unpacked.folder()).unwrap();
    assert!(release.has_layer3_across_nodes(), "{release:?}");
    Some(release)
}

/// OVN 25.03. `None`: it is not available; standard error has the reason.
pub(crate) fn older_release() -> Option<Release> {
    let unpacked = testing::Release::trixie()?;
    Some(Release::find(unpacked.folder()).unwrap())
}

/// Time of conditions.
pub(crate) fn now() -> Time {
    Time(Timestamp::UNIX_EPOCH)
}

/// The cluster of manifests, with a pod for each network and node if they have none.
pub(crate) fn cluster(manifests: &str) -> Cluster {
    cluster_with(manifests, ClusterSettings::default())
}

/// The cluster of manifests with settings, with a pod for each network and node if they have none.
pub(crate) fn cluster_with(manifests: &str, settings: ClusterSettings) -> Cluster {
    let input = &mut manifests.as_bytes();
    let cluster = Cluster::from_manifests(&["-".into()], input, None, settings, now());
    with_default_pods(cluster.unwrap()).unwrap()
}

/// Three nodes, and the namespace and the network of each entry `(name, topology, cidr)`.
pub(crate) fn manifests(networks: &[(&str, &str, &str)]) -> String {
    let mut text = String::new();
    for node in ["n1", "n2", "n3"] {
        text += "apiVersion: v1\nkind: Node\nmetadata:\n  name: ";
        text += node;
        text += "\n---\n";
    }
    for (name, topology, cidr) in networks {
        let spec = match *topology {
            "Layer3" => format!("layer3: {{role: Primary, subnets: [{{cidr: {cidr}}}]}}"),
            _ => format!("layer2: {{role: Primary, subnets: [\"{cidr}\"]}}"),
        };
        let network = format!(
            "apiVersion: v1
kind: Namespace
metadata:
  name: {name}
  labels: {{network: {name}, k8s.ovn.org/primary-user-defined-network: \"\"}}
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata:
  name: {name}
  labels: {{tenant: {name}}}
spec:
  namespaceSelector: {{matchLabels: {{network: {name}}}}}
  network:
    topology: {topology}
    {spec}
---
"
        );
        text += &network;
    }
    text
}

/// A ClusterNetworkConnect of networks, which [`manifests`] has given labels.
pub(crate) fn connect(name: &str, networks: &[&str], range: &str, connectivity: &str) -> String {
    let networks = networks.join(", ");
    format!(
        "apiVersion: k8s.ovn.org/v1
kind: ClusterNetworkConnect
metadata:
  name: {name}
spec:
  connectSubnets: [{{cidr: {range}, networkPrefix: 24}}]
  connectivity: [{connectivity}]
  networkSelectors:
  - networkSelectionType: ClusterUserDefinedNetworks
    clusterUserDefinedNetworkSelector:
      networkSelector:
        matchExpressions: [{{key: tenant, operator: In, values: [{networks}]}}]
---
"
    )
}

/// The verdict of a question as text.
pub(crate) async fn ask(lab: &Lab, from: &str, to: &str, protocol: Protocol) -> String {
    ask_promised(lab, (from, to), protocol, false).await
}

/// Asks again while a promised answer does not come, because a busy machine answers late. An answer
/// that the next hop is unknown is late, too: then no packet was sent, whose loss would count.
pub(crate) async fn ask_patiently(is_promised: bool, ask: impl AsyncFn() -> Answer) -> Answer {
    let is_final = |answer: &Answer| {
        let is_sent = !matches!(answer.verdict, Verdict::NoNeighbour(_));
        is_sent && !is_promised || answer.verdict.is_reached()
    };
    ask_until(is_final, ask).await
}

/// Asks again until an answer is final, `ATTEMPTS` times at most: the last answer.
pub(crate) async fn ask_until(
    is_final: impl Fn(&Answer) -> bool,
    ask: impl AsyncFn() -> Answer,
) -> Answer {
    let mut answer = ask().await;
    for _ in 1..ATTEMPTS {
        if is_final(&answer) {
            break;
        }
        answer = ask().await;
    }
    answer
}

/// The verdict of a question about a pod that has to be reached.
pub(crate) async fn ask_connected(lab: &Lab, from: &str, to: &str, protocol: Protocol) -> String {
    ask_promised(lab, (from, to), protocol, true).await
}

/// The verdict of a question about a pod that has to be reached if `is_promised`.
pub(crate) async fn ask_promised(
    lab: &Lab,
    (from, to): (&str, &str),
    protocol: Protocol,
    is_promised: bool,
) -> String {
    let (from, to) = (lab.find_pod(from).unwrap(), lab.find_pod(to).unwrap());
    let ask = async || lab.ask(&from, &to, protocol, None).await.unwrap();
    ask_patiently(is_promised, ask).await.verdict.to_string()
}

/// A question for each common IP family.
pub(crate) fn questions<'a>(
    from: &'a Pod,
    to: &'a Pod,
    protocol: Protocol,
    is_promised: bool,
) -> impl Iterator<Item = Question> + use<'a> {
    common_families(from, to).map(move |family| Question {
        from: from.name.clone(),
        to: to.name.clone(),
        protocol,
        family,
        is_promised,
    })
}

/// A question and its promised answer as text.
pub(crate) fn title(question: &Question) -> String {
    let Question { from, to, protocol, family, is_promised } = question;
    let expected = if *is_promised { "reached" } else { "not reached" };
    format!("{from} {to} {protocol} {}: expected: {expected}", family.long_name())
}

/// Questions to which rows give another answer than the promised one, one line each.
pub(crate) fn row_differences(lab: &Lab, questions: &[Question]) -> Vec<String> {
    let rows = lab.rows();
    let differences = questions.iter().filter_map(|question| {
        let (from, to) = (&question.from, &question.to);
        let course = rows.diagnose(from, to, question.protocol, Some(question.family)).unwrap();
        let obstacle = course.obstacle();
        (obstacle.is_none() != question.is_promised)
            .then(|| format!("{}: rows: {obstacle:?}", title(question)))
    });
    differences.collect()
}

/// Questions to which packets give another answer than the promised one, one line each. A packet
/// that arrives where none may arrive is a difference, whatever happens to its answer.
pub(crate) async fn packet_differences(lab: &Lab, questions: Vec<Question>) -> Vec<String> {
    let checked = lab.check(questions).await.unwrap();
    let differences = checked.iter().filter(|checked| {
        !checked.agrees() || matches!(checked.answer.verdict, Verdict::AnswerLost)
    });
    differences
        .map(|checked| {
            let title = title(&checked.question);
            format!("{title}: packets: {}", checked.answer.verdict)
        })
        .collect()
}

/// Course of a packet and of its answer.
pub(crate) async fn diagnose(lab: &Lab, from: &str, to: &str, protocol: Protocol) -> Diagnosis {
    let (from, to) = (lab.find_pod(from).unwrap(), lab.find_pod(to).unwrap());
    lab.diagnose(&from, &to, protocol, None).await.unwrap()
}

/// Asks one pod from another, which has to be reached through three routers. If it is not, the
/// diagnosis is shown.
pub(crate) async fn assert_connected(lab: &Lab, from: &str, to: &str, protocol: Protocol) {
    let verdict = ask_connected(lab, from, to, protocol).await;
    if verdict != "reached through 3 routers" {
        let diagnosis = diagnose(lab, from, to, protocol).await;
        panic!("{from} {to}: {verdict}\n{diagnosis}");
    }
}
