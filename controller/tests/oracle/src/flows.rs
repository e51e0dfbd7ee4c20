//! Logical flows, changed where ovn-trace does not follow them as OVN does.

use std::collections::BTreeMap;

use patchbay_ovn_programs::testing::RealServer;
use serde_json::{Value, json};

use crate::json_rpc::transact;

/// Actions that clear the state of the connection and the registers 0 to 9.
const FRESH_PACKET: &str = "ct_clear; xxreg0 = 0; xxreg1 = 0; reg8 = 0; reg9 = 0; ";

/// Changes the flows of a translated Southbound database:
///
/// - Packets lose the state of their connection and the registers where they enter a switch or
///   router, as at the patch ports of OVN. ovn-trace keeps them.
/// - Gateway routers only track packets where they look for a source to restore, which a new
///   connection does not have. ovn-trace ends there.
/// - Gateway routers forget the state of a packet whose connection they commit, as the lab shows
///   with packets.
/// - Load balancers do not remember the backend of a client, for which OVN drops its first packet.
/// - Variables of templates have their values. ovn-trace has no variables.
///
/// # Panics
/// The server does not answer.
pub(crate) fn adapt_flows(server: &RealServer) {
    let variables = read_variables(server);
    let columns = ["_uuid", "pipeline", "table_id", "match", "actions"];
    let select = json!({"op": "select", "table": "Logical_Flow", "where": [], "columns": columns});
    let selected = transact(server.socket(), &json!(["OVN_Southbound", select]));
    let mut request = vec![json!("OVN_Southbound")];
    for flow in selected[0]["rows"].as_array().into_iter().flatten() {
        let column = |name: &str| flow[name].as_str().unwrap_or_default();
        let (old_match, old_actions) = (column("match"), column("actions"));
        let is_first = column("pipeline") == "ingress" && flow["table_id"] == 0;
        let new_match = expand(old_match, &variables);
        let new_actions = expand(&adapt_actions(old_actions, is_first), &variables);
        if new_match != old_match || new_actions != old_actions {
            request.push(json!({"op": "update", "table": "Logical_Flow",
                "where": [["_uuid", "==", flow["_uuid"]]],
                "row": {"match": new_match, "actions": new_actions}}));
        }
    }
    transact(server.socket(), &Value::Array(request));
}

/// Actions of a flow in place of others. `is_first`: the flow is in the first table.
fn adapt_actions(actions: &str, is_first: bool) -> String {
    if actions == "ct_snat;" {
        return "ct_next;".to_owned();
    }
    if actions.starts_with("ct_commit { } ;") {
        return "ct_clear; next;".to_owned();
    }
    if actions.starts_with("commit_lb_aff(") {
        return "next;".to_owned();
    }
    if is_first && actions != "drop;" {
        return format!("{FRESH_PACKET}{actions}");
    }
    actions.to_owned()
}

/// Variables of the chassis first by name.
fn read_variables(server: &RealServer) -> BTreeMap<String, String> {
    let select = json!({"op": "select", "table": "Chassis_Template_Var", "where": [],
        "columns": ["chassis", "variables"]});
    let selected = transact(server.socket(), &json!(["OVN_Northbound", select]));
    let rows = selected[0]["rows"].as_array().into_iter().flatten();
    let first = rows.min_by_key(|row| row["chassis"].as_str().map(str::to_owned));
    let pairs = first.and_then(|row| row["variables"][1].as_array());
    let texts = |pair: &Value| Some((pair[0].as_str()?.to_owned(), pair[1].as_str()?.to_owned()));
    pairs.into_iter().flatten().filter_map(texts).collect()
}

/// Replaces variables by their values. Unknown ones stay.
fn expand(text: &str, variables: &BTreeMap<String, String>) -> String {
    let mut expanded = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('^') {
        expanded.push_str(before);
        let is_other = |c: char| !c.is_ascii_alphanumeric() && !matches!(c, '_' | '.');
        let (name, behind) = behind.split_at(behind.find(is_other).unwrap_or(behind.len()));
        match variables.get(name) {
            Some(value) => expanded.push_str(value),
            None => expanded.extend(["^", name]),
        }
        rest = behind;
    }
    expanded.push_str(rest);
    expanded
}

#[test]
fn variables_and_actions_are_replaced() {
    let variables = [("VIP_1".to_owned(), "10.0.0.1".to_owned())].into();
    assert_eq!(expand("ip4.dst == ^VIP_1 && ^NO", &variables), "ip4.dst == 10.0.0.1 && ^NO");
    for (actions, is_first, expected) in [
        ("next;", true, "ct_clear; xxreg0 = 0; xxreg1 = 0; reg8 = 0; reg9 = 0; next;"),
        ("next;", false, "next;"),
        ("drop;", true, "drop;"),
        ("ct_snat;", false, "ct_next;"),
        ("ct_commit { } ; next; ", false, "ct_clear; next;"),
        ("commit_lb_aff(vip = \"10.0.0.1\");", false, "next;"),
    ] {
        assert_eq!(adapt_actions(actions, is_first), expected);
    }
}
