//! Load balancers of services and rules in VPCs.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use crate::pod::PodKey;
use crate::{FieldProblem, Protocol};

/// Kind of an object that a load balancer follows from.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum BalancerKind {
    /// `Service`.
    Service,
    /// `SwitchLBRule`.
    SwitchRule,
    /// `RouterLBRule`.
    RouterRule,
}

impl BalancerKind {
    /// Kind of the objects.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Service => "Service",
            Self::SwitchRule => "SwitchLBRule",
            Self::RouterRule => "RouterLBRule",
        }
    }
}

/// Kind and name of an object that a load balancer follows from.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct BalancerKey {
    /// Kind.
    pub kind: BalancerKind,
    /// Name; that of a service is `NAMESPACE/NAME`.
    pub name: Arc<str>,
}

impl fmt::Display for BalancerKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.as_str(), self.name)
    }
}

/// Addresses of a load balancer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum BalancerFront {
    /// Addresses in the VPC.
    Addresses(Vec<IpAddr>),
    /// Addresses of an `OvnEip`, at the router of the VPC.
    Eip(Arc<str>),
}

/// Machine behind a load balancer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Backend {
    /// A pod, with the port of its address.
    Pod(PodKey, u16),
    /// An address and port.
    Address(SocketAddr),
}

/// Port of a load balancer.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct BalancerPort {
    /// Path of the entry.
    pub field: String,
    /// Protocol.
    pub protocol: Protocol,
    /// Port of the addresses.
    pub port: u16,
    /// Machines.
    pub backends: Vec<Backend>,
}

/// Load balancer, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Balancer {
    /// Kind and name.
    pub key: BalancerKey,
    /// Namespace of the machines.
    pub namespace: Arc<str>,
    /// Path of the field that names the VPC, and the name. `None`: the VPC of the first machine.
    pub vpc: Option<(String, Arc<str>)>,
    /// Addresses.
    pub front: BalancerFront,
    /// `true`: a client keeps its machine.
    pub has_affinity: bool,
    /// Ports.
    pub ports: Vec<BalancerPort>,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
    /// Position among the objects: of two with one address and port, the first one has it.
    pub position: u64,
}

/// Load balancer with its machines resolved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredBalancer {
    /// The VPC.
    pub vpc: Arc<str>,
    /// `true`: a client keeps its machine.
    pub has_affinity: bool,
    /// Addresses and ports with machines.
    pub vips: Vec<WiredVip>,
    /// Switches that hold the load balancer of a `RouterLBRule`, beside the router.
    pub switches: Vec<Arc<str>>,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
}

/// Address and port of a load balancer, with its machines.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredVip {
    /// Protocol.
    pub protocol: Protocol,
    /// Address and port.
    pub vip: SocketAddr,
    /// Addresses and ports of the machines, in their order. At least one.
    pub backends: Vec<SocketAddr>,
    /// Machines that are checked for health, by address.
    pub checked: BTreeMap<IpAddr, CheckedMachine>,
}

/// Machine that is checked for health.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct CheckedMachine {
    /// Name of its port.
    pub port: Arc<str>,
    /// Subnet of its port, an address of which checks.
    pub subnet: Arc<str>,
    /// The checking address: that of the `Vip` with the name of the subnet. `None`: none yet.
    pub source: Option<IpAddr>,
}

/// Row of a load balancer: what it has of all rules in it.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct BalancedVips {
    /// Machines, by address and port.
    pub vips: BTreeMap<String, String>,
    /// Port and checking address of the machines, by their address.
    pub sources: BTreeMap<String, String>,
    /// Subnets whose addresses check, by address and port.
    pub checks: BTreeMap<String, Arc<str>>,
}

impl BalancedVips {
    /// Adds an address and port with its machines, and what checks them.
    pub fn add(&mut self, vip: &WiredVip) {
        let key = vip.vip.to_string();
        self.vips.insert(key.clone(), vip.to_text());
        for (address, checked) in &vip.checked {
            if let Some(source) = checked.source {
                let of_machine = format!("{}:{source}", checked.port);
                self.sources.insert(address.to_string(), of_machine);
                self.checks.entry(key.clone()).or_insert_with(|| checked.subnet.clone());
            }
        }
    }
}

impl WiredVip {
    /// Value of the column `vips` for the address.
    fn to_text(&self) -> String {
        let texts: Vec<String> = self.backends.iter().map(ToString::to_string).collect();
        texts.join(",")
    }
}
