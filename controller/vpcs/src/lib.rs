//! Rows of virtual private clouds in the one Northbound database of a cluster, named as Kube-OVN
//! names them.
//!
//! ```text
//! Vpc        router, routes, policies, ports towards other VPCs and external subnets with their
//!            chassis, load balancers and address sets of the VPC
//! Subnet     switch, port towards the physical network, pair of ports with the router, policy
//! OvnEip     port of a node on an external subnet
//! rule       NAT, or a load balancer of the router
//! RouterLBRule  load balancers of the router, one for each protocol
//! SecurityGroup port group with its ACLs, two address sets
//! IPPool     address set
//! Vip        port that machines have in turn
//! IP         port of a pod
//! ```
//!
//! Everything is a pure function of [`ZoneVpcs`]. [`Vpcs`] is a capability of the row
//! engine (`patchbay-rows`). See `docs/design/vpcs.md`.

mod capability;
mod inputs;
mod part;
mod rows;
mod tables;

pub use capability::Vpcs;
pub use inputs::{VpcCell, ZoneVpcs};
pub use part::Part;
