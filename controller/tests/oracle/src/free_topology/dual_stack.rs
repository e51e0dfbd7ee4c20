//! IPv6 beside the IPv4 of rows.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::family::to_ipv6;
use super::rows::Rows;

/// Tables whose rows get a second row with the IPv6 texts.
const DOUBLED: [&str; 6] = [
    "ACL",
    "Load_Balancer_Health_Check",
    "Logical_Router_Policy",
    "Logical_Router_Static_Route",
    "NAT",
    "QoS",
];

/// Options that list addresses of both families.
const OPTIONS: [&str; 3] = ["dnat_force_snat_ip", "hairpin_snat_ip", "lb_force_snat_ip"];

/// Addition of IPv6 texts to a column.
type Change = fn(&mut Value);

/// Adds the IPv6 texts of the rows from `start` on: in the same row where it has several addresses,
/// or in a second one beside it.
pub(super) fn add_ipv6(rows: &mut Rows, start: usize) {
    let mut doubles = HashMap::new();
    for number in start..rows.len() {
        let (table, row) = rows.get_mut(number);
        let columns: &[(&str, Change)] = match table.as_str() {
            "Logical_Switch_Port" => &[("addresses", widen), ("port_security", widen)],
            "Logical_Router_Port" => &[("networks", add_elements)],
            "Load_Balancer" => {
                &[("vips", add_pairs), ("ip_port_mappings", add_pairs), ("options", widen_options)]
            }
            "Logical_Router" => &[("options", widen_options)],
            _ => &[],
        };
        for (column, change) in columns {
            if let Some(value) = row.get_mut(column) {
                change(value);
            }
        }
        if !DOUBLED.contains(&table.as_str()) {
            continue;
        }
        let mut double = row.clone();
        each_text(&mut double, &mut |text| *text = to_ipv6(text));
        if double != *row {
            let table = table.clone();
            doubles.insert(format!("row{number}"), rows.insert(&table, double));
        }
    }
    for number in start..rows.len() {
        add_doubles(rows.get_mut(number).1, &doubles);
    }
}

/// Calls a function with each string of a value, keys and names of rows included.
fn each_text(value: &mut Value, change: &mut impl FnMut(&mut String)) {
    match value {
        Value::String(text) => change(text),
        Value::Array(values) => {
            let is_notation = values.len() == 2 && values[1].is_array();
            let skipped = usize::from(is_notation && is_kind(&values[0]));
            let parts = values.iter_mut().skip(skipped);
            parts.for_each(|value| each_text(value, change));
        }
        Value::Object(members) => {
            let parts = members.values_mut();
            parts.for_each(|value| each_text(value, change));
        }
        _ => {}
    }
}

fn is_kind(value: &Value) -> bool {
    value == "set" || value == "map"
}

/// The text with the IPv6 address behind each IPv4 address.
fn with_ipv6(text: &str) -> String {
    let mut words = Vec::new();
    for word in text.split(' ') {
        words.push(word.to_owned());
        let other = to_ipv6(word);
        if other != word {
            words.push(other);
        }
    }
    words.join(" ")
}

/// Adds IPv6 addresses to the strings of a value.
fn widen(value: &mut Value) {
    each_text(value, &mut |text| *text = with_ipv6(text));
}

/// Adds the IPv6 texts of a string or a set of strings.
fn add_elements(value: &mut Value) {
    let mut elements = match value {
        Value::String(text) => vec![json!(text)],
        _ => value[1].as_array().cloned().unwrap_or_default(),
    };
    let mut others = json!(elements);
    each_text(&mut others, &mut |text| *text = to_ipv6(text));
    elements.extend(others.as_array().cloned().unwrap_or_default());
    *value = json!(["set", elements]);
}

/// Adds the IPv6 texts of the pairs of a map. A key that has none keeps its value.
fn add_pairs(value: &mut Value) {
    let Some(pairs) = value.get_mut(1).and_then(Value::as_array_mut) else {
        return;
    };
    for pair in pairs.clone() {
        let mut other = pair.clone();
        each_text(&mut other, &mut |text| *text = to_ipv6(text));
        if other[0] != pair[0] {
            pairs.push(other);
        }
    }
}

/// Adds IPv6 addresses to the options that list addresses.
fn widen_options(value: &mut Value) {
    let pairs = value.get_mut(1).and_then(Value::as_array_mut);
    for pair in pairs.into_iter().flatten() {
        if OPTIONS.contains(&pair[0].as_str().unwrap_or_default()) {
            widen(&mut pair[1]);
        }
    }
}

/// Adds the second rows of those that the sets of a row name.
fn add_doubles(row: &mut Value, doubles: &HashMap<String, String>) {
    for value in row.as_object_mut().into_iter().flat_map(|row| row.values_mut()) {
        let is_set = value[0] == "set";
        let Some(elements) = value.get_mut(1).and_then(Value::as_array_mut).filter(|_| is_set)
        else {
            continue;
        };
        let of = |element: &Value| doubles.get(element[1].as_str()?);
        let others: Vec<_> = elements
            .iter()
            .filter(|element| element[0] == "named-uuid")
            .filter_map(of)
            .map(|name| json!(["named-uuid", name]))
            .collect();
        elements.extend(others);
    }
}

#[test]
fn rows_get_ipv6_beside_ipv4() {
    let mut rows = Rows::default();
    let acl = rows.insert("ACL", json!({"match": "ip4.src == 10.1.0.2"}));
    let other = rows.insert("ACL", json!({"match": "tcp"}));
    let ports = json!({"addresses": "0a:00:00:00:00:01 10.1.0.2"});
    rows.insert("Logical_Switch_Port", ports);
    let router_port = json!({"networks": "10.1.0.1/24"});
    rows.insert("Logical_Router_Port", router_port);
    let vips = json!({"vips": ["map", [["10.96.0.1:80", "10.1.0.2:80"]]]});
    rows.insert("Load_Balancer", vips);
    let acls = super::references(&[acl, other]);
    rows.insert("Logical_Switch", json!({"acls": acls}));
    add_ipv6(&mut rows, 0);
    let expected = [
        json!({"match": "ip4.src == 10.1.0.2"}),
        json!({"match": "tcp"}),
        json!({"addresses": "0a:00:00:00:00:01 10.1.0.2 fd00:10:1:0::2"}),
        json!({"networks": ["set", ["10.1.0.1/24", "fd00:10:1:0::1/64"]]}),
        json!({"vips": ["map", [["10.96.0.1:80", "10.1.0.2:80"],
            ["[fd00:10:96:0::1]:80", "[fd00:10:1:0::2]:80"]]]}),
        json!({"acls": ["set", [["named-uuid", "row0"], ["named-uuid", "row1"],
            ["named-uuid", "row6"]]]}),
        json!({"match": "ip6.src == fd00:10:1:0::2"}),
    ];
    for (number, expected) in expected.iter().enumerate() {
        assert_eq!(rows.get_mut(number).1, expected);
    }
}
