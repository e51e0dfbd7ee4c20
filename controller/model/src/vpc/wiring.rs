//! What the rows of a VPC follow from, with all references resolved.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use super::acl::SubnetAcl;
use super::dhcp::DhcpOptions;
use super::nat::ForwardedPort;
use super::router::{Peering, PolicyRoute, StaticRoute};
use super::subnet::SubnetNet;

/// Router of a VPC.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredRouter {
    /// Static routes.
    pub routes: Vec<StaticRoute>,
    /// Policies.
    pub policies: Vec<PolicyRoute>,
    /// Ports towards other VPCs.
    pub peerings: Vec<Peering>,
    /// Ports on external subnets.
    pub external: Vec<ExternalPort>,
    /// `true`: the router learns neighbors from all ARP requests.
    pub learns_from_requests: bool,
}

/// Port of a router on an external subnet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExternalPort {
    /// Name of the external subnet.
    pub subnet: Arc<str>,
    /// Addresses with the lengths of their ranges.
    pub networks: Vec<IpNet>,
    /// MAC address.
    pub mac: Arc<str>,
    /// Chassis that may host the port, the first one before the others.
    pub chassis: Vec<Arc<str>>,
}

/// Switch of a subnet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredSubnet {
    /// VPC of the subnet.
    pub vpc: Arc<str>,
    /// `true`: the VPC is the default one.
    pub is_in_default_vpc: bool,
    /// Ranges with gateways, IPv4 first.
    pub nets: Vec<SubnetNet>,
    /// Port towards the physical network. `None`: an overlay subnet.
    pub localnet: Option<Localnet>,
    /// `true`: the router has a port with the gateways.
    pub has_router_port: bool,
    /// `true`: load balancers of the VPC are on the switch.
    pub has_load_balancers: bool,
    /// Route table of packets from the subnet; empty: the main one.
    pub route_table: String,
    /// ACLs.
    pub acls: Vec<SubnetAcl>,
    /// Virtual addresses with the names of the ports that may have them.
    pub virtual_ips: Vec<(IpAddr, Vec<String>)>,
    /// Further addresses for which the router answers machines.
    pub answered: Vec<IpAddr>,
    /// DHCP options of machines, at most one of each family.
    pub dhcp: Vec<WiredDhcp>,
    /// Router advertisements of the router's port. `None`: none.
    pub advertised: Option<DhcpOptions>,
}

/// DHCP options for machines with addresses of a range.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredDhcp {
    /// The range.
    pub net: IpNet,
    /// All options.
    pub options: DhcpOptions,
}

/// DHCP options of a port.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum PortDhcp {
    /// Those of the subnet, for a range of the family.
    Subnet(IpNet),
    /// Those of the port alone.
    Own(WiredDhcp),
}

/// Port towards a physical network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Localnet {
    /// Name of the provider network.
    pub network: Arc<str>,
    /// VLAN id. `None`: frames have no tag.
    pub tag: Option<i64>,
}

/// Rule about an external address.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredNat {
    /// VPC whose router translates.
    pub vpc: Arc<str>,
    /// Name of the external subnet.
    pub subnet: Arc<str>,
    /// Pairs of addresses, one for each family.
    pub rows: Vec<NatRow>,
    /// `true`: the router has several external ports, so that the port is named.
    pub names_port: bool,
    /// Forwarded port of an `OvnDnatRule`.
    pub port: Option<ForwardedPort>,
    /// Port of the machine of a distributed `OvnFip`, and the MAC address for its external address.
    /// That of the machine may be one of another tenant's, too.
    pub machine: Option<(Arc<str>, Arc<str>)>,
}

/// External address, and the inner address or range.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NatRow {
    /// External address.
    pub external: String,
    /// Inner address or range.
    pub logical: String,
}

/// Port of a pod.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredPort {
    /// Subnet of the port.
    pub subnet: Arc<str>,
    /// Namespace and name of the machine.
    pub machine: Arc<str>,
    /// `true`: the VPC of the subnet is the default one.
    pub is_in_default_vpc: bool,
    /// MAC address and addresses, with blanks between them.
    pub addresses: String,
    /// `true`: the port may send with its own addresses only.
    pub has_port_security: bool,
    /// DHCP options, at most one of each family.
    pub dhcp: Vec<PortDhcp>,
    /// Security groups, whether they exist or not.
    pub groups: Vec<Arc<str>>,
    /// Addresses.
    pub ips: Vec<IpAddr>,
    /// Virtual addresses that the machine may have, too.
    pub shared: Vec<IpAddr>,
}

/// Port of a node on an external subnet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredEip {
    /// The external subnet.
    pub subnet: Arc<str>,
    /// MAC address and addresses, with blanks between them.
    pub addresses: String,
}
