//! A small Kubernetes API server in the test process, which speaks HTTP on a loopback port.
//!
//! It stores objects of the kinds in [`resources`] and knows what controllers depend on: resource versions, lists in pages,
//! watches with bookmarks, optimistic concurrency, server-side apply with field managers, the status subresource, JSON and
//! merge patches, label selectors. It validates nothing. What goes wrong in clusters can be ordered: watches that are
//! dropped, history that is forgotten (410 Gone), requests that fail.
//!
//! | module | what is in it |
//! |---|---|
//! | [`resources`] | the kinds, and paths |
//! | [`storage`] | objects, versions, history |
//! | [`fields`] | who owns which field |
//! | [`patch`] | the three kinds of patches |
//! | [`selector`] | label and field selectors |
//! | [`rbac`] | who may do what |
//! | [`requests`] | from a request to an answer |
//! | [`watch`] | answers that do not end |
//! | [`http`] | connections |

mod fields;
mod http;
mod patch;
mod rbac;
mod requests;
mod resources;
mod selector;
mod storage;
mod watch;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::task::JoinHandle;

use rbac::Rules;
use storage::Storage;

/// The server. Dropping it ends it and all its connections.
pub(crate) struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// A request that was answered.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// Whether it asked for a watch.
    pub(crate) watches: bool,
    /// The `fieldManager` of the request.
    pub(crate) manager: Option<String>,
    /// On whose behalf it was made.
    pub(crate) user: String,
    /// The status code of the answer; 0 if there is none.
    pub(crate) status: u16,
}

impl Request {
    /// Whether it asked for a change of a connect.
    pub(crate) fn writes_connect(&self) -> bool {
        self.method != "GET" && self.path.contains("/clusternetworkconnects/")
    }
}

/// Requests that fail.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The method of HTTP; `LIST` and `WATCH` are two kinds of `GET`.
    pub(crate) method: &'static str,
    /// A part of the path; its end, if a `$` stands behind it.
    pub(crate) path: &'static str,
    pub(crate) reply: Reply,
    /// How many of them fail.
    pub(crate) times: usize,
}

/// What is answered to a request that fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// A `Status` with this code, and what it asks to wait.
    Status(u16, Option<u32>),
    /// Plain text with this code, and a header that asks to wait.
    Text(u16, u32),
    /// A `Status` with this code, although what was asked for is done.
    Done(u16),
    /// Nothing, for ever.
    Never,
    /// That it is done, and then nothing more, for ever.
    Silence,
    /// That it is done, and nothing more.
    Empty,
}

impl Fault {
    fn is_about(&self, call: &requests::Call) -> bool {
        let here = match self.path.strip_suffix('$') {
            Some(end) => call.path.ends_with(end),
            None => call.path.contains(self.path),
        };
        let method = match self.method {
            "LIST" => call.method == "GET" && !call.flag("watch"),
            "WATCH" => call.method == "GET" && call.flag("watch"),
            method => call.method == method,
        };
        method && here
    }
}

/// What connections share.
struct Shared {
    state: Mutex<State>,
    /// Counts what watches must look at: changes, and orders to end.
    ticks: tokio::sync::watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    storage: Storage,
    rules: Rules,
    requests: Vec<Request>,
    faults: Vec<Fault>,
    /// Watches that began before this many orders to end have to end.
    dropped: u64,
    /// Refuse to begin watches of forgotten history, where real servers mostly tell within the watch.
    gone_at_start: bool,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                rules: Rules::deployed(),
                ..State::default()
            }),
            ticks: tokio::sync::watch::Sender::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(http::accept(listener, shared.clone()));
        Self {
            shared,
            address,
            accepting,
        }
    }

    /// Where it listens.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client with connections of its own, which may do everything.
    pub(crate) fn client(&self) -> kube::Client {
        let config = kube::Config::new(self.url().parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }

    /// A client that may do what service accounts may do, according to the roles that come with the project.
    pub(crate) fn client_of(&self, accounts: &[&str]) -> kube::Client {
        let mut config = kube::Config::new(self.url().parse().unwrap());
        config.auth_info.impersonate = Some(accounts.join(","));
        patchbay_kubernetes::client(config).unwrap()
    }

    /// The requests that were answered so far, but for reads that are still answered.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.shared.lock().faults.push(fault);
    }

    /// Ends all watches in the middle of a chunk, as a lost connection does.
    pub(crate) fn drop_watches(&self) {
        self.shared.lock().dropped += 1;
        self.shared.tick();
    }

    /// Forgets all history and ends all watches: they cannot go on where they ended.
    pub(crate) fn forget_history(&self, gone_at_start: bool) {
        {
            let mut state = self.shared.lock();
            state.storage.forget_history();
            state.gone_at_start = gone_at_start;
        }
        self.drop_watches();
    }
}

impl Drop for ApiServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn tick(&self) {
        self.ticks.send_modify(|ticks| *ticks += 1);
    }
}

/// How often a watch that asks for bookmarks gets one, if there is something new.
const BOOKMARKS: Duration = Duration::from_millis(100);
