//! Northbound databases and objects of clusters in files and archives, which are only read.
//!
//! ```text
//! file     -> unpack (gzip, xz)         -> DatabaseLog -> state_at   one database at a moment
//! dump     -> unpack -> tables, rows    -> DatabaseLog               text of ovsdb-client
//! archive  -> members, nested, unpacked -> GatheredZone              databases of a must-gather
//!                                       -> ObjectFiles               its objects, for their reader
//! ```
//!
//! Nothing is written to disk: members are read in place, and names of members are only shown.
//! Unpacked bytes are limited, because an archive of some kilobytes can stand for terabytes.

mod archive;
mod collection_time;
mod dump;
mod kind;
mod moment;
mod object_path;
mod search;
mod unpack;
mod zone_names;

pub use archive::{Gathered, GatheredZone, ObjectFiles, SourceError, Wanted, gather};
pub use kind::{SourceKind, kind_of};
pub use moment::{DatabaseState, Moment, MomentError, StateError, state_at};
pub use unpack::{OpenedFile, UnpackedLog, open_log};
pub use zone_names::own_zone;
