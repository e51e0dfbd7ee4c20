//! OVSDB schemas, values and RFC 7047 notation, and generated types for `OVN_Northbound`.
//!
//! The crate holds plain data only: no sockets, no tasks, no clock. The transaction engine, the
//! client and the simulator build on these types.
//!
//! | module | subject |
//! |---|---|
//! | [`json`] | framing, validation, reading and writing of JSON text |
//! | [`schema`] | tables, columns, types of columns (RFC 7047 section 3.2) |
//! | [`atom`], [`datum`], [`row`], [`delta`] | atoms, sets and maps, rows, differences |
//! | [`streaming`] | decoding of long messages while they are being received |
//! | [`wire`] | requests, replies, operations, updates (RFC 7047 sections 4 and 5) |
//! | [`typed`], [`codegen`] | rows as Rust structs, and their generator |
//! | [`nb`] | the generated structs of `OVN_Northbound` |
//! | [`known`] | the schemas of OVN and Open vSwitch by name |
//! | [`error`] | the `<error>` object |
//! | [`hash_order`] | iteration order of the hash tables of Open vSwitch |
//! | [`strings`], [`uuids`] | sharing of strings, sources of UUIDs |
//!
//! ```
//! # #[cfg(feature = "nb")] {
//! use patchbay_schemas::nb::{self, LogicalSwitch};
//! use patchbay_schemas::typed::TableRow as _;
//!
//! let schema = nb::schema();
//! let (_, table) = schema.table_by_name(LogicalSwitch::TABLE).unwrap();
//! let ports = table.column_id("ports").unwrap();
//! assert!(table.column_type(ports).to_english().starts_with("set of"));
//!
//! let switch = LogicalSwitch { name: "sw0".into(), ..Default::default() };
//! assert_eq!(switch.to_data().len(), LogicalSwitch::COLUMNS.len());
//! # }
//! ```

pub mod atom;
pub mod codegen;
pub mod datum;
pub mod delta;
pub mod error;
pub mod hash_order;
pub mod json;
#[cfg(feature = "known")]
pub mod known;
#[cfg(feature = "nb")]
pub mod nb;
pub mod row;
pub mod schema;
pub mod streaming;
pub mod strings;
pub mod typed;
mod utf8;
pub mod uuids;
pub mod wire;
