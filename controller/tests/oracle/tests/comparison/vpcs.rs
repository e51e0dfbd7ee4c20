//! Questions of the folder `tests/vpcs` about VPCs. Their manifests are scenarios of
//! `patchbay-vpcs`, or in the file, after those of the platform. Each answer is that of `reach` and that of ovn-northd with ovn-trace, in the
//! oldest and the newest release.

use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use std::path::Path;

use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_oracle::{
    Asked, ExternalOwners, Frame, LearnedNeighbor, Ovn, Tally, TracedPacket, Wiring, compare,
    read_cluster, start_server, write_zone,
};
use patchbay_ovn_programs::testing::{RealServer, Release};
use patchbay_reach::{Answer, Destination, Northbound, Protocol, Question, Sender};
use patchbay_reconcile::Cluster;
use patchbay_schemas::nb::LogicalRouterPort;
use serde::Deserialize;
use tokio::runtime::Runtime;

/// MAC address of machines outside.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:77";

/// File of the folder.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Scenario {
    about: String,
    /// Manifests after those of the platform. `None`: those of the scenario of the same name.
    manifests: Option<String>,
    /// Parts of the only warnings that ovn-northd may log.
    #[serde(default)]
    warnings: Vec<String>,
    questions: Vec<Expected>,
}

/// Question with its answer.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    id: String,
    from: From,
    to: To,
    /// `icmp`, `tcp PORT` or `udp PORT`.
    protocol: String,
    expect: Outcome,
    /// Reason of the answer.
    why: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct From {
    /// Pod, as `NAMESPACE/NAME`.
    pod: Option<String>,
    /// External subnet of a machine outside.
    outside: Option<String>,
    ip: Option<IpAddr>,
    mac: Option<String>,
    /// Router port whose MAC address the frame has, in place of the owner of the address.
    mac_of: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct To {
    pod: Option<String>,
    ip: Option<IpAddr>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Outcome {
    verdict: String,
    out: Option<String>,
    source: Option<IpAddr>,
    dest: Option<IpAddr>,
    /// Next hop of a packet that leaves.
    via: Option<IpAddr>,
    /// VLAN tag of the port by which it leaves.
    tag: Option<u16>,
    /// Beginning of the place where the packet ends.
    #[serde(default)]
    at: String,
}

/// The one database, with OVN's programs.
struct Central {
    cluster: Cluster,
    snapshot: Snapshot,
    northbound: Northbound,
    wiring: Wiring,
    owners: ExternalOwners,
    ovn: Ovn,
    _server: RealServer,
}

impl Central {
    fn new(release: &Release, runtime: &Runtime, manifests: &str, asked: &[IpAddr]) -> Self {
        let settings =
            ClusterSettings { databases: Databases::Central, ..ClusterSettings::default() };
        let cluster = read_cluster(&[], manifests, settings);
        let server = start_server(release);
        let remote = server.remote();
        let snapshot = runtime.block_on(write_zone(&cluster, Databases::CENTRAL, &remote));
        let wiring = Wiring::new(&snapshot);
        let owners = ExternalOwners::new(&snapshot);
        let learned: Vec<LearnedNeighbor> = wiring
            .learned(asked)
            .into_iter()
            .map(|neighbor| {
                let address = neighbor.address.parse().unwrap();
                match owners.mac(address) {
                    Some(mac) => LearnedNeighbor { mac: mac.to_owned(), ..neighbor },
                    None => neighbor,
                }
            })
            .collect();
        Self {
            northbound: Northbound::new(&snapshot, None),
            ovn: Ovn::start(release, &server, &learned),
            wiring,
            owners,
            snapshot,
            cluster,
            _server: server,
        }
    }

    /// Name of the only port of a pod, and its address: in a subnet of a VPC, or in a network.
    fn port(&self, pod: &str) -> (String, IpAddr) {
        let mut records = self.cluster.inventory.ips.iter();
        let record = records.find(|(_, record)| {
            let spec = &record.object.spec;
            format!("{}/{}", spec.namespace, spec.pod_name) == pod
        });
        if let Some((key, record)) = record {
            let spec = &record.object.spec;
            let texts = [&spec.v4_ip_address, &spec.v6_ip_address];
            let address = texts.into_iter().find_map(|text| text.parse().ok());
            return (key.name.clone(), address.unwrap());
        }
        let objects = self.cluster.zone_objects(Databases::CENTRAL);
        let pod = objects.pods().find(|one| one.key.to_string() == pod).unwrap();
        let place = objects.places(pod).next().unwrap();
        (place.port.clone(), place.addresses.addresses[0].addr())
    }

    fn address(&self, to: &To) -> IpAddr {
        let of_pod = || self.port(to.pod.as_deref().unwrap()).1;
        to.ip.unwrap_or_else(of_pod)
    }

    fn mac_of(&self, name: &str) -> String {
        let ports = self.snapshot.typed::<LogicalRouterPort>();
        let mut ports = ports.iter().map(|row| row.unwrap().1);
        ports.find(|port| port.name == name).unwrap().mac
    }

    /// The sender, and the packet in the notation of ovn-trace. `None`: nothing is sent.
    fn packet(
        &self,
        from: &From,
        address: IpAddr,
        protocol: Protocol,
    ) -> (Sender, Option<TracedPacket>) {
        if let Some(pod) = &from.pod {
            let sender = Sender::port(self.port(pod).0);
            return match self.wiring.frame(&sender, address, protocol) {
                Frame::Packet(packet) => (sender, Some(packet)),
                Frame::Nothing => (sender, None),
                Frame::Unclear => panic!("no frame of {from:?}"),
            };
        }
        let subnet = from.outside.as_deref().unwrap();
        let port = format!("localnet.{subnet}");
        let (source, own) = (from.ip.unwrap(), from.mac.as_deref());
        let sender = Sender {
            ip: Some(source),
            mac: from.mac.clone(),
            mac_of: from.mac_of.clone(),
            ..Sender::port(&*port)
        };
        let target = from
            .mac_of
            .as_deref()
            .map(|name| self.mac_of(name))
            .or_else(|| self.owners.mac(address).map(str::to_owned));
        let header = match protocol {
            Protocol::Tcp(to) => format!("tcp.src == 40000 && tcp.dst == {to} && tcp.flags == 2"),
            Protocol::Udp(to) => format!("udp.src == 40000 && udp.dst == {to}"),
            other => panic!("{other:?} from outside"),
        };
        let packet = target.map(|target| TracedPacket {
            datapath: subnet.to_owned(),
            expression: format!(
                "inport == \"{port}\" && eth.src == {} && eth.dst == {target} && ip4.src == {source} && \
                 ip4.dst == {address} && ip.ttl == 64 && {header}",
                own.unwrap_or(OUTSIDE_MAC)
            ),
            arp: None,
        });
        (sender, packet)
    }
}

fn is_as_expected(answer: &Answer, expected: &Outcome) -> bool {
    let is_out = expected.out.is_none() || expected.out == answer.out;
    let is_dest = expected.dest.is_none() || expected.dest == answer.dest;
    answer.verdict.as_str() == expected.verdict
        && is_out
        && is_dest
        && answer.source == expected.source
        && answer.at.starts_with(&expected.at)
        && expected.via.is_none_or(|via| {
            let via = via.to_string();
            answer.hops.iter().any(|hop| format!("{hop:?}").contains(&via))
        })
}

/// Asks `reach` and ovn-trace. Returns what is not as expected.
fn ask(central: &mut Central, expected: &Expected) -> Option<String> {
    let address = central.address(&expected.to);
    let protocol: Protocol = expected.protocol.parse().unwrap();
    let (sender, packet) = central.packet(&expected.from, address, protocol);
    let question = Question {
        sender: match &expected.from.pod {
            Some(pod) => Sender::pod(pod),
            None => sender.clone(),
        },
        destination: Destination::Address(address),
        protocol,
    };
    let answer = central.northbound.answer(&question).unwrap();
    if !is_as_expected(&answer, &expected.expect) {
        let Expected { id, why, .. } = expected;
        return Some(format!("{id}, because {why}: {expected:?}\n{answer:#?}"));
    }
    if answer.tag != expected.expect.tag {
        return Some(format!("{expected:?}: another tag"));
    }
    let question = Question { sender, ..question };
    let asked = Asked { question, packet };
    let mut tally = Tally::default();
    compare(&central.northbound, &mut central.ovn.trace, &asked, &mut tally);
    (tally.asked != 1 || !tally.wrong.is_empty())
        .then(|| format!("{expected:?}: ovn-trace: {}", tally.differences()))
}

#[test]
fn questions_about_vpcs_have_the_written_answers() {
    let releases: BTreeMap<String, Release> = [Some(Release::installed()), Release::newest()]
        .into_iter()
        .flatten()
        .map(|release| (release.version(), release))
        .collect();
    let runtime = Runtime::new().unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files: Vec<_> =
        fs::read_dir(root.join("tests/vpcs")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert_eq!(files.len(), 20);
    let platform = fs::read_to_string(root.join("../../vpcs/tests/vpcs/platform.yaml")).unwrap();
    let mut wrong = Vec::new();
    for (name, release) in &releases {
        for file in &files {
            let scenario: Scenario =
                serde_saphyr::from_str(&fs::read_to_string(file).unwrap()).unwrap();
            let manifests = if let Some(own) = &scenario.manifests {
                format!("{platform}---\n{own}")
            } else {
                let scenarios = root.join("../../vpcs/tests/scenarios");
                fs::read_to_string(scenarios.join(file.file_name().unwrap())).unwrap()
            };
            let asked: Vec<IpAddr> =
                scenario.questions.iter().filter_map(|question| question.to.ip).collect();
            let mut central = Central::new(release, &runtime, &manifests, &asked);
            let mut found: Vec<String> = scenario
                .questions
                .iter()
                .filter_map(|expected| ask(&mut central, expected))
                .collect();
            let warnings = central.ovn.warnings().into_iter().filter(|warning| {
                let mut expected = scenario.warnings.iter();
                !expected.any(|part| warning.contains(part))
            });
            found.extend(warnings);
            let about = format!("{name}, {}: {}", file.display(), scenario.about);
            wrong.extend(found.into_iter().map(|one| format!("{about}\n{one}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
