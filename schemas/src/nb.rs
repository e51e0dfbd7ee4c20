//! `OVN_Northbound`: one struct per table, generated from `ovn-nb.ovsschema` (7.19.0).
//!
//! After a change of the schema or of [`codegen`](crate::codegen), run `cargo run -p
//! patchbay-schemas --no-default-features --example generate_nb`. A test compares the file with a
//! newly generated one.
//!
//! ```
//! use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
//! use patchbay_schemas::typed::{Ref, TableRow};
//! use uuid::Uuid;
//!
//! let port = LogicalRouterPort { name: "lrp0".into(), ..Default::default() };
//! let ports = [Ref::new(Uuid::nil())].into();
//! let router = LogicalRouter { name: "lr0".into(), ports, ..Default::default() };
//! assert_eq!(LogicalRouterPort::TABLE, "Logical_Router_Port");
//! assert_eq!(router.ports.len(), 1);
//! # let _ = port;
//! ```

#[allow(clippy::all, clippy::pedantic, reason = "generated")]
#[rustfmt::skip]
mod generated;

pub use generated::*;
