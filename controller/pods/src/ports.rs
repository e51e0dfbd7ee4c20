//! Ports of pods in networks.

use patchbay_model::PodPlace;
use patchbay_model::external_ids::key;
use patchbay_schemas::datum::{Map, Set};

use super::migration::PortState;
use super::tables::{ATTACHMENT, NAMESPACE, POD, PodPort};

/// Option with the UID of the pod.
pub(super) const POD_UID: &str = "iface-id-ver";
/// Option with the chassis of the pod's node.
pub(super) const CHASSIS: &str = "requested-chassis";
/// Option with the tunnel key of the port.
const TUNNEL_KEY: &str = "requested-tnl-key";
/// Type of ports of other zones.
const REMOTE: &str = "remote";

/// Binding of a port.
pub(super) struct Binding<'a> {
    /// Requested chassis. `None`: any one.
    pub(super) chassis: Option<&'a str>,
    /// `true` if only the interface of this pod is bound to the port.
    pub(super) has_uid: bool,
}

/// The port of a pod in a zone. `attachment` is the key of the attachment.
pub(super) fn port(
    place: &PodPlace,
    attachment: &str,
    binding: &Binding<'_>,
    zone: &str,
    state: PortState,
) -> PodPort {
    let PodPlace { pod, network, port, addresses } = place;
    let text = addresses.port_addresses();
    let is_local = pod.node.as_deref() == Some(zone);
    // Without a chassis there are no ports of other zones, which would need equal keys.
    let has_key = network.has_remote_ports() && binding.chassis.is_some();
    let key = addresses.tunnel_id.map(|key| key.to_string()).filter(|_| has_key);
    let options = [
        Some((POD_UID, &*pod.uid)).filter(|(_, uid)| binding.has_uid && !uid.is_empty()),
        binding.chassis.map(|chassis| (CHASSIS, chassis)),
        key.as_deref().map(|key| (TUNNEL_KEY, key)),
    ];
    let external_ids = [
        (NAMESPACE, &*pod.key.namespace),
        (POD, "true"),
        (key::NETWORK, &*network.name),
        (ATTACHMENT, attachment),
        (key::TOPOLOGY, network.topology.as_str()),
    ];
    PodPort {
        name: port.as_str().into(),
        r#type: if is_local { "" } else { REMOTE }.into(),
        addresses: one(state.has_addresses.then_some(text.as_str())),
        port_security: one(Some(&text)),
        options: map(options.into_iter().flatten()),
        external_ids: map(external_ids),
        enabled: state.enabled,
    }
}

fn one(text: Option<&str>) -> Set {
    text.into_iter().map(Into::into).collect()
}

fn map<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Map {
    let entries = entries.into_iter();
    entries.map(|(key, value)| (key.into(), value.into())).collect()
}
