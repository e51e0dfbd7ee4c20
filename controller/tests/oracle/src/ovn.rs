//! Both databases with the programs of one release.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use patchbay_engine::db::Snapshot;
use patchbay_ovn_programs::testing::{RealServer, Release};
use patchbay_reconcile::northbound::{Northbound as _, Remote};
use patchbay_schemas::nb::{GatewayChassis, LogicalRouter, LogicalRouterPort, LogicalSwitchPort};
use serde_json::{Value, json};
use tokio::runtime::Builder;

use crate::flows::adapt_flows;
use crate::json_rpc::{TIMEOUT, transact};
use crate::northd::Northd;
use crate::trace_server::TraceServer;

/// MAC address of every neighbour that the database does not know.
const OUTSIDE_MAC: &str = "0a:ff:00:00:00:99";

/// Address that a router has learned behind one of its ports.
#[derive(Clone, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub struct LearnedNeighbor {
    /// Name of the router port.
    pub router_port: String,
    /// IP address.
    pub address: String,
    /// MAC address.
    pub mac: String,
}

impl LearnedNeighbor {
    /// A neighbour with the MAC address of machines that the database does not know.
    pub(crate) fn outside(router_port: &str, address: IpAddr) -> Self {
        Self {
            router_port: router_port.to_owned(),
            address: address.to_string(),
            mac: OUTSIDE_MAC.to_owned(),
        }
    }
}

/// An `ovsdb-server` with a Northbound and a Southbound database.
///
/// # Panics
/// The server does not start.
#[must_use]
pub fn start_server(release: &Release) -> RealServer {
    let schemas = ["ovn-nb", "ovn-sb"].map(|name| release.schema(name));
    RealServer::start_release(release, schemas)
}

/// The rows of a server's Northbound database.
///
/// # Panics
/// The server does not answer.
#[must_use]
pub fn read_northbound(server: &RealServer) -> Snapshot {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime starts");
    let remote = runtime.block_on(Remote::open(&server.remote(), None, TIMEOUT));
    remote.expect("a running server answers").snapshot()
}

/// Running ovn-northd and ovn-trace on a server.
#[derive(Debug)]
pub struct Ovn {
    /// The translating program.
    pub northd: Northd,
    /// The answering program.
    pub trace: TraceServer,
}

impl Ovn {
    /// Executes a `transact` request and starts the programs.
    ///
    /// # Panics
    /// The request fails, or a program does not start.
    #[must_use]
    pub fn fill(release: &Release, server: &RealServer, request: &str) -> Self {
        let request = serde_json::from_str(request).expect("the request is JSON");
        transact(server.socket(), &request);
        Self::start(release, server, &[])
    }

    /// Starts the programs on a server with a filled Northbound database. Returns when it is
    /// translated.
    ///
    /// # Panics
    /// A program does not start.
    #[must_use]
    pub fn start(release: &Release, server: &RealServer, learned: &[LearnedNeighbor]) -> Self {
        let northd = Northd::start(release, &server.remote());
        northd.pause();
        adapt_flows(server);
        let mut known = static_neighbors(server);
        let is_static = |own: &LearnedNeighbor| {
            let mut known = known.iter();
            known.any(|known| {
                (&known.router_port, &known.address) == (&own.router_port, &own.address)
            })
        };
        let others: Vec<_> = learned.iter().filter(|own| !is_static(own)).cloned().collect();
        known.extend(others);
        insert_learned(server, &known);
        Self { northd, trace: TraceServer::start(release, &server.remote()) }
    }

    /// Warnings and errors of ovn-northd.
    ///
    /// # Panics
    /// Its log cannot be read.
    pub fn warnings(&self) -> Vec<String> {
        self.northd.warnings()
    }
}

/// Adds the chassis that the rows of ports and routers name to the Southbound database, as their
/// nodes would.
///
/// # Panics
/// The server does not answer.
pub fn add_chassis(remote: &str, snapshot: &Snapshot) {
    let ports = snapshot.typed::<LogicalSwitchPort>();
    let of_ports = ports.iter().map(|row| row.map(|(_, row)| row.options));
    let router_ports = snapshot.typed::<LogicalRouterPort>();
    let of_router_ports = router_ports.iter().map(|row| row.map(|(_, row)| row.options));
    let routers = snapshot.typed::<LogicalRouter>();
    let of_routers = routers.iter().map(|row| row.map(|(_, row)| row.options));
    let options = of_ports.chain(of_router_ports).chain(of_routers);
    let names = options.flat_map(|options| {
        let mut options = options.expect("rows fit the schema");
        ["requested-chassis", "chassis"].map(|key| options.remove(key))
    });
    let gateways = snapshot.typed::<GatewayChassis>();
    let gateways = gateways.iter().map(|row| row.expect("rows fit the schema").1.chassis_name);
    let names: BTreeSet<String> = names.flatten().chain(gateways).collect();
    let mut request = vec![json!("OVN_Southbound")];
    for (number, name) in names.iter().enumerate() {
        let encap = format!("encap{number}");
        let address = format!("192.0.2.{}", number + 1);
        request.push(json!({"op": "insert", "table": "Encap", "uuid-name": encap, "row": {
            "type": "geneve", "ip": address, "chassis_name": name}}));
        request.push(json!({"op": "insert", "table": "Chassis", "row": {
            "name": name, "encaps": ["named-uuid", encap]}}));
    }
    let socket = remote.strip_prefix("unix:").unwrap_or(remote);
    transact(Path::new(socket), &Value::Array(request));
}

/// Rows of `Static_MAC_Binding`, which ovn-trace does not read, as what routers have learned.
fn static_neighbors(server: &RealServer) -> Vec<LearnedNeighbor> {
    let select = json!({"op": "select", "table": "Static_MAC_Binding", "where": [],
        "columns": ["logical_port", "ip", "mac"]});
    let selected = transact(server.socket(), &json!(["OVN_Northbound", select]));
    let rows = selected[0]["rows"].as_array().into_iter().flatten();
    let neighbors = rows.map(|row| {
        let column = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
        LearnedNeighbor {
            router_port: column("logical_port"),
            address: column("ip"),
            mac: column("mac"),
        }
    });
    neighbors.collect()
}

/// Inserts what routers have learned into the Southbound database.
fn insert_learned(server: &RealServer, learned: &[LearnedNeighbor]) {
    let select = |neighbor: &LearnedNeighbor| {
        json!({"op": "select", "table": "Port_Binding", "columns": ["datapath"],
            "where": [["logical_port", "==", neighbor.router_port]]})
    };
    let mut request = vec![json!("OVN_Southbound")];
    request.extend(learned.iter().map(select));
    let selected = transact(server.socket(), &Value::Array(request));
    // ovn-northd removes old rows at once.
    let now =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_millis() as u64);
    let mut request = vec![json!("OVN_Southbound")];
    for (number, neighbor) in learned.iter().enumerate() {
        let datapath = &selected[number]["rows"][0]["datapath"];
        if datapath.is_null() {
            continue;
        }
        request.push(json!({"op": "insert", "table": "MAC_Binding", "row": {
            "logical_port": neighbor.router_port, "ip": neighbor.address, "mac": neighbor.mac,
            "datapath": datapath, "timestamp": now}}));
    }
    transact(server.socket(), &Value::Array(request));
}
