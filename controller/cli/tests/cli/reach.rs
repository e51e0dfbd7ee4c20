//! `patchbay reach`: paths, tables and files of questions.

use std::fs;
use std::path::{Path, PathBuf};

use ovsdb_sim::Sim;
use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, LogicalRouter, LogicalRouterPolicy, LogicalRouterPolicyAction,
    LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, NbGlobal,
};
use serde_json::Value;
use tempfile::TempDir;

use crate::command::{Run, example, patchbay, run, run_on};
use crate::manifests::{attached_pod, layer3, namespace, node, pod, primary_namespace, udn};

/// Adds a switch with two pods and a port to the router port `rp-NAME`. Returns the router port.
fn add_switch(
    txn: &mut TxnBuilder,
    name: &str,
    third_byte: u8,
    acl: Option<Acl>,
) -> Result<patchbay_schemas::typed::Ref<LogicalRouterPort>, BuildError> {
    let mut ports = std::collections::BTreeSet::new();
    for host in [10, 11] {
        ports.insert(txn.insert(&LogicalSwitchPort {
            name: format!("{name}_pod{host}"),
            addresses:
                [format!("0a:00:00:00:0{third_byte}:{host} 10.0.{third_byte}.{host}")].into(),
            external_ids: [("pod".into(), "true".into()), ("namespace".into(), name.into())].into(),
            ..Default::default()
        })?);
    }
    ports.insert(txn.insert(&LogicalSwitchPort {
        name: format!("sp-{name}"),
        r#type: "router".into(),
        addresses: ["router".into()].into(),
        options: [("router-port".into(), format!("rp-{name}"))].into(),
        ..Default::default()
    })?);
    let acls = match acl {
        Some(acl) => [txn.insert(&acl)?].into(),
        None => [].into(),
    };
    txn.insert(&LogicalSwitch { name: name.into(), ports, acls, ..Default::default() })?;
    txn.insert(&LogicalRouterPort {
        name: format!("rp-{name}"),
        mac: format!("0a:00:00:00:ff:0{third_byte}"),
        networks: [format!("10.0.{third_byte}.1/24")].into(),
        ..Default::default()
    })
}

/// Writes a database file: three switches at a router; `green` takes no TCP port 22, and a policy
/// stops packets for `red`.
fn database(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("nb.db");
    let sim = Sim::builder()
        .seed(7)
        .journal(&path)
        .rows("OVN_Northbound", |txn| {
            let acl = Acl {
                direction: AclDirection::ToLport,
                action: AclAction::Drop,
                priority: 1000,
                r#match: "tcp.dst == 22".into(),
                name: Some("no-ssh".into()),
                ..Default::default()
            };
            let broken = LogicalRouterPolicy {
                priority: 9,
                r#match: "ip4.dst ==".into(),
                ..Default::default()
            };
            let stop = LogicalRouterPolicy {
                priority: 1500,
                r#match: "ip4.dst == 10.0.3.0/24".into(),
                action: LogicalRouterPolicyAction::Drop,
                ..Default::default()
            };
            let router = LogicalRouter {
                name: "lr0".into(),
                ports: [
                    add_switch(txn, "blue", 1, None)?,
                    add_switch(txn, "green", 2, Some(acl))?,
                    add_switch(txn, "red", 3, None)?,
                ]
                .into(),
                policies: [txn.insert(&stop)?, txn.insert(&broken)?].into(),
                ..Default::default()
            };
            txn.insert(&router)?;
            Ok(())
        })
        .build()
        .unwrap();
    drop(sim);
    path
}

fn reach(database: &Path, arguments: &str) -> Run {
    let mut command = patchbay();
    command.arg("reach").arg("--file").arg(database);
    command.args(arguments.split_whitespace()).output().unwrap().into()
}

#[test]
fn a_path_is_printed_hop_by_hop() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder);
    let arrived = reach(&file, "--from blue/pod10 --to green/pod11 --port 80 --rows");
    assert_eq!(arrived.code, Some(0), "{}", arrived.stderr);
    assert!(arrived.stderr.contains("OVN ignores Logical_Router_Policy"), "{}", arrived.stderr);
    insta::assert_snapshot!(arrived.stdout);
}

#[test]
fn the_row_that_stops_a_packet_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder);
    let dropped = reach(&file, "--from blue_pod10 --to 10.0.2.11 --proto tcp --port 22");
    assert_eq!(dropped.code, Some(2));
    let last = dropped.stdout.lines().next().unwrap();
    assert_eq!(last, "dropped: ACL to-lport 1000 (no-ssh) on switch green");
    let dropped = reach(&file, "--from blue_pod10 --to red/pod10 -o json");
    assert_eq!(dropped.code, Some(2));
    let answer: Value = serde_json::from_str(&dropped.stdout).unwrap();
    assert_eq!(answer["verdict"], "dropped");
    assert_eq!(answer["at"], "policy 1500 on lr0");
    let hop = answer["hops"].as_array().unwrap().last().unwrap();
    assert_eq!(hop["row"]["table"], "Logical_Router_Policy");
    let unanswered = reach(&file, "--from blue_pod10 --to 10.0.1.77");
    assert_eq!(unanswered.code, Some(2));
    assert!(unanswered.stdout.starts_with("unanswered: ARP/ND for 10.0.1.77\n"));
}

#[test]
fn tables_have_all_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder);
    let networks = reach(&file, "--matrix --port 22");
    assert_eq!(networks.code, Some(0), "{}", networks.stderr);
    insta::assert_snapshot!(networks.stdout);
    let pods = reach(&file, "--matrix pods -o json");
    let pods: Value = serde_json::from_str(&pods.stdout).unwrap();
    assert_eq!(pods["names"].as_array().unwrap().len(), 6);
    assert_eq!(pods["rows"][0][0], Value::Null);
    assert_eq!(pods["rows"][0][1]["connected"], true);
    assert_eq!(pods["rows"][0][4]["at"], "policy 1500 on lr0");
}

#[test]
fn questions_of_a_file_are_answered_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder);
    let questions = folder.path().join("questions.json");
    let text = r#"[
        {"id": "b", "from": {"pod": "blue/pod10"}, "to": {"pod": "blue/pod11"}, "protocol": "tcp 80"},
        {"id": 1, "from": {"port": "blue_pod10"}, "to": {"ip": "10.0.1.1"}, "protocol": "icmp"},
        {"id": "x", "from": {"pod": "blue/none"}, "to": {"ip": "10.0.1.1"}, "protocol": "udp 53"},
        {"id": "y", "from": {"port": "blue_pod10"}, "to": {"ip": "10.0.1.1"}, "protocol": "tcp"},
        {"from": "blue_pod10"}]"#;
    fs::write(&questions, text).unwrap();
    let arguments = format!("--questions {} -o json", questions.display());
    let answers = reach(&file, &arguments);
    let error = "error: 3 of 5 questions cannot be asked; see `error` there\n";
    assert_eq!(answers.code, Some(1), "{}", answers.stderr);
    assert!(answers.stderr.ends_with(error), "{}", answers.stderr);
    let answers: Value = serde_json::from_str(&answers.stdout).unwrap();
    assert_eq!(answers[0]["id"], "b");
    assert_eq!(answers[0]["out"], "blue_pod11");
    assert_eq!(answers[1]["verdict"], "answered");
    assert_eq!(answers[2]["error"], "the database has no pod blue/none");
    assert_eq!(answers[2]["verdict"], Value::Null);
    // Questions that cannot be read have errors of their own.
    let expected = "\"tcp\" is no protocol: expected icmp, tcp PORT, udp PORT or sctp PORT";
    assert_eq!(answers[3]["error"], expected);
    assert_eq!(answers[4]["id"], Value::Null);
    assert_eq!(answers[4]["error"], "`to` is missing");
}

#[test]
fn questions_about_manifests_are_answered_on_the_nodes_of_their_senders() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let folder = tempfile::tempdir().unwrap();
    let questions = folder.path().join("questions.json");
    let text = r#"[
        {"id": 1, "from": {"pod": "shop/web"}, "to": {"pod": "shop/db"}, "protocol": "tcp 5432"},
        {"id": 2, "from": {"pod": "partner/client"}, "to": {"pod": "shop/db"}},
        {"id": 3, "from": {"pod": "shop/none"}, "to": {"pod": "shop/db"}},
        {"from": "shop/web", "to": {"pod": "shop/db"}}]"#;
    fs::write(&questions, text).unwrap();
    let service_cidr = "--service-cidr 10.96.0.0/16";
    let arguments = format!("reach {service_cidr} --questions {}", questions.display());
    let answers = run(&arguments, &[&shop]);
    assert_eq!(answers.code, Some(1), "{}", answers.stderr);
    assert!(answers.stderr.contains("1 of 4 questions"), "{}", answers.stderr);
    let lines: Vec<_> = answers.stdout.lines().collect();
    assert_eq!(lines[0], "1: reaches: shop.shop_shop_db");
    assert!(lines[1].starts_with("2: dropped: ACL "), "{}", lines[1]);
    assert_eq!(lines[2], "3: error: the database has no pod shop/none");
    assert_eq!(lines[3], "question 4: reaches: shop.shop_shop_db");
}

#[test]
fn questions_of_a_lab_are_answered_with_what_they_expect() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let folder = tempfile::tempdir().unwrap();
    let questions = folder.path().join("questions.json");
    let ask = |text: &str| {
        fs::write(&questions, text).unwrap();
        run(&format!("reach --questions {}", questions.display()), &[&shop])
    };
    let good = ask(r#"[{"from": "web", "to": "db", "protocol": "tcp/5432", "reached": true},
            {"from": "client", "to": "shop/db", "protocol": "tcp 5432", "reached": false},
            {"from": "web", "to": "svc/shop/web", "protocol": "tcp 80"}]"#);
    let good = good.succeeded();
    assert_eq!(good.lines().count(), 3, "{good}");
    assert!(good.lines().all(|line| !line.contains("NOT as expected")), "{good}");
    let bad = ask(r#"[{"id": "db", "from": "client", "to": "db", "reached": true}]"#);
    assert_eq!((bad.code, &*bad.stderr), (Some(2), ""));
    assert!(bad.stdout.starts_with("db: dropped: ACL "), "{}", bad.stdout);
    assert!(bad.stdout.ends_with(" (NOT as expected: it has to be reached)\n"), "{}", bad.stdout);
    let odd =
        ask(r#"[{"from": "web", "to": "nobody"}, {"from": "web", "to": "db", "family": "ipv6"}]"#);
    assert_eq!(odd.code, Some(1));
    assert!(odd.stdout.contains("question 1: error: "), "{}", odd.stdout);
    let family = "question 2: error: `family` is not asked for: name an address in `to`\n";
    assert!(odd.stdout.ends_with(family), "{}", odd.stdout);
}

#[test]
fn a_database_without_pods_has_no_table() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n";
    for matrix in ["--matrix", "--matrix pods"] {
        let empty = run_on(&format!("reach {matrix}"), node).succeeded();
        let text = "no pods: there is nothing to ask, as no switch has a port of one\n";
        assert_eq!(empty, text);
    }
}

#[test]
fn manifests_make_the_database() {
    let from = "k8s-cluster_udn_blue.network_ovn-worker2";
    let arguments = format!("reach --zone ovn-worker2 --from {from} --to 103.103.2.1");
    let answered = run(&arguments, &[&example()]);
    assert_eq!(answered.code, Some(0), "{}{}", answered.stdout, answered.stderr);
    assert!(answered.stdout.contains("answered: router"), "{}", answered.stdout);
}

#[test]
fn manifests_without_pods_have_those_of_a_lab() {
    let asked = |to: &str| {
        let arguments = format!("reach --from blue/blue-1 --to {to}");
        run(&arguments, &[&example()])
    };
    let answered = asked("green/green-3");
    assert_eq!(answered.code, Some(0), "{}", answered.stderr);
    let missing = asked("green/green-4");
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.contains("no pod green/green-4"), "{}", missing.stderr);
}

#[test]
fn a_table_of_manifests_has_the_pods_of_all_nodes() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let table = run("reach --service-cidr 10.96.0.0/16 --matrix pods", &[&shop]);
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let expected = "\
from \\ to, icmp: + connected, . not

                partner/client  shop/db  shop/web
partner/client  -               .        +
shop/db         +               -        +
shop/web        +               +        -

packets or replies that are stopped:
  partner/client -> shop/db: dropped: ACL to-lport 1000 of tier 2 (NP:shop:Ingress) on switch cluster_udn_shop_node-2
";
    assert_eq!(table.stdout, expected);
}

#[test]
fn a_service_with_one_port_needs_no_flag_of_it() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let ports = "  ports:\n  - port: 80\n    targetPort: http\n";
    let one = fs::read_to_string(shop.join("3-pods.yaml")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for file in fs::read_dir(&shop).unwrap() {
        let file = file.unwrap().path();
        fs::copy(&file, folder.path().join(file.file_name().unwrap())).unwrap();
    }
    let ask = |flags: &str| {
        let flags = format!("reach --service-cidr 10.96.0.0/16 --from shop/db {flags}");
        run(&flags, &[folder.path()])
    };
    let answer = ask("--to service/shop/web");
    assert_eq!(answer.code, Some(0), "{}{}", answer.stdout, answer.stderr);
    let title = "\n  shop/db -> service/shop/web, tcp 80\n";
    assert!(answer.stdout.contains(title), "{}", answer.stdout);
    assert!(one.contains(ports), "{one}");
    let several = one.replace(
        ports,
        "  ports:
  - {name: web, port: 80, targetPort: http}
  - {name: tls, port: 443}
  - {name: dns, protocol: UDP, port: 53}
",
    );
    fs::write(folder.path().join("3-pods.yaml"), several).unwrap();
    for flags in ["--to service/shop/web", "--to svc/shop/web --proto tcp"] {
        let refused = ask(flags);
        let error = "error: service shop/web has the ports tcp 80, tcp 443, udp 53; name one \
                     with --proto and --port\n";
        assert_eq!(refused.code, Some(1), "{}", refused.stdout);
        assert!(refused.stderr.ends_with(error), "{}", refused.stderr);
    }
    let answer = ask("--to service/shop/web --proto udp");
    let title = "\n  shop/db -> service/shop/web, udp 53\n";
    assert!(answer.stdout.contains(title), "{}", answer.stdout);
    let answer = ask("--to service/shop/web --proto icmp");
    let title = "\n  shop/db -> service/shop/web, icmp\n";
    assert!(answer.stdout.contains(title), "{}", answer.stdout);
}

#[test]
fn flags_that_do_not_fit_together_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = database(&folder);
    let refused = reach(&file, "--from blue_pod10 --to 10.0.1.1 --proto udp");
    assert_eq!(refused.code, Some(1));
    assert_eq!(refused.stderr, "error: tcp, udp and sctp need a --port\n");
    let refused = reach(&file, "--from blue_pod10 --to 10.0.1.1 --port 0");
    let error = "error: invalid value '0' for '--port <PORT>': 0 is not in 1..=65535\n";
    assert!(refused.stderr.starts_with(error), "{}", refused.stderr);
    let refused = reach(&file, "--questions -");
    assert!(
        refused.stderr.contains("error: standard input: expected a JSON list of questions: "),
        "{}",
        refused.stderr
    );
    let refused = reach(&file, "--from blue/pod --to 10.0.1.1");
    assert!(
        refused.stderr.ends_with("error: the database has no pod blue/pod\n"),
        "{}",
        refused.stderr
    );
    let refused = run("reach --from a --to 10.0.0.1", &[]);
    assert!(refused.stderr.contains("--file"), "{}", refused.stderr);
}

#[test]
fn pods_of_manifests_are_asked_on_the_node_of_the_sender() {
    let shop = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop");
    let ask = |question: &str| {
        let arguments = format!("reach --service-cidr 10.96.0.0/16 {question}");
        run(&arguments, &[&shop])
    };
    let local = ask("--from partner/client --to shop/db");
    assert_eq!(local.code, Some(2), "{}{}", local.stdout, local.stderr);
    assert!(local.stdout.contains("drop"), "{}", local.stdout);
    let remote = ask("--from partner/client --to shop/web --port 8080");
    assert_eq!(remote.code, Some(0), "{}{}", remote.stdout, remote.stderr);
    assert!(remote.stdout.contains(" - [connect shop-and-partner] - "));
    let unknown = ask("--from partner/client --to shop/none");
    assert_eq!(unknown.code, Some(1), "{}", unknown.stdout);
    assert!(unknown.stderr.contains("the database has no pod shop/none"));
    for (question, hint) in [
        ("--from client --to shop/web", "no switch port client; similar: partner/client\n"),
        ("--from partner/clint --to shop/web", "no pod partner/clint; similar: partner/client\n"),
    ] {
        let unknown = ask(question);
        assert!(unknown.stderr.ends_with(hint), "{}", unknown.stderr);
    }
}

/// Two nodes with a pod each in a layer3 network, whose policy lets nothing in.
fn other_node() -> String {
    let shut = "{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: shut, \
                namespace: s}, spec: {podSelector: {}, policyTypes: [Ingress]}}\n";
    let network = "topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.20.0.0/16}]}";
    [
        node("n1") + &node("n2"),
        primary_namespace("s", ""),
        udn("s", "t", network),
        pod("s", "cli", "n1") + &pod("s", "db", "n2"),
        shut.to_owned(),
    ]
    .concat()
}

/// Two nodes with a pod each in a secondary layer3 network.
fn secondary() -> String {
    let pods = attached_pod("lab", "open", "n1", "extra");
    [
        node("n1") + &node("n2"),
        namespace("lab", ""),
        udn("lab", "extra", &layer3("Secondary", "10.71.0.0/16")),
        pods + &attached_pod("lab", "shut", "n2", "extra"),
    ]
    .concat()
}

#[test]
fn the_policy_of_the_receivers_node_decides() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    fs::write(&file, other_node()).unwrap();
    let question = "reach --from s/cli --to s/db --port 80";
    let dropped = run(question, &[&file]);
    assert_eq!(dropped.code, Some(2), "{}{}", dropped.stdout, dropped.stderr);
    let end = "dropped: ACL to-lport 1000 of tier 2 (NP:s:Ingress) on switch s_t_n2\n";
    assert!(dropped.stdout.starts_with(end), "{}", dropped.stdout);
    let dropped = run(&format!("{question} -o json"), &[&file]);
    let answer: Value = serde_json::from_str(&dropped.stdout).unwrap();
    assert_eq!(answer["verdict"], "reaches");
    assert_eq!(answer["out"], "s_t_tstor-n2");
    assert_eq!(answer["end"]["verdict"], "dropped");
    assert_eq!(answer["zones"]["asked"], serde_json::json!(["n1", "n2"]));
    let questions = folder.path().join("questions.json");
    let text =
        r#"[{"id": 1, "from": {"pod": "s/cli"}, "to": {"pod": "s/db"}, "protocol": "tcp 80"}]"#;
    fs::write(&questions, text).unwrap();
    let answers = run(&format!("reach --questions {} -o json", questions.display()), &[&file]);
    let answers: Value = serde_json::from_str(&answers.stdout).unwrap();
    assert_eq!(answers[0]["id"], 1);
    assert_eq!(answers[0]["end"], answer["end"]);
}

#[test]
fn secondary_networks_are_followed_to_other_nodes() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("cluster.yaml");
    fs::write(&file, secondary()).unwrap();
    let reached = run("reach --from lab/open --to lab/shut", &[&file]);
    assert_eq!(reached.code, Some(0), "{}{}", reached.stdout, reached.stderr);
    let end = "reaches: lab.extra_lab_shut\n";
    assert!(reached.stdout.starts_with(end), "{}", reached.stdout);
    let table = run("reach --matrix pods", &[&file]);
    let expected = "\
from \\ to, icmp: + connected, . not

          lab/open  lab/shut
lab/open  -         +
lab/shut  +         -
";
    assert_eq!(table.stdout, expected);
}

/// Writes the database of a zone: a switch with the pods `s/a` on `n1` and `s/b` on `n2`.
fn zone_database(folder: &TempDir, zone: &'static str) -> PathBuf {
    let path = folder.path().join(format!("{zone}.db"));
    let sim = Sim::builder()
        .journal(&path)
        .rows("OVN_Northbound", move |txn| {
            let mut ports = std::collections::BTreeSet::new();
            for (name, node, number) in [("a", "n1", 1), ("b", "n2", 2)] {
                ports.insert(
                    txn.insert(&LogicalSwitchPort {
                        name: format!("s_{name}"),
                        r#type: if node == zone { "" } else { "remote" }.into(),
                        addresses: [format!("0a:00:00:00:00:0{number} 10.0.0.{number}")].into(),
                        options: [("requested-chassis".into(), node.into())].into(),
                        external_ids: [
                            ("pod".into(), "true".into()),
                            ("namespace".into(), "s".into()),
                            ("node".into(), node.into()),
                        ]
                        .into(),
                        ..Default::default()
                    })?,
                );
            }
            txn.insert(&NbGlobal { name: zone.into(), ..Default::default() })?;
            txn.insert(&LogicalSwitch {
                name: "net".into(),
                ports,
                other_config: [("subnet".into(), "10.0.0.0/24".into())].into(),
                ..Default::default()
            })?;
            Ok(())
        })
        .build()
        .unwrap();
    drop(sim);
    path
}

#[test]
fn databases_of_several_zones_are_asked_together() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two] = ["n1", "n2"].map(|zone| zone_database(&folder, zone));
    let alone = reach(&one, "--from s/a --to s/b --port 80");
    assert_eq!(alone.code, Some(3), "{}{}", alone.stdout, alone.stderr);
    let last = alone.stdout.lines().next().unwrap();
    let expected = "reaches, as far as n1's database tells; n2 was not asked: s_b";
    assert_eq!(last, expected);
    let table = reach(&one, "--matrix networks");
    assert_eq!(table.code, Some(0), "{}", table.stderr);
    let file = format!("--file {} --from s/a --to s/b --port 80", two.display());
    let both = reach(&one, &file);
    assert_eq!(both.code, Some(0), "{}{}", both.stdout, both.stderr);
    assert!(both.stdout.starts_with("reaches: s_b\n"), "{}", both.stdout);
    let named = format!("--file other={} --from s/a --to s/b -o json", two.display());
    let named = reach(&one, &named);
    let answer: Value = serde_json::from_str(&named.stdout).unwrap();
    assert_eq!(answer["zones"]["asked"], serde_json::json!(["n1", "other"]));
    let twice = reach(&one, &format!("--file {} --matrix", one.display()));
    let error = "error: zone n1 has two databases; name others with NODE= before them\n";
    assert_eq!((twice.code, &*twice.stderr), (Some(1), error));
}

#[test]
fn packets_for_pods_of_other_networks_that_leave_are_isolated() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/namespace-isolation");
    let ask = |to: &str| {
        let question = format!("reach --from red-namespace/one --to {to}");
        run(&question, &[&example])
    };
    let isolated = ask("green/one");
    assert_eq!(isolated.code, Some(2), "{}", isolated.stderr);
    let last = isolated.stdout.lines().next().unwrap().to_owned();
    assert!(last.starts_with("isolated: leaves by the gateway: br-ex_"), "{last}");
    let outside = ask("192.0.2.1");
    assert_eq!(outside.code, Some(0), "{}", outside.stderr);
    assert!(outside.stdout.starts_with("leaves: br-ex_"), "{}", outside.stdout);
}
