//! Reasons why an object of a VPC, or a part of it, has no rows.

use std::sync::Arc;

use thiserror::Error;

use crate::{FieldProblem, IpFamily};

/// Reason why a subnet has no switch.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum SubnetProblem {
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// The VPC does not exist.
    #[error("spec.vpc: there is no Vpc {0}")]
    NoVpc(Arc<str>),
    /// The VPC does not list a namespace of the subnet.
    #[error("spec.namespaces: namespace {namespace} is not in spec.namespaces of Vpc {vpc}")]
    Namespace {
        /// The namespace.
        namespace: String,
        /// The VPC.
        vpc: Arc<str>,
    },
    /// The VLAN cannot be used.
    #[error("spec.vlan: {0}")]
    Vlan(String),
    /// Another subnet has some of the addresses.
    #[error("spec.cidrBlock: overlaps with Subnet {other} ({range})")]
    Overlap {
        /// The other subnet.
        other: Arc<str>,
        /// Range of the other subnet.
        range: ipnet::IpNet,
    },
}

impl SubnetProblem {
    /// Word for the reason in a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Field(_) | Self::Overlap { .. } => "ValidateLogicalSwitchFailed",
            Self::NoVpc(_) => "VpcNotFound",
            Self::Namespace { .. } => "NamespaceNotInVpc",
            Self::Vlan(_) => "ValidateSubnetVlanFailed",
        }
    }
}

/// Reason why a VPC has no port on an external subnet.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ConnectionProblem {
    /// The subnet does not exist, or is none of those that a VPC can be connected to.
    #[error("Subnet {subnet}: {reason}")]
    Subnet {
        /// The subnet.
        subnet: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// No node may host the port.
    #[error("no node has the label ovn.kubernetes.io/external-gw=true")]
    NoGatewayNode,
    /// The chassis of no gateway node is known.
    #[error("no gateway node has a chassis: annotation ovn.kubernetes.io/chassis of {0}")]
    NoChassis(String),
    /// The port has no address.
    #[error("OvnEip {eip}: {reason}")]
    NoAddress {
        /// The external address.
        eip: String,
        /// The reason.
        reason: String,
    },
}

impl ConnectionProblem {
    /// Word for the reason in a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Subnet { .. } => "ExternalSubnetNotFound",
            Self::NoGatewayNode => "NoGatewayNodes",
            Self::NoChassis(_) => "ChassisMissing",
            Self::NoAddress { .. } => "AddressExhausted",
        }
    }
}

/// Reason why a rule about an external address has no effect.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum NatProblem {
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// The external address does not exist.
    #[error("spec.ovnEip: there is no OvnEip {0}")]
    NoEip(Arc<str>),
    /// The external address cannot be used yet.
    #[error("spec.ovnEip: OvnEip {eip}: {reason}")]
    EipNotReady {
        /// The external address.
        eip: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// The object with the inner addresses cannot be used.
    #[error("{field}: {reason}")]
    Target {
        /// Path of the field that names the object.
        field: &'static str,
        /// The reason.
        reason: String,
    },
    /// The VPC has no port on the subnet of the external address.
    #[error("Vpc {vpc} has no port on Subnet {subnet}, the subnet of OvnEip {eip}")]
    NotConnected {
        /// The VPC.
        vpc: Arc<str>,
        /// The external subnet.
        subnet: Arc<str>,
        /// The external address.
        eip: Arc<str>,
    },
    /// The external address belongs to another VPC.
    #[error("spec.ovnEip: OvnEip {eip} belongs to Vpc {owner}")]
    Foreign {
        /// The external address.
        eip: Arc<str>,
        /// The other VPC.
        owner: Arc<str>,
    },
    /// Another rule has the address, or the port of it.
    #[error("spec.ovnEip: {what} is used by {other}")]
    Taken {
        /// Address, or protocol, address and port.
        what: String,
        /// Kind and name of the other rule.
        other: String,
    },
}

impl NatProblem {
    /// Word for the reason in a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Field(_) | Self::Target { .. } => "InvalidRule",
            Self::NoEip(_) => "EipNotFound",
            Self::EipNotReady { .. } => "EipNotReady",
            Self::NotConnected { .. } => "VpcNotConnected",
            Self::Foreign { .. } => "EipOfOtherVpc",
            Self::Taken { .. } => "PortInUse",
        }
    }
}

/// Reason why a load balancer has no effect.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum BalancerProblem {
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// The external address cannot be used.
    #[error(transparent)]
    External(#[from] NatProblem),
    /// No machine tells the VPC.
    #[error(
        "no machine of spec.selector or spec.endpoints has a port in a VPC, and the annotation \
         ovn.kubernetes.io/logical_router names none"
    )]
    NoVpc,
    /// The VPC is the default one.
    #[error("it is in Vpc ovn-cluster, whose load balancers are those of the platform")]
    DefaultVpc,
    /// The VPC does not exist.
    #[error("{field}: there is no Vpc {vpc}")]
    UnknownVpc {
        /// Path of the field that names the VPC.
        field: String,
        /// The VPC.
        vpc: Arc<str>,
    },
    /// There are no machines.
    #[error("no machine in Vpc {0} has an address of its IP families")]
    NoMachine(Arc<str>),
}

impl BalancerProblem {
    /// Word for the reason in a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Field(_) => "InvalidRule",
            Self::External(problem) => problem.reason(),
            Self::NoVpc | Self::UnknownVpc { .. } => "VpcNotFound",
            Self::DefaultVpc => "DefaultVpc",
            Self::NoMachine(_) => "NoMachine",
        }
    }
}

/// Reason why a virtual address cannot be used.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum VirtualIpProblem {
    /// The object does not exist.
    #[error("there is no such Vip")]
    Unknown,
    /// A field cannot be used.
    #[error(transparent)]
    Field(#[from] FieldProblem),
    /// The subnet cannot be used.
    #[error("spec.subnet: Subnet {subnet}: {reason}")]
    Subnet {
        /// The subnet.
        subnet: Arc<str>,
        /// The reason.
        reason: String,
    },
}

impl VirtualIpProblem {
    /// Word for the reason in a condition.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Unknown => "VipNotFound",
            Self::Field(_) => "InvalidVip",
            Self::Subnet { .. } => "SubnetNotReady",
        }
    }
}

/// Reason why a pod has no port in a subnet.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum PortProblem {
    /// No subnet has the provider of the definition.
    #[error("NetworkAttachmentDefinition {0}: no Subnet has its provider")]
    NoSubnet(String),
    /// The subnet of the annotation does not exist.
    #[error("metadata.annotations[{annotation}]: there is no Subnet {subnet}")]
    UnknownSubnet {
        /// Key of the annotation.
        annotation: String,
        /// The subnet.
        subnet: String,
    },
    /// The subnet has no switch.
    #[error("Subnet {subnet}: {reason}")]
    Subnet {
        /// The subnet.
        subnet: Arc<str>,
        /// The reason.
        reason: String,
    },
    /// The VPC of the subnet does not list the namespace of the pod.
    #[error("Subnet {subnet} is of Vpc {vpc}, whose spec.namespaces has no {namespace}")]
    Namespace {
        /// The subnet.
        subnet: Arc<str>,
        /// The VPC.
        vpc: Arc<str>,
        /// Namespace of the pod.
        namespace: Arc<str>,
    },
    /// The subnet has no range of the wished family.
    #[error("Subnet {subnet} has no range of IP{family}")]
    Family {
        /// The subnet.
        subnet: Arc<str>,
        /// The family.
        family: IpFamily,
    },
    /// A wished address cannot be read, or the pod cannot have it.
    #[error("metadata.annotations[{annotation}]: {reason}")]
    Wish {
        /// Key of the annotation.
        annotation: String,
        /// The reason.
        reason: String,
    },
}
