//! Databases that OVN-Kubernetes wrote: states of recorded scenarios as `transact` requests.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fs;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use ipnet::IpNet;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::free_topology::{Rows, references, set};

/// Columns that refer to rows, and the tables of those.
const REFERENCES: [(&str, &str, &str); 18] = [
    ("Load_Balancer_Group", "load_balancer", "Load_Balancer"),
    ("Logical_Router", "load_balancer", "Load_Balancer"),
    ("Logical_Router", "load_balancer_group", "Load_Balancer_Group"),
    ("Logical_Router", "nat", "NAT"),
    ("Logical_Router", "policies", "Logical_Router_Policy"),
    ("Logical_Router", "ports", "Logical_Router_Port"),
    ("Logical_Router", "static_routes", "Logical_Router_Static_Route"),
    ("Logical_Router_Port", "gateway_chassis", "Gateway_Chassis"),
    ("Logical_Switch", "acls", "ACL"),
    ("Logical_Switch", "load_balancer", "Load_Balancer"),
    ("Logical_Switch", "load_balancer_group", "Load_Balancer_Group"),
    ("Logical_Switch", "ports", "Logical_Switch_Port"),
    ("Logical_Switch", "qos_rules", "QoS"),
    ("Logical_Switch_Port", "dhcpv4_options", "DHCP_Options"),
    ("Logical_Switch_Port", "dhcpv6_options", "DHCP_Options"),
    ("NAT", "allowed_ext_ips", "Address_Set"),
    ("Port_Group", "acls", "ACL"),
    ("Port_Group", "ports", "Logical_Switch_Port"),
];
/// Tables that packets do not depend on.
const IGNORED: [&str; 3] = ["Copp", "Meter", "Meter_Band"];
/// Parts of the names of switches that no machine is on.
const INNER_SWITCHES: [&str; 3] = ["join_", "ext_", "transit_switch"];
/// First host of the machines that are made up.
const FIRST_HOST: u32 = 40;
/// Machines that are made up on each switch.
const MACHINES: u32 = 2;

/// State of a recorded scenario.
#[derive(Debug)]
pub struct RecordedState {
    /// Scenario and step.
    pub name: String,
    /// Rows by table. References are the labels of rows.
    tables: BTreeMap<String, Vec<Map<String, Value>>>,
}

#[derive(Deserialize)]
struct Recording {
    half: String,
    expected: RecordedSteps,
}

#[derive(Deserialize)]
struct RecordedSteps {
    steps: Vec<RecordedStep>,
}

#[derive(Deserialize)]
struct RecordedStep {
    /// Tables that have changed since the step before.
    #[serde(default)]
    nb: BTreeMap<String, Vec<Map<String, Value>>>,
}

impl RecordedState {
    /// The states of all scenarios of a folder that have rows of networks, by file and step.
    ///
    /// # Panics
    /// A file cannot be read.
    pub fn read_folder(folder: &Path) -> Vec<Self> {
        let entries =
            fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|file| file.extension().is_some_and(|end| end == "json"))
            .collect();
        files.sort();
        files.iter().flat_map(|file| Self::read_file(file)).collect()
    }

    fn read_file(file: &Path) -> Vec<Self> {
        let text = fs::read(file).expect("a file of the folder");
        let Ok(recording) = serde_json::from_slice::<Recording>(&text) else {
            return Vec::new();
        };
        if !matches!(&*recording.half, "udn-zone" | "udn-full") {
            return Vec::new();
        }
        let stem = file.file_stem().unwrap_or_default().display();
        let mut tables = BTreeMap::new();
        let mut states = Vec::new();
        for (number, step) in recording.expected.steps.into_iter().enumerate() {
            tables.extend(step.nb);
            let has_rows = tables.get("Logical_Switch").is_some_and(|rows| !rows.is_empty());
            if has_rows {
                states.push(Self { name: format!("{stem}@{number}"), tables: tables.clone() });
            }
        }
        states
    }

    /// A request that fills an empty database, with some machines on each switch.
    pub fn request(&self) -> String {
        let mut rows = Rows::default();
        let mut names = HashMap::<_, VecDeque<_>>::new();
        // Strong references come after the rows that they refer to.
        let is_late = |table: &str| {
            let late = ["Logical_Router", "Logical_Switch", "Port_Group"];
            late.iter().position(|name| *name == table)
        };
        let mut tables: Vec<_> =
            self.tables.iter().filter(|(name, _)| !IGNORED.contains(&&***name)).collect();
        tables.sort_by_key(|(name, _)| {
            let has_references = REFERENCES.iter().any(|(table, ..)| table == name);
            (is_late(name).map(|place| place + 1), has_references)
        });
        for (table, content) in tables {
            for row in content {
                let label = label(table, row);
                let mut row = resolve(table, row, &mut names);
                if table == "Logical_Switch" {
                    self.add_machines(&mut rows, &mut row);
                }
                let name = rows.insert(table, Value::Object(row));
                names.entry((table.as_str(), label)).or_default().push_back(name);
            }
        }
        rows.request()
    }

    /// Adds machines to a switch whose router has a network with free addresses.
    fn add_machines(&self, rows: &mut Rows, switch: &mut Map<String, Value>) {
        let name = switch["name"].as_str().unwrap_or_default().to_owned();
        if INNER_SWITCHES.iter().any(|part| name.contains(part)) {
            return;
        }
        let networks = self.networks_of(&name);
        if networks.is_empty() {
            return;
        }
        let Some(ports) = switch.get_mut("ports").and_then(|ports| ports[1].as_array_mut()) else {
            return;
        };
        for host in FIRST_HOST..FIRST_HOST + MACHINES {
            let addresses: Vec<_> = networks
                .iter()
                .filter_map(|network| nth_host(*network, host))
                .map(|address| address.to_string())
                .collect();
            let interface = format!("0a:58:fe:00:00:{host:02x} {}", addresses.join(" "));
            let port =
                json!({"name": format!("made-up-{name}-{host}"), "addresses": set(&[interface])});
            let port = rows.insert("Logical_Switch_Port", port);
            ports.push(json!(["named-uuid", port]));
        }
    }

    /// Networks of the routers on a switch.
    fn networks_of(&self, switch: &str) -> Vec<IpNet> {
        let row = self.row("Logical_Switch", switch);
        let ports = row
            .and_then(|row| row.get("ports")?.as_array())
            .into_iter()
            .flatten()
            .filter_map(Value::as_str);
        let routers = ports.filter_map(|port| {
            let port = self.row("Logical_Switch_Port", port)?;
            port.get("options")?.get("router-port")?.as_str()
        });
        let networks = routers
            .filter_map(|port| self.row("Logical_Router_Port", port)?.get("networks")?.as_array())
            .flatten()
            .filter_map(Value::as_str);
        networks.filter_map(|text| text.parse().ok()).collect()
    }

    fn row(&self, table: &str, name: &str) -> Option<&Map<String, Value>> {
        let mut rows = self.tables.get(table)?.iter();
        rows.find(|row| row.get("name").and_then(Value::as_str) == Some(name))
    }
}

/// A row in the notation of RFC 7047. References to rows that are not recorded, which are those of
/// the default network, are left out.
fn resolve(
    table: &str,
    row: &Map<String, Value>,
    names: &mut HashMap<(&str, String), VecDeque<String>>,
) -> Map<String, Value> {
    let mut resolved = Map::new();
    // Rows of the table Copp are not there.
    for (column, value) in row.iter().filter(|(column, _)| *column != "copp") {
        let target = REFERENCES
            .iter()
            .find(|(of, name, _)| of == &table && name == column)
            .map(|(_, _, target)| *target);
        let value = match (target, value) {
            (Some(target), value) => {
                let labels = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
                let found = labels.iter().filter_map(|label| {
                    let label = label.as_str()?.to_owned();
                    next_name(names.get_mut(&(target, label))?)
                });
                references(&found.collect::<Vec<_>>())
            }
            (None, Value::Array(values)) => json!(["set", values]),
            (None, Value::Object(pairs)) => {
                let pairs = pairs.iter().map(|(key, value)| json!([key, value]));
                json!(["map", pairs.collect::<Vec<_>>()])
            }
            (None, other) => other.clone(),
        };
        resolved.insert(column.clone(), value);
    }
    resolved
}

/// Name of a row with a label. Rows with equal labels belong to different routers, each to one.
fn next_name(names: &mut VecDeque<String>) -> Option<String> {
    if names.len() > 1 {
        return names.pop_front();
    }
    names.front().cloned()
}

/// The label by which a row of a recorded state is referred to.
fn label(table: &str, row: &Map<String, Value>) -> String {
    let text = |column: &str| match row.get(column) {
        Some(Value::String(text)) => Some(text.clone()),
        Some(Value::Number(number)) => Some(number.to_string()),
        _ => None,
    };
    let column = |column: &str| text(column).unwrap_or_default();
    let with = |word: &str, column: &str| {
        text(column).map_or_else(String::new, |value| format!(" {word} {value}"))
    };
    let id = row.get("external_ids").and_then(|ids| ids["k8s.ovn.org/id"].as_str());
    match table {
        "ACL" | "QoS" | "DHCP_Options" | "Logical_Router_Policy" => {
            let priority = || format!("{} {}", column("priority"), column("match"));
            id.map_or_else(priority, str::to_owned)
        }
        "Logical_Router_Static_Route" => format!(
            "{} {} via {}{}",
            text("policy").unwrap_or_else(|| "dst-ip".to_owned()),
            column("ip_prefix"),
            column("nexthop"),
            with("port", "output_port")
        ),
        "NAT" => format!(
            "{} {} to {}{}{}",
            column("type"),
            column("logical_ip"),
            column("external_ip"),
            with("port", "logical_port"),
            with("if", "match")
        ),
        _ => column("name"),
    }
}

/// The address with a number in a network that is large enough.
fn nth_host(network: IpNet, number: u32) -> Option<IpAddr> {
    let address = match network.network() {
        IpAddr::V4(base) => IpAddr::V4((u32::from(base) + number).into()),
        IpAddr::V6(base) => IpAddr::V6((u128::from(base) + u128::from(number)).into()),
    };
    network.contains(&address).then_some(address)
}
