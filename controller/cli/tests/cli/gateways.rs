//! `patchbay reach` in a network with several routers: the gateway that rows, annotations of pods or
//! a person name.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

use ovsdb_sim::Sim;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::nb::{
    DhcpOptions, LogicalRouter, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort,
};
use patchbay_schemas::typed::Ref;
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Run, patchbay, run};

/// Line about the choice.
const CHOICE: &str = "open: 2 routers are in the network of 10.0.0.10";

/// Adds a router port with the switch port to it. Returns both.
fn add_router_port(
    txn: &mut TxnBuilder,
    name: &str,
    (mac, network): (&str, &str),
) -> Result<(Ref<LogicalRouterPort>, Ref<LogicalSwitchPort>), BuildError> {
    let router_port = txn.insert(&LogicalRouterPort {
        name: name.into(),
        mac: mac.into(),
        networks: [network.into()].into(),
        ..Default::default()
    })?;
    let switch_port = txn.insert(&LogicalSwitchPort {
        name: format!("to-{name}"),
        r#type: "router".into(),
        addresses: ["router".into()].into(),
        options: [("router-port".into(), name.into())].into(),
        ..Default::default()
    })?;
    Ok((router_port, switch_port))
}

/// Writes a database: the pod `s/vm1` with the routers `r1`, behind which `s/vm2` is, and `r2`.
/// `gateway`: `router` of the DHCP options of `s/vm1`.
fn database(folder: &TempDir, gateway: Option<&'static str>) -> PathBuf {
    let path = folder.path().join("nb.db");
    let sim = Sim::builder()
        .journal(&path)
        .rows("OVN_Northbound", move |txn| {
            let near = add_router_port(txn, "r1-net", ("02:00:00:00:00:01", "10.0.0.1/24"))?;
            let other = add_router_port(txn, "r2-net", ("02:00:00:00:00:02", "10.0.0.5/24"))?;
            let back = add_router_port(txn, "r1-back", ("02:00:00:00:00:03", "10.1.0.1/24"))?;
            for (name, ports) in [("r1", vec![near.0, back.0]), ("r2", vec![other.0])] {
                txn.insert(&LogicalRouter {
                    name: name.into(),
                    ports: ports.into_iter().collect(),
                    ..Default::default()
                })?;
            }
            let options = match gateway {
                Some(gateway) => {
                    let options = [
                        ("server_id", "10.0.0.1"),
                        ("server_mac", "02:00:00:00:00:21"),
                        ("lease_time", "3600"),
                        ("router", gateway),
                    ]
                    .map(|(key, value)| (key.into(), value.into()));
                    Some(txn.insert(&DhcpOptions {
                        cidr: "10.0.0.0/24".into(),
                        options: options.into(),
                        ..Default::default()
                    })?)
                }
                None => None,
            };
            for (pod, address, switch, mut ports) in [
                ("vm1", "02:00:00:00:00:11 10.0.0.10", "net", vec![near.1, other.1]),
                ("vm2", "02:00:00:00:00:12 10.1.0.10", "back", vec![back.1]),
            ] {
                ports.push(txn.insert(&LogicalSwitchPort {
                    name: format!("s.net_s_{pod}"),
                    addresses: [address.into()].into(),
                    dhcpv4_options: options.filter(|_| pod == "vm1"),
                    external_ids:
                        [("pod".into(), "true".into()), ("namespace".into(), "s".into())].into(),
                    ..Default::default()
                })?);
                txn.insert(&LogicalSwitch {
                    name: switch.into(),
                    ports: ports.into_iter().collect::<BTreeSet<_>>(),
                    ..Default::default()
                })?;
            }
            Ok(())
        })
        .build()
        .unwrap();
    drop(sim);
    path
}

/// A pod's manifest with an entry of its annotation.
fn manifest(entry: &str) -> String {
    format!(
        "apiVersion: v1
kind: Pod
metadata:
  name: vm1
  namespace: s
  annotations:
    k8s.ovn.org/pod-networks: '{{\"s/net\":{{\"ip_addresses\":[\"10.0.0.10/24\"],\
         \"mac_address\":\"02:00:00:00:00:11\",{entry}}}}}'
spec: {{nodeName: n1, containers: [{{name: c, image: r.example/c}}]}}
"
    )
}

fn ask(database: &PathBuf, more: &[&str]) -> Run {
    let mut command = patchbay();
    command.args(["reach", "--from", "s/vm1", "--to", "s/vm2", "--file"]);
    command.arg(database).args(more).output().unwrap().into()
}

fn assert_reaches(answer: &Run) {
    let Run { stdout, stderr, .. } = answer;
    assert_eq!(answer.code, Some(0), "{stdout}{stderr}");
    assert!(stdout.starts_with("reaches: s.net_s_vm2\n"), "{stdout}");
    assert!(!stdout.contains("open:"), "{stdout}");
}

#[test]
fn a_choice_of_routers_is_listed_where_nothing_names_a_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let open = ask(&database(&folder, None), &[]);
    assert!(open.stdout.contains(CHOICE), "{}", open.stdout);
    let folder = tempfile::tempdir().unwrap();
    assert_reaches(&ask(&database(&folder, Some("10.0.0.1")), &[]));
    let folder = tempfile::tempdir().unwrap();
    let other = ask(&database(&folder, Some("10.0.0.5")), &[]);
    assert_eq!(other.code, Some(2), "{}", other.stdout);
    assert!(!other.stdout.contains("open:"), "{}", other.stdout);
}

#[test]
fn a_person_names_the_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder, Some("10.0.0.5"));
    for gateway in ["r1", "r1-net", "10.0.0.1"] {
        assert_reaches(&ask(&file, &["--gateway", gateway]));
    }
    let other = ask(&file, &["--gateway", "r2"]);
    assert_eq!(other.code, Some(2), "{}", other.stdout);
    let silent = ask(&file, &["--gateway", "10.0.0.9"]);
    let end = "unanswered: ARP/ND for 10.0.0.9\n";
    assert!(silent.stdout.starts_with(end), "{}", silent.stdout);
    let unknown = ask(&file, &["--gateway", "r3"]);
    let error = "error: s.net_s_vm1 has no IPv4 gateway r3; routers in its network: r1, r2\n";
    assert_eq!((unknown.code, &*unknown.stderr), (Some(1), error));
    let questions = folder.path().join("questions.json");
    let text = r#"[{"from": {"pod": "s/vm1", "gateway": "r1"}, "to": {"pod": "s/vm2"}},
        {"from": {"pod": "s/vm1"}, "to": {"pod": "s/vm2"}}]"#;
    fs::write(&questions, text).unwrap();
    let mut command = patchbay();
    command.args(["reach", "-o", "json", "--file"]).arg(&file);
    let answers: Run = command.arg("--questions").arg(&questions).output().unwrap().into();
    let answers: Value = serde_json::from_str(&answers.stdout).unwrap();
    let verdicts = [&answers[0]["verdict"], &answers[1]["verdict"]];
    assert_eq!(verdicts, ["reaches", "dropped"]);
}

#[test]
fn annotations_of_pods_name_gateways_beside_a_database() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder, None);
    let pods = folder.path().join("pods.yaml");
    let ask_with = |entry: &str| {
        fs::write(&pods, manifest(entry)).unwrap();
        ask(&file, &["-f", pods.to_str().unwrap()])
    };
    assert_reaches(&ask_with(r#""gateway_ips":["10.0.0.1"]"#));
    let route =
        r#""gateway_ips":["10.0.0.5"],"routes":[{"dest":"10.1.0.0/16","nextHop":"10.0.0.1"}]"#;
    assert_reaches(&ask_with(route));
    let other = ask_with(r#""gateway_ips":["10.0.0.5"]"#);
    assert_eq!(other.code, Some(2), "{}", other.stdout);
    assert!(!other.stdout.contains("open:"), "{}", other.stdout);
    let open = ask_with(r#""role":"primary""#);
    assert!(open.stdout.contains(CHOICE), "{}", open.stdout);
}

#[test]
fn the_annotation_of_a_pod_of_manifests_names_its_gateway() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    let ask_with = |gateway: &str| {
        let text = format!(
            r#"
apiVersion: v1
kind: Node
metadata: {{name: n1}}
---
apiVersion: v1
kind: Namespace
metadata: {{name: lab}}
---
apiVersion: k8s.ovn.org/v1
kind: UserDefinedNetwork
metadata: {{name: extra, namespace: lab}}
spec:
  topology: Layer3
  layer3: {{role: Secondary, subnets: [{{cidr: 10.71.0.0/16, hostSubnet: 24}}]}}
---
apiVersion: v1
kind: Pod
metadata:
  name: one
  namespace: lab
  annotations:
    k8s.v1.cni.cncf.io/networks: extra
    k8s.ovn.org/pod-networks: '{{"lab/extra":{{"ip_addresses":["10.71.0.9/24"],"mac_address":"0a:58:0a:47:00:09","gateway_ips":["{gateway}"],"role":"secondary"}}}}'
spec: {{nodeName: n1, containers: [{{name: c, image: r.example/c}}]}}
"#
        );
        fs::write(&file, text).unwrap();
        run("reach --from lab/one --to 10.71.77.1 --hops", &[&file])
    };
    let silent = ask_with("10.71.0.77");
    let end = "unanswered: ARP/ND for 10.71.0.77\n";
    assert!(silent.stdout.starts_with(end), "{}{}", silent.stdout, silent.stderr);
    let usual = ask_with("10.71.0.1");
    assert!(usual.stdout.contains("gateway 10.71.0.1 is"), "{}", usual.stdout);
}
