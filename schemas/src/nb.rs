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

use std::sync::{Arc, LazyLock};

use crate::schema::DatabaseSchema;

/// The text of the schema that the types are generated from.
pub const SCHEMA_TEXT: &str = include_str!("../ovn-nb.ovsschema");

/// The schema that the types are generated from.
///
/// # Panics
/// Never: the build has parsed the same text.
pub fn schema() -> Arc<DatabaseSchema> {
    static SCHEMA: LazyLock<Arc<DatabaseSchema>> = LazyLock::new(|| {
        Arc::new(
            DatabaseSchema::parse(SCHEMA_TEXT.as_bytes())
                .expect("the build has parsed the same text"),
        )
    });
    SCHEMA.clone()
}

#[allow(clippy::all, clippy::pedantic)] // generated
mod generated {
    use std::collections::{BTreeMap, BTreeSet};

    use crate::atom::Atom;
    use crate::datum::Datum;
    use crate::typed::{Column, Field, Ref, TableRow, TypeError, Value, read};

    include!(concat!(env!("OUT_DIR"), "/nb.rs"));
}

pub use generated::*;
