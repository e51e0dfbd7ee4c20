//! RFC 7047 on the wire: values, operations, monitors and updates, decoded straight from text
//! by the schema and encoded straight to text.

mod arrived;
mod column_order;
mod condition;
mod encode;
mod monitor;
mod mutation;
mod named_uuids;
mod notation;
mod object;
mod operation;
mod request;
mod row_event;
mod update;
mod update_row;

pub use arrived::ArrivedRows;
pub use condition::{Clause, Condition, Function};
pub use encode::OperationWriter;
pub use monitor::{MonitorRequests, MonitorTable, MonitorVersion, Select};
pub use mutation::{Mutation, Mutator};
pub use named_uuids::NamedUuids;
pub use notation::NotationReader;
pub use operation::{
    ArrivedOperations, ArrivingTransaction, ColumnValues, DecodedOperations, DecodedTransaction,
    Failure, InsertRow, LastOperations, Operation, decode_transaction,
};
pub use request::{Message, MessageError, Reply};
pub use row_event::RowEvent;
pub use update::{RowUpdate, UpdateError, UpdateReader};
