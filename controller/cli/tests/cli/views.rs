//! `patchbay routes`, `policies`, `acls`, `nat`, `lbs`, `ports`, `get` and `watch`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use patchbay_ovn_programs::testing::{RealServer, nbctl};
use serde_json::Value;

use crate::command::{Run, nb_schema, patchbay};

/// Rows as OVN-Kubernetes, Kube-OVN and Neutron write them, with a name that moves the cursor.
const ROWS: &[&[&str]] = &[
    &["ls-add", "blue"],
    &["set", "logical_switch", "blue", "external_ids:k8s.ovn.org/network=blue"],
    &["lsp-add", "blue", "shop_web"],
    &["lsp-set-addresses", "shop_web", "02:00:00:00:00:01 10.0.0.1"],
    &[
        "set",
        "logical_switch_port",
        "shop_web",
        "external_ids:pod=true",
        "external_ids:namespace=shop",
    ],
    &["lsp-add", "blue", "web.db"],
    &["set", "logical_switch_port", "web.db", "external_ids:pod=db/web"],
    &["lsp-set-addresses", "web.db", "02:00:00:00:00:02 10.0.0.2"],
    &["ls-add", "neutron-1"],
    &["set", "logical_switch", "neutron-1", "external_ids:\"neutron:network_name\"=office"],
    &["lsp-add", "neutron-1", "port-1"],
    &["set", "logical_switch_port", "port-1", "external_ids:\"neutron:port_name\"=printer"],
    &[
        "acl-add",
        "blue",
        "to-lport",
        "1000",
        "outport == \"shop_web\" && ip4.src == 10.0.0.2",
        "drop",
    ],
    &[
        "acl-add",
        "blue",
        "to-lport",
        "1001",
        "outport == \"shop_web\" && tcp.dst == {80, 443, 8080, 8443}",
        "allow",
    ],
    &["lb-add", "web", "10.0.0.100:80", "10.0.0.1:8080"],
    &["ls-lb-add", "blue", "web"],
    &[
        "set",
        "load_balancer",
        "web",
        "external_ids:k8s.ovn.org/kind=Service",
        "external_ids:k8s.ovn.org/owner=shop/web",
    ],
    &["lr-add", "r"],
    &["lrp-add", "r", "r-blue", "02:00:00:00:01:01", "10.0.0.254/24"],
    &["lr-route-add", "r", "198.51.100.0/24", "10.0.0.2"],
    &["lr-policy-add", "r", "100", "ip4.dst == 10.9.0.1", "reroute", "10.0.0.1"],
    &["lr-nat-add", "r", "snat", "192.0.2.9", "10.0.0.0/24"],
    &["create", "address_set", "name=bad", "external_ids:note=\"\u{1b}[31mred\""],
];

fn server() -> RealServer {
    let server = RealServer::start([nb_schema()]);
    for words in ROWS {
        let output = nbctl(&server.remote()).args(*words).output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
    }
    server
}

fn view(server: &RealServer, arguments: &str) -> Run {
    let mut command = patchbay();
    command.args(arguments.split_whitespace()).args(["--nb", &server.remote()]);
    command.output().unwrap().into()
}

#[test]
fn tables_have_names_of_owners_and_80_columns() {
    let server = server();
    for (kind, expected) in [
        ("ports", "shop_web  blue"),
        ("ports", "pod db/web"),
        ("ports", "office"),
        ("ports", "port printer"),
        ("acls", "to-lport"),
        ("lbs", "10.0.0.100:80  10.0.0.1:8080  Service shop/web"),
        ("routes", "r       198.51.100.0/24  10.0.0.2"),
        ("policies", "reroute 10.0.0.1"),
        ("nat", "snat  192.0.2.9  10.0.0.0/24"),
        ("get logical_switch", "network office"),
    ] {
        let text = view(&server, kind).succeeded();
        assert!(text.contains(expected), "{kind}: {text}");
        let long = text.lines().find(|line| line.chars().count() > 80);
        assert_eq!(long, None, "{kind}");
        let wide = view(&server, &format!("{kind} -o wide")).succeeded();
        assert!(wide.lines().next().unwrap().ends_with("UUID"), "{wide}");
    }
    let acls = view(&server, "acls").succeeded();
    // High priorities are evaluated first.
    let (high, low) = (acls.find("1001").unwrap(), acls.find("1000").unwrap());
    assert!(high < low && acls.contains('\u{2026}'), "{acls}");
}

#[test]
fn filters_select_rows_by_network_pod_and_owner() {
    let server = server();
    let names = |arguments: &str| {
        let text = view(&server, &format!("{arguments} -o name")).succeeded();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let ports = ["Logical_Switch_Port/shop_web", "Logical_Switch_Port/web.db"];
    assert_eq!(names("ports --network blue"), ports);
    assert_eq!(names("ports --network office"), ["Logical_Switch_Port/port-1"]);
    assert_eq!(names("ports --pod shop/web"), ports[..1]);
    assert_eq!(names("ports --router r"), ["Logical_Router_Port/r-blue"]);
    assert_eq!(names("routes --pod db/web"), ["Logical_Router_Static_Route/198.51.100.0/24"]);
    assert_eq!(names("policies --pod db/web"), [""; 0]);
    assert_eq!(names("lbs --owner shop/web"), ["Load_Balancer/web"]);
    assert_eq!(names("lbs --owner service"), ["Load_Balancer/web"]);
    assert_eq!(names("acls --switch office"), [""; 0]);
    let empty = view(&server, "acls --switch office");
    assert_eq!((empty.code, &*empty.stderr), (Some(0), "no acls found\n"));
}

#[test]
fn a_row_has_names_in_place_of_uuids() {
    let server = server();
    let text = view(&server, "get lsp shop/web").succeeded();
    assert!(text.contains("    for pod shop/web\n"), "{text}");
    assert!(text.contains("    addresses: 02:00:00:00:00:01 10.0.0.1\n"), "{text}");
    let switch = view(&server, "get logical-switch blue").succeeded();
    assert!(switch.contains("    load_balancer: web\n"), "{switch}");
    let json = view(&server, "get ls blue -o json").succeeded();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["columns"]["ports"], serde_json::json!(["shop_web", "web.db"]));
    let hostile = view(&server, "get set bad").succeeded();
    assert!(hostile.contains("note=\\u001b[31mred"), "{hostile}");
    assert!(view(&server, "get nothing").stderr.contains("no table nothing; the tables are ACL, "));
    assert!(view(&server, "get ls nothing").stderr.contains("table ls has no row nothing"));
    let json = view(&server, "lbs -o json").succeeded();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["apiVersion"], "patchbay/v1");
    assert_eq!(json["items"][0]["owner"]["name"], "shop/web");
    assert_eq!(json["items"][0]["vip"], "10.0.0.100:80");
    let json = view(&server, "routes -o json").succeeded();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["items"][0]["table"], "Logical_Router_Static_Route");
    assert_eq!(json["items"][0]["route_table"], "");
}

#[test]
fn show_names_owners_unless_it_is_plain() {
    let server = server();
    let text = view(&server, "show").succeeded();
    assert!(text.contains("    port shop_web  # pod shop/web\n"), "{text}");
    assert!(text.contains("(neutron-1) (aka office)\n"), "{text}");
    let plain = view(&server, "show --plain").succeeded();
    let without = text.lines().map(|line| line.split("  # ").next().unwrap());
    assert_eq!(plain, without.collect::<Vec<_>>().join("\n") + "\n");
}

#[test]
fn a_view_of_manifests_needs_no_database() {
    let example = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let folder = std::fs::read_dir(example).unwrap().find_map(|entry| {
        let path = entry.unwrap().path();
        path.join("1-cluster.yaml").exists().then_some(path)
    });
    let mut command = patchbay();
    command.args(["ports", "-f"]).arg(folder.unwrap());
    let text = Run::from(command.output().unwrap()).succeeded();
    assert!(text.starts_with("ZONE ") || text.starts_with("NAME "), "{text}");
    assert!(text.contains("router port"), "{text}");
}

#[test]
fn a_watched_database_prints_each_change() {
    let server = server();
    let mut child = patchbay()
        .args(["watch", "--count", "1", "--nb", &server.remote()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut errors = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    assert!(line.starts_with("watching unix:"), "{line}");
    assert!(nbctl(&server.remote()).args(["ls-add", "green"]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("Z\n    + Logical_Switch green\n"), "{text}");
}
