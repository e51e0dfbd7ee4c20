//! The other ends of the switches' devices: pods, and the cable between the nodes.
//!
//! A dummy device of Open vSwitch listens on a unix socket and exchanges frames, each after its
//! length as two bytes. One task per device holds the other end.

pub(crate) mod asker;
pub(crate) mod cable;
pub(crate) mod endpoint;
pub(crate) mod frames;
pub(crate) mod open_questions;
pub(crate) mod packet;
pub(crate) mod pcap;
pub(crate) mod physical;
pub(crate) mod stream;
mod switches;
mod vlan_tags;
