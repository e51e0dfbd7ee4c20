//! Rows and status beside those that Kube-OVN's controller wrote for the same manifests.
//!
//! Recordings of release 1.17 are in `tests/recorded`, without rows of the default VPC: rows have
//! names in place of UUIDs, and empty columns are left out. What Patchbay does otherwise is in
//! [`DIFFERENCES`], each with its reason.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs;
use std::path::Path;

use patchbay_engine::db::Snapshot;
use patchbay_resources::manifests::{Inventory, InventoryKind};
use patchbay_resources::object::kube_ovn::{
    IP, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, Subnet, Vlan, Vpc,
};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::{
    AddressSet, GatewayChassis, LoadBalancer, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Nat,
};
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use patchbay_schemas::typed::TableRow;
use serde::Serialize;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use crate::world::World;

/// Tables with rows of VPCs.
const TABLES: [&str; 10] = [
    AddressSet::TABLE,
    GatewayChassis::TABLE,
    LoadBalancer::TABLE,
    LogicalRouter::TABLE,
    LogicalRouterPolicy::TABLE,
    LogicalRouterPort::TABLE,
    LogicalRouterStaticRoute::TABLE,
    LogicalSwitch::TABLE,
    LogicalSwitchPort::TABLE,
    Nat::TABLE,
];

/// Rows by table and name, each with its columns.
type Rows = BTreeMap<String, BTreeMap<String, Map<String, Value>>>;

/// Difference that is on purpose.
struct Difference {
    /// `true`: none for the ovn-northd of Kube-OVN.
    is_for_stock_northd: bool,
    /// Scenario that has it. Empty: all.
    scenario: &'static str,
    reason: &'static str,
    /// Changes the recorded rows into those that Patchbay writes. Returns `true` if anything
    /// changed.
    change: fn(&mut Rows) -> bool,
}

const DIFFERENCES: &[Difference] = &[
    Difference {
        is_for_stock_northd: true,
        scenario: "",
        reason: "a source route to the subnet's own gateway needs Kube-OVN's ovn-northd: a stock one \
                 ranks it above the default route",
        change: without_source_routes,
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "",
        reason: "Kube-OVN wrote one source route twice",
        change: |rows| {
            let routers = rows.get_mut("Logical_Router").into_iter().flatten();
            let mut is_changed = false;
            for (_, router) in routers {
                if let Some(Value::Array(routes)) = router.get_mut("static_routes") {
                    let before = routes.len();
                    routes.dedup();
                    is_changed |= routes.len() < before;
                }
            }
            is_changed
        },
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "",
        reason: "after a failover the new gateway announces the addresses of rules, too",
        change: |rows| {
            let ports = rows.get_mut("Logical_Switch_Port").into_iter().flatten();
            let mut is_changed = false;
            for (_, port) in ports {
                if is_external_side(port) {
                    port["options"]["nat-addresses"] = json!("router");
                    is_changed = true;
                }
            }
            is_changed
        },
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "",
        reason: "the load balancers of the default VPC belong to the platform, which has none here",
        change: |rows| {
            let switches = rows.get_mut("Logical_Switch").into_iter().flatten();
            let mut is_changed = false;
            for (_, switch) in switches {
                let balancers = switch.get("load_balancer").and_then(Value::as_array);
                let is_of_platform = balancers.is_some_and(|names| {
                    let mut names = names.iter().filter_map(Value::as_str);
                    names.all(|name| name.starts_with("cluster-"))
                });
                is_changed |= is_of_platform && switch.remove("load_balancer").is_some();
            }
            is_changed
        },
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "",
        reason: "every row has the vendor",
        change: |rows| {
            let nats = rows.get_mut("NAT").into_iter().flatten();
            nats.map(|(_, nat)| {
                nat.insert("external_ids".to_owned(), json!({"vendor": "kube-ovn"}))
            })
            .count()
                > 0
        },
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "04-floating-address",
        reason: "a centralized floating address is translated on the gateway: port and MAC address of \
                 the machine would move it to the machine's node",
        change: without_machine_of_nat,
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "06-pivot",
        reason: "the same floating address",
        change: without_machine_of_nat,
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "05-port-forward",
        reason: "a protocol in upper case is written in lower case: the database refuses the other one",
        change: |rows| {
            let balancer = json!({
                "name": "alpha-web", "protocol": "tcp", "external_ids": {"vendor": "kube-ovn"},
                "vips": {"77.220.68.112:443": "10.100.0.3:8443"},
            });
            let balancers = rows.entry("Load_Balancer".to_owned()).or_default();
            balancers.insert("alpha-web".to_owned(), balancer.as_object().unwrap().clone());
            let router = rows.get_mut("Logical_Router").unwrap().get_mut("alpha-vpc").unwrap();
            router.insert("load_balancer".to_owned(), json!(["alpha-web"]));
            true
        },
    },
    Difference {
        is_for_stock_northd: false,
        scenario: "10-no-gateway-node",
        reason: "without a gateway node there is no port, and nothing to translate",
        change: |rows| {
            let router = rows.get_mut("Logical_Router").unwrap().get_mut("alpha-vpc").unwrap();
            router.remove("nat").is_some() && rows.remove("NAT").is_some()
        },
    },
];

fn without_source_routes(rows: &mut Rows) -> bool {
    let is_source = |name: &str| name.starts_with("src-ip");
    let routes = rows.entry("Logical_Router_Static_Route".to_owned()).or_default();
    let before = routes.len();
    routes.retain(|name, _| !is_source(name.split(": ").last().unwrap_or_default()));
    let is_changed = routes.len() < before;
    if routes.is_empty() {
        rows.remove("Logical_Router_Static_Route");
    }
    for (_, router) in rows.get_mut("Logical_Router").into_iter().flatten() {
        if let Some(Value::Array(names)) = router.get_mut("static_routes") {
            names.retain(|name| !name.as_str().is_some_and(is_source));
            if names.is_empty() {
                router.remove("static_routes");
            }
        }
    }
    is_changed
}

fn without_machine_of_nat(rows: &mut Rows) -> bool {
    let nats = rows.get_mut("NAT").into_iter().flatten();
    let removed = nats.map(|(_, nat)| {
        let had = [nat.remove("logical_port"), nat.remove("external_mac")];
        had.iter().all(Option::is_some)
    });
    removed.filter(|is_removed| *is_removed).count() > 0
}

/// `true` for the port of an external switch towards a router.
fn is_external_side(port: &Map<String, Value>) -> bool {
    let switch = port["external_ids"]["ls"].as_str().unwrap_or_default();
    port.get("type") == Some(&json!("router")) && switch.starts_with("ext")
}

#[test]
fn rows_are_those_of_kube_ovn_but_for_named_differences() {
    let mut needed = BTreeSet::new();
    for (scenario, manifests) in scenarios() {
        for is_northd_stock in [true, false] {
            compare(&scenario, &manifests, is_northd_stock, &mut needed);
        }
    }
    for (place, difference) in DIFFERENCES.iter().enumerate() {
        let is_needed = needed.contains(&place);
        assert!(is_needed, "not needed: {} {}", difference.scenario, difference.reason);
    }
}

/// Compares the rows of a scenario with the recorded ones. Adds the places of needed differences.
fn compare(scenario: &str, manifests: &str, is_northd_stock: bool, needed: &mut BTreeSet<usize>) {
    let world = World::with_northd(manifests, is_northd_stock);
    let mut expected: Rows = serde_json::from_value(recording(scenario, "northbound")).unwrap();
    for (place, difference) in DIFFERENCES.iter().enumerate() {
        if (is_northd_stock || !difference.is_for_stock_northd)
            && ["", scenario].contains(&difference.scenario)
            && (difference.change)(&mut expected)
        {
            needed.insert(place);
        }
    }
    let found = rows(&world.database.snapshot());
    for (table, expected) in &expected {
        for (name, expected) in expected {
            let found = found.get(table).and_then(|rows| rows.get(name));
            assert_eq!(found, Some(expected), "{scenario}: {table} {name}");
        }
    }
    for (table, found) in &found {
        for name in found.keys() {
            let is_expected = expected.get(table).is_some_and(|rows| rows.contains_key(name));
            assert!(is_expected, "{scenario}: unexpected row of {table}: {name}");
        }
    }
}

#[test]
fn the_status_of_objects_is_that_of_kube_ovn() {
    for (scenario, manifests) in scenarios() {
        let inventory = World::new(&manifests).inventory;
        let found = statuses(&inventory);
        let recorded = recording(&scenario, "objects");
        for (object, fields) in recorded.as_object().unwrap() {
            let is_otherwise = match (&*scenario, &**object) {
                // Kube-OVN's address and rule are ready although nothing leaves the VPC.
                ("10-no-gateway-node", object) => {
                    object.starts_with("Ovn") || object == "Subnet/external"
                }
                // Kube-OVN tries to make the row for ever, and the address is not used.
                ("05-port-forward", "OvnEip/alpha-eip-web") => true,
                _ => false,
            };
            for (field, expected) in fields.as_object().unwrap() {
                let value = found.get(object).and_then(|found| found.get(field));
                if is_otherwise {
                    continue;
                }
                assert_eq!(value, Some(expected), "{scenario}: {object} {field}");
            }
        }
    }
}

/// Names of the scenarios, with their manifests.
fn scenarios() -> Vec<(String, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let files = fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut scenarios: Vec<(String, String)> = files
        .map(|file| {
            let name = file.file_stem().unwrap().to_str().unwrap().to_owned();
            (name, fs::read_to_string(file).unwrap())
        })
        .collect();
    scenarios.sort();
    assert_eq!(scenarios.len(), 13);
    scenarios
}

fn recording(scenario: &str, member: &str) -> Value {
    let file = format!("tests/recorded/{scenario}.json");
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(file)).unwrap();
    serde_json::from_str::<Value>(&text).unwrap()[member].take()
}

/// Rows of a database in the form of the recordings, without owners.
fn rows(snapshot: &Snapshot) -> Rows {
    let schema = snapshot.schema();
    let mut names: HashMap<Uuid, String> = HashMap::new();
    for table in TABLES {
        let (id, of) = schema.table_by_name(table).unwrap();
        for row in snapshot.table(id).iter() {
            names.insert(row.uuid, row_name(of, row));
        }
    }
    let mut found = Rows::new();
    let mut holders: HashMap<Uuid, String> = HashMap::new();
    for table in TABLES {
        let (id, of) = schema.table_by_name(table).unwrap();
        for row in snapshot.table(id).iter() {
            for column in of.column_ids() {
                let held =
                    row.values.get(column).into_iter().flat_map(Datum::atoms).filter_map(|atom| {
                        match atom {
                            Atom::Uuid(uuid) => Some(*uuid),
                            _ => None,
                        }
                    });
                holders.extend(held.map(|uuid| (uuid, names[&row.uuid].clone())));
            }
        }
    }
    for table in TABLES {
        let (id, of) = schema.table_by_name(table).unwrap();
        for row in snapshot.table(id).iter() {
            let mut columns = Map::new();
            for column in of.column_ids() {
                let name = of.column_name(column);
                let is_set =
                    of.column_type(column).value.is_none() && of.column_type(column).max != 1;
                let datum = row.values.get(column);
                let value = datum.map(|datum| value(datum, is_set, name, &names));
                let value = value.filter(|value| !is_empty(value));
                columns.extend(value.map(|value| (name.to_owned(), value)));
            }
            if let Some(ids) = columns.get_mut("external_ids").and_then(Value::as_object_mut) {
                assert!(ids.remove("owner").is_some(), "{table}: {columns:?}");
            }
            let name = &names[&row.uuid];
            let has_name = of.column_id("name").is_some();
            let name =
                if has_name { name.clone() } else { format!("{}: {name}", holders[&row.uuid]) };
            found.entry(table.to_owned()).or_default().insert(name, columns);
        }
    }
    found
}

fn text(of: &TableSchema, row: &Row, column: &str) -> String {
    let datum = of.column_id(column).and_then(|id| row.values.get(id));
    match datum.and_then(|datum| datum.atoms().next()) {
        Some(Atom::String(text)) => text.to_string(),
        Some(Atom::Integer(number)) => number.to_string(),
        _ => String::new(),
    }
}

fn row_name(of: &TableSchema, row: &Row) -> String {
    let parts: &[&str] = match &*of.name {
        "Logical_Router_Policy" => &["priority", "match"],
        "Logical_Router_Static_Route" => &["policy", "ip_prefix", "nexthop", "route_table"],
        "NAT" => &["type", "external_ip", "logical_ip"],
        _ => &["name"],
    };
    let parts: Vec<String> = parts.iter().map(|column| text(of, row, column)).collect();
    parts.join(" ").trim_end().to_owned()
}

fn value(datum: &Datum, is_set: bool, column: &str, names: &HashMap<Uuid, String>) -> Value {
    let atom = |atom: &Atom| match atom {
        Atom::String(_) if matches!(column, "mac" | "external_mac") => json!("MAC"),
        Atom::String(text) => match text.split_once(' ') {
            Some((mac, rest)) if column == "addresses" && mac.len() == 17 => {
                json!(format!("MAC {rest}"))
            }
            _ => json!(text.as_str()),
        },
        Atom::Integer(number) => json!(number),
        Atom::Real(number) => json!(number.0),
        Atom::Boolean(value) => json!(value),
        Atom::Uuid(uuid) => json!(names[uuid]),
    };
    if let Some(map) = datum.as_map() {
        let pairs = map
            .iter()
            .map(|(key, value)| (key.as_str().unwrap_or_default().to_owned(), atom(value)));
        return Value::Object(pairs.collect());
    }
    let mut values: Vec<Value> = datum.atoms().map(atom).collect();
    values.sort_by_key(ToString::to_string);
    if is_set { Value::Array(values) } else { values.pop().unwrap_or_default() }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

/// Status of all objects, and the specification of records, by kind and name.
fn statuses(inventory: &Inventory) -> BTreeMap<String, Value> {
    fn add<T: InventoryKind + Serialize>(
        found: &mut BTreeMap<String, Value>,
        inventory: &Inventory,
        member: &str,
    ) {
        for (key, object) in inventory.objects::<T>().iter() {
            let mut json = serde_json::to_value(&object.object).unwrap();
            found.insert(format!("{}/{key}", T::KIND), json[member].take());
        }
    }
    let mut found = BTreeMap::new();
    add::<Vpc>(&mut found, inventory, "status");
    add::<Subnet>(&mut found, inventory, "status");
    add::<Vlan>(&mut found, inventory, "status");
    add::<OvnEip>(&mut found, inventory, "status");
    add::<OvnSnatRule>(&mut found, inventory, "status");
    add::<OvnDnatRule>(&mut found, inventory, "status");
    add::<OvnFip>(&mut found, inventory, "status");
    add::<IP>(&mut found, inventory, "spec");
    found
}
