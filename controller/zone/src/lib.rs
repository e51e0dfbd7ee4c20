//! Objects that the rows of one zone follow from, kept once for all capabilities.
//!
//! [`ZoneObjects`] has a persistent map for each kind of object, and indexes that follow the maps.
//! It is the `Inputs` of the capabilities on the row engine (`patchbay-rows`), and [`Cell`] names
//! the pieces that can change on their own. See `docs/design/objects.md`.
//!
//! ```
//! use patchbay_model::ClusterSettings;
//! use patchbay_zone::ZoneObjects;
//!
//! let objects = ZoneObjects::new("node-1", &ClusterSettings::default());
//! assert_eq!(&**objects.zone(), "node-1");
//! assert!(objects.own_node().is_none(), "the node is not there yet");
//! ```

mod admin;
mod capability;
mod cell;
mod connects;
mod definition;
mod firewalls;
mod groups;
mod logging;
mod namespace;
mod needs;
mod networks;
mod node;
mod node_ids;
mod objects;
mod places;
mod pods;
mod policies;
mod router_keys;
mod selections;
mod serving;

pub use capability::{SubjectChange, ZoneCapability, ZoneRows, reported_problems};
pub use cell::{Cell, Kind};
pub use connects::LocalNode;
pub use definition::{DefinitionError, Localnet, NetworkDetails, OutboundSnat, entries};
pub use firewalls::MAX_FIREWALL_RULES;
pub use groups::NamespaceGroup;
pub use logging::AclLogging;
pub use namespace::ZoneNamespace;
pub use needs::{kinds_of, network_kinds, pod_kinds};
pub use networks::{Advertised, NetworkKind, NodeSwitch, OverlayNetwork, ZoneNetwork};
pub use node::ZoneNode;
pub use node_ids::{MissingId, NodeIds};
pub use objects::ZoneObjects;
pub use places::PlacedPod;
pub use pods::MachineKey;
pub use policies::NetworkNamespace;
pub use selections::{PodSelector, Selection, SelectionKey, Subject, Uses};
pub use serving::{ServedPod, Server, UsableEgressIp};
