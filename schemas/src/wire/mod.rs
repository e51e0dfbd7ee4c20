//! Messages of RFC 7047: requests and replies, operations, values, monitors and updates.
//!
//! The schema directs the decoding of text; no tree is built in between. Encoding writes text
//! directly, too.

mod column_order;
mod condition;
mod condition_index;
mod encode;
mod monitor;
mod mutation;
mod named_uuids;
mod notation;
mod operation;
mod operation_members;
mod request;
mod row_event;
mod row_update_reader;
mod triple;
mod update;

pub use condition::{Clause, Condition, Function};
pub use encode::OperationWriter;
pub use monitor::{MonitorRequests, MonitorTable, MonitorVersion, Select};
pub use mutation::{Mutation, Mutator};
pub use named_uuids::NamedUuids;
pub(crate) use named_uuids::{DefinedNames, NameKey};
pub use notation::NotationReader;
pub(crate) use operation::OperationSequence;
pub use operation::{
    ColumnValues, DecodedTransaction, InsertRow, Operation, OperationFailure, Operations,
    RowTemplates, decode_transaction, decode_with_templates,
};
pub use request::{Message, MessageError, Reply};
pub use row_event::RowEvent;
pub(crate) use row_update_reader::{LastRow, RowReader};
pub use update::{RowUpdate, UpdateError, UpdateReader};
