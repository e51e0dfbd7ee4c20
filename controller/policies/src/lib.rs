//! Northbound rows of policies in user-defined networks.
//!
//! ```text
//! namespace  two port groups, of isolated ingress and egress: ACLs drop all packets but ARP and ND
//! policy     port group of the selected pods: ACLs allow what the rules allow
//! selection  address sets of the pods that rules select
//! ```
//!
//! A NetworkPolicy applies to the primary network of its namespace, a MultiNetworkPolicy to the
//! secondary networks that it names. Policies of administrators ([`admin`]) are about the default
//! network. [`ZoneObjects`](patchbay_zone::ZoneObjects) has the objects that the rows of one zone follow from.
//! [`Policies`] is a capability of the row engine (`patchbay-rows`). See
//! `docs/design/policies.md`.

mod acls;
pub mod admin;
mod capability;
mod firewall;
mod gates;
mod ports;
mod problems;
mod tables;
mod text;

pub use capability::Policies;
pub use gates::{gates, gates_of};
