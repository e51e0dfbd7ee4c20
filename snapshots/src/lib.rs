//! Northbound databases rendered as `ovn-nbctl` prints them.
//!
//! [`show`] and [`show_named, show_router`] render `ovn-nbctl show [NAME]`, [`lr_route_list`] and
//! [`lr_policy_list`] the commands with these names. The text equals the program's text for a
//! database with the same rows and UUIDs, byte for byte. This includes the order of rows where the
//! program follows its hash tables.
//!
//! The texts are those of OVN 23.03. Later versions print more: 25.03 adds `ipv6-lla` and `peer` to
//! router ports and `peer` to switch ports in `show`, and chains, jump targets and `bfd` to
//! `lr-policy-list`.
//!
//! ```
//! use patchbay_engine::db::Database;
//! use patchbay_engine::txn::TxnBuilder;
//! use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterStaticRoute};
//! use patchbay_snapshots::lr_route_list;
//!
//! let mut database = Database::new(nb::schema());
//! let mut txn = TxnBuilder::new(&database.snapshot());
//! let route = txn.insert(&LogicalRouterStaticRoute {
//!     ip_prefix: "10.0.0.0/24".into(),
//!     nexthop: "192.168.0.1".into(),
//!     ..Default::default()
//! })?;
//! txn.insert(&LogicalRouter { name: "lr0".into(), static_routes: [route].into(), ..Default::default() })?;
//! database.transact(txn.finish().operations())?;
//! assert_eq!(
//!     lr_route_list(&database.snapshot(), "lr0")?,
//!     "IPv4 Routes\nRoute Table <main>:\n              10.0.0.0/24               192.168.0.1 dst-ip\n",
//! );
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod lookup;
mod output;
mod policies;
mod prefix;
mod routes;
mod show;

pub use lookup::RenderError;
pub use policies::lr_policy_list;
pub use routes::lr_route_list;
pub use show::{show, show_named, show_router};
