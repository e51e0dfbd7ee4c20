//! Attempt to give a pod addresses in a network.

use std::net::{IpAddr, Ipv6Addr};

use ipnet::IpNet;
use patchbay_model::arithmetic::nth_address;
use patchbay_model::{
    AddressError, AttachedNetwork, ClusterSettings, IpFamily, NodeId, Pod, PodAttachment,
    PodNetwork, Role, gateway_mac, link_local_address, mac_address, mac_of_name,
};
use patchbay_resources::manifests::Inventory;
use thiserror::Error;

use super::claim::Claim;
use super::memory::PodMemory;
use super::network::{MacOwner, NetworkAddresses};
use crate::networks::annotations::annotation;
use crate::networks::nodes::NodeIds;
use crate::networks::settings::{Layer2Layouts, ManagerSettings};

/// Annotation of a node: the layout of its layer2 networks.
const LAYER2_LAYOUT: &str = "k8s.ovn.org/layer2-topology-version";
/// Layout with transit routers.
const TRANSIT_ROUTER_LAYOUT: &str = "2.0";

/// Reason why a pod gets no addresses. The texts are those of OVN-Kubernetes, except those of
/// [`OtherClaim`](Self::OtherClaim) and [`ClaimAddress`](Self::ClaimAddress).
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum AttemptError {
    #[error(
        "failed to assign pod id for {owner}: failed to allocate the id for the resource {key}"
    )]
    NoTunnelId { owner: String, key: String },
    #[error(
        "cannot allocate a static IP request with IPAM for pod {owner}: only supported on primary networks"
    )]
    StaticAddress { owner: String },
    #[error(
        "cannot allocate a static IP request with IPAM for pod {owner:?}: the pod references an ipam claim with IPs not \
         containing the requested IP \"{address}\""
    )]
    NotInClaim { owner: String, address: IpNet },
    #[error("{0}: requested IPs family types must match network's IP family configuration")]
    Families(String),
    #[error(
        "failed to ensure requested or annotated IPs [{}] for {owner}: {reason}",
        join(.addresses)
    )]
    Refused { owner: String, addresses: Vec<IpNet>, reason: Refusal },
    #[error(
        "failed to assign pod addresses for {owner}: failed to allocate new IPs for {network}: subnet address pool exhausted"
    )]
    Exhausted { owner: String, network: String },
    #[error(
        "failed to reserve MAC address {mac:?} for owner {pod:?} on NAD key {attachment:?}: MAC address already in use"
    )]
    MacTaken { mac: String, pod: String, attachment: String },
    #[error(
        "error retrieving IPAMClaim for pod {pod}: failed to get IPAMClaim {claim:?}: \
         ipamclaim.k8s.cni.cncf.io {claim:?} not found"
    )]
    NoClaim { pod: String, claim: String },
    #[error("bad podNetwork data: single-stack network can only have a single gateway")]
    Gateways,
    #[error("IPAMClaim {claim:?} is of network {network:?}")]
    OtherClaim { claim: String, network: String },
    #[error("IPAMClaim {claim:?}: status.ips: invalid CIDR address: {address}")]
    ClaimAddress { claim: String, address: String },
}

/// Reason why an address is not given.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
pub(super) enum Refusal {
    #[error("provided IP is already allocated")]
    Taken,
    #[error("provided IP is not in the valid range. The range of valid IPs is {0}")]
    NotInRange(IpNet),
    #[error("failed to allocate IP {address} for {network}: not contained in any known subnet")]
    Unknown { address: IpAddr, network: String },
}

impl AttemptError {
    /// Reason in the condition of the pod's claim.
    pub(super) fn reason(&self) -> &'static str {
        match self {
            Self::Refused { reason: Refusal::Taken, .. } => "IPAddressConflict",
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

/// Id of the pod's node, if its layer2 networks have no transit router. `None`: they have.
pub(super) fn older_layout(
    inventory: &Inventory,
    pod: &Pod,
    node_ids: &NodeIds,
    settings: &ManagerSettings,
) -> Option<NodeId> {
    if settings.workloads != Some(Layer2Layouts::Annotated) {
        return None;
    }
    let name = pod.node.as_deref()?;
    let meta = &inventory.nodes.named(name)?.metadata;
    let is_older = annotation(meta, LAYER2_LAYOUT) != Some(TRANSIT_ROUTER_LAYOUT);
    is_older.then(|| node_ids.get(name))?
}

/// Request of a pod.
pub(super) struct Attempt<'a> {
    pub(super) pod: &'a Pod,
    pub(super) attachment: &'a PodAttachment,
    /// Id of a node whose layer2 networks have no transit router.
    pub(super) older_layout: Option<NodeId>,
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
        let mut tunnel_id = None;
        if network.has_tunnel_ids() {
            let id = network.take_tunnel_id(self.pod, &self.attachment.key, memory);
            tunnel_id = Some(id.ok_or_else(|| AttemptError::NoTunnelId {
                owner: self.owner(),
                key: format!("{}/{}", self.attachment.key, self.pod.uid),
            })?);
        }
        let mut taken = Vec::new();
        let given = self
            .check_claim()
            .and_then(|()| self.take_addresses(network, &mut taken))
            .and_then(|addresses| {
                let has_gateways = self.attachment.request.gateways.len() > 1;
                if addresses.len() == 1 && has_gateways {
                    return Err(AttemptError::Gateways);
                }
                Ok((self.take_mac(network, &addresses)?, addresses))
            });
        match given {
            Ok((mac, addresses)) => {
                let network = &network.network;
                let gateways = network.gateways(&addresses);
                let requested = &self.attachment.request.gateways;
                Ok(PodNetwork {
                    link_local_gateway: self.link_local_gateway(network, &gateways),
                    tunnel_id,
                    ..network.pod_network(addresses, mac, requested, self.settings)
                })
            }
            Err(error) => {
                network.release(tunnel_id, &taken);
                Err(error)
            }
        }
    }

    /// Checks that the claim is one of the network.
    fn check_claim(&self) -> Result<(), AttemptError> {
        match self.claim {
            Some(Claim::Missing(claim)) => {
                Err(AttemptError::NoClaim { pod: self.pod.key.to_string(), claim: claim.clone() })
            }
            Some(Claim::OfNetwork { claim, network }) => {
                let (claim, network) = (claim.clone(), network.clone());
                Err(AttemptError::OtherClaim { claim, network })
            }
            Some(Claim::Unreadable { claim, address }) => {
                let (claim, address) = (claim.clone(), address.clone());
                Err(AttemptError::ClaimAddress { claim, address })
            }
            Some(Claim::Addresses(_)) | None => Ok(()),
        }
    }

    /// Takes addresses: the requested ones, those of the claim, or the next ones.
    fn take_addresses(
        &self,
        network: &mut NetworkAddresses,
        taken: &mut Vec<IpAddr>,
    ) -> Result<Vec<IpNet>, AttemptError> {
        let requested = &self.attachment.request.addresses;
        if network.pools.is_empty() {
            return Ok(requested.clone());
        }
        let kept = match self.claim {
            Some(Claim::Addresses(kept)) => &kept[..],
            _ => &[],
        };
        if !requested.is_empty() {
            self.check_request(network, kept)?;
        }
        let wanted = if requested.is_empty() { kept } else { requested };
        if wanted.is_empty() {
            return self.take_next(network, taken);
        }
        for address in wanted {
            let reason = match take(network, address.addr()) {
                Ok(()) => {
                    taken.push(address.addr());
                    continue;
                }
                // A claim that has its addresses keeps them.
                Err(Refusal::Taken) if !kept.is_empty() => continue,
                Err(reason) => reason,
            };
            return Err(AttemptError::Refused {
                owner: self.owner(),
                addresses: wanted.to_vec(),
                reason,
            });
        }
        Ok(wanted.to_vec())
    }

    /// Checks requested addresses against the network and the claim.
    fn check_request(
        &self,
        network: &NetworkAddresses,
        kept: &[IpNet],
    ) -> Result<(), AttemptError> {
        let owner = self.owner();
        let requested = &self.attachment.request.addresses;
        if network.network.role == Role::Secondary {
            return Err(AttemptError::StaticAddress { owner });
        }
        let mut foreign = requested.iter().filter(|one| !kept.contains(one));
        if let Some(address) = foreign.next().filter(|_| !kept.is_empty()) {
            let address = *address;
            return Err(AttemptError::NotInClaim { owner, address });
        }
        let (found, wanted) = (requested.len(), network.pools.len());
        if found > IpFamily::BOTH.len() {
            let problem = format!("layer2 network expects at most 2 IPs, got {found}");
            return Err(AttemptError::Families(problem));
        }
        if found != wanted {
            let problem = format!("layer2 network expects {wanted} IP(s), got {found}");
            return Err(AttemptError::Families(problem));
        }
        let of_network = IpFamily::BOTH.map(|family| {
            let mut pools = network.pools.iter();
            pools.any(|pool| IpFamily::of_net(pool.subnet()) == family)
        });
        let of_request = IpFamily::BOTH.map(|family| {
            let mut requested = requested.iter();
            requested.any(|address| IpFamily::of_net(*address) == family)
        });
        if of_network == of_request {
            return Ok(());
        }
        let ([v4, v6], [requested_v4, requested_v6]) = (of_network, of_request);
        Err(AttemptError::Families(format!(
            "layer2 network IP family mismatch: network supports IPv4={v4} IPv6={v6}, but requested types \
             IPv4={requested_v4} IPv6={requested_v6}"
        )))
    }

    /// Takes the next address of each subnet.
    fn take_next(
        &self,
        network: &mut NetworkAddresses,
        taken: &mut Vec<IpAddr>,
    ) -> Result<Vec<IpNet>, AttemptError> {
        let mut addresses = Vec::new();
        for pool in &mut network.pools {
            let address = pool.allocate().ok_or_else(|| AttemptError::Exhausted {
                owner: self.owner(),
                network: network.network.name.to_string(),
            })?;
            taken.push(address);
            addresses.extend(IpNet::new(address, pool.subnet().prefix_len()));
        }
        Ok(addresses)
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
        let owner = MacOwner::of(self.pod);
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

    /// Link-local address of the gateway's port. In the older layout that is the gateway router of
    /// the node.
    fn link_local_gateway(
        &self,
        network: &AttachedNetwork,
        gateways: &[IpAddr],
    ) -> Option<Ipv6Addr> {
        let has_ipv6 = network.subnets.iter().any(|net| net.addr().is_ipv6());
        if !(network.has_gateway() && has_ipv6) {
            return None;
        }
        let mac = match self.older_layout {
            None => gateway_mac(gateways.iter().copied())?,
            Some(id) => {
                let mut join = network.join_subnets.iter();
                let first = join.find(|net| self.settings.has_family(IpFamily::of_net(**net)))?;
                mac_address(nth_address(*first, id.get().into())?)
            }
        };
        link_local_address(&mac)
    }
}

/// Takes an address that a pod or a claim names.
fn take(network: &mut NetworkAddresses, address: IpAddr) -> Result<(), Refusal> {
    let is_reserved = {
        let mut reserved = network.network.reserved_subnets.iter();
        reserved.any(|range| range.contains(&address))
    };
    let mut pools = network.pools.iter_mut();
    let Some(pool) = pools.find(|pool| pool.subnet().contains(&address)) else {
        let network = network.network.name.to_string();
        return Err(Refusal::Unknown { address, network });
    };
    match pool.request(address) {
        Ok(()) => Ok(()),
        Err(AddressError::Outside(_)) if !is_reserved => Err(Refusal::NotInRange(pool.subnet())),
        Err(AddressError::Outside(_) | AddressError::Taken(_)) => Err(Refusal::Taken),
    }
}
