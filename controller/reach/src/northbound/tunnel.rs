//! Ports through which packets enter tunnels to other chassis.

use std::collections::BTreeMap;

use super::{Link, Northbound, PortId, SwitchPortKind};

/// Option of a datapath or port: its key in tunnels.
const TUNNEL_KEY: &str = "requested-tnl-key";
/// Option of a port: the chassis to which it is bound.
const CHASSIS: &str = "requested-chassis";
/// External ids with which OVN-Kubernetes names the node of a port.
const NODE_KEYS: [&str; 2] = ["node", "k8s.ovn.org/node"];

/// Binding of a port to a chassis, and its key in tunnels.
#[derive(Debug, Default)]
pub(crate) struct Binding {
    /// `requested-chassis`
    chassis: Option<String>,
    /// Node of the port, as OVN-Kubernetes names it.
    node: Option<String>,
    /// `requested-tnl-key`
    key: Option<String>,
}

impl Binding {
    pub(super) fn new(
        options: &BTreeMap<String, String>,
        external_ids: &BTreeMap<String, String>,
    ) -> Self {
        let mut nodes = NODE_KEYS.iter().filter_map(|key| external_ids.get(*key));
        Self {
            chassis: options.get(CHASSIS).cloned(),
            node: nodes.next().cloned(),
            key: tunnel_key(options),
        }
    }
}

/// `requested-tnl-key` of a datapath.
pub(super) fn tunnel_key(options: &BTreeMap<String, String>) -> Option<String> {
    options.get(TUNNEL_KEY).cloned()
}

impl Northbound {
    /// The port of this name, if it is on this chassis.
    pub(crate) fn local_port(&self, name: &str) -> Option<PortId> {
        let port = self.names.port(name)?;
        let is_local = match port {
            PortId::Switch(port) => self.switch_port(port).kind != SwitchPortKind::Remote,
            PortId::Router(port) => {
                !matches!(self.router_port(port).link, Link::Remote | Link::Missing)
            }
        };
        is_local.then_some(port)
    }

    /// Name of the zone of a port on another chassis: its node, or else the chassis. `None`: the
    /// database has neither.
    pub(crate) fn zone_behind(&self, port: PortId) -> Option<&str> {
        let own = self.binding(port);
        let chassis = own.chassis.as_deref();
        let bindings = || {
            let of_switches = self.switch_ports.iter().map(|port| &port.binding);
            of_switches.chain(self.router_ports.iter().map(|port| &port.binding))
        };
        let of_chassis = || {
            let mut same = bindings().filter(|other| other.chassis.as_deref() == chassis);
            same.find_map(|other| other.node.as_deref())
        };
        let node = own.node.as_deref();
        node.or_else(|| chassis.and_then(|_| of_chassis())).or(chassis)
    }

    /// Chassis to which a port is bound. `None`: no option binds it.
    pub(crate) fn chassis(&self, port: PortId) -> Option<&str> {
        self.binding(port).chassis.as_deref()
    }

    /// Tunnel keys of the datapath and of a port. `None`: ovn-northd chooses one.
    pub(crate) fn tunnel_keys(&self, port: PortId) -> [Option<&str>; 2] {
        let datapath = match port {
            PortId::Switch(port) => &self.switch(self.switch_port(port).switch).tunnel_key,
            PortId::Router(port) => &self.router(self.router_port(port).router).tunnel_key,
        };
        [datapath.as_deref(), self.binding(port).key.as_deref()]
    }

    fn binding(&self, port: PortId) -> &Binding {
        match port {
            PortId::Switch(port) => &self.switch_port(port).binding,
            PortId::Router(port) => &self.router_port(port).binding,
        }
    }
}
