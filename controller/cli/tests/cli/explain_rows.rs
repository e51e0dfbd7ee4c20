//! `patchbay explain --nb`: rows that are missing or different in a real `ovsdb-server`.

use patchbay_ovn_programs::testing::{RealServer, nbctl};
use serde_json::Value;

use crate::command::{Run, example_text, nb_schema, run_on};
use crate::demo::ROUTER;

const BLUE_ROUTER: &str = "cluster_udn_blue.network_ovn_cluster_router";
const BLUE_SWITCH: &str = "cluster_udn_blue.network_ovn-worker2";
const BLUE_PORT: &str = "rtocr-cluster_udn_blue-network_ovn-worker2_blue-green-connect";

/// A zone of the example on a server.
struct Zone {
    server: RealServer,
    manifests: String,
}

impl Zone {
    fn start(manifests: String) -> Self {
        let zone = Self { server: RealServer::start([nb_schema()]), manifests };
        zone.apply();
        assert_eq!(zone.explain("").code, Some(0));
        zone
    }

    fn run(&self, command: &str) -> Run {
        let remote = self.server.remote();
        run_on(&format!("{command} --zone ovn-worker2 --nb {remote}"), &self.manifests)
    }

    fn apply(&self) {
        self.run("apply").succeeded();
    }

    fn explain(&self, flags: &str) -> Run {
        self.run(&format!("explain cnc blue-green-connect {flags}"))
    }

    fn nbctl(&self, arguments: &[&str]) -> String {
        let output = nbctl(&self.server.remote()).args(arguments).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// The first UUID in a column of a row.
    fn first(&self, table: &str, row: &str, column: &str) -> String {
        let columns = format!("--columns={column}");
        let found = self.nbctl(&["--bare", &columns, "list", table, row]);
        found.split_whitespace().next().unwrap().to_owned()
    }

    /// Checks that a change of rows is seen, and that `apply` takes it back.
    #[track_caller]
    fn breaks(&self, arguments: &[&str], expected: &[&str]) {
        self.nbctl(arguments);
        let explained = self.explain("");
        assert_eq!(explained.code, Some(2), "{arguments:?}\n{}", explained.stdout);
        let mut lines = explained.stdout.lines();
        let is_expected = |line: &str| {
            line.contains("not connected: ") && expected.iter().all(|text| line.contains(text))
        };
        assert!(lines.any(is_expected), "{expected:?}\n{}", explained.stdout);
        self.apply();
        let healed = self.explain("");
        assert_eq!(healed.code, Some(0), "{arguments:?}\n{}", healed.stdout);
    }
}

#[test]
fn every_kind_of_row_of_a_link_is_looked_at() {
    let zone = Zone::start(example_text());
    let in_zone = "Northbound database of zone ovn-worker2";
    let port = zone.first("Logical_Router", ROUTER, "ports");
    let route = zone.first("Logical_Router", ROUTER, "static_routes");
    zone.breaks(
        &["remove", "Logical_Router", ROUTER, "static_routes", &route],
        &["route ", " is missing: `apply` would insert 1 route", in_zone],
    );
    let route = zone.first("Logical_Router", ROUTER, "static_routes");
    zone.breaks(
        &["set", "Logical_Router_Static_Route", &route, "nexthop=192.168.9.9"],
        &["nexthop is 192.168.9.9 instead of 192.168.", "would change 1 route"],
    );
    zone.breaks(
        &["set", "Logical_Router_Port", &port, "options:requested-tnl-key=77"],
        &["options:requested-tnl-key is 77 instead of ", "would change 1 port"],
    );
    zone.breaks(
        &["lrp-set-enabled", BLUE_PORT, "disabled"],
        &[
            "node ovn-worker2: ",
            BLUE_PORT,
            "(enabled is false and should be empty): `apply` would change 1 port",
        ],
    );
    zone.breaks(
        &["set", "Logical_Router_Port", BLUE_PORT, "networks=192.168.9.1/31"],
        &["networks is 192.168.9.1/31 instead of 192.168."],
    );
    zone.breaks(
        &["lrp-del", BLUE_PORT],
        &["node ovn-worker2: ", &format!("port {BLUE_PORT} is missing"), "would insert 1 port"],
    );
    zone.breaks(
        &["remove", "Logical_Router", ROUTER, "ports", &port],
        &["is missing", "would insert 1 port"],
    );
    zone.breaks(
        &["lr-policy-del", BLUE_ROUTER, "9001"],
        &["node ovn-worker2: ", "policy 9001 ", "would insert 1 policy"],
    );
    let policies = ["--bare", "--columns=_uuid", "find", "Logical_Router_Policy", "priority=9001"];
    let policy = |zone: &Zone| zone.nbctl(&policies).split_whitespace().next().unwrap().to_owned();
    zone.breaks(
        &["set", "Logical_Router_Policy", &policy(&zone), "priority=9002"],
        &["priority is 9002 instead of 9001", "would change 1 policy"],
    );
    zone.breaks(
        &["set", "Logical_Router_Policy", &policy(&zone), "nexthops=192.168.9.9"],
        &["nexthops is 192.168.9.9 instead of ", "would change 1 policy"],
    );
    zone.breaks(
        &["set", "Logical_Router", ROUTER, "options:requested-tnl-key=5"],
        &["node ovn-worker2: ", "router connect_router_blue-green-connect is different"],
    );
    zone.breaks(
        &["set", "Logical_Router", ROUTER, "enabled=false"],
        &["node ovn-worker2: ", "(enabled is false and should be empty)"],
    );
    zone.breaks(
        &["lr-del", ROUTER],
        &["router connect_router_blue-green-connect is missing: `apply` would insert 1 router"],
    );
    // A port that is enabled in words is as it should be.
    zone.nbctl(&["lrp-set-enabled", BLUE_PORT, "enabled"]);
    assert_eq!(zone.explain("").code, Some(0));
}

#[test]
fn rows_of_services_and_isolation_are_looked_at() {
    let manifests = example_text().replace("  - PodNetwork\n", "");
    let zone = Zone::start(manifests);
    zone.breaks(
        &["clear", "Logical_Switch", BLUE_SWITCH, "load_balancer_group"],
        &[
            "load balancer group cnc_svc_blue-green-connect is not in switch ",
            "would change 1 switch",
        ],
    );
    let acls = zone.nbctl(&["--bare", "--columns=_uuid", "find", "ACL", "action=drop"]);
    let acl = acls.split_whitespace().next().unwrap();
    zone.breaks(
        &["set", "ACL", acl, "priority=1"],
        &["priority is 1 instead of ", "would change 1 ACL"],
    );
    zone.breaks(
        &["remove", "Logical_Switch", BLUE_SWITCH, "acls", acl],
        &["ACL ", "`apply` would "],
    );
    let sets = zone.nbctl(&[
        "--no-headings",
        "--format=csv",
        "--columns=_uuid,external_ids",
        "find",
        "Address_Set",
        // The set of the other IP family has no address to clear.
        "addresses!=[]",
    ]);
    let mut sets = sets.lines();
    let (set, _) =
        sets.find(|line| line.contains("blue-green-connect")).unwrap().split_once(',').unwrap();
    zone.breaks(
        &["clear", "Address_Set", set, "addresses"],
        &["addresses ", "would change 1 address set"],
    );
    zone.breaks(
        &["destroy", "Address_Set", set],
        &["address set ", " is missing: `apply` would insert 1 address set"],
    );
}

#[test]
fn a_document_has_the_reasons_of_rows_and_a_left_over_row_is_a_note() {
    let zone = Zone::start(example_text());
    zone.nbctl(&["lr-policy-del", BLUE_ROUTER, "9001"]);
    let explained = zone.explain("-o json");
    assert_eq!(explained.code, Some(2));
    let document: Value = serde_json::from_str(&explained.stdout).unwrap();
    let blue = &document["networks"][0];
    assert_eq!(blue["state"], "partly");
    let node = blue["nodes"].as_array().unwrap().iter();
    let mut node = node.filter(|node| node["node"] == "ovn-worker2");
    let reason = &node.next().unwrap()["reasons"][0];
    assert_eq!(reason["object"], "Northbound database of zone ovn-worker2");
    assert!(reason["message"].as_str().unwrap().ends_with("`apply` would insert 1 policy"));
    zone.apply();

    let route = zone.first("Logical_Router", ROUTER, "static_routes");
    let ids = zone.nbctl(&["get", "Logical_Router_Static_Route", &route, "external_ids"]);
    // A route of a node that is not there.
    let ids = ids.trim().replace("node-id=\"", "node-id=\"9");
    let ids = format!("external_ids={}", ids.replace('"', "\\\""));
    zone.nbctl(&[
        "--id=@r",
        "create",
        "Logical_Router_Static_Route",
        "ip_prefix=10.99.0.0/24",
        "nexthop=192.168.9.9",
        &ids.replace("\\\"", "\""),
        "--",
        "add",
        "Logical_Router",
        ROUTER,
        "static_routes",
        "@r",
    ]);
    let explained = zone.explain("");
    assert_eq!(explained.code, Some(0), "{}", explained.stdout);
    let note = "  note: zone ovn-worker2: route 10.99.0.0/24 via 192.168.9.9 is left over: \
                `apply` would delete 1 route";
    assert!(explained.stdout.lines().any(|line| line == note), "{}", explained.stdout);
}
