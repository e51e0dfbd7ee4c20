//! The OVSDB client: a replica of a remote database, and transactions on the original.
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
//! let router = LogicalRouter {
//!     name: "lr0".into(),
//!     ports: [port].into(),
//!     ..Default::default()
//! };
//! let router = txn.insert(&router)?;
//! match client.transact(txn.finish()).await {
//!     // After a commit, the replica shows its changes.
//!     CommitOutcome::Committed(committed) => {
//!         let router = client.snapshot().get(committed.resolve(router))?.expect("it was just committed");
//!         assert_eq!(router.name, "lr0");
//!     }
//!     CommitOutcome::Rejected(error) => println!("{error}"),
//!     CommitOutcome::NotSent(error) => println!("{error}"),
//!     CommitOutcome::Unknown(unknown) => {
//!         let now = client.wait_for_resync(&unknown).await?;
//!         let routers = now.typed::<LogicalRouter>();
//!         let is_applied = routers.iter().any(|row| row.is_ok_and(|(_, row)| row.name == "lr0"));
//!         println!("{unknown}; the router exists: {is_applied}");
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A [`Client`] is a handle on a task that owns the connection. The task
//!
//! * tries the remotes in order, with a [`Backoff`](crate::backoff::Backoff) of 1 s to 8 s between
//!   rounds;
//! * reads the server's status of the database from `_Server` and skips servers that do not
//!   qualify: in a cluster only the leader does, unless [`Config::leader_only`] is off. It leaves
//!   the server when another member becomes leader. [`ConnectionEvents`] report this;
//! * fetches the server's schema and leaves out of the replica the tables and columns that it
//!   lacks;
//! * monitors the database with the newest monitor method of the server, and on a reconnect
//!   requests only the missed transactions if the server still has them;
//! * publishes a [`Snapshot`](crate::db::Snapshot) after every update; reading it never waits;
//! * keeps the last snapshot readable after a lost connection, until the whole new contents have
//!   arrived, and then changes only rows that differ. Readers never see a half-filled database;
//! * sends transactions without waiting for earlier replies, or [coalesced](Pipelining::Coalesced);
//! * requests [`Lock`]s, again on each connection;
//! * records metrics through the `metrics` facade and logs through `tracing`; `engine/README.md`
//!   lists the names.
//!
//! A client in the same process as its database needs no socket. A [`Connector`] opens byte streams
//! in any way; an [embedded](Client::embedded) client has no connection at all. Code that reads
//! snapshots, waits for changes and commits is the same for all of them.
//!
//! Malformed messages from a server at worst end the connection, and the client reconnects.

mod bulk;
mod config;
mod connection;
mod connection_events;
mod connector;
mod driver;
mod embedded;
mod error;
mod fence;
mod filter;
mod forwarding;
mod guard;
mod handle;
mod lock;
mod metrics;
mod outcome;
mod outgoing;
mod pending;
mod pipeline;
mod pipelining;
mod progress;
mod published;
mod reconnect;
mod remote;
mod replica;
mod retained_state;
mod rpc;
mod server_database;
mod session;
mod subscription;
mod tls;
mod transact_reply;

pub use config::{Config, Selection};
pub use connection_events::{ConnectionEvent, ConnectionEvents, ResyncKind};
pub use connector::Connector;
pub use embedded::EmbeddedDatabase;
pub use error::{ClientClosed, ConnectError, ConnectionFailure, SessionError};
pub use filter::{Filter, FilterError};
pub use forwarding::{ForwardOutcome, ForwardedReplies, ForwardedReply, Forwarder};
pub use guard::Guard;
pub use handle::{Client, SnapshotChanges};
pub use lock::{HeldLock, Lock, LockError, LockLost, LockRefused};
pub use outcome::{
    CommitError, CommitOutcome, Committed, FailedOperation, NotSent, OpError, PartsOutcome,
    UnknownOutcome,
};
pub use pipelining::Pipelining;
pub use remote::{Remote, RemoteError, Remotes};
pub use server_database::{DatabaseModel, DatabaseStatus};
pub use subscription::{
    Change, ChangeEvent, ChangedRows, FollowUnsupported, FollowedTables, Subscription,
};
pub use tls::{Tls, TlsError};
