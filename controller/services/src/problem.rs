//! Reasons why a service is not forwarded as its object specifies.

use std::net::IpAddr;

use patchbay_model::{Protocol, ServiceFieldProblem, ServiceKey};
use thiserror::Error;

/// A field of a service or of its endpoints that cannot be used. The rest of the service is.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[non_exhaustive]
pub enum ServiceProblem {
    /// A field of the service cannot be used.
    #[error(transparent)]
    Field(#[from] ServiceFieldProblem),
    /// Another service has the node port.
    #[error("spec.ports: node port {port} of {protocol} is taken by service {other}")]
    NodePortTaken {
        /// Protocol of the port.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// The service that has it.
        other: ServiceKey,
    },
    /// Another service has the address and port.
    #[error("{address} port {port} of {protocol} is taken by service {other}")]
    AddressTaken {
        /// Cluster IP or external address.
        address: IpAddr,
        /// Protocol of the port.
        protocol: Protocol,
        /// The port.
        port: u16,
        /// The service that has it.
        other: ServiceKey,
    },
    /// An endpoint is neither a pod of the network nor a node.
    #[error(
        "endpoint {address} is neither in a subnet of network {network} nor an address of a node"
    )]
    OutsideEndpoint {
        /// Address of the endpoint.
        address: IpAddr,
        /// Name of the network.
        network: String,
    },
}
