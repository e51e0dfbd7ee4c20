//! Changes of Northbound databases by row, and by the object for which the rows exist.
//!
//! ```text
//! two snapshots -> changed rows -> their objects -> counts and details of each object -> text
//! ```

mod changes;
mod object;
mod owners;
mod pairs;
mod rows;
mod text;

pub use changes::{Changes, Counts, ObjectChange};
pub use object::Object;
pub use pairs::{differing_rows, paired_rows};
pub use rows::{ChangeKind, ChangedRow, MAX_ELEMENT_BYTES, Snapshots};
pub use text::{Layout, Summary, grouped, rows_text, summaries, write_objects};
