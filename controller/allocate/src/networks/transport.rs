//! Condition of a ClusterUserDefinedNetwork with another transport than an overlay: whether packets
//! can travel as it wants.

use patchbay_model::{ClusterSettings, Feature};
use patchbay_resources::cnc::{NetworkSelectionType, NetworkSelector};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Object as _, RouteAdvertisements};
use patchbay_resources::selector;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, Transport};
use serde::Deserialize as _;

use super::conditions::{TRANSPORT_ACCEPTED, condition};
use super::evpn::EvpnProblem;

/// Type of a condition of RouteAdvertisements.
const ACCEPTED: &str = "Accepted";
/// End of reasons of conditions that follow from kinds that are not known.
const UNKNOWN: &str = "Unknown";
/// Advertisement of the pods of a network.
const POD_NETWORK: &str = "PodNetwork";

/// Announcement of a network's pods to routers outside of the cluster.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Advertised {
    /// The feature is off.
    FeatureOff,
    /// Nothing advertises the network.
    No,
    /// Objects of these names advertise it, and none is accepted.
    NotAccepted(Vec<String>),
    /// An accepted object advertises it.
    Yes,
    /// No known object that is accepted advertises it. Others cannot be listed or decoded.
    Unknown,
}

impl Advertised {
    /// Looks for objects that advertise a network.
    fn find(
        cudn: &ClusterUserDefinedNetwork,
        inventory: &Inventory,
        settings: &ClusterSettings,
    ) -> Self {
        if !settings.has_feature(Feature::RouteAdvertisements) {
            return Self::FeatureOff;
        }
        let objects = inventory.route_advertisements.iter().map(|(_, sourced)| &sourced.object);
        let found: Vec<_> = objects.filter(|object| advertises(object, cudn)).collect();
        if found.iter().any(|object| is_accepted(object)) {
            Self::Yes
        } else if inventory.lacks(&[RouteAdvertisements::KIND]) {
            Self::Unknown
        } else if found.is_empty() {
            Self::No
        } else {
            Self::NotAccepted(found.iter().map(|object| object.name_any()).collect())
        }
    }
}

fn is_accepted(object: &RouteAdvertisements) -> bool {
    let conditions = object.status.iter().flat_map(|status| &status.conditions);
    let mut accepted = conditions.filter(|condition| condition.type_ == ACCEPTED);
    accepted.any(|condition| condition.status == "True")
}

/// `true` if an object advertises the pods of a network.
fn advertises(object: &RouteAdvertisements, cudn: &ClusterUserDefinedNetwork) -> bool {
    let selectors = object
        .spec
        .network_selectors
        .iter()
        .filter_map(|value| NetworkSelector::deserialize(value).ok());
    let of_cudns = selectors.filter(|one| {
        one.network_selection_type == NetworkSelectionType::ClusterUserDefinedNetworks
    });
    let mut selectors = of_cudns.filter_map(|one| one.cluster_user_defined_network_selector);
    let mut kinds = object.spec.advertisements.iter();
    kinds.any(|kind| kind == POD_NETWORK)
        && selectors.any(|one| selector::matches(&one.network_selector, cudn.labels()))
}

/// Status, reason and message of the condition whether packets can travel as the network wants.
/// `None`: a network with an overlay has no such condition. What is not known leaves a condition as
/// it is.
pub(super) fn accepted_condition(
    cudn: &ClusterUserDefinedNetwork,
    problem: Option<&EvpnProblem>,
    inventory: &Inventory,
    settings: &ClusterSettings,
) -> Option<(bool, String, String)> {
    let transport = cudn.spec.network.transport?;
    let advertised = Advertised::find(cudn, inventory, settings);
    // The value of the field, which reasons start with, and the name in the last message.
    let (prefix, name) = match transport {
        Transport::NoOverlay => ("NoOverlay", "no-overlay"),
        Transport::Evpn => ("EVPN", "EVPN"),
    };
    let is_unknown = match problem {
        Some(problem) => matches!(problem, EvpnProblem::VtepUnknown(_)),
        None => advertised == Advertised::Unknown,
    };
    if is_unknown && has_known_condition(cudn) {
        return None;
    }
    Some(match (problem, &advertised) {
        (Some(EvpnProblem::Config(problem)), _) => {
            (false, "EVPNConfigError".to_owned(), (*problem).to_owned())
        }
        (Some(EvpnProblem::VtepMissing(vtep)), _) => (
            false,
            "VTEPNotFound".to_owned(),
            format!("VTEP {vtep:?} referenced by EVPN configuration does not exist."),
        ),
        (Some(EvpnProblem::VtepUnknown(vtep)), _) => (
            false,
            "VTEPUnknown".to_owned(),
            format!("VTEPs cannot be listed, so VTEP {vtep:?} is not known."),
        ),
        (Some(EvpnProblem::VtepNotAccepted(vtep)), _) => (
            false,
            "VTEPNotAccepted".to_owned(),
            format!("VTEP {vtep:?} exists but is not accepted."),
        ),
        (_, Advertised::FeatureOff) => (
            false,
            "RouteAdvertisementsNotEnabled".to_owned(),
            format!(
                "RouteAdvertisements feature is not enabled but required for {prefix} transport."
            ),
        ),
        (_, Advertised::No) => (
            false,
            format!("{prefix}RouteAdvertisementsIsMissing"),
            "No RouteAdvertisements CR is advertising the pod networks.".to_owned(),
        ),
        (_, Advertised::NotAccepted(names)) => (
            false,
            format!("{prefix}RouteAdvertisementsNotAccepted"),
            format!(
                "RouteAdvertisements CR {} advertises the pod subnets, but its status is not accepted.",
                names.join(", ")
            ),
        ),
        (_, Advertised::Unknown) => (
            false,
            format!("{prefix}RouteAdvertisementsUnknown"),
            "RouteAdvertisements cannot be listed.".to_owned(),
        ),
        (_, Advertised::Yes) => (
            true,
            format!("{prefix}TransportAccepted"),
            format!("Transport has been configured as '{name}'."),
        ),
    })
}

/// `true` if the network has the condition, and everything was known that it follows from.
fn has_known_condition(cudn: &ClusterUserDefinedNetwork) -> bool {
    let condition = condition(cudn.status.as_ref(), TRANSPORT_ACCEPTED);
    condition.is_some_and(|condition| !condition.reason.ends_with(UNKNOWN))
}

#[cfg(test)]
mod tests {
    use super::super::resolve;
    use super::super::testing::inventory;
    use super::*;
    use patchbay_resources::object::Time;

    const NETWORK: &str = "
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata: {name: flat, labels: {routed: 'yes'}}
spec:
  namespaceSelector: {}
  network:
    topology: Layer3
    layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16}]}
    transport: NoOverlay
    noOverlay: {outboundSNAT: Disabled, routing: Unmanaged}
";

    fn advertisement(name: &str, label: &str, kind: &str, accepted: &str) -> String {
        let selector = format!(
            "{{networkSelectionType: ClusterUserDefinedNetworks, clusterUserDefinedNetworkSelector: \
             {{networkSelector: {{matchLabels: {{routed: '{label}'}}}}}}}}"
        );
        let condition = format!(
            "{{type: Accepted, status: '{accepted}', lastTransitionTime: '2026-01-01T00:00:00Z'}}"
        );
        format!(
            "---\n{{apiVersion: k8s.ovn.org/v1, kind: RouteAdvertisements, metadata: {{name: {name}}}, \
             spec: {{advertisements: [{kind}], networkSelectors: [{selector}]}}, \
             status: {{conditions: [{condition}]}}}}\n"
        )
    }

    /// Status, reason and message of the condition.
    fn condition(advertisements: &[String], features: &[Feature]) -> [String; 3] {
        let mut inventory = inventory(&(NETWORK.to_owned() + &advertisements.concat()));
        let settings = ClusterSettings {
            features: features.iter().copied().collect(),
            ..ClusterSettings::default()
        };
        let now = Time(jiff::Timestamp::from_second(0).unwrap());
        resolve(&mut inventory, &settings, &now).unwrap();
        let mut networks = inventory.cluster_user_defined_networks.iter();
        let status = networks.next().unwrap().1.object.status.clone().unwrap();
        let mut conditions = status.conditions.into_iter();
        let found = conditions.find(|one| one.type_ == TRANSPORT_ACCEPTED).unwrap();
        [found.status, found.reason, found.message]
    }

    #[test]
    fn a_network_without_an_overlay_is_accepted_once_its_advertisement_is() {
        let on = [Feature::RouteAdvertisements];
        let pods = |name, label, accepted| advertisement(name, label, "PodNetwork", accepted);
        let missing = [
            "False",
            "NoOverlayRouteAdvertisementsIsMissing",
            "No RouteAdvertisements CR is advertising the pod networks.",
        ];
        let other = advertisement("b", "yes", "EgressIP", "True");
        assert_eq!(condition(&[], &on), missing);
        assert_eq!(condition(&[pods("a", "no", "True"), other], &on), missing);
        let waiting = [pods("a", "yes", "False"), pods("b", "yes", "Unknown")];
        let message = "RouteAdvertisements CR a, b advertises the pod subnets, but its status is \
                       not accepted.";
        let reason = "NoOverlayRouteAdvertisementsNotAccepted";
        assert_eq!(condition(&waiting, &on), ["False", reason, message]);
        let accepted = [pods("a", "yes", "False"), pods("b", "yes", "True")];
        let message = "Transport has been configured as 'no-overlay'.";
        let reason = "NoOverlayTransportAccepted";
        assert_eq!(condition(&accepted, &on), ["True", reason, message]);
        assert_eq!(condition(&accepted, &[])[1], "RouteAdvertisementsNotEnabled");
    }
}
