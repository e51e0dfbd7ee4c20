//! Decoding of a long message while it is being received.
//!
//! A message of megabytes (the first reply of a monitor, a transaction that loads a database) is
//! never in memory as a whole. Complete rows or operations are removed from the middle of the
//! received text and decoded. What remains is the same message without them, which is decoded at
//! its end like any other message.
//!
//! * [`StreamedRows`] decodes the rows of an `update` notification or of the first reply of a
//!   monitor.
//! * [`StreamedOperations`] decodes the operations of a `transact` request on several threads.
//!
//! Both give the same results and the same errors as decoding the complete message. A caller
//! decides from the `head` of the message, the text before the first row or operation, whether it
//! is such a message. The results must not be used before the message has ended, because a message
//! that breaks off must have no effect.
//!
//! The section "Decoding" of `docs/design/engine.md` has measurements.

mod cut;
mod operations;
mod rows;

pub use cut::{OpenElements, OpenRows, UnvalidatedRows};
pub use operations::{DecodedOperations, LastOperations, OperationsText, StreamedOperations};
pub use rows::StreamedRows;
