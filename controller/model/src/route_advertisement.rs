//! RouteAdvertisements: networks that nodes announce to routers outside of the cluster.

use super::label_selector::Selector;

/// Annotation of an attachment definition: names of the RouteAdvertisements that select it, as a
/// JSON list.
pub const ROUTE_ADVERTISEMENTS: &str = "k8s.ovn.org/route-advertisements";

/// RouteAdvertisements object, as networks depend on it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct RouteAdvertisement {
    /// Name.
    pub name: String,
    /// `true` if nodes announce the subnets of pods.
    pub has_pod_networks: bool,
    /// `true` if the present specification is accepted. `None`: there is no answer yet.
    pub is_accepted: Option<bool>,
    /// The nodes. `None`: the selector cannot be read.
    pub nodes: Option<Selector>,
}
