//! Northbound rows of the networks themselves in one zone.
//!
//! ```text
//! layer3    cluster router -- rtos-/stor- -- node switch -- k8s- (management port)
//!                 |  \-- rtots-/tstor- -- transit switch -- remote ports, one per other node
//!                 \-- rtoj-/jtor- -- join switch -- jtor-/rtoj- -- gateway router
//! layer2    transit router -- trtos-/stotr- -- layer2 switch -- k8s- (management port)
//!                 \-- trtor- -- rtotr- -- gateway router; a remote trtor- for each other node
//! way out   gateway router -- rtoe-/etor- -- external switch -- bridge of the node
//! localnet  localnet switch -- bridge of the node
//! zone      control plane protection with its meters, isolation of the default network,
//!           addresses of the default network's services that networks reach
//! network   load balancer groups, port groups, ACLs that let the node itself in
//! ```
//!
//! Everything is a pure function of objects with ids, keys and subnets ([`ZoneObjects`](patchbay_zone::ZoneObjects)). Rows are
//! nested as they hold each other, and refer to shared rows by name. [`Topologies`] keeps
//! them in a database with the row engine (`patchbay-rows`). See `docs/design/networks.md`.
//!
//! # What is left out
//!
//! Ports of pods are in `patchbay-pods`, load balancers of services in `patchbay-services`,
//! policies in `patchbay-policies`, EgressIPs in `patchbay-egress`.

mod advertised;
mod capability;
mod copp;
mod default_services;
mod evpn;
mod gateway;
mod isolation;
mod layer2;
mod layer3;
mod localnet;
mod multicast;
mod no_overlay;
mod node;
mod remotes;
mod rows;
mod site;
mod skipped;
mod tables;
mod views;

use ipnet::IpNet;
use patchbay_model::SubnetRefusal;
use patchbay_schemas::nb::{
    Acl, AddressSet, GatewayChassis, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch, LogicalSwitchPort, Meter,
    MeterBand, Nat, PortGroup, StaticMacBinding,
};
use smol_str::SmolStr;
use thiserror::Error;

use gateway::GatewayRows;

pub use capability::Topologies;
pub use copp::{COPP, copp, meters};
pub use isolation::ISOLATED_PORTS;
pub use patchbay_zone::DefinitionError;
pub use skipped::SkippedNetworks;
pub use tables::{PortRow, RouteRow};
pub use views::{network_rows, remote_rows, skipped_networks};

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
    /// The routers: first the one that joins the network's parts, then the gateway router.
    pub routers: Vec<RouterRows>,
    /// The switches.
    pub switches: Vec<SwitchRows>,
    /// MAC addresses of next hops that nobody answers for.
    pub mac_bindings: Vec<StaticMacBinding>,
    /// Groups of ports that policies refer to.
    pub port_groups: Vec<PortGroupRows>,
    /// Address sets that the network's NAT refers to.
    pub address_sets: Vec<AddressSet>,
    /// Reason why rows are missing. `None`: the network is complete.
    pub incomplete: Option<SkipReason>,
}

impl NetworkRows {
    fn add_gateway(&mut self, gateway: GatewayRows) {
        self.routers.push(gateway.router);
        self.switches.push(gateway.switch);
        self.mac_bindings = gateway.mac_bindings;
    }
}

/// A router and what it holds. Its `copp` is [`COPP`]; the columns of references are the rows
/// beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouterRows {
    /// The router.
    pub router: LogicalRouter,
    /// Its ports.
    pub ports: Vec<RouterPortRows>,
    /// Its routes.
    pub static_routes: Vec<LogicalRouterStaticRoute>,
    /// Its policies.
    pub policies: Vec<LogicalRouterPolicy>,
    /// Its NAT.
    pub nats: Vec<NatRows>,
    /// Names of its load balancer groups.
    pub load_balancer_groups: Vec<String>,
}

/// A router port and the chassis it is bound to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RouterPortRows {
    /// The port; `gateway_chassis` is the row beside.
    pub port: LogicalRouterPort,
    /// The chassis.
    pub gateway_chassis: Option<GatewayChassis>,
}

impl From<LogicalRouterPort> for RouterPortRows {
    fn from(port: LogicalRouterPort) -> Self {
        Self { port, gateway_chassis: None }
    }
}

/// A NAT row, and the destinations that it is about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NatRows {
    /// The row; `allowed_ext_ips` and `exempted_ext_ips` are beside.
    pub nat: Nat,
    /// The destinations.
    pub destinations: Destinations,
}

/// Destinations of packets that a NAT row is about.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub enum Destinations {
    /// All.
    #[default]
    All,
    /// Those of the address set of this name.
    Of(String),
    /// All but those of the address set of this name.
    AllBut(String),
}

impl From<Nat> for NatRows {
    fn from(nat: Nat) -> Self {
        Self { nat, destinations: Destinations::All }
    }
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
    /// Name of the router that has the ports and routes.
    pub router: SmolStr,
    /// Name of the switch that has the ports.
    pub switch: SmolStr,
    /// Ports of the switch. Empty if the node has no id, chassis or transit address.
    pub switch_ports: Vec<PortRow>,
    /// Ports of the router.
    pub router_ports: Vec<LogicalRouterPort>,
    /// The routes to the node's pods and to its gateway router.
    pub static_routes: Vec<RouteRow>,
}

/// A port group; `ports` and `acls` are beside.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortGroupRows {
    /// The group.
    pub group: PortGroup,
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Its ACLs.
    pub acls: Vec<Acl>,
}

/// A network without a place in a zone.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct SkippedNetwork {
    /// Name of the network.
    pub network: String,
    /// Reason why it has none.
    pub reason: SkipReason,
}

/// Reason why a network has no rows in a zone.
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
    /// The node's subnets of the network cannot be read. The rows stay as they are.
    #[error("the node's subnets of the network cannot be read")]
    UnreadableSubnets,
    /// The node cannot have one of its subnets of the network. The rows stay as they are.
    #[error("the node's {0}")]
    RefusedSubnet(SubnetRefusal),
    /// The network's datapaths have no keys yet.
    #[error("the network has no tunnel keys")]
    NoTunnelKeys,
    /// The network's definition cannot be read.
    #[error(transparent)]
    Definition(#[from] DefinitionError),
    /// A subnet of the network has too few addresses.
    #[error("subnet {0} is too small for the addresses of the router and of the node itself")]
    SubnetTooSmall(IpNet),
    /// The part of a subnet that the network sets aside for such addresses has too few of them.
    #[error(
        "infrastructureSubnets in {0} are too small for the addresses of the router and of the node itself"
    )]
    InfrastructureTooSmall(IpNet),
    /// The rows of another network, of this name, have the names that the network's rows would
    /// have.
    #[error("its routers and switches would have the names of those of network {0}")]
    NameTaken(String),
}
