//! Rows in YAML or JSON, by table and name.

use std::collections::BTreeMap;

use ovsdb_sim::{RowDocument, Sim, SimDatabase};
use patchbay_schemas::known::KNOWN_SCHEMAS;
use patchbay_schemas::nb::{Acl, LogicalSwitch, LogicalSwitchPort, PortGroup};

fn northbound() -> SimDatabase {
    Sim::builder().build().unwrap().database("OVN_Northbound").unwrap()
}

fn insert(database: &SimDatabase, text: &str) -> Result<usize, String> {
    let document = RowDocument::parse(text).map_err(|error| error.to_string())?;
    let uuids = database.insert_rows(&document).map_err(|error| error.to_string())?;
    Ok(uuids.values().map(BTreeMap::len).sum())
}

#[test]
fn rows_refer_to_rows_of_the_document_and_of_the_database() {
    let database = northbound();
    let first = "
# A comment.
Logical_Switch:
  sw0:
    ports: [sw0-p1, sw0-p2]
    other_config: {subnet: 10.0.0.0/24}
  sw1:
Logical_Switch_Port:
  sw0-p1:
    addresses: ['0a:00:00:00:00:01 10.0.0.2']
    enabled: true
    tag: 7
    up: null
  sw0-p2: {addresses: dynamic, options: {}}
";
    assert_eq!(insert(&database, first), Ok(4));
    let second = r#"{"Port_Group": {"pg0": {"ports": ["sw0-p1"], "acls": ["a"]}},
        "ACL": {"a": {"action": "allow", "direction": "to-lport", "match": "ip4", "priority": 1001}}}"#;
    assert_eq!(insert(&database, second), Ok(2));
    let snapshot = database.snapshot();
    let switches = snapshot.typed::<LogicalSwitch>();
    let switches: Vec<_> = switches.iter().map(|row| row.unwrap().1).collect();
    let sw0 = switches.iter().find(|switch| switch.name == "sw0").unwrap();
    assert_eq!((switches.len(), sw0.ports.len()), (2, 2));
    assert_eq!(sw0.other_config["subnet"], "10.0.0.0/24");
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let (at, port) =
        ports.iter().map(|row| row.unwrap()).find(|(_, port)| port.name == "sw0-p1").unwrap();
    assert_eq!((port.enabled, port.tag, port.up), (Some(true), Some(7), None));
    let groups = snapshot.typed::<PortGroup>();
    let (_, group) = groups.iter().next().unwrap().unwrap();
    assert!(group.ports.iter().any(|reference| reference.uuid == at.uuid));
    let acls = snapshot.typed::<Acl>();
    let (_, acl) = acls.iter().next().unwrap().unwrap();
    assert_eq!((acl.name, acl.priority), (None, 1001), "the name of an ACL is optional");
    // A UUID is a reference, too.
    let third = format!("Port_Group: {{pg1: {{ports: [{}]}}}}", at.uuid);
    assert_eq!(insert(&database, &third), Ok(1));
    assert_eq!(insert(&database, ""), Ok(0));
    assert_eq!(insert(&database, "Logical_Router:"), Ok(0));
}

#[test]
fn an_error_names_table_row_and_column_and_nothing_is_inserted() {
    let database = northbound();
    for (text, error) in [
        (
            "Logical_Switch: {sw0: {ports: [p]}}",
            "Logical_Switch sw0, column ports: there is no Logical_Switch_Port \"p\"",
        ),
        ("Logical_Swich: {sw0: {}}", "database OVN_Northbound has no table Logical_Swich"),
        (
            "Logical_Switch: {sw0: {prots: []}}",
            "Logical_Switch sw0, column prots: the table has no such column",
        ),
        (
            "Logical_Switch: {sw0: {_uuid: x}}",
            "Logical_Switch sw0, column _uuid: the table has no such column",
        ),
        (
            "Logical_Switch: {sw0: {external_ids: {a: 1}}}",
            "Logical_Switch sw0, column external_ids: 1 is no string: write it in quotes",
        ),
        (
            "Logical_Switch: {sw0: {external_ids: [a]}}",
            "Logical_Switch sw0, column external_ids: map of (string, string) pairs is expected, not a list",
        ),
        (
            "Logical_Switch: {sw0: {name: [a, b]}}",
            "Logical_Switch sw0, column name: string is expected, not 2 values",
        ),
        (
            "Logical_Switch: {sw0: {name: []}}",
            "Logical_Switch sw0, column name: string is expected, not 0 values",
        ),
        (
            "Logical_Switch_Port: {p: {}}",
            "Logical_Switch_Port p: no row of the document refers to it, and a row of Logical_Switch_Port without a reference is deleted at once",
        ),
        (
            "Logical_Switch: {a: {ports: p}}\nLogical_Switch_Port: {p: {tag: 5000}}",
            "Logical_Switch_Port p, column tag: constraint violation: 5000 is not in the valid range 1 to 4095 (inclusive)",
        ),
        (
            "Logical_Switch: {a: {ports: p}}\nLogical_Switch_Port: {p: {addresses: [x, x]}}",
            "Logical_Switch_Port p, column addresses: a value occurs twice",
        ),
        ("Logical_Switch: [sw0]", "Logical_Switch: rows by name are expected, not a list"),
        (
            "Logical_Switch: {sw0: 1}",
            "Logical_Switch sw0: values by column are expected, not a number",
        ),
        ("- a", "the document: tables by name are expected, not a list"),
    ] {
        assert_eq!(insert(&database, text), Err(error.to_owned()), "{text}");
    }
    // Errors of the parser have the line.
    let error = insert(&database, "Logical_Switch: {sw0: {}\n\nb: [").unwrap_err();
    assert!(error.contains("line"), "{error}");
    let error = insert(&database, "Logical_Switch: {sw0: {}}\nLogical_Switch: {}").unwrap_err();
    assert!(error.contains("duplicate"), "{error}");
    // An index of two rows is violated at the commit.
    let error = insert(
        &database,
        "Logical_Switch: {a: {ports: [p, q]}}\nLogical_Switch_Port: {p: {}, q: {name: p}}",
    );
    assert!(error.unwrap_err().contains("identical values"));
    assert_eq!(database.snapshot().row_count(), 0);
}

#[test]
fn any_schema_that_is_known_by_name_takes_rows() {
    for (name, text) in [
        (
            "southbound",
            "
Datapath_Binding: {dp: {tunnel_key: 1}}
Port_Binding: {p: {datapath: dp, logical_port: p, tunnel_key: 1, chassis: hv1}}
Chassis: {hv1: {encaps: [e]}}
Encap: {e: {type: geneve, ip: 127.0.0.1, chassis_name: hv1}}
",
        ),
        (
            "vswitch",
            "
Open_vSwitch: {it: {bridges: [br-int]}}
Bridge: {br-int: {ports: [br-int]}}
Port: {br-int: {interfaces: [br-int]}}
Interface: {br-int: {type: internal}}
",
        ),
        ("ic-northbound", "Transit_Switch: {ts0: {other_config: {a: b}}}"),
        ("ic-southbound", "Availability_Zone: {az1: {}}"),
        ("vtep", "Logical_Switch: {ls0: {tunnel_key: 5}}"),
    ] {
        let known = KNOWN_SCHEMAS.into_iter().find(|known| known.name == name).unwrap();
        let sim = Sim::builder().schema(known.parse().unwrap().into()).build().unwrap();
        let database = sim.database(known.database).unwrap();
        let count = insert(&database, text).unwrap();
        assert_eq!(database.snapshot().row_count(), count, "{name}");
    }
}

#[test]
fn keys_of_maps_have_their_type() {
    let text = br#"{"name":"D","tables":{"T":{"columns":{
        "m":{"type":{"key":"integer","value":"real","min":0,"max":"unlimited"}},
        "u":{"type":{"key":"uuid","min":0,"max":1}},
        "b":{"type":{"key":"boolean","min":0,"max":2}}}}}}"#;
    let schema = patchbay_schemas::schema::DatabaseSchema::parse(text).unwrap();
    let sim = Sim::builder().schema(schema.into()).build().unwrap();
    let database = sim.database("D").unwrap();
    let rows =
        "T: {r: {m: {1: 0.5, 2: 3}, u: 550e8400-e29b-41d4-a716-446655440000, b: [true, false]}}";
    assert_eq!(insert(&database, rows), Ok(1));
    let snapshot = database.snapshot();
    let (id, table) = snapshot.schema().table_by_name("T").unwrap();
    let row = snapshot.table(id).iter().next().unwrap();
    let [pairs, booleans] =
        ["m", "b"].map(|column| row.get(table.column_id(column).unwrap()).len());
    assert_eq!((pairs, booleans), (2, 2));
    let known = KNOWN_SCHEMAS.into_iter().find(|known| known.name == "southbound").unwrap();
    let sim = Sim::builder().schema(known.parse().unwrap().into()).build().unwrap();
    let wrong = insert(&sim.database("OVN_Southbound").unwrap(), "Chassis: {hv1: {}}");
    assert_eq!(wrong.unwrap_err(), "Chassis hv1, column encaps: it must refer to a row");
    let wrong = insert(&database, "T: {r: {m: {x: 1.0}}}").unwrap_err();
    assert_eq!(wrong, "T r, column m: \"x\" is no integer");
}
