//! Northbound ports of pods in user-defined networks, and the pods' addresses.
//!
//! ```text
//! pod -- annotation k8s.ovn.org/pod-networks -- port on the network's switch
//!  |                                              \-- DHCP options of a virtual machine
//!  \-- port on the default network -- in the port group of isolated ports, with open ports
//! ```
//!
//! [`ZoneObjects`](patchbay_zone::ZoneObjects) has the objects that the rows of one zone follow from. [`Pods`] is a
//! capability of the row engine (`patchbay-rows`). See `docs/design/pods.md`.

mod allocation;
mod capability;
mod dhcp;
mod isolation;
mod migration;
mod ports;
mod tables;

pub use allocation::{AllocationScope, PodAllocator};
pub use capability::Pods;
