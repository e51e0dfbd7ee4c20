//! A connect that is not accepted any more, on a real `ovsdb-server`.

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};

use crate::command::{Run, nb_schema, planned_zones, run_on};

/// Two tenants that reach each other's services. `RANGES`: of the first tenant's network.
const TENANTS: &str = r#"
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Namespace, metadata: {name: a, labels: {k8s.ovn.org/primary-user-defined-network: ""}}}
- {apiVersion: v1, kind: Namespace, metadata: {name: b, labels: {k8s.ovn.org/primary-user-defined-network: ""}}}
- apiVersion: k8s.ovn.org/v1
  kind: ClusterNetworkConnect
  metadata: {name: ab}
  spec:
    connectivity: [ServiceNetwork]
    connectSubnets: [{cidr: 192.168.0.0/16, networkPrefix: 24}]
    networkSelectors:
    - networkSelectionType: PrimaryUserDefinedNetworks
      primaryUserDefinedNetworkSelector: {namespaceSelector: {}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: b, namespace: b}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.2.0.0/16, hostSubnet: 24}]}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: a, namespace: a}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [RANGES]}}
"#;
const RANGE: &str = "{cidr: 10.1.0.0/16, hostSubnet: 24}";
/// Range of the other tenant.
const OTHER_RANGE: &str = "{cidr: 10.2.0.0/16, hostSubnet: 24}";

/// Rows of tables that connects write.
fn connect_rows(server: &RealServer) -> Vec<String> {
    let tables = ["Logical_Router_Policy", "ACL", "Address_Set"].map(|table| {
        let output = nbctl(&server.remote()).args(["list", table]).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    });
    let mut rows: Vec<String> = tables
        .iter()
        .flat_map(|table| table.split("\n\n"))
        .filter(|row| row.contains("ClusterNetworkConnect"))
        .map(str::to_owned)
        .collect();
    rows.sort();
    rows
}

#[test]
fn rows_of_a_connect_that_is_not_accepted_any_more_stay() {
    let (server, folder) = (RealServer::start([nb_schema()]), ScratchDir::new());
    let on = |command: &str, ranges: &str| -> Run {
        let state = folder.path().display();
        let zone = format!("--zone n1 --nb {}", server.remote());
        run_on(&format!("{command} {zone} --state {state}"), &TENANTS.replace("RANGES", ranges))
    };
    on("apply", RANGE).succeeded();
    let before = connect_rows(&server);
    assert!(before.len() > 5, "{before:?}");

    let both = format!("{RANGE}, {OTHER_RANGE}");
    let applied = on("apply", &both);
    assert_eq!(connect_rows(&server), before);
    let cause = "not accepted, so its rows stay as they were: validation failed for CNC ab";
    for text in ["reason: ResourceAllocationFailed", cause] {
        assert!(applied.stdout.contains(text), "{}", applied.stdout);
    }
    let planned = on("plan --rows", &both);
    let nothing = "# zone n1: rows to insert: 0, to change: 0, to delete: 0\n";
    assert_eq!(planned_zones(&planned.stdout), nothing);
    let explained = on("explain cnc ab", &both);
    let note = format!("  note: {cause}");
    assert!(explained.stdout.contains(&note), "{}", explained.stdout);
    assert!(explained.stdout.contains("network a_a: connected\n"), "{}", explained.stdout);
}

/// An embedded database is empty at first, so there are no rows that could stay.
#[test]
fn without_a_database_the_output_explains_why_a_connect_has_no_rows() {
    let folder = ScratchDir::new();
    let on = |ranges: &str| {
        let arguments = format!("apply --state {}", folder.path().display());
        run_on(&arguments, &TENANTS.replace("RANGES", ranges))
    };
    let router = "$ ovn-nbctl show connect_router_ab\n";
    let applied = on(RANGE).succeeded();
    assert!(applied.contains(router), "{applied}");
    let applied = on(&format!("{RANGE}, {OTHER_RANGE}"));
    assert_eq!(applied.code, Some(1));
    assert!(!applied.stdout.contains(router), "{}", applied.stdout);
    let line = "# ab: its rows stay as they are, and this database has none (without --nb it is \
                empty at first)\n";
    assert!(applied.stdout.contains(line), "{}", applied.stdout);
}
