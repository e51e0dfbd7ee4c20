//! Northbound rows of the networks' own routers and switches in one zone.
//!
//! ```text
//! layer3    cluster router -- rtos-/stor- -- node switch -- k8s- (management port)
//!                 \-- rtots-/tstor- -- transit switch -- remote ports, one per other node
//! layer2    transit router -- trtos-/stotr- -- layer2 switch -- k8s- (management port)
//! zone      control plane protection with its meters
//! network   load balancer groups, port groups, the ACL that lets the node itself in
//! ```
//!
//! Everything is a pure function of objects with ids, keys and subnets ([`ZoneNetworks`]). Rows are
//! nested as they hold each other, and refer to shared rows by name. [`NetworkController`] keeps
//! them in a database with the row engine (`patchbay-rows`): it makes and completes rows, and
//! leaves what others have added to them.
//!
//! # What is left out
//!
//! The way out of a network: gateway routers with their external and join switches, the routes,
//! policies, NAT and MAC bindings that belong to them (also those on the cluster and transit
//! routers), and the routes to services of the default network. They follow from facts about
//! each node's uplink, which manifests do not have. Also left out are localnet networks,
//! networks on an EVPN fabric, pods, and what multicast and egress features add.

mod capability;
mod copp;
mod inputs;
mod layer2;
mod layer3;
mod rows;
mod tables;

use ipnet::IpNet;
use patchbay_schemas::nb::{
    Acl, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPort,
    LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter, MeterBand, PortGroup,
};
use thiserror::Error;

pub use capability::NetworkController;
pub use copp::{COPP, copp, meters};
pub use inputs::{NetworkCell, ZoneNetworks};

/// A meter and its only band.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeterRows {
    /// The meter; `bands` is the row beside.
    pub meter: Meter,
    /// The band.
    pub band: MeterBand,
}

/// The rows of a network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NetworkRows {
    /// Name of the network.
    pub network: String,
    /// Load balancers of all, of switches and of gateway routers.
    pub load_balancer_groups: Vec<LoadBalancerGroup>,
    /// The router that joins the network's parts.
    pub router: Option<RouterRows>,
    /// The switches.
    pub switches: Vec<SwitchRows>,
    /// Groups of ports that policies refer to.
    pub port_groups: Vec<PortGroupRows>,
}

/// A router and what it holds. Its `copp` is [`COPP`]; `ports` and `static_routes` are the rows
/// beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouterRows {
    /// The router.
    pub router: LogicalRouter,
    /// Its ports.
    pub ports: Vec<RouterPortRows>,
    /// Its routes.
    pub static_routes: Vec<LogicalRouterStaticRoute>,
}

/// A router port and the chassis it is bound to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouterPortRows {
    /// The port; `gateway_chassis` is the row beside.
    pub port: LogicalRouterPort,
    /// The chassis.
    pub gateway_chassis: Option<GatewayChassis>,
}

/// A switch and what it holds: `ports`, `acls` and `load_balancer_group` are beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SwitchRows {
    /// The switch.
    pub switch: LogicalSwitch,
    /// Its ports.
    pub ports: Vec<LogicalSwitchPort>,
    /// Its ACLs.
    pub acls: Vec<Acl>,
    /// Names of its load balancer groups.
    pub load_balancer_groups: Vec<String>,
}

/// The rows of a network that lead to another node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RemoteRows {
    /// Name of the router that has the routes.
    pub router: String,
    /// Name of the switch that has the port.
    pub transit_switch: String,
    /// The port; `None`: the node has no id, chassis or transit address.
    pub port: Option<LogicalSwitchPort>,
    /// The routes to the node's pods.
    pub static_routes: Vec<LogicalRouterStaticRoute>,
}

/// A port group; `ports` is beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortGroupRows {
    /// The group.
    pub group: PortGroup,
    /// Names of its ports.
    pub ports: Vec<String>,
}

/// A network without a place in a zone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedNetwork {
    /// Name of the network.
    pub network: String,
    /// Why it has none.
    pub reason: SkipReason,
}

/// Why a network has no place in a zone.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub enum SkipReason {
    /// The zone has no node.
    #[error("there is no node of the name of the zone")]
    NoNode,
    /// The node has no id yet.
    #[error("the node has no id")]
    NoNodeId,
    /// The node has no chassis id.
    #[error("the node has no chassis id")]
    NoChassisId,
    /// The node has no subnet of the network.
    #[error("the node has no subnet of the network")]
    NoNodeSubnets,
    /// The network's datapaths have no keys yet.
    #[error("the network has no tunnel keys")]
    NoTunnelKeys,
    /// The configuration of the network's definition cannot be read.
    #[error("spec.config: {0}")]
    Config(String),
    /// The keys that the network's definition is annotated with cannot be read.
    #[error("the network's tunnel keys: {0}")]
    Keys(String),
    /// The network is on a fabric.
    #[error("transport evpn is not supported")]
    Evpn,
    /// A subnet of the network has too few addresses.
    #[error("subnet {0} is too small for the addresses of the router and of the node itself")]
    SubnetTooSmall(IpNet),
    /// What the network sets aside of a subnet for such addresses has too few of them.
    #[error(
        "infrastructureSubnets in {0} are too small for the addresses of the router and of the node itself"
    )]
    InfrastructureTooSmall(IpNet),
    /// The rows of another network, of this name, have the names that the network's rows would
    /// have.
    #[error("its routers and switches would have the names of those of network {0}")]
    NameTaken(String),
}
