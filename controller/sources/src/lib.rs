//! Northbound databases in files and archives, which are only read.
//!
//! ```text
//! file     -> unpack (gzip, xz)         -> DatabaseLog     history of one database
//! archive  -> members, nested, unpacked -> GatheredZone    databases of a must-gather, by zone
//! ```
//!
//! Nothing is written to disk: members are read in place, and names of members are only shown.
//! Unpacked bytes are limited, because an archive of some kilobytes can stand for terabytes.

mod archive;
mod kind;
mod unpack;

pub use archive::{Gathered, GatheredZone, SourceError, gather, own_zone};
pub use kind::{SourceKind, kind_of};
pub use unpack::{UnpackedLog, open_log};
