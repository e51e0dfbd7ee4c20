//! OVN_Northbound: one struct per table, generated from `ovn-nb.ovsschema` (7.19.0).
//!
//! ```
//! use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
//! use patchbay_schemas::typed::{Ref, TableRow};
//! use uuid::Uuid;
//!
//! let port = LogicalRouterPort { name: "lrp0".into(), mac: "0a:58:00:00:00:01".into(), ..Default::default() };
//! let router = LogicalRouter { name: "lr0".into(), ports: [Ref::new(Uuid::nil())].into(), ..Default::default() };
//! assert_eq!(LogicalRouterPort::TABLE, "Logical_Router_Port");
//! assert_eq!(router.ports.len(), 1);
//! # let _ = port;
//! ```

#[allow(clippy::all, clippy::pedantic)] // generated
mod generated {
    include!(concat!(env!("OUT_DIR"), "/nb.rs"));
}

pub use generated::*;
