//! Locks between the clients of one server (RFC 7047 §4.1.8 to §4.1.10).

mod table;

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use tokio::sync::watch;

use crate::txn::Transaction;

use super::error::Lost;
use super::handle::Client;
use super::outcome::CommitOutcome;

pub(super) use table::{Locks, Mode, Notice, State};

/// A lock that a client has asked for: it holds it, or waits for it. Dropping it gives the lock back.
///
/// After a lost connection the lock is asked for again, at the end of the line. Who loses it to a thief waits for it, too.
/// Each time in which it is held is a [`Held`].
///
/// A lock is the server's: of a cluster, each member has its own. Clients exclude each other only while all of them are
/// connected to the leader, as they are unless [`Config::leader_only`](super::Config::leader_only) is off; and a member that
/// does not know yet that another leads may give the lock to one client while the new leader gives it to another. What
/// such a member is asked to change it cannot commit.
///
/// ```no_run
/// use patchbay_engine::client::{Client, CommitOutcome};
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::LogicalSwitch;
///
/// # async fn run(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = client.lock("my_controller")?;
/// loop {
///     let held = lock.held().await?;
///     // What others have done who held it before is in the snapshot.
///     let mut txn = TxnBuilder::new(&client.snapshot());
///     txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
///     match held.transact(txn.finish()).await {
///         CommitOutcome::Rejected(error) if error.is_not_owner() => continue,
///         outcome => outcome.into_result()?,
///     };
///     println!("the lock is gone: {}", held.lost().await);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Lock {
    name: Arc<str>,
    client: Client,
    locks: Arc<Locks>,
    state: watch::Receiver<State>,
}

impl Lock {
    pub(super) fn new(
        client: Client,
        locks: Arc<Locks>,
        name: &str,
        mode: Mode,
    ) -> Result<Self, LockError> {
        if !patchbay_schemas::schema::is_id(name) {
            return Err(LockError::BadName {
                name: name.to_owned(),
            });
        }
        let name: Arc<str> = name.into();
        let state = locks.ask(&name, mode).ok_or(LockError::AskedAlready {
            name: name.to_string(),
        })?;
        Ok(Self {
            name,
            client,
            locks,
            state,
        })
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The time in which the client holds the lock at this moment; none while it waits.
    pub fn now_held(&self) -> Option<Held> {
        let state = self.state.borrow().clone();
        state.held.then(|| self.tenure(state.tenure))
    }

    /// Waits until the client holds the lock. The client's snapshot then shows all that its former owners have done.
    ///
    /// # Errors
    /// The server does not give locks at all: its remote is read-only. The next server is asked again.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the client goes on to wait in line.
    pub async fn held(&self) -> Result<Held, LockRefused> {
        let mut watched = self.state.clone();
        let decided = |state: &State| state.held || state.refused.is_some();
        let Ok(state) = watched.wait_for(decided).await else {
            // Given back, which takes this to be gone.
            return std::future::pending().await;
        };
        match &state.refused {
            Some(error) if !state.held => Err(LockRefused {
                name: self.name.to_string(),
                error: error.clone(),
            }),
            _ => Ok(self.tenure(state.tenure)),
        }
    }

    fn tenure(&self, number: u64) -> Held {
        Held {
            client: self.client.clone(),
            tenure: Tenure {
                name: self.name.clone(),
                number,
                state: self.state.clone(),
            },
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.locks.release(&self.name);
    }
}

/// A time in which a client holds a [`Lock`]. When it is over it stays so: holding the lock again is another time.
#[derive(Clone, Debug)]
pub struct Held {
    client: Client,
    tenure: Tenure,
}

impl Held {
    /// Whether the client does not hold the lock any more, as far as it knows. The server knows better: that is what
    /// [`transact`](Self::transact) is for.
    pub fn is_over(&self) -> bool {
        self.tenure.is_over()
    }

    /// Waits until the client does not hold the lock any more, and tells why.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub async fn lost(&self) -> LockLost {
        let mut state = self.tenure.state.clone();
        let number = self.tenure.number;
        let over = state.wait_for(|state| !state.is(number)).await;
        let why = over.ok().and_then(|state| state.lost.clone());
        why.unwrap_or(LockLost::GivenBack)
    }

    /// Sends a transaction that the server executes only if this client owns the lock then, and that is not sent if this
    /// time is over: see [`OpError::is_not_owner`](super::OpError::is_not_owner). Otherwise like
    /// [`Client::transact`]; of the results, the last is that of the `assert`.
    ///
    /// # Cancel safety
    /// As of [`Client::transact`]; a lock that is given back meanwhile may overtake the transaction, which then is refused.
    pub async fn transact(&self, transaction: Transaction) -> CommitOutcome {
        let tenure = self.tenure.clone();
        self.client.transact_under(transaction, tenure).await
    }
}

/// What the task behind a client looks at before it sends a transaction.
#[derive(Clone, Debug)]
pub(super) struct Tenure {
    pub(super) name: Arc<str>,
    number: u64,
    state: watch::Receiver<State>,
}

impl Tenure {
    pub(super) fn is_over(&self) -> bool {
        !self.state.borrow().is(self.number)
    }

    /// What a server says to a transaction whose client does not own the lock.
    pub(super) fn not_owner(&self) -> OvsdbError {
        OvsdbError::new(
            "not owner",
            format!("Asserted lock {} not held.", self.name),
        )
    }
}

/// Why a lock is not held any more.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockLost {
    /// Another client has taken it by force.
    #[error("another client has stolen the lock")]
    Stolen,
    /// The connection is lost, and with it the lock as soon as the server notices.
    #[error("the connection is lost: {0}")]
    Disconnected(Arc<Lost>),
    /// The [`Lock`] was dropped.
    #[error("the lock was given back")]
    GivenBack,
}

/// Why a lock cannot be asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// Names of locks are made of letters, digits and underscores and do not begin with a digit.
    #[error("{name:?} is not a name of a lock: letters, digits and _, no digit first")]
    BadName {
        /// The name.
        name: String,
    },
    /// A client can ask for a lock once: its handles share one connection, and the server does not tell them apart.
    #[error("this client has asked for lock {name} already")]
    AskedAlready {
        /// The name.
        name: String,
    },
    /// The client is [embedded](Client::embedded): its database has no locks.
    #[error("an embedded database has no locks")]
    Embedded,
}

/// The server has refused to give a lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server does not give lock {name}: {error}")]
pub struct LockRefused {
    /// The name.
    pub name: String,
    /// The server's words.
    pub error: OvsdbError,
}
