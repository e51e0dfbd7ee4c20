//! What the path of a packet depends on beside the Northbound database: the ovn-northd that reads it,
//! and the chassis of the sender.

use std::collections::BTreeSet;

use super::Trace;
use crate::northbound::{Northbound, Northd, Router, RouterPortId};

/// Facts that the Northbound database does not have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deployment {
    pub(crate) northd: Northd,
    /// `true` if gateway ports are on the chassis of the sender, as ovn-trace assumes.
    pub(crate) is_sender_gateway: bool,
}

/// Facts on which decisions about a packet depend.
#[derive(Debug, Default)]
pub(crate) struct Dependences {
    /// `true` if the ovn-northd decides how a route ranks.
    pub(crate) is_by_northd: bool,
    /// Chassis of which one has to be the sender's. Empty: nothing depends on it.
    pub(crate) gateways: BTreeSet<String>,
}

impl Deployment {
    /// The facts that are known or assumed for a database.
    pub(crate) fn of(northbound: &Northbound) -> Self {
        Self { northd: northbound.northd().unwrap_or_default(), is_sender_gateway: true }
    }
}

impl Trace<'_> {
    /// Notes that the packet is on the chassis of a port, if it is a gateway port.
    pub(super) fn move_to_gateway(&mut self, router: &Router, port: RouterPortId) {
        if router.kind.is_gateway_port(port) {
            self.chassis = self.northbound.router_port(port).active_chassis.as_deref();
        }
    }

    /// `true` if the packet is on the chassis of a gateway port, or the router has none. The chassis
    /// of the sender is one, if the deployment says so.
    pub(super) fn is_at_gateway(&mut self, router: &Router) -> bool {
        let ports = router.kind.gateways().iter().map(|port| self.northbound.router_port(*port));
        let active: BTreeSet<_> = ports.filter_map(|port| port.active_chassis.as_deref()).collect();
        let is_known = self.chassis.is_some_and(|chassis| active.contains(chassis));
        if is_known || active.is_empty() {
            return true;
        }
        let names = active.iter().map(|chassis| self.northbound.node_name(chassis).to_owned());
        self.path.dependences.gateways.extend(names);
        self.deployment.is_sender_gateway
    }
}
