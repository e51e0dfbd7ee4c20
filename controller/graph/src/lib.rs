//! Pictures of the topology of OVN Northbound databases: SVG, HTML, Mermaid and DOT.
//!
//! ```text
//! snapshots of zones -> Topology    switches, routers, machines, networks outside, and their links
//!                    -> networks()  the same, each network as one place
//! a packet's way     -> light()     places on the way, and the one that stops the packet
//!                    -> layout      columns by distance from the machines, rows by neighbours
//!                    -> svg, html, mermaid, dot
//! ```
//!
//! A picture is a function of its topology: equal rows give equal bytes.

mod dot;
mod html;
mod layout;
mod mermaid;
mod networks;
mod picture;
mod svg;
mod topology;

pub use picture::{Drawing, Format, xml as escape_xml};
pub use topology::{Lit, Place, PlaceKind, Topology, short_network};
