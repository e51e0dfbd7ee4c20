//! The control API's description of itself.

use std::collections::BTreeSet;

use jsonrpsee::core::client::ClientT as _;
use jsonrpsee::http_client::HttpClient;
use jsonrpsee::rpc_params;
use ovsdb_sim::Sim;
use serde_json::Value;

/// Source of the methods' names.
const API: &str = include_str!("../../src/control.rs");

#[tokio::test]
async fn every_method_is_described_and_its_schemas_are_there() {
    let sim = Sim::builder().build().unwrap();
    let control = sim.serve_control(([127, 0, 0, 1], 0).into()).await.unwrap();
    let http = HttpClient::builder().build(format!("http://{}", control.address())).unwrap();
    let description: Value = http.request("rpc.discover", rpc_params![]).await.unwrap();
    let methods = description["methods"].as_array().unwrap();
    let described: BTreeSet<_> =
        methods.iter().map(|method| method["name"].as_str().unwrap().to_owned()).collect();
    let names = API.split("#[method(name = \"").skip(1);
    let mut declared: BTreeSet<_> =
        names.map(|rest| format!("sim_{}", rest.split('"').next().unwrap())).collect();
    assert!(declared.len() > 15, "{declared:?}");
    declared.insert("rpc.discover".to_owned());
    assert_eq!(described, declared);

    // A description that leads nowhere is of no use to a generator of clients.
    let mut references = BTreeSet::new();
    find_references(&description, &mut references);
    assert!(references.contains("#/components/schemas/FaultRule"), "{references:?}");
    for reference in references {
        let path = reference.trim_start_matches('#');
        assert!(description.pointer(path).is_some(), "{reference}");
    }
    for method in methods {
        let params = method["params"].as_array().unwrap();
        if params.iter().any(|param| param["required"] == true) {
            let name = method["name"].as_str().unwrap();
            let refused = http.request::<Value, _>(name, rpc_params![]).await;
            let error = refused.unwrap_err().to_string();
            assert!(
                error.contains("nvalid params") || error.contains("expected"),
                "{name}: {error}"
            );
        }
    }
}

fn find_references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(reference) = members.get("$ref").and_then(Value::as_str) {
                found.insert(reference.to_owned());
            }
            members.values().for_each(|member| find_references(member, found));
        }
        Value::Array(elements) => elements.iter().for_each(|one| find_references(one, found)),
        _ => {}
    }
}
