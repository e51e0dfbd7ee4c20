//! Compares `ovn-nb.ovsschema` of this crate with the schema of the installed OVN, column by
//! column.
//!
//! Distributions ship different versions. [`CHANGES`] therefore lists the changes of OVN by
//! version. Reverting all changes that are newer than the installed schema must turn the crate's
//! schema into the installed one. The test fails for a difference that is not listed, and for a
//! listed change that is not a difference.

use std::collections::BTreeMap;

use serde_json::Value;

const OWN_SCHEMA: &str = include_str!("../../ovn-nb.ovsschema");

/// Path of the schema in Debian's `ovn-central`. The variable `OVN_NB_SCHEMA` overrides it.
const INSTALLED_SCHEMA_PATH: &str = "/usr/share/ovn/ovn-nb.ovsschema";

/// Oldest version that [`CHANGES`] covers (OVN 22.03).
const OLDEST_VERSION: Version = (6, 1, 0);

/// Changes of OVN since [`OLDEST_VERSION`], oldest first.
///
/// Each entry has the version, the table or column, and its definition before the change in the
/// notation of [`facts`] (`None`: it did not exist).
const CHANGES: &[(Version, &str, Option<&str>)] = &[
    ((6, 2, 0), "NAT.gateway_port", None),
    ((6, 3, 0), "Static_MAC_Binding", None),
    ((6, 4, 0), "Chassis_Template_Var", None),
    ((7, 0, 0), "Logical_Switch_Port.mirror_rules", None),
    ((7, 0, 0), "Mirror", None),
    ((7, 0, 1), "Mirror.type", Some("string {erspan, gre} / 1")),
    ((7, 0, 2), "Mirror.filter", Some("string {from-lport, to-lport} / 1")),
    ((7, 0, 3), "ACL.tier", None),
    (
        (7, 0, 4),
        "ACL.action",
        Some("string {allow, allow-related, allow-stateless, drop, reject} / 1"),
    ),
    ((7, 1, 0), "Logical_Router_Port.status", None),
    ((7, 2, 0), "DNS.options", None),
    ((7, 2, 1), "Logical_Router_Policy.bfd_sessions", None),
    ((7, 3, 0), "QoS.action", Some("string {dscp} => integer 0..63 / 0..*")),
    ((7, 3, 1), "DHCP_Relay", None),
    ((7, 3, 1), "Logical_Router_Port.dhcp_relay", None),
    ((7, 4, 0), "NAT.match", None),
    ((7, 4, 0), "NAT.priority", None),
    ((7, 5, 0), "Sampling_App", None),
    ((7, 6, 0), "ACL.sample_est", None),
    ((7, 6, 0), "ACL.sample_new", None),
    ((7, 6, 0), "Sample", None),
    ((7, 6, 0), "Sample_Collector", None),
    ((7, 7, 0), "Logical_Router_Static_Route.selection_fields", None),
    ((7, 8, 0), "Logical_Router_Port.networks", Some("string / 1..*")),
    ((7, 9, 0), "SSL.ssl_ciphersuites", None),
    ((7, 9, 1), "Logical_Router_Policy.action", Some("string {allow, drop, reroute} / 1")),
    ((7, 9, 1), "Logical_Router_Policy.chain", None),
    ((7, 9, 1), "Logical_Router_Policy.jump_chain", None),
    (
        (7, 10, 0),
        "Load_Balancer.selection_fields",
        Some("string {eth_dst, eth_src, ip_dst, ip_src, tp_dst, tp_src} / 0..*"),
    ),
    (
        (7, 10, 0),
        "Logical_Router_Static_Route.selection_fields",
        Some("string {eth_dst, eth_src, ip_dst, ip_proto, ip_src, tp_dst, tp_src} / 0..*"),
    ),
    ((7, 11, 0), "Logical_Switch_Port.peer", None),
    ((7, 12, 0), "Mirror.mirror_rules", None),
    ((7, 12, 0), "Mirror.type", Some("string {erspan, gre, local} / 1")),
    ((7, 12, 0), "Mirror_Rule", None),
    ((7, 13, 0), "Logical_Router_Policy.output_port", None),
    ((7, 14, 0), "ACL.network_function_group", None),
    ((7, 14, 0), "Network_Function", None),
    ((7, 14, 0), "Network_Function_Group", None),
    ((7, 14, 0), "Network_Function_Health_Check", None),
    ((7, 15, 0), "Network_Function_Group.fallback", None),
    ((7, 16, 0), "Network_Function", Some("root; unique (name)")),
    ((7, 16, 0), "Network_Function.id", None),
    ((7, 17, 0), "Logical_Switch_Port.health_checks", None),
    ((7, 17, 0), "Logical_Switch_Port_Health_Check", None),
    ((7, 18, 0), "Logical_Switch_Port_Health_Check.status", None),
    ((7, 18, 1), "Address_Set.options", None),
    ((7, 19, 0), "Network_Function.outport", Some("-> Logical_Switch_Port (strong) / 1")),
    ((7, 19, 0), "Network_Function_Group.mode", Some("string {inline} / 1")),
];

type Version = (u32, u32, u32);

/// Definitions of a schema by table (`ACL`) and column (`ACL.action`).
///
/// Each is one line in a normalised form, which does not depend on the form of the schema file.
type Facts = BTreeMap<String, String>;

#[test]
fn the_schema_is_the_installed_one_with_the_later_changes_of_ovn() {
    let path = std::env::var("OVN_NB_SCHEMA").unwrap_or_else(|_| INSTALLED_SCHEMA_PATH.to_owned());
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| {
        panic!(
            "OVN's schema {path}: {error}\ninstall it with `apt-get install ovn-central`, or name the file of another \
             installation in OVN_NB_SCHEMA"
        )
    });
    let differences = compare(&parse(OWN_SCHEMA), &parse(&text));
    assert!(differences.is_empty(), "against {path}:\n{}", differences.join("\n"));
}

#[test]
fn every_listed_change_is_a_difference() {
    let mut facts = facts(&parse(OWN_SCHEMA));
    assert_eq!(revert_changes(&mut facts, OLDEST_VERSION), Vec::<String>::new());
}

#[test]
fn a_difference_that_is_not_listed_is_reported() {
    let own = parse(OWN_SCHEMA);
    for (pointer, value, report) in [
        (
            "/tables/NAT/columns/type/type",
            Value::from("string"),
            "NAT.type: own string {dnat, dnat_and_snat, snat} / 1, installed string / 1",
        ),
        (
            "/tables/NAT/columns/logical_ip",
            Value::Null,
            "NAT.logical_ip: own string / 1, installed nothing",
        ),
        ("/tables/Meter/indexes", Value::Null, "Meter: own root; unique (name), installed root"),
        ("/tables/Copp", Value::Null, "Copp: own root; unique (name), installed nothing"),
        (
            "/tables/Copp/columns/later",
            serde_json::json!({"type": "real"}),
            "Copp.later: own nothing",
        ),
    ] {
        let mut installed = own.clone();
        replace(&mut installed, pointer, value);
        let differences = compare(&own, &installed);
        assert!(
            differences.iter().any(|line| line.starts_with(report)),
            "{pointer}: {differences:#?}"
        );
    }
}

#[test]
fn a_listed_change_that_is_not_a_difference_is_reported() {
    let own = parse(OWN_SCHEMA);
    let mut installed = own.clone();
    installed["version"] = Value::from("7.18.1");
    assert_eq!(
        compare(&own, &installed),
        [
            "Network_Function.outport: own before the listed changes -> Logical_Switch_Port (strong) / 1, \
             installed -> Logical_Switch_Port (strong) / 0..1",
            "Network_Function_Group.mode: own before the listed changes string {inline} / 1, installed string \
             {inline, vtap} / 1",
        ]
    );
}

#[test]
fn an_installed_schema_outside_the_list_is_reported() {
    let own = parse(OWN_SCHEMA);
    for version in ["6.0.9", "7.20.0"] {
        let mut installed = own.clone();
        installed["version"] = Value::from(version);
        let differences = compare(&own, &installed);
        assert!(differences[0].contains(version), "{differences:#?}");
    }
}

/// Returns the differences between `installed` and `own` after reverting the listed changes that
/// are newer than it.
fn compare(own: &Value, installed: &Value) -> Vec<String> {
    let version = version(installed);
    if version < OLDEST_VERSION || version > self::version(own) {
        let text = &installed["version"];
        return vec![format!(
            "the installed schema is of version {text}: the list of changes does not reach it"
        )];
    }
    let mut expected = facts(own);
    let now = expected.clone();
    let mut differences = revert_changes(&mut expected, version);
    let installed = facts(installed);
    let names: std::collections::BTreeSet<_> = expected.keys().chain(installed.keys()).collect();
    for name in names {
        let (own, theirs) = (expected.get(name), installed.get(name));
        if own != theirs {
            let note = if own == now.get(name) { "" } else { " before the listed changes" };
            let text =
                |fact: Option<&String>| fact.map_or_else(|| "nothing".to_owned(), Clone::clone);
            differences.push(format!(
                "{name}: own{note} {}, installed {}",
                text(own),
                text(theirs)
            ));
        }
    }
    differences
}

/// Reverts the changes that are newer than `version`, newest first. Returns those that changed
/// nothing.
fn revert_changes(facts: &mut Facts, version: Version) -> Vec<String> {
    let mut without_effect = Vec::new();
    for (since, name, before) in CHANGES.iter().rev().filter(|(since, ..)| *since > version) {
        let changed = if let Some(before) = before {
            let now = facts.insert((*name).to_owned(), (*before).to_owned());
            now.is_some_and(|now| now != *before)
        } else {
            let columns = format!("{name}.");
            facts.retain(|other, _| !other.starts_with(&columns));
            facts.remove(*name).is_some()
        };
        if !changed {
            without_effect.push(format!("{name}: listed as changed in {since:?}, but it is not"));
        }
    }
    without_effect
}

fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("a schema is JSON")
}

fn version(schema: &Value) -> Version {
    let text = schema["version"].as_str().expect("a schema has a version");
    let parts: Vec<u32> = text.split('.').map(|part| part.parse().expect("a number")).collect();
    (parts[0], parts[1], parts[2])
}

/// Sets the value at a JSON pointer; `Null` removes it.
fn replace(schema: &mut Value, pointer: &str, value: Value) {
    let (parent, name) = pointer.rsplit_once('/').expect("a pointer has a last part");
    let parent =
        schema.pointer_mut(parent).and_then(Value::as_object_mut).expect("the parent is there");
    match value {
        Value::Null => parent.remove(name),
        value => parent.insert(name.to_owned(), value),
    };
}

fn facts(schema: &Value) -> Facts {
    let mut facts = Facts::new();
    for (name, table) in object(&schema["tables"]) {
        facts.insert(name.clone(), table_fact(table));
        for (column, definition) in object(&table["columns"]) {
            facts.insert(format!("{name}.{column}"), column_fact(definition));
        }
    }
    facts
}

/// `root; unique (name), (id); at most 1 row`
fn table_fact(table: &Value) -> String {
    let root = if table["isRoot"] == true { "root" } else { "not root" };
    let mut fact = vec![root.to_owned()];
    if let Some(indexes) = table.get("indexes").and_then(Value::as_array) {
        let indexes: Vec<_> =
            indexes.iter().map(|columns| format!("({})", strings(columns).join(", "))).collect();
        fact.push(format!("unique {}", indexes.join(", ")));
    }
    if let Some(rows) = table.get("maxRows") {
        fact.push(format!("at most {rows} row"));
    }
    fact.join("; ")
}

/// `string {dscp} => integer 0..63 / 0..*`
fn column_fact(column: &Value) -> String {
    let kind = &column["type"];
    let key = if kind.is_string() { kind } else { &kind["key"] };
    let mut fact = vec![base_fact(key)];
    if let Some(value) = kind.get("value") {
        fact.push(format!("=> {}", base_fact(value)));
    }
    let bound = |name: &str| match kind.get(name) {
        None => "1".to_owned(),
        Some(Value::String(_)) => "*".to_owned(),
        Some(number) => number.to_string(),
    };
    let (min, max) = (bound("min"), bound("max"));
    fact.push(if min == max { format!("/ {min}") } else { format!("/ {min}..{max}") });
    if column["ephemeral"] == true {
        fact.push("ephemeral".to_owned());
    }
    if column["mutable"] == false {
        fact.push("immutable".to_owned());
    }
    fact.join(" ")
}

/// `integer 0..63`, `string {a, b}`, `-> ACL (strong)`
fn base_fact(base: &Value) -> String {
    if let Value::String(name) = base {
        return name.clone();
    }
    if let Some(table) = base["refTable"].as_str() {
        return format!("-> {table} ({})", base["refType"].as_str().unwrap_or("strong"));
    }
    let mut fact = vec![base["type"].as_str().expect("a base type has a type").to_owned()];
    if let Some(values) = base.get("enum") {
        let one = Value::from([values.clone()]);
        let mut values = strings(if values.is_array() { &values[1] } else { &one });
        values.sort_unstable();
        fact.push(format!("{{{}}}", values.join(", ")));
    }
    for (mark, min, max) in [
        ("", "minInteger", "maxInteger"),
        ("", "minReal", "maxReal"),
        ("len ", "minLength", "maxLength"),
    ] {
        let bound = |name: &str| base.get(name).map(ToString::to_string).unwrap_or_default();
        let (min, max) = (bound(min), bound(max));
        if !(min.is_empty() && max.is_empty()) {
            fact.push(format!("{mark}{min}..{max}"));
        }
    }
    fact.join(" ")
}

fn object(value: &Value) -> &serde_json::Map<String, Value> {
    value.as_object().expect("a schema's tables and columns are objects")
}

fn strings(values: &Value) -> Vec<String> {
    let values = values.as_array().expect("an array of strings");
    values.iter().map(|value| value.as_str().expect("a string").to_owned()).collect()
}
