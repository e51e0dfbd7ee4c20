//! The OVSDB client: a live copy of a database, and transactions on the original.
//!
//! ```no_run
//! use patchbay_engine::client::{Client, CommitOutcome, Config};
//! use patchbay_engine::txn::TxnBuilder;
//! use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort};
//!
//! # async fn run() -> Result<(), Box<dyn std::error::Error>> {
//! let config = Config::new("unix:/run/ovn/ovnnb_db.sock".parse()?, "OVN_Northbound")
//!     .with_table::<LogicalRouter>()
//!     .with_table::<LogicalRouterPort>();
//! let client = Client::connect(config).await?;
//!
//! let mut txn = TxnBuilder::new(&client.snapshot());
//! let port = txn.insert(&LogicalRouterPort { name: "lrp0".into(), ..Default::default() })?;
//! let router = txn.insert(&LogicalRouter { name: "lr0".into(), ports: [port].into(), ..Default::default() })?;
//! match client.transact(txn.finish()).await {
//!     // The replica shows the client's own changes as soon as they are known to be made.
//!     CommitOutcome::Committed(committed) => {
//!         let router = client.snapshot().get(committed.resolve(router))?.expect("it was just made");
//!         assert_eq!(router.name, "lr0");
//!     }
//!     CommitOutcome::Rejected(error) => println!("{error}"),
//!     CommitOutcome::NotSent(error) => println!("{error}"),
//!     CommitOutcome::Unknown(unknown) => {
//!         let now = client.resynced(&unknown).await?;
//!         let applied = now.typed::<LogicalRouter>().iter().any(|row| row.is_ok_and(|(_, row)| row.name == "lr0"));
//!         println!("{unknown}; they are {}", if applied { "made" } else { "not made" });
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is a handle on one task, which owns the connection. That task
//!
//! * tries the remotes in order, then waits 1 s, 2 s, ... 8 s (and up to a half more) between rounds;
//! * asks the server how it serves the database, and goes on to the next when it is not good enough: of a cluster only the
//!   leader is, unless [`Config::leader_only`] is off. It leaves as soon as another member leads. [`ConnectionEvents`] tell;
//! * asks for the schema that the server really has, and leaves out of the replica what it lacks;
//! * follows the database with the newest kind of monitor that the server knows; of a cluster's history it asks for what it
//!   has missed, if the servers still keep that;
//! * publishes a [`Snapshot`](crate::db::Snapshot) after every update, which readers get without waiting;
//! * after a lost connection keeps the last snapshot readable until the whole new contents are there, and changes only
//!   what differs. Readers never see a half-filled database;
//! * sends transactions one after the other without waiting for answers, or [together](Pipelining::Coalesced);
//! * asks for [`Lock`]s, and for them again on each connection;
//! * counts and measures through the `metrics` facade, and logs through `tracing`: `engine/README.md` has the names.
//!
//! In one process with its database a client needs no socket: a [`Connector`] opens streams of bytes in any way, and an
//! [embedded](Client::embedded) client needs no connection at all. Code that reads snapshots, waits
//! for changes and commits sees no difference.
//!
//! Whatever a server sends, the worst that happens is that the connection ends and another one begins.

mod answer;
mod backoff;
mod bulk;
mod condition;
mod config;
mod connection;
mod connection_events;
mod connector;
mod driver;
mod embedded;
mod error;
mod fence;
mod guard;
mod handle;
mod known;
mod lock;
mod metrics;
mod outcome;
mod outgoing;
mod pipeline;
mod published;
mod remote;
mod replica;
mod rpc;
mod server_database;
mod session;
mod subscription;
mod tls;

pub use condition::{Filter, FilterError};
pub use config::{Config, Selection};
pub use connection_events::{ConnectionEvent, ConnectionEvents, Resync};
pub use connector::Connector;
pub use embedded::EmbeddedDatabase;
pub use error::{ConnectError, Ended, Lost, SessionError};
pub use guard::Guard;
pub use handle::{Changes, Client};
pub use lock::{Held, Lock, LockError, LockLost, LockRefused};
pub use outcome::{
    CommitError, CommitOutcome, Committed, FailedOperation, NotSent, OpError, PartsOutcome, Unknown,
};
pub use pipeline::Pipelining;
pub use remote::{Remote, RemoteError, Remotes};
pub use server_database::{DatabaseModel, DatabaseStatus};
pub use subscription::{Change, ChangeEvent, Changed, Follow, NotFollowed, Subscription};
pub use tls::{Tls, TlsError};
