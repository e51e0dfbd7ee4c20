//! Objects of a platform's other parts, which `patchbay lint` compares with those of VPCs. What no
//! rule looks into is JSON.

mod cluster;
mod metallb;

pub use cluster::{Deployment, DeploymentSpec, Lease, LeaseSpec, ServiceCIDR, ServiceCidrSpec};
pub use metallb::{
    BGPAdvertisement, BGPPeer, BgpPeerSpec, IPAddressPool, IpAddressPoolSpec, L2Advertisement,
    PoolAdvertisementSpec,
};
