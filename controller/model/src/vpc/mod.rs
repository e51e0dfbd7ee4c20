//! Virtual private clouds of Kube-OVN: values of their objects, and what follows from them together.
//!
//! [`VpcScene`] has the objects and resolves their references. Allocation, conditions and rows read
//! it, so that none of them judges alone.

mod acl;
mod attachment;
mod balancer;
mod dhcp;
mod eip;
mod fallback;
mod group;
mod interface;
mod ip_pool;
mod nat;
mod node;
mod pool;
mod problem;
mod provider;
mod router;
mod scene;
mod scene_balancers;
mod scene_groups;
mod scene_nat;
mod subnet;
mod virtual_ip;
mod wiring;

pub use acl::{AclFlow, AclReason, AclVerdict, SubnetAcl};
pub use attachment::{KUBE_OVN_PLUGIN, KubeOvnConfig, KubeOvnConfigError};
pub use balancer::{
    Backend, BalancedVips, Balancer, BalancerFront, BalancerKey, BalancerKind, BalancerPort,
    CheckedMachine, WiredBalancer, WiredVip,
};
pub use dhcp::DhcpOptions;
pub use eip::{Eip, EipKind};
pub use group::{
    DENY_ALL_GROUP, GroupAcl, GroupRule, GroupRuleFields, SecurityGroup, group_addresses,
    port_group,
};
pub use interface::vlan_device_id;
pub use ip_pool::{AddressSource, IpPool, WiredIpPool};
pub use nat::{ForwardedPort, NatKey, NatKind, NatRule, NatTarget};
pub use node::{CHASSIS, GATEWAY_NODE, TUNNEL_INTERFACE, VpcNode};
pub use pool::{AddressRange, AddressUse, PoolError, VpcAddressPool};
pub use problem::{
    BalancerProblem, ConnectionProblem, NatProblem, PortProblem, SubnetProblem, VirtualIpProblem,
};
pub use provider::{AttachmentProvider, SubnetProvider};
pub use router::{ExternalSubnets, Peering, PolicyAction, PolicyRoute, StaticRoute, Vpc};
pub use scene::{Connection, PortRequest, VpcObjects, VpcPort, VpcScene, VpcVlan};
pub use scene_balancers::{VpcVips, checking_subnets, shared_vips};
pub use scene_groups::{ResolvedGroup, WiredGroup};
pub use scene_nat::ResolvedRules;
pub use subnet::{SubnetDhcp, SubnetNet, VpcSubnet};
pub use virtual_ip::{HostPort, VirtualIp, VirtualIpKind, WiredVirtualIp};
pub use wiring::{
    ExternalPort, Localnet, NatRow, PortDhcp, WiredDhcp, WiredEip, WiredNat, WiredPort,
    WiredRouter, WiredSubnet,
};

/// Name of the default VPC, which Kube-OVN makes.
pub const DEFAULT_VPC: &str = "ovn-cluster";
/// Name of the external subnet of VPCs that list none.
pub const DEFAULT_EXTERNAL_SUBNET: &str = "external";
/// Vendor in the external ids of rows, as Kube-OVN writes it.
pub const KUBE_OVN_VENDOR: &str = "kube-ovn";
