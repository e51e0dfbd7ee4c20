//! The HTTP server of the admin port.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::thread;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet, LocalSet};
use tokio::time::{interval, sleep, timeout};

use crate::admin::pages::Pages;
use crate::admin::{AdminPort, Health};
use crate::metrics::process_state::ProcessState;

/// Connections at a time. The oldest one is closed for the next one, so clients that are slow on
/// purpose keep no probe of the kubelet out.
const MAX_CONNECTIONS: usize = 32;
/// Time for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(5);
/// Time of a connection, which is for one request. Prometheus waits as long for a scrape by default.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Limit of the head of a request.
const MAX_HEAD_BYTES: usize = 16 << 10;
/// Limit of the headers of a request.
const MAX_HEADERS: usize = 64;
/// Delay after a connection that the system cannot accept, such as for want of descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);
/// Interval at which measured times are put into histograms. The recorder keeps each of them until
/// then.
const UPKEEP_INTERVAL: Duration = Duration::from_secs(5);

/// Content of the pages.
pub(crate) struct AdminContents {
    pub(crate) health: Health,
    pub(crate) state: ProcessState,
}

/// The server on its thread. Dropping it closes the port.
pub(crate) struct AdminServer {
    _stop: oneshot::Sender<Infallible>,
}

impl AdminServer {
    /// Starts to serve a port.
    ///
    /// # Errors
    /// The system has no thread, or no means to wait for connections.
    pub(crate) fn start(port: AdminPort, contents: AdminContents) -> io::Result<Self> {
        let AdminPort { listener, metrics, log, .. } = port;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _context = runtime.enter();
            TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel();
        let serve = move || {
            let upkeep = metrics.clone();
            let pages = Rc::new(Pages { contents, metrics, log });
            LocalSet::new().block_on(&runtime, serve_until(stopped, &listener, &pages, &upkeep));
        };
        thread::Builder::new().name("admin".to_owned()).spawn(serve)?;
        Ok(Self { _stop: stop })
    }
}

/// Serves connections until the sender of `stopped` is gone.
async fn serve_until(
    mut stopped: oneshot::Receiver<Infallible>,
    listener: &TcpListener,
    pages: &Rc<Pages>,
    metrics: &PrometheusHandle,
) {
    let mut connections = JoinSet::new();
    let mut order = VecDeque::new();
    let mut upkeep = interval(UPKEEP_INTERVAL);
    loop {
        tokio::select! {
            _ = &mut stopped => return,
            _ = upkeep.tick() => metrics.run_upkeep(),
            Some(_) = connections.join_next() => order.retain(|one: &AbortHandle| !one.is_finished()),
            accepted = listener.accept() => match accepted {
                Ok((stream, peer)) => {
                    if order.len() >= MAX_CONNECTIONS && let Some(oldest) = order.pop_front() {
                        oldest.abort();
                    }
                    let connection = serve_connection(stream, peer, pages.clone());
                    order.push_back(connections.spawn_local(connection));
                }
                Err(error) => {
                    tracing::debug!(%error, "cannot accept a connection to the admin port");
                    sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Answers the request of a connection.
async fn serve_connection(stream: TcpStream, peer: SocketAddr, pages: Rc<Pages>) {
    let answer = service_fn(|request| {
        let pages = pages.clone();
        async move { Ok::<_, Infallible>(pages.answer(request, peer).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .max_headers(MAX_HEADERS)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    match timeout(CONNECTION_TIMEOUT, connection).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, %peer, "a connection to the admin port failed"),
        Err(_) => tracing::debug!(%peer, "a connection to the admin port took too long"),
    }
}
