//! Northbound databases rendered as `ovn-nbctl` prints them.
//!
//! [`show`], [`show_named`] and [`show_router`] render `ovn-nbctl show [NAME]`, the other functions
//! the commands with their names. The text equals the program's text for a database with the same
//! rows and UUIDs, byte for byte. This includes the order of rows where the program follows its
//! hash tables. Where releases of OVN differ, [`Release`] chooses one.
//!
//! [`northbound`] renders a whole database with names in place of UUIDs, for which `ovn-nbctl` has
//! no command.
//!
//! ```
//! use patchbay_engine::db::Database;
//! use patchbay_engine::txn::TxnBuilder;
//! use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterStaticRoute};
//! use patchbay_nbctl_text::lr_route_list;
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

mod acls;
mod dhcp_options;
mod load_balancers;
mod lookup;
mod names;
mod nats;
mod output;
mod policies;
mod prefix;
mod release;
mod routes;
mod rows;
mod show;

pub use acls::acl_list;
pub use dhcp_options::dhcp_options_list;
pub use load_balancers::{lb_list, lr_lb_list, ls_lb_list};
pub use lookup::RenderError;
pub use names::{lr_list, ls_list};
pub use nats::lr_nat_list;
pub use policies::lr_policy_list;
pub use release::Release;
pub use routes::lr_route_list;
pub use rows::{list, northbound};
pub use show::{show, show_named, show_router};
