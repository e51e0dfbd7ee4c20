//! EgressIPs in user-defined networks: packets of chosen pods leave the cluster through a chosen
//! node and with an address that the EgressIP names.
//!
//! ```text
//! pod ── switch ── router of the network ── gateway router of the egress node ── external switch
//!        QoS        policies 102: stays       policy 95: mark of the EgressIP
//!        (replies)  policy 100: to the node
//! ```
//!
//! The host of the egress node replaces the source of packets with the mark by the EgressIP.

mod capability;
mod next_hop;
mod problems;
mod rows;
mod tables;

pub use capability::Egress;
