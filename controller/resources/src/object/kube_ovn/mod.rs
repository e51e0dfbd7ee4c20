//! Resources of Kube-OVN (`kubeovn.io/v1`): provider networks, VPCs, their subnets and external
//! addresses.
//!
//! The types have all fields of the definitions of Kube-OVN 1.17, so that any other field is
//! refused. Texts are empty and numbers zero where a field is absent, unless the difference counts.

mod balancer;
mod condition;
mod gateway;
mod ip;
mod nat;
mod ovn_eip;
mod provider_network;
mod security_group;
mod subnet;
mod vip;
mod vlan;
mod vpc;

pub use balancer::{
    LBRulePort, LBRuleStatus, RouterLBRule, RouterLBRuleSpec, SwitchLBRule, SwitchLBRuleSpec,
};
pub use condition::KubeOvnCondition;
pub use gateway::{VpcDns, VpcDnsSpec, VpcDnsStatus, VpcNatGateway, VpcNatGatewaySpec};
pub use ip::{IP, IpSpec};
pub use nat::{
    OvnDnatRule, OvnDnatRuleSpec, OvnDnatRuleStatus, OvnFip, OvnFipSpec, OvnFipStatus, OvnSnatRule,
    OvnSnatRuleSpec, OvnSnatRuleStatus,
};
pub use ovn_eip::{OvnEip, OvnEipSpec, OvnEipStatus};
pub use provider_network::{
    CustomInterface, ProviderNetwork, ProviderNetworkSpec, ProviderNetworkStatus,
};
pub use security_group::{
    SecurityGroup, SecurityGroupRule, SecurityGroupSpec, SecurityGroupStatus,
};
pub use subnet::{
    NatOutgoingPolicyMatch, NatOutgoingPolicyRule, NatOutgoingPolicyRuleStatus, Subnet, SubnetAcl,
    SubnetSpec, SubnetStatus, U2oFeatures,
};
pub use vip::{IPPool, IpPoolSpec, IpPoolStatus, Vip, VipSpec, VipStatus};
pub use vlan::{Vlan, VlanSpec, VlanStatus};
pub use vpc::{
    Vpc, VpcBfdPort, VpcBfdPortStatus, VpcPeering, VpcPolicyRoute, VpcSpec, VpcStaticRoute,
    VpcStatus,
};

/// Group of the resources.
pub const KUBE_OVN_GROUP: &str = "kubeovn.io";
