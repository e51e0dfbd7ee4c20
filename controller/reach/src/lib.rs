//! Path of a packet through the switches and routers of an OVN Northbound database.
//!
//! ```text
//! snapshot of a database -> Northbound   index: rows that OVN has, parsed matches, notes
//! Question               -> resolve      names of pods and services, for those who wrote them
//!                        -> trace        sender, switches, routers: stage by stage
//!                        -> Answer       verdict, port, translated addresses, hops
//! ```
//!
//! The database alone answers: neither a southbound database nor OVN's programs are needed. The
//! stages and their order are those of ovn-northd 26.03. See `docs/design/reach.md`.

mod address;
mod answer;
mod arrival;
mod expression;
mod mentions;
mod northbound;
mod packet;
mod policy_match;
mod question;
mod resolve;
mod scene;
mod similar;
mod trace;
mod zones;

pub use address::{Mac, Prefix};
pub use answer::{Answer, QuestionError, Verdict};
pub use arrival::Arrival;
pub use northbound::{Conflict, MachineRoute, Northbound, Northd, Note, RowRef};
pub use policy_match::{PolicyMatch, PolicyMatchError, PolicyPacket};
pub use question::{Destination, Protocol, ProtocolError, Question, Sender};
pub use resolve::NameError;
pub use scene::{
    Change, Changed, Checked, Difference, Expectation, ExpectationError, Ports, Scene, Violation,
};
pub use trace::{Hop, HopKind};
pub use zones::{
    AskedPair, AskedZones, Cell, Course, Matrix, Outcome, Pairs, SecondDatabase, ZoneAnswer, Zones,
};
