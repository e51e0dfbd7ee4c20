//! IPAMClaims that pods name.

use ipnet::IpNet;
use patchbay_model::PodAttachment;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{ObjectKey, Objects};

/// The claim that a pod names.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Claim {
    /// It does not exist.
    Missing(String),
    /// It is of another network.
    OfNetwork { claim: String, network: String },
    /// One of its addresses is none.
    Unreadable { claim: String, address: String },
    /// Its addresses; empty before the first pod.
    Addresses(Vec<IpNet>),
}

impl Claim {
    /// The claim that keeps the addresses of an attachment, which is in the namespace of its
    /// definition. `None`: its addresses are not kept.
    pub(super) fn of(
        attachment: &PodAttachment,
        claims: &Objects<IPAMClaim>,
    ) -> Option<(ObjectKey, Self)> {
        let name = attachment.request.claim.as_ref()?;
        if !attachment.network.keeps_addresses {
            return None;
        }
        let (namespace, _) = attachment.key.split_once('/')?;
        let key = ObjectKey::namespaced(namespace, name);
        let claim = match claims.get(&key) {
            None => Self::Missing(name.clone()),
            Some(claim) if claim.object.spec.network != *attachment.network.name => {
                Self::OfNetwork { claim: name.clone(), network: claim.object.spec.network.clone() }
            }
            Some(claim) => match kept_addresses(&claim.object).collect() {
                Ok(addresses) => Self::Addresses(addresses),
                Err(address) => Self::Unreadable { claim: name.clone(), address: address.clone() },
            },
        };
        Some((key, claim))
    }
}

/// Addresses that a claim keeps. One that cannot be read is an error, with its text.
pub(super) fn kept_addresses(claim: &IPAMClaim) -> impl Iterator<Item = Result<IpNet, &String>> {
    let status = claim.status.iter();
    let addresses = status.flat_map(|status| &status.ips);
    addresses.map(|text| text.parse().map_err(|_| text))
}
