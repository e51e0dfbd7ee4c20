//! Attempt to give a pod addresses in a network.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use patchbay_model::{
    AddressError, ClusterSettings, IpFamily, NODE_ID, Pod, PodAttachment, PodNetwork, PodRoute,
    Role, link_local_address, mac_address, mac_of_name,
};
use patchbay_resources::manifests::{Inventory, ObjectKey};
use thiserror::Error;

use super::addresses_at;
use super::network::{MacOwner, NetworkAddresses};
use crate::networks::annotations::annotation;
use crate::networks::manager::{Layer2Layouts, ManagerSettings};
use crate::networks::memory::PodMemory;

/// Annotation of a node: the layout of its layer2 networks.
const LAYER2_LAYOUT: &str = "k8s.ovn.org/layer2-topology-version";
/// Layout with transit routers.
const TRANSIT_ROUTER_LAYOUT: &str = "2.0";

/// Reason why a pod gets no addresses.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum AttemptError {
    #[error("failed to allocate tunnel ID for {owner}: all ids are in use")]
    NoTunnelId { owner: String },
    #[error(
        "cannot allocate a static IP request with IPAM for pod {owner}: only supported on primary networks"
    )]
    StaticAddress { owner: String },
    #[error(
        "failed to ensure requested or annotated IPs [{}] for {owner}: provided IP is already allocated",
        join(.addresses)
    )]
    AddressTaken {
        owner: String,
        addresses: Vec<IpNet>,
    },
    #[error(
        "failed to ensure requested or annotated IPs [{}] for {owner}: {address} is not for pods of the network",
        join(.addresses)
    )]
    AddressOutside {
        owner: String,
        addresses: Vec<IpNet>,
        address: IpNet,
    },
    #[error("failed to assign pod addresses for {owner}: no addresses left in subnet {subnet}")]
    Exhausted { owner: String, subnet: IpNet },
    #[error(
        "failed to reserve MAC address {mac:?} for owner {pod:?} on NAD key {attachment:?}: MAC address already in use"
    )]
    MacTaken {
        mac: String,
        pod: String,
        attachment: String,
    },
    #[error("failed to get IPAMClaim {0:?}: ipamclaims.k8s.cni.cncf.io {0:?} not found")]
    NoClaim(String),
    #[error("IPAMClaim {claim:?} is of network {network:?}")]
    OtherClaim { claim: String, network: String },
}

impl AttemptError {
    /// Reason in the condition of the pod's claim.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::AddressTaken { .. } => "IPAddressConflict",
            Self::MacTaken { .. } => "MACAddressConflict",
            Self::Exhausted { .. } => "SubnetExhausted",
            _ => "InternalError",
        }
    }
}

fn join(addresses: &[IpNet]) -> String {
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    texts.join(" ")
}

/// The claim that a pod names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Claim {
    /// It does not exist.
    Missing(String),
    /// It is of another network.
    OfNetwork { claim: String, network: String },
    /// Its addresses; empty before the first pod.
    Addresses(Vec<IpNet>),
}

/// The node of a pod.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Node {
    /// Id of a node whose layer2 networks have no transit router.
    older_layout: Option<u16>,
}

impl Node {
    pub(super) fn read(inventory: &Inventory, pod: &Pod, settings: &ManagerSettings) -> Self {
        let name = pod.node.as_deref().unwrap_or_default();
        let node = inventory.nodes.get(&ObjectKey::cluster(name));
        let meta = node.map(|node| &node.object.metadata);
        let is_annotated = settings.workloads == Some(Layer2Layouts::Annotated);
        let is_older = |meta: &&_| {
            is_annotated && annotation(meta, LAYER2_LAYOUT) != Some(TRANSIT_ROUTER_LAYOUT)
        };
        let id = |meta| annotation(meta, NODE_ID)?.parse().ok();
        Self {
            older_layout: meta.filter(is_older).and_then(id),
        }
    }
}

/// What a pod asks for.
pub(super) struct Attempt<'a> {
    pub(super) pod: &'a Pod,
    pub(super) attachment: &'a PodAttachment,
    pub(super) node: Node,
    /// `None`: the addresses are not kept.
    pub(super) claim: Option<&'a Claim>,
    pub(super) settings: &'a ClusterSettings,
}

impl Attempt<'_> {
    /// Name of the attempt in errors.
    pub(super) fn owner(&self) -> String {
        format!("{}/{}", self.attachment.key, self.pod.key)
    }

    /// Everything that decides an attempt beside the network's state.
    pub(super) fn fingerprint(&self) -> String {
        let request = (&self.pod.uid, &self.attachment.request, self.claim);
        format!("{request:?} {:?}", self.attachment.network)
    }

    /// Takes a tunnel id, addresses and a MAC address. After an error, everything but the positions
    /// of the allocators is as before.
    pub(super) fn make(
        &self,
        network: &mut NetworkAddresses,
        memory: &mut PodMemory,
    ) -> Result<PodNetwork, AttemptError> {
        match self.claim {
            Some(Claim::Missing(name)) => return Err(AttemptError::NoClaim(name.clone())),
            Some(Claim::OfNetwork { claim, network }) => {
                let (claim, network) = (claim.clone(), network.clone());
                return Err(AttemptError::OtherClaim { claim, network });
            }
            Some(Claim::Addresses(_)) | None => {}
        }
        let mut tunnel_id = None;
        if network.has_tunnel_ids() {
            let id = network.take_tunnel_id(memory);
            let owner = self.owner();
            tunnel_id = Some(id.ok_or(AttemptError::NoTunnelId { owner })?);
        }
        let mut taken = Vec::new();
        let given = self
            .take_addresses(network, &mut taken)
            .and_then(|addresses| Ok((self.take_mac(network, &addresses)?, addresses)));
        match given {
            Ok((mac, addresses)) => Ok(self.place(network, tunnel_id, mac, addresses)),
            Err(error) => {
                network.release(tunnel_id, &taken);
                Err(error)
            }
        }
    }

    /// Takes addresses: those of the claim, the requested ones, or the next ones.
    fn take_addresses(
        &self,
        network: &mut NetworkAddresses,
        taken: &mut Vec<IpAddr>,
    ) -> Result<Vec<IpNet>, AttemptError> {
        let requested = &self.attachment.request.addresses;
        if network.pools.is_empty() {
            return Ok(requested.clone());
        }
        if let Some(Claim::Addresses(kept)) = self.claim
            && !kept.is_empty()
        {
            return Ok(kept.clone());
        }
        if requested.is_empty() {
            let mut addresses = Vec::new();
            for pool in &mut network.pools {
                let subnet = pool.subnet();
                let owner = || self.owner();
                let address = pool.allocate().ok_or_else(|| AttemptError::Exhausted {
                    owner: owner(),
                    subnet,
                })?;
                taken.push(address);
                addresses.extend(IpNet::new(address, subnet.prefix_len()));
            }
            return Ok(addresses);
        }
        if network.network.role == Role::Secondary {
            let owner = self.owner();
            return Err(AttemptError::StaticAddress { owner });
        }
        for address in requested {
            let mut pools = network.pools.iter_mut();
            let pool = pools.find(|pool| pool.subnet().contains(&address.addr()));
            let outside = Err(AddressError::Outside(address.addr()));
            match pool.map_or(outside, |pool| pool.request(address.addr())) {
                Ok(()) => {}
                Err(AddressError::Outside(_)) => {
                    return Err(AttemptError::AddressOutside {
                        owner: self.owner(),
                        addresses: requested.clone(),
                        address: *address,
                    });
                }
                Err(AddressError::Taken(_)) => {
                    return Err(AttemptError::AddressTaken {
                        owner: self.owner(),
                        addresses: requested.clone(),
                    });
                }
            }
            taken.push(address.addr());
        }
        Ok(requested.clone())
    }

    fn take_mac(
        &self,
        network: &mut NetworkAddresses,
        addresses: &[IpNet],
    ) -> Result<String, AttemptError> {
        let requested = self.attachment.request.mac.clone();
        let mac = requested.unwrap_or_else(|| match addresses.first() {
            Some(first) => mac_address(first.addr()),
            None => mac_of_name(&self.owner()),
        });
        let owner = MacOwner::of(self.pod, &self.attachment.request);
        if network.take_mac(&mac, &owner) {
            Ok(mac)
        } else {
            Err(AttemptError::MacTaken {
                mac,
                pod: self.pod.key.to_string(),
                attachment: self.attachment.key.clone(),
            })
        }
    }

    fn place(
        &self,
        network: &NetworkAddresses,
        tunnel_id: Option<u16>,
        mac: String,
        addresses: Vec<IpNet>,
    ) -> PodNetwork {
        let requested = &self.attachment.request.gateways;
        let is_primary = network.network.role == Role::Primary;
        let routes = network.gateways.iter().flat_map(|gateway| {
            let family = IpFamily::of(*gateway);
            let services = self.settings.service_cidrs.iter();
            let destinations = services.chain(&network.network.join_subnets);
            destinations
                .filter(move |dest| IpFamily::of_net(**dest) == family)
                .map(|dest| PodRoute {
                    dest: *dest,
                    next_hop: *gateway,
                })
        });
        PodNetwork {
            addresses,
            mac,
            routes: routes.collect(),
            link_local_gateway: self.link_local_gateway(network),
            gateways: if requested.is_empty() {
                network.gateways.clone()
            } else {
                requested.clone()
            },
            tunnel_id,
            role: if is_primary { "primary" } else { "secondary" }.to_owned(),
        }
    }

    /// Link-local address of the gateway's port. In the older layout that is the gateway router of
    /// the node.
    fn link_local_gateway(&self, network: &NetworkAddresses) -> Option<Ipv6Addr> {
        let mut gateways = network.gateways.iter();
        if !gateways.any(IpAddr::is_ipv6) {
            return None;
        }
        let port = match self.node.older_layout {
            None => *network.gateways.first()?,
            Some(id) => {
                let mut join = network.network.join_subnets.iter();
                let first = join.find(|net| self.settings.has_family(IpFamily::of_net(**net)))?;
                *addresses_at(&[*first], id.into()).first()?
            }
        };
        link_local_address(&mac_address(port))
    }
}
