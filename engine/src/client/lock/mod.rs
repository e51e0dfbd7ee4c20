//! Locks between the clients of one server (RFC 7047 sections 4.1.8 to 4.1.10).

mod table;

use std::sync::Arc;

use patchbay_schemas::error::OvsdbError;
use tokio::sync::watch;

use crate::txn::Transaction;

use super::error::ConnectionFailure;
use super::handle::Client;
use super::outcome::CommitOutcome;

pub(super) use table::{LockMode, LockNotification, LockRequests, LockState};

/// A requested lock: the client holds it or waits for it. Dropping it releases the lock.
///
/// After a lost connection the lock is requested again, at the end of the queue. A client that
/// loses the lock to a `steal` waits for it again. Each ownership, from `locked` to its end, is a
/// [`HeldLock`].
///
/// Each server has its own locks, and so has each member of a cluster. Clients exclude each other
/// only while all of them are connected to the leader, which
/// [`Config::leader_only`](super::Config::leader_only) ensures. A former leader may still grant a
/// lock that the new leader grants to another client, but it cannot commit transactions.
///
/// ```no_run
/// use patchbay_engine::client::{Client, CommitOutcome};
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_schemas::nb::LogicalSwitch;
///
/// # async fn run(client: Client) -> Result<(), Box<dyn std::error::Error>> {
/// let lock = client.lock("my_controller")?;
/// loop {
///     let held = lock.wait_until_held().await?;
///     // The snapshot shows the transactions of former owners.
///     let mut txn = TxnBuilder::new(&client.snapshot());
///     txn.insert(&LogicalSwitch { name: "sw0".into(), ..Default::default() })?;
///     match held.transact(txn.finish()).await {
///         CommitOutcome::Rejected(error) if error.is_not_owner() => continue,
///         outcome => outcome.into_result()?,
///     };
///     println!("lost the lock: {}", held.wait_until_lost().await);
/// }
/// # }
/// ```
#[derive(Debug)]
pub struct Lock {
    name: Arc<str>,
    client: Client,
    locks: Arc<LockRequests>,
    state: watch::Receiver<LockState>,
}

impl Lock {
    pub(super) fn new(
        client: Client,
        locks: Arc<LockRequests>,
        name: &str,
        mode: LockMode,
    ) -> Result<Self, LockError> {
        if !patchbay_schemas::schema::is_id(name) {
            return Err(LockError::BadName { name: name.to_owned() });
        }
        let name: Arc<str> = name.into();
        let state = locks
            .request(&name, mode)
            .ok_or(LockError::AlreadyRequested { name: name.to_string() })?;
        Ok(Self { name, client, locks, state })
    }

    /// Name of the lock.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Current ownership. `None`: the client waits for the lock.
    pub fn current(&self) -> Option<HeldLock> {
        let state = self.state.borrow().clone();
        state.held.then(|| self.ownership(state.ownership))
    }

    /// Waits until the client holds the lock. The client's snapshot then shows all transactions of
    /// former owners.
    ///
    /// # Errors
    /// The server rejects lock requests, because its remote is read-only. The lock is requested
    /// again on the next connection.
    ///
    /// # Cancel safety
    /// Dropping the future does not cancel the request: the client keeps its place in the queue.
    pub async fn wait_until_held(&self) -> Result<HeldLock, LockRefused> {
        let mut watched = self.state.clone();
        let decided = |state: &LockState| state.held || state.refused.is_some();
        let Ok(state) = watched.wait_for(decided).await else {
            // The lock was released, which consumes `self`.
            return std::future::pending().await;
        };
        match &state.refused {
            Some(error) if !state.held => {
                Err(LockRefused { name: self.name.to_string(), error: error.clone() })
            }
            _ => Ok(self.ownership(state.ownership)),
        }
    }

    fn ownership(&self, number: u64) -> HeldLock {
        HeldLock {
            client: self.client.clone(),
            ownership: Ownership { name: self.name.clone(), number, state: self.state.clone() },
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.locks.release(&self.name);
    }
}

/// Ownership of a [`Lock`]. Once over it stays over: when the client owns the lock again, that is
/// another `HeldLock`.
#[derive(Clone, Debug)]
pub struct HeldLock {
    client: Client,
    ownership: Ownership,
}

impl HeldLock {
    /// `true` if the ownership is over as far as the client knows. The server decides, which
    /// [`transact`](Self::transact) makes use of.
    pub fn is_over(&self) -> bool {
        self.ownership.is_over()
    }

    /// Waits until the ownership is over, and returns the reason.
    ///
    /// # Cancel safety
    /// Dropping the future has no effect.
    pub async fn wait_until_lost(&self) -> LockLost {
        let mut state = self.ownership.state.clone();
        let number = self.ownership.number;
        let over = state.wait_for(|state| !state.is(number)).await;
        let why = over.ok().and_then(|state| state.lost.clone());
        why.unwrap_or(LockLost::Released)
    }

    /// Sends a transaction that the server executes only if this client owns the lock. It is not
    /// sent if the ownership is over: see [`OpError::is_not_owner`](super::OpError::is_not_owner).
    /// Otherwise like [`Client::transact`]; the last result is that of the `assert`.
    ///
    /// # Cancel safety
    /// That of [`Client::transact`]. A lock that is released meanwhile may overtake the
    /// transaction, which is then rejected.
    pub async fn transact(&self, transaction: Transaction) -> CommitOutcome {
        let ownership = self.ownership.clone();
        self.client.transact_under(transaction, ownership).await
    }
}

/// Ownership of a lock, as the driver checks it before it sends a transaction.
#[derive(Clone, Debug)]
pub(super) struct Ownership {
    pub(super) name: Arc<str>,
    number: u64,
    state: watch::Receiver<LockState>,
}

impl Ownership {
    pub(super) fn is_over(&self) -> bool {
        !self.state.borrow().is(self.number)
    }

    /// The error with which a server rejects a transaction whose client does not own the lock.
    pub(super) fn not_owner(&self) -> OvsdbError {
        OvsdbError::new("not owner", format!("Asserted lock {} not held.", self.name))
    }
}

/// Reason for which an ownership is over.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LockLost {
    /// Another client has stolen the lock.
    #[error("another client has stolen the lock")]
    Stolen,
    /// The connection was lost. The server releases the lock when it detects that.
    #[error("the connection was lost: {0}")]
    Disconnected(Arc<ConnectionFailure>),
    /// The [`Lock`] was dropped.
    #[error("the lock was released")]
    Released,
}

/// Reason for which a lock cannot be requested.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LockError {
    /// The name is not an `<id>` (RFC 7047 section 3.1): letters, digits and underscores, no digit
    /// first.
    #[error("{name:?} is not a valid lock name: letters, digits and _, no digit first")]
    BadName {
        /// Rejected name.
        name: String,
    },
    /// This client has requested the lock already. All handles of a client share one connection,
    /// which the server treats as one owner.
    #[error("this client has already requested lock {name}")]
    AlreadyRequested {
        /// Name of the lock.
        name: String,
    },
    /// The client is [embedded](Client::embedded), and its database has no locks.
    #[error("an embedded database has no locks")]
    Embedded,
}

/// The server has rejected the request for a lock.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the server rejected the request for lock {name}: {error}")]
pub struct LockRefused {
    /// Name of the lock.
    pub name: String,
    /// The server's error.
    pub error: OvsdbError,
}
