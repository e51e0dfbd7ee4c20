//! Load balancers of services in user-defined networks, in the Northbound database of one zone.
//!
//! A service is forwarded in the primary network of its namespace. Its endpoints are those of the
//! EndpointSlices that are mirrored into the network; [`derived_slices`] makes them of pods. Each
//! protocol has load balancers by scope:
//!
//! ```text
//! cluster             cluster IPs and external addresses       group of all switches and gateway routers
//! node_router         node ports, policy Local, endpoints on   gateway router of the zone's node
//! node_switch         hosts: rules of this node only           switch of the zone's node
//! node_router+switch  both, where the rules are equal          both
//! node_local_router   external policy Local with endpoints     gateway router, which keeps the
//!                     on this node                             client's address
//! ```
//!
//! Everything is a pure function of services, endpoints, networks and nodes
//! ([`ZoneObjects`](patchbay_zone::ZoneObjects)).
//! [`Services`] is a capability of the row engine (`patchbay-rows`). See
//! `docs/design/services.md`.

mod backends;
mod capability;
mod derived;
mod load_balancers;
mod node;
mod rules;
mod tables;

pub use capability::Services;
pub use derived::derived_slices;
