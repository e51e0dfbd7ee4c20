//! Findings about the rows of databases.

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_lint::{Document, Sarif, Severity, lint_rows};
use patchbay_schemas::nb::{self, LogicalSwitch, LogicalSwitchPort};

/// Maximum number of findings of a rule in a document.
const MAX_FINDINGS: usize = 10_000;

/// A switch with localnet ports that name no network, one for each pod.
fn localnet_ports(count: usize) -> Snapshot {
    let mut database = Database::new(nb::schema());
    let mut txn = TxnBuilder::new(&database.snapshot());
    let ports = (0..count).map(|number| {
        let ids = [("pod", "true"), ("namespace", "shop")];
        let port = LogicalSwitchPort {
            name: format!("shop_web-{number:05}"),
            r#type: "localnet".to_owned(),
            external_ids: ids.map(|(key, value)| (key.to_owned(), value.to_owned())).into(),
            ..Default::default()
        };
        txn.insert(&port).unwrap()
    });
    let ports = ports.collect();
    txn.insert(&LogicalSwitch { name: "s".to_owned(), ports, ..Default::default() }).unwrap();
    database.transact(txn.finish().operations()).unwrap();
    database.snapshot()
}

#[test]
fn too_many_findings_of_a_rule_are_a_count() {
    let findings = lint_rows(&localnet_ports(MAX_FINDINGS + 7), None, None);
    assert_eq!(findings.findings.len(), MAX_FINDINGS);
    assert_eq!(findings.omitted["NB11"], (Severity::Error, 7));
    assert_eq!(findings.count(Severity::Error), MAX_FINDINGS + 7);
    let document = serde_json::to_value(Document::new(&findings)).unwrap();
    assert_eq!(document["omitted"]["NB11"], 7);
}

#[test]
fn a_finding_names_row_owner_and_zone() {
    let findings = lint_rows(&localnet_ports(1), Some("n1"), None);
    let document = serde_json::to_value(Document::new(&findings)).unwrap();
    let finding = &document["findings"][0];
    assert_eq!(
        finding["object"],
        "Logical_Switch_Port shop_web-00000 (pod shop/web-00000) of Logical_Switch s"
    );
    assert_eq!((&finding["row"]["zone"], &finding["rule"]), (&"n1".into(), &"NB11".into()));
    assert_eq!(finding["row"]["table"], "Logical_Switch_Port");
    let sarif = serde_json::to_value(Sarif::new(&findings)).unwrap();
    let run = &sarif["runs"][0];
    let index = usize::try_from(run["results"][0]["ruleIndex"].as_u64().unwrap()).unwrap();
    assert_eq!(run["tool"]["driver"]["rules"][index]["id"], "NB11");
}
