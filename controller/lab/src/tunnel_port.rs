//! Router ports behind ports through which packets enter tunnels.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouterPort, LogicalSwitch};

/// Option of a switch port: the router port behind it.
const ROUTER_PORT: &str = "router-port";

/// The port of a switch's router, beside another port of the switch. `None`: the switch has no
/// router.
pub(crate) fn router_beside(snapshot: &Snapshot, name: &str) -> Option<String> {
    let switches = snapshot.typed::<LogicalSwitch>();
    switches.iter().flatten().find_map(|(_, switch)| {
        let ports: Vec<_> =
            switch.ports.iter().filter_map(|port| snapshot.get(*port).ok()?).collect();
        ports.iter().find(|port| port.name == name)?;
        let mut ports = ports.into_iter();
        let router = ports.find(|port| port.options.contains_key(ROUTER_PORT))?;
        Some(router.name)
    })
}

/// The router port behind a port, with its Ethernet address. `None`: there is no router behind
/// it.
pub(crate) fn port_behind(snapshot: &Snapshot, name: &str) -> Option<(String, String)> {
    let find = |name: &str| {
        let rows = snapshot.typed::<LogicalRouterPort>();
        let found = rows.iter().flatten().find(|(_, port)| port.name == name);
        found.map(|(_, port)| port)
    };
    let behind = match find(name) {
        Some(port) => port.peer,
        None => snapshot.typed::<LogicalSwitch>().iter().flatten().find_map(|(_, switch)| {
            let mut ports = switch.ports.iter();
            ports.find_map(|port| {
                let row = snapshot.get(*port).ok()??;
                let router_port = row.options.get(ROUTER_PORT)?;
                (row.name == name).then(|| router_port.clone())
            })
        }),
    };
    let port = find(&behind?)?;
    Some((port.name, port.mac))
}
