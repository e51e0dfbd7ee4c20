//! The log of SARIF against the schema of SARIF 2.1.0: types, required properties and values. The
//! schema allows no other properties.

use std::collections::BTreeMap;

use patchbay_lint::Sarif;
use serde_json::Value;

use crate::set::Set;

/// Value of a property.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    /// A text of these.
    OneOf(&'static [&'static str]),
    /// A number of at least this.
    Number(i64),
    Object(&'static str),
    Array(&'static str),
}

/// Property: its name, `true` if it is required, and its value.
type Property = (&'static str, bool, Kind);

/// Definitions of the schema, with those of their properties that the log may have.
fn definitions() -> BTreeMap<&'static str, Vec<Property>> {
    const LEVELS: &[&str] = &["none", "note", "warning", "error"];
    use Kind::{Array, Number, Object, OneOf, Text};
    [
        (
            "sarifLog",
            vec![
                ("$schema", false, Text),
                ("version", true, OneOf(&["2.1.0"])),
                ("runs", true, Array("run")),
            ],
        ),
        ("run", vec![("tool", true, Object("tool")), ("results", false, Array("result"))]),
        ("tool", vec![("driver", true, Object("toolComponent"))]),
        (
            "toolComponent",
            vec![
                ("name", true, Text),
                ("version", false, Text),
                ("rules", false, Array("reportingDescriptor")),
            ],
        ),
        (
            "reportingDescriptor",
            vec![
                ("id", true, Text),
                ("shortDescription", false, Object("multiformatMessageString")),
                ("defaultConfiguration", false, Object("reportingConfiguration")),
            ],
        ),
        ("multiformatMessageString", vec![("text", true, Text)]),
        ("reportingConfiguration", vec![("level", false, OneOf(LEVELS))]),
        (
            "result",
            vec![
                ("ruleId", false, Text),
                ("ruleIndex", false, Number(-1)),
                ("level", false, OneOf(LEVELS)),
                ("message", true, Object("message")),
                ("locations", false, Array("location")),
            ],
        ),
        // A message has a text or an id.
        ("message", vec![("text", true, Text)]),
        (
            "location",
            vec![
                ("physicalLocation", false, Object("physicalLocation")),
                ("logicalLocations", false, Array("logicalLocation")),
            ],
        ),
        (
            "physicalLocation",
            vec![
                ("artifactLocation", true, Object("artifactLocation")),
                ("region", false, Object("region")),
            ],
        ),
        ("artifactLocation", vec![("uri", false, Text)]),
        ("region", vec![("startLine", false, Number(1))]),
        ("logicalLocation", vec![("name", false, Text), ("fullyQualifiedName", false, Text)]),
    ]
    .into()
}

/// Violations of a definition by a value, each with its path.
fn violations(value: &Value, definition: &str, path: &str) -> Vec<String> {
    let Some(object) = value.as_object() else {
        return vec![format!("{path} is not an object")];
    };
    let properties = &definitions()[definition];
    let known = |name: &str| properties.iter().any(|(known, ..)| *known == name);
    let unknown = object.keys().filter(|name| !known(name));
    let mut found: Vec<String> = unknown.map(|name| format!("{path}.{name} is unknown")).collect();
    for (name, is_required, kind) in properties {
        let path = format!("{path}.{name}");
        match (object.get(*name), kind) {
            (None, _) if *is_required => found.push(format!("{path} is missing")),
            (None, _) => {}
            (Some(value), Kind::Text) if value.is_string() => {}
            (Some(value), Kind::OneOf(texts))
                if value.as_str().is_some_and(|text| texts.contains(&text)) => {}
            (Some(value), Kind::Number(least))
                if value.as_i64().is_some_and(|number| number >= *least) => {}
            (Some(value), Kind::Object(definition)) => {
                found.extend(violations(value, definition, &path));
            }
            (Some(Value::Array(values)), Kind::Array(definition)) => {
                for (index, value) in values.iter().enumerate() {
                    found.extend(violations(value, definition, &format!("{path}[{index}]")));
                }
            }
            (Some(value), _) => found.push(format!("{path} cannot be {value}")),
        }
    }
    found
}

#[test]
fn the_log_of_sarif_fits_its_schema() {
    let mut set = Set::default();
    set.change(
        "apiVersion: kubeovn.io/v1\nkind: Vlan\nmetadata: {name: v}\nspec: {id: 222, provider: gone}\n---\n\
         apiVersion: kubeovn.io/v1\nkind: SwitchLBRule\nmetadata: {name: a}\nspec: {vip: 10.0.0.9, ports: [{port: 1}, \
         {port: 1}]}\n---\napiVersion: kubeovn.io/v1\nkind: IPPool\nmetadata: {name: p}\nspec: {subnet: gone}",
    );
    let findings = set.lint();
    let log = serde_json::to_value(Sarif::new(&findings)).unwrap();
    assert_eq!(violations(&log, "sarifLog", "log"), Vec::<String>::new());
    let run = &log["runs"][0];
    let (results, rules) = (&run["results"], &run["tool"]["driver"]["rules"]);
    let results = results.as_array().unwrap();
    assert!(results.len() >= 3, "{results:?}");
    for result in results {
        let index = usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap();
        assert_eq!(rules[index]["id"], result["ruleId"]);
    }
    let mut broken = log.clone();
    broken["runs"][0]["results"][0]["level"] = "fatal".into();
    broken["runs"][0]["results"][1]["extra"] = 1.into();
    broken["runs"][0]["tool"]["driver"].as_object_mut().unwrap().remove("name");
    assert_eq!(
        violations(&broken, "sarifLog", "log"),
        [
            "log.runs[0].tool.driver.name is missing",
            "log.runs[0].results[0].level cannot be \"fatal\"",
            "log.runs[0].results[1].extra is unknown",
        ]
    );
}
