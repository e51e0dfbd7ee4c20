//! User-defined networks: from the custom resources to networks with ids, nodes with subnets and
//! pods with addresses.
//!
//! A pass of [`NetworkManager`] is this sequence. Each step reads objects and the values of earlier
//! steps, and gives a new value, which is written into the objects.
//!
//! ```text
//! assign_node_ids       NodeIds            ids and transit addresses of nodes
//! sync_definitions                         attachment definitions, conditions of custom resources
//! assign_network_ids    NetworkIds         ids and tunnel keys of networks
//! networks_of           NumberedNetworks   the networks, read once
//! AttachedPods          AttachedPods       pods and the networks that they are attached to
//! assign_node_subnets   NodeSubnets        subnets of nodes
//! address_pods          PodAddresses       addresses of pods, claims that keep them
//! mirror_slices         MirroredSlices     EndpointSlices with these addresses
//! ```
//!
//! What is handed out is in the annotations of nodes, attachment definitions and pods. What a pass
//! finds there it keeps, so that running it again changes nothing.

mod activity;
mod annotations;
mod attach;
mod conditions;
mod default_network;
mod definition;
mod deletion;
mod evpn;
mod held_pods;
mod manager;
mod manifests;
mod network_ids;
mod node_subnets;
mod nodes;
mod numbered_networks;
mod outcome;
mod pods;
mod render;
mod resource;
mod settings;
mod slices;
mod status;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod transport;

pub use attach::{
    RefusedWrite, note_refused_definitions, note_refused_finalizers, note_undefined_definitions,
};
pub use conditions::{
    NETWORK_ALLOCATION_SUCCEEDED, NETWORK_CREATED, PORTS_AVAILABLE, TRANSPORT_ACCEPTED,
};
pub use definition::FINALIZER;
pub use held_pods::note_held_pods;
pub use manager::NetworkManager;
pub use manifests::{address_pods, assign_node_subnets, define_networks, resolve};
pub use nodes::NodeIds;
pub use numbered_networks::NumberedNetworks;
pub use pods::{AttachedPods, PodAddresses};
pub use settings::{Layer2Layouts, ManagerSettings};
