//! VPCs of Kube-OVN in the one database of all nodes.

use std::fs;
use std::path::Path;

use ovsdb_sim::Sim;
use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};
use serde_json::{Value, json};

use crate::command::{Run, example_text, nb_schema, planned_zones, run, run_on};

/// What `plan` prints of zones if no row changes.
const UNCHANGED: &str = "# zone central: rows to insert: 0, to change: 0, to delete: 0\n";

/// Namespaces of the tenants, which the scenarios lack.
const NAMESPACES: &str = "\
{apiVersion: v1, kind: Namespace, metadata: {name: alpha}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: beta}}
---
";

/// Manifests of a scenario of `patchbay-vpcs`.
fn text(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vpcs/tests/scenarios");
    let scenario = fs::read_to_string(folder.join(format!("{name}.yaml"))).unwrap();
    format!("{NAMESPACES}{scenario}")
}

/// Output of `ovn-nbctl` on a server.
fn ask(server: &RealServer, arguments: &[&str]) -> String {
    let output = nbctl(&server.remote()).args(arguments).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// External addresses of the routers' translations, sorted.
fn external_addresses(server: &RealServer) -> Vec<String> {
    let listed = ask(server, &["--bare", "--columns=external_ip", "list", "NAT"]);
    let mut found: Vec<String> = listed.split_whitespace().map(str::to_owned).collect();
    found.sort();
    found
}

#[track_caller]
fn applied(run: &Run) {
    assert_eq!(run.code, Some(0), "{}", run.stderr);
}

#[track_caller]
fn assert_unchanged(plan: Run) {
    assert_eq!(planned_zones(&plan.succeeded()), UNCHANGED);
}

#[test]
fn the_fallback_route_is_there_for_the_northd_of_kube_ovn_only() {
    let server = RealServer::start([nb_schema()]);
    let tenant = text("01-egress");
    let on = |command: &str, northd: &str| {
        format!("{command} --nb {} --stock-northd={northd}", server.remote())
    };
    let has_route = || {
        let routes = ask(&server, &["lr-route-list", "alpha-vpc"]);
        routes.lines().any(|line| line.contains("10.100.0.1") && line.contains("src-ip"))
    };
    run_on(&on("apply", "false"), &tenant).succeeded();
    assert!(has_route());
    assert_unchanged(run_on(&on("plan --rows", "false"), &tenant));
    run_on(&on("apply", "true"), &tenant).succeeded();
    assert!(!has_route());
    assert_unchanged(run_on(&on("plan --rows", "true"), &tenant));
}

#[test]
fn the_tenant_of_the_guide_is_on_a_server_after_one_apply() {
    let server = RealServer::start([nb_schema()]);
    let tenant = text("01-egress");
    let on = |command: &str| format!("{command} --nb {}", server.remote());
    let planned = run_on(&on("plan"), &tenant);
    assert_eq!((planned.code, &*planned.stderr), (Some(2), ""));
    let stdout = run_on(&on("apply"), &tenant).succeeded();
    assert!(stdout.contains("(alpha-vpc)"), "{stdout}");
    let nat = ask(&server, &["lr-nat-list", "alpha-vpc"]);
    assert!(nat.contains("snat"), "{nat}");
    let gateways = ask(&server, &["lrp-get-gateway-chassis", "alpha-vpc-external"]);
    let first = "alpha-vpc-external-8b7e2f35-0d5c-4c7c-8f1e-2b9d9a6f7e02   100";
    assert!(gateways.contains(first), "{gateways}");
    let before = fs::metadata(&server.databases()[0]).unwrap().len();
    run_on(&on("apply"), &tenant).succeeded();
    let after = fs::metadata(&server.databases()[0]).unwrap().len();
    assert_eq!(before, after, "a second apply has written");
    assert_unchanged(run_on(&on("plan --rows"), &tenant));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_after_an_apply_on_ovsdb_sim_is_empty() {
    let folder = ScratchDir::new();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (socket, state) = (path("nb.sock"), path("state"));
    let sim = Sim::builder().build().unwrap();
    let _listener = sim.listen(&format!("punix:{socket}")).await.unwrap();
    let on = |command: &str| format!("{command} --nb unix:{socket} --state {state}");
    let tenants = text("07-peering");
    let stdout = run_on(&on("apply"), &tenants).succeeded();
    assert!(stdout.contains("(beta-vpc)"), "{stdout}");
    assert_unchanged(run_on(&on("plan --rows"), &tenants));
}

#[test]
fn rows_of_an_older_schema_lack_what_it_has_not() {
    let server = RealServer::start([patchbay_ovn_programs::testing::installed_nb_schema()]);
    let tenants = text("07-peering");
    let arguments = format!("apply --nb {}", server.remote());
    run_on(&arguments, &tenants).succeeded();
    let plan = format!("plan --rows --nb {}", server.remote());
    assert_unchanged(run_on(&plan, &tenants));
}

#[test]
fn addresses_of_an_earlier_run_stay() {
    let server = RealServer::start([nb_schema()]);
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    let on = |command: &str| {
        let remote = server.remote();
        format!("{command} --nb {remote} --state {}", state.display())
    };
    let tenants = text("07-peering");
    applied(&run_on(&on("apply"), &tenants));
    assert_eq!(external_addresses(&server), ["77.220.68.98", "77.220.68.99"]);
    // Without the state the first tenant would get the first address.
    let alpha = |document: &&str| document.contains("alpha");
    let (first, last): (Vec<&str>, Vec<&str>) = tenants.split("---\n").partition(alpha);
    let turned = [last, first].concat().join("---\n");
    assert_unchanged(run_on(&on("plan --rows"), &turned));
}

#[test]
fn rows_go_with_objects_that_were_applied() {
    let server = RealServer::start([nb_schema()]);
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    let with_state = |command: &str| {
        let remote = server.remote();
        format!("{command} --nb {remote} --state {}", state.display())
    };
    applied(&run_on(&with_state("apply"), &text("07-peering")));
    let alone = text("01-egress");
    let without = run_on(&format!("apply --nb {}", server.remote()), &alone);
    applied(&without);
    let kept = "kept, because the manifests do not name it: Vpc beta-vpc";
    assert!(without.stderr.contains(kept), "{}", without.stderr);
    assert!(ask(&server, &["lr-list"]).contains("beta-vpc"));
    applied(&run_on(&with_state("apply"), &alone));
    assert!(!ask(&server, &["lr-list"]).contains("beta-vpc"));
    assert!(!ask(&server, &["ls-list"]).contains("beta-dev-subnet"));
    assert_eq!(external_addresses(&server), ["77.220.68.98"]);
}

#[test]
fn the_topology_follows_from_the_objects() {
    let tenant = text("01-egress");
    let central = run_on("apply", &tenant).succeeded();
    assert!(central.starts_with("# zone central\n"), "{central}");
    let zones = run_on("apply --topology zone", &tenant);
    assert_eq!(zones.code, Some(1), "{}", zones.stderr);
    let refused = "not accepted: ProviderNetwork ";
    assert!(zones.stderr.contains(refused), "{}", zones.stderr);
    let ignored = zones.stderr.lines().filter(|line| line.contains("kubeovn.io"));
    assert_eq!(ignored.count(), 1, "{}", zones.stderr);
    assert!(!zones.stdout.contains("alpha-vpc"), "{}", zones.stdout);
    let settings = "{apiVersion: patchbay/v1, kind: ClusterSettings, metadata: {name: cluster}, \
                    spec: {topology: zone}}\n---\n";
    let by_field = run_on("apply", &format!("{settings}{tenant}"));
    assert_eq!((by_field.code, by_field.stderr), (zones.code, zones.stderr));
    let both = format!("{tenant}---\n{}", example_text());
    let refused = run_on("apply", &both);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("--topology is required"), "{}", refused.stderr);
    let layer3 = run_on("apply --topology central", &both);
    assert_eq!(layer3.code, Some(1));
    let named =
        "ClusterUserDefinedNetwork blue-network: layer3 networks have other rows in each zone";
    assert!(layer3.stderr.contains(named), "{}", layer3.stderr);
    let connected = "network cluster_udn_blue-network is a layer3 network";
    assert!(layer3.stderr.contains(connected), "{}", layer3.stderr);
    let planned = run_on("plan --rows --topology central", &both);
    assert!(planned.stdout.contains("+ Logical_Router alpha-vpc\n"), "{}", planned.stdout);
    let zone = run_on("apply --zone w1", &tenant);
    assert_eq!(zone.code, Some(1));
    assert!(zone.stderr.contains("all nodes have one database"), "{}", zone.stderr);
}

#[test]
fn a_connect_of_a_vpc_is_explained_with_the_rows_of_the_one_database() {
    let server = RealServer::start([nb_schema()]);
    let (networks, connect) = connected();
    let tenant = format!("{networks}{connect}");
    let planned = run_on("explain cnc alpha-db --topology central", &tenant).succeeded();
    insta::assert_snapshot!(planned);
    let on = |command: &str| format!("{command} --topology central --nb {}", server.remote());
    let explain = || run_on(&on("explain cnc alpha-db"), &tenant);
    let missing = explain();
    assert_eq!(missing.code, Some(2), "{}", missing.stderr);
    assert!(missing.stdout.contains("network alpha-vpc: NOT connected"), "{}", missing.stdout);
    applied(&run_on(&on("apply"), &tenant));
    assert_eq!(explain().succeeded(), planned);
    ask(&server, &["lr-policy-del", "alpha-vpc", "9001"]);
    let cut = explain();
    assert_eq!(cut.code, Some(2));
    insta::assert_snapshot!(cut.stdout);
}

#[test]
fn an_object_is_explained_with_its_rows() {
    let tenant = text("01-egress");
    let explained = run_on("explain snat alpha-snat-dev", &tenant).succeeded();
    insta::assert_snapshot!(explained);
    let vpc = run_on("explain vpc alpha-vpc -o json", &tenant).succeeded();
    let json: serde_json::Value = serde_json::from_str(&vpc).unwrap();
    assert_eq!((&json["state"], &json["rows"][0]["state"]), (&"ready".into(), &"present".into()));
    let unknown = run_on("explain oeip nope", &tenant);
    let message = "error: OvnEip nope not found; found alpha-vpc-external\n";
    assert_eq!((unknown.code, &*unknown.stderr), (Some(1), message));
    let zone = run_on("explain subnet external --nb unix:/nowhere --zone w1", &tenant);
    assert!(zone.stderr.contains("all nodes have one database"), "{}", zone.stderr);
    let without_files = run("explain vpc alpha-vpc", &[]);
    assert!(without_files.stderr.contains("use --filename"), "{}", without_files.stderr);
}

#[test]
fn what_stops_an_object_is_named_with_its_field() {
    let explained = run_on("explain snat alpha-snat-dev", &text("10-no-gateway-node"));
    assert_eq!(explained.code, Some(2));
    insta::assert_snapshot!(explained.stdout);
    let tagged = run_on("explain eip alpha-vpc-external", &text("11-double-tag"));
    assert_eq!(tagged.code, Some(2));
    assert!(tagged.stdout.contains("-> Vlan vlan222: spec.id"), "{}", tagged.stdout);
}

#[test]
fn rows_of_a_database_are_compared_with_those_of_the_object() {
    let server = RealServer::start([nb_schema()]);
    let tenant = text("01-egress");
    let on = |command: &str| format!("{command} --nb {}", server.remote());
    let missing = run_on(&on("explain vpc alpha-vpc"), &tenant);
    assert_eq!(missing.code, Some(2));
    let row = "row Logical_Router alpha-vpc is missing: `apply` would insert it";
    assert!(missing.stdout.contains(row), "{}", missing.stdout);
    applied(&run_on(&on("apply"), &tenant));
    run_on(&on("explain vpc alpha-vpc"), &tenant).succeeded();
    ask(&server, &["lr-policy-del", "alpha-vpc", "1500"]);
    ask(&server, &["set", "Logical_Router_Port", "alpha-vpc-external", "networks=10.9.9.9/24"]);
    ask(
        &server,
        &[
            "--id=@r",
            "create",
            "Logical_Router_Static_Route",
            "ip_prefix=10.8.0.0/16",
            "nexthop=10.0.0.9",
            "external_ids:owner=Vpc/alpha-vpc",
            "--",
            "add",
            "Logical_Router",
            "alpha-vpc",
            "static_routes",
            "@r",
        ],
    );
    let found = run_on(&on("explain vpc alpha-vpc"), &tenant);
    assert_eq!(found.code, Some(2));
    for row in [
        "row Logical_Router_Policy 1500 ip4.dst == 77.220.68.96/27 is missing",
        "row Logical_Router_Port alpha-vpc-external is different (networks)",
        "row Logical_Router_Static_Route 10.8.0.0/16 via 10.0.0.9 is left over",
    ] {
        assert!(found.stdout.contains(row), "{row}\nin\n{}", found.stdout);
    }
}

#[test]
fn packets_are_followed_without_a_database() {
    let tenant = text("04-floating-address");
    let asked = |arguments: &str| run_on(&format!("reach {arguments}"), &tenant);
    let out = asked("--from alpha/vm1 --to 8.8.8.8 --port 443");
    assert!(out.stdout.contains("77.220.68.110"), "{out:?}");
    let stopped = asked("--from alpha/vm2 --to 77.220.68.110 --port 22");
    assert!(stopped.stdout.contains("policy 1500 on alpha-vpc"), "{stopped:?}");
}

#[test]
fn an_answer_names_the_tag_and_the_active_gateway() {
    let tagged = text("11-double-tag");
    let left = run_on("reach --from alpha/vm1 --to 8.8.8.8 --port 443", &tagged);
    let end = "leaves: localnet.external, tag 222, source 77.220.68.98\n";
    assert!(left.stdout.starts_with(end), "{left:?}");
    let forwarded = text("05-port-forward");
    let inside = run_on("reach --from alpha/vm1 --to 77.220.68.112 --port 443", &forwarded);
    let open = "open: only on the active gateway w2; elsewhere dropped: policy 1500 on alpha-vpc\n";
    assert!(inside.stdout.contains(open), "{inside:?}");
}

#[test]
fn the_source_route_of_kube_ovn_counts_as_the_flag_says() {
    let server = RealServer::start([nb_schema()]);
    let tenant = text("01-egress");
    run_on(&format!("apply --nb {}", server.remote()), &tenant).succeeded();
    ask(&server, &["--policy=src-ip", "lr-route-add", "alpha-vpc", "10.100.0.0/24", "10.100.0.1"]);
    let asked = |flag: &str| {
        let question = "--from alpha/vm1 --to 8.8.8.8 --port 443";
        let run = run_on(&format!("reach --nb {} {question} {flag}", server.remote()), &tenant);
        let course: Value = serde_json::from_str(&run.stdout).unwrap();
        (course["verdict"].as_str().unwrap().to_owned(), course["open"].clone(), run.stdout)
    };
    let (verdict, open, stdout) = asked("-o json");
    let other = "only with a stock ovn-northd; with Kube-OVN's leaves: localnet.external, source \
                 77.220.68.98";
    assert_eq!((&*verdict, open), ("dropped", json!([other])), "{stdout}");
    for (flag, expected) in [
        ("--stock-northd", "dropped"),
        ("--stock-northd=true", "dropped"),
        ("--stock-northd=false", "leaves"),
    ] {
        let (verdict, open, stdout) = asked(&format!("-o json {flag}"));
        assert_eq!((&*verdict, open), (expected, Value::Null), "{flag}: {stdout}");
    }
}

/// Manifests of the scenario in which a connect joins a VPC and a layer2 network, but for the
/// connect, and the connect.
fn connected() -> (String, String) {
    let all = text("13-vpc-and-udn").replacen(NAMESPACES, "", 1);
    let all = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: beta}}}}\n---\n{all}");
    let at = all.find("apiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect").unwrap();
    (all[..at].to_owned(), all[at..].to_owned())
}

/// Number of rows that name an owner of connects.
fn rows_of_connects(server: &RealServer) -> usize {
    let tables = [
        "Logical_Router",
        "Logical_Router_Port",
        "Logical_Router_Policy",
        "Logical_Router_Static_Route",
    ];
    let find = |table: &str| {
        let condition = r#"external_ids:"k8s.ovn.org/owner-type"=ClusterNetworkConnect"#;
        ask(server, &["--bare", "--columns=_uuid", "find", table, condition]).lines().count()
    };
    tables.into_iter().map(|table| find(table).div_ceil(2)).sum()
}

#[test]
fn a_connect_joins_a_vpc_and_a_layer2_network_and_goes_with_all_its_rows() {
    let server = RealServer::start([nb_schema()]);
    let folder = ScratchDir::new();
    let on = |command: &str| {
        let state = folder.path().join("state");
        format!("{command} --topology central --nb {} --state {}", server.remote(), state.display())
    };
    let (without, connect) = connected();
    let both = format!("{without}{connect}");
    let first = run_on(&on("apply"), &both);
    applied(&first);
    assert!(first.stdout.contains("AllNetworksConnected"), "{}", first.stdout);
    let routers = ask(&server, &["lr-list"]);
    assert!(routers.contains("(connect_router_alpha-db)"), "{routers}");
    assert_eq!(rows_of_connects(&server), 11);
    assert_unchanged(run_on(&on("plan --rows"), &both));
    applied(&run_on(&on("apply"), &without));
    assert_eq!(rows_of_connects(&server), 0);
    assert!(!ask(&server, &["lr-list"]).contains("connect_router"));
    // The networks themselves stay.
    assert!(ask(&server, &["ls-list"]).contains("cluster_udn_shared.db_ovn_layer2_switch"));
    assert_unchanged(run_on(&on("plan --rows"), &without));
}

#[test]
fn a_connect_of_equal_ranges_is_refused_by_name() {
    let server = RealServer::start([nb_schema()]);
    let (without, connect) = connected();
    let overlapping = without.replace("10.200.0.0/24", "10.100.0.0/24");
    let on = |command: &str| format!("{command} --topology central --nb {}", server.remote());
    let refused = run_on(&on("apply"), &format!("{overlapping}{connect}"));
    assert_eq!(refused.code, Some(1));
    let named = "network alpha-vpc with subnets [10.100.0.0/24] and network cluster_udn_shared-db \
                 with subnets [10.100.0.0/24]";
    assert!(refused.stderr.contains(named), "{}", refused.stderr);
    assert!(refused.stderr.contains("not accepted"), "{}", refused.stderr);
    assert_eq!(rows_of_connects(&server), 0);
    // The rows of the VPC are made.
    assert!(ask(&server, &["lr-list"]).contains("(alpha-vpc)"));
}

#[test]
fn a_database_of_vpcs_alone_has_no_rows_for_networks() {
    let server = RealServer::start([nb_schema()]);
    let tenant = text("01-egress");
    applied(&run_on(&format!("apply --nb {}", server.remote()), &tenant));
    assert_eq!(ask(&server, &["--bare", "--columns=name", "list", "Copp"]).trim(), "");
    assert_eq!(ask(&server, &["--bare", "--columns=name", "list", "Meter"]).trim(), "");
}
