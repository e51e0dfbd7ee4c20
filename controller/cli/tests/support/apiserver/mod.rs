//! A small Kubernetes API server in the test process, with HTTP on a loopback port.
//!
//! It stores objects of the kinds in [`resources`] and implements what controllers depend on:
//! resource versions, lists in pages, watches with bookmarks, optimistic concurrency, server-side
//! apply with field managers, the status subresource, JSON and merge patches, and label selectors.
//! It validates nothing but what the admission policies require. Tests can inject faults: dropped watches, forgotten history (410 Gone),
//! and failing requests.
//!
//! | module | content |
//! |---|---|
//! | [`resources`] | kinds and paths |
//! | [`storage`] | objects, versions, history |
//! | [`fields`] | ownership of fields |
//! | [`patch`] | the three kinds of patches |
//! | [`selector`] | label and field selectors |
//! | [`rbac`] | permissions |
//! | [`admission`] | admission policies |
//! | [`requests`] | from a request to a response |
//! | [`watch`] | responses of watches |
//! | [`http`] | connections |

mod admission;
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

use hyper::header::{HeaderName, HeaderValue};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use rbac::Rules;
use storage::Storage;

pub(crate) use storage::Backup;

/// The server. Dropping it closes all connections.
pub(crate) struct ApiServer {
    shared: Arc<Shared>,
    address: SocketAddr,
    accepting: JoinHandle<()>,
}

/// A recorded request.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    /// `true` for a watch.
    pub(crate) watches: bool,
    /// `true` for a list that is not in pages.
    pub(crate) lists_at_once: bool,
    /// The `fieldManager` of the request.
    pub(crate) manager: Option<String>,
    /// The user of the request; empty: the test itself.
    pub(crate) user: String,
    /// The `Authorization` header; empty: there is none.
    pub(crate) authorization: String,
    /// The status code of the response; 0: no response.
    pub(crate) status: u16,
}

impl Request {
    /// `true` if the request writes a ClusterNetworkConnect.
    pub(crate) fn writes_connect(&self) -> bool {
        self.method != "GET" && self.path.contains("/clusternetworkconnects/")
    }
}

/// An injected fault: requests that fail.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    /// The HTTP method, or `LIST` or `WATCH` for the two kinds of `GET`. `CONTINUE`: later pages of
    /// lists.
    pub(crate) method: &'static str,
    /// A part of the path, or with a final `$` its end.
    pub(crate) path: &'static str,
    pub(crate) reply: Reply,
    /// Number of requests that fail.
    pub(crate) times: usize,
}

/// The response to a request that fails.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Reply {
    /// A `Status` with this code and an optional `retryAfterSeconds`.
    Status(u16, Option<u32>),
    /// Plain text with this code and a `Retry-After` header.
    Text(u16, u32),
    /// A `Status` with this code, although the request is executed.
    Done(u16),
    /// A `Status` with this code after a time, like that of a webhook that does not respond.
    Late(u16, Duration),
    /// No response.
    Never,
    /// The start of a successful response, and nothing more. The connection stays open until
    /// [`ApiServer::drop_watches`].
    Silence,
    /// A successful response without content.
    Empty,
    /// A successful response that ends in the middle of a line.
    Cut,
    /// A successful page of a list whose continue token is always the same one.
    SameToken,
}

/// End of the watches that are dropped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum WatchEnd {
    /// In the middle of a chunk, like a lost connection.
    #[default]
    Cut,
    /// The regular end of a response, as by a server that stops.
    Clean,
}

impl Fault {
    fn matches(&self, call: &requests::Call) -> bool {
        let here = match self.path.strip_suffix('$') {
            Some(end) => call.path.ends_with(end),
            None => call.path.contains(self.path),
        };
        let method = match self.method {
            "LIST" => call.method == "GET" && !call.flag("watch"),
            "WATCH" => call.method == "GET" && call.flag("watch"),
            "CONTINUE" => call.method == "GET" && call.query.contains_key("continue"),
            method => call.method == method,
        };
        method && here
    }
}

/// State shared by all connections.
struct Shared {
    state: Mutex<State>,
    /// Counts changes and orders to end, for watches.
    ticks: tokio::sync::watch::Sender<u64>,
}

#[derive(Default)]
struct State {
    storage: Storage,
    rules: Rules,
    requests: Vec<Request>,
    faults: Vec<Fault>,
    /// Number of orders to drop watches. Watches that began before the last one end.
    dropped: u64,
    watch_end: WatchEnd,
    /// Reject watches of forgotten history at their start. Real servers mostly report that within
    /// the watch.
    gone_at_start: bool,
    /// Answer to `/version`.
    version: Value,
    /// The header `Date` of all answers. `None`: the present time.
    date: Option<String>,
}

impl ApiServer {
    pub(crate) async fn start() -> Self {
        let shared = Arc::new(Shared {
            state: Mutex::new(State {
                rules: Rules::deployed(),
                version: json!({"major": "1", "minor": "36", "gitVersion": "v1.36.3"}),
                ..State::default()
            }),
            ticks: tokio::sync::watch::Sender::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let accepting = tokio::spawn(http::accept(listener, shared.clone()));
        Self { shared, address, accepting }
    }

    /// The server's URL.
    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// A client that may do everything.
    pub(crate) fn client(&self) -> kube::Client {
        let config = kube::Config::new(self.url().parse().unwrap());
        kube::Client::try_from(config).unwrap()
    }

    /// A client with the permissions that `deploy/rbac.yaml` gives to service accounts, and with the
    /// token of a pod: names of its node and of itself.
    pub(crate) fn client_of(&self, accounts: &[&str], token: (&str, &str)) -> kube::Client {
        self.impersonating_client(accounts, claims(token).into())
    }

    /// A client like those of [`client_of`](Self::client_of), whose token is not bound to a pod.
    pub(crate) fn client_without_claims(&self, accounts: &[&str]) -> kube::Client {
        self.impersonating_client(accounts, Vec::new())
    }

    fn impersonating_client(
        &self,
        accounts: &[&str],
        claims: Vec<(HeaderName, HeaderValue)>,
    ) -> kube::Client {
        let mut config = kube::Config::new(self.url().parse().unwrap());
        config.auth_info.impersonate = Some(accounts.join(","));
        config.headers.extend(claims);
        patchbay_kubernetes::client(config).unwrap()
    }

    /// The requests so far, without reads that are still in progress.
    pub(crate) fn requests(&self) -> Vec<Request> {
        self.shared.lock().requests.clone()
    }

    /// Permissions of a service account that none of its requests has used, as `<verb> <resource>`.
    pub(crate) fn unused_permissions(&self, account: &str) -> Vec<String> {
        let state = self.shared.lock();
        let is_own = |request: &&Request| request.user.split(',').any(|user| user == account);
        let requests: Vec<Request> = state.requests.iter().filter(is_own).cloned().collect();
        state.rules.unused(account, &requests)
    }

    pub(crate) fn fail(&self, fault: Fault) {
        self.shared.lock().faults.push(fault);
    }

    /// Sets the answer to `/version`, and the header `Date` of all answers.
    pub(crate) fn greet(&self, version: Value, date: Option<String>) {
        let mut state = self.shared.lock();
        state.version = version;
        state.date = date;
    }

    /// Ends the injected faults.
    pub(crate) fn end_faults(&self) {
        self.shared.lock().faults.clear();
    }

    /// Ends all watches in the middle of a chunk, like a lost connection.
    pub(crate) fn drop_watches(&self) {
        self.shared.lock().dropped += 1;
        self.shared.tick();
    }

    /// Forgets all history and ends all watches, which then cannot continue where they ended.
    pub(crate) fn forget_history(&self, gone_at_start: bool) {
        {
            let mut state = self.shared.lock();
            state.storage.forget_history();
            state.gone_at_start = gone_at_start;
        }
        self.drop_watches();
    }

    /// The objects and the version, as in a copy of etcd.
    pub(crate) fn back_up(&self) -> Backup {
        self.shared.lock().storage.back_up()
    }

    /// Goes back to a backup and ends all watches. Versions after that of the backup come again.
    pub(crate) fn restore(&self, backup: Backup, end: WatchEnd) {
        {
            let mut state = self.shared.lock();
            state.storage.restore(backup);
            state.watch_end = end;
        }
        self.drop_watches();
    }
}

/// Headers with the claims of the token of a pod, as an API server takes them from an administrator.
fn claims((node, pod): (&str, &str)) -> [(HeaderName, HeaderValue); 2] {
    [("node", node), ("pod", pod)].map(|(claim, value)| {
        let name = format!("impersonate-extra-authentication.kubernetes.io%2f{claim}-name");
        (name.parse().unwrap(), value.parse().unwrap())
    })
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

/// Interval of bookmarks, if there is something new.
const BOOKMARK_INTERVAL: Duration = Duration::from_millis(100);
