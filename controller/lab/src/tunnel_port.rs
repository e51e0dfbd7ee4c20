//! Ports through which packets enter tunnels.

use std::collections::BTreeMap;
use std::fmt;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalSwitch};

/// Option of a datapath or port: its key in tunnels.
const TUNNEL_KEY: &str = "requested-tnl-key";
/// Option of a port: the chassis to which it is bound.
pub(crate) const CHASSIS: &str = "requested-chassis";
/// Option of a switch port: the router port behind it.
const ROUTER_PORT: &str = "router-port";

/// Port through which packets enter a tunnel.
pub(crate) struct TunnelPort {
    pub(crate) keys: TunnelKeys,
    /// Chassis to which the port is bound. `None`: it is not bound by an option.
    pub(crate) chassis: Option<String>,
}

/// Tunnel keys of a datapath and a port in it. `None`: ovn-northd chooses one.
#[derive(Eq, PartialEq)]
pub(crate) struct TunnelKeys {
    datapath: Option<String>,
    port: Option<String>,
}

impl fmt::Display for TunnelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key: &Option<String>| key.clone().unwrap_or_else(|| "unset".to_owned());
        write!(f, "{} and {}", text(&self.datapath), text(&self.port))
    }
}

impl TunnelPort {
    /// The port of a router or switch.
    pub(crate) fn find(snapshot: &Snapshot, name: &str) -> Option<Self> {
        let routers = snapshot.typed::<LogicalRouter>();
        let of_router = routers.iter().flatten().find_map(|(_, router)| {
            let ports = router.ports.iter();
            let mut ports = ports.filter_map(|port| snapshot.get(*port).ok()?);
            let port = ports.find(|port| port.name == name)?;
            Some(Self::new(&router.options, &port.options))
        });
        of_router.or_else(|| {
            let switches = snapshot.typed::<LogicalSwitch>();
            switches.iter().flatten().find_map(|(_, switch)| {
                let ports = switch.ports.iter();
                let mut ports = ports.filter_map(|port| snapshot.get(*port).ok()?);
                let port = ports.find(|port| port.name == name)?;
                Some(Self::new(&switch.other_config, &port.options))
            })
        })
    }

    /// The port with the options of its datapath and its own.
    fn new(datapath: &BTreeMap<String, String>, port: &BTreeMap<String, String>) -> Self {
        Self {
            keys: TunnelKeys {
                datapath: datapath.get(TUNNEL_KEY).cloned(),
                port: port.get(TUNNEL_KEY).cloned(),
            },
            chassis: port.get(CHASSIS).cloned(),
        }
    }

    /// The port of a switch's router, beside another port of the switch. `None`: the switch has no
    /// router.
    pub(crate) fn router_beside(snapshot: &Snapshot, name: &str) -> Option<String> {
        let switches = snapshot.typed::<LogicalSwitch>();
        switches.iter().flatten().find_map(|(_, switch)| {
            let ports = switch.ports.iter();
            let ports: Vec<_> = ports.filter_map(|port| snapshot.get(*port).ok()?).collect();
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
            None => snapshot
                .typed::<LogicalSwitch>()
                .iter()
                .flatten()
                .find_map(|(_, switch)| {
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
}
