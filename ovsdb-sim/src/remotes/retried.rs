//! Remotes whose sockets cannot be bound yet: a port is in use, or a folder is missing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::remotes::options::RemoteOptions;
use crate::sim::Sim;

use super::OpenRemote;

/// Time after which a remote that cannot be opened is tried again.
pub(super) const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// Passive remote that is tried again until it opens. Dropping it ends it.
#[derive(Debug)]
pub(super) struct RetriedRemote {
    target: String,
    state: Arc<Mutex<State>>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct State {
    options: RemoteOptions,
    /// `None`: the socket has not been bound.
    open: Option<OpenRemote>,
}

impl RetriedRemote {
    pub(super) fn start(sim: &Sim, target: &str, options: RemoteOptions) -> Self {
        let state = State { options, open: None };
        let state = Arc::new(Mutex::new(state));
        let opening = open(sim.clone(), target.to_owned(), state.clone());
        Self { target: target.to_owned(), state, task: tokio::spawn(opening) }
    }

    pub(super) fn set_options(&self, options: RemoteOptions) {
        let mut state = lock(&self.state);
        if let Some(remote) = &state.open {
            remote.set_options(options.clone());
        }
        state.options = options;
    }

    /// Description for users.
    pub(super) fn describe(&self) -> String {
        match &lock(&self.state).open {
            Some(remote) => remote.describe(),
            None => format!("waiting for {}", self.target),
        }
    }
}

impl Drop for RetriedRemote {
    fn drop(&mut self) {
        self.task.abort();
        // The task ends later.
        lock(&self.state).open = None;
    }
}

/// Opens a remote as soon as its socket can be bound.
async fn open(sim: Sim, target: String, state: Arc<Mutex<State>>) {
    loop {
        sleep(RETRY_INTERVAL).await;
        let options = lock(&state).options.clone();
        if let Ok(remote) = OpenRemote::open(&sim, &target, options).await {
            let mut state = lock(&state);
            // They may have changed meanwhile.
            remote.set_options(state.options.clone());
            state.open = Some(remote);
            return;
        }
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Each change is one call.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
