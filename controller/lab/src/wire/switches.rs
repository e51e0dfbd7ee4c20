//! Switches of a lab: the clock of a busy machine.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::sync::{self, watch};
use tokio::time::timeout;

use super::open_questions::lock;
use crate::appctl;

/// Number of rounds of all switches in which a packet and its answer have passed them: a TCP
/// connection passes two switches four times, each of which takes up to two rounds. As many are for
/// ARP of the routers between them.
const ROUNDS: u64 = 32;
/// Maximum time of a round. After a longer one nobody waits for the others.
const ROUND_LIMIT: Duration = Duration::from_secs(10);

/// Switches of all nodes. A switch handles packets and commands in one loop, so its answer to a
/// command shows that it has handled the packets before.
#[derive(Debug, Default)]
pub(crate) struct Switches {
    /// Sockets for commands, by the number of the node.
    sockets: Mutex<BTreeMap<usize, PathBuf>>,
    /// Number of rounds that have ended.
    ended: watch::Sender<u64>,
    /// Lock of the one that makes a round for all.
    round: sync::Mutex<()>,
}

impl Switches {
    /// Adds the switch of a node by its socket for commands.
    pub(crate) fn add(&self, node: usize, socket: PathBuf) {
        lock(&self.sockets).insert(node, socket);
    }

    /// Removes the switch of a node.
    pub(crate) fn remove(&self, node: usize) {
        lock(&self.sockets).remove(&node);
    }

    /// Waits for an answer that is late, as long as a packet may still be under way. `None`: there
    /// is none.
    pub(crate) async fn wait_for<T>(&self, answer: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            biased;
            answer = answer => answer,
            () = self.go_round() => None,
        }
    }

    /// Waits until all switches have gone round. Those who wait share the rounds.
    async fn go_round(&self) {
        let mut ended = self.ended.subscribe();
        // The round under way has begun before.
        let wanted = *ended.borrow_and_update() + 1 + ROUNDS;
        while *ended.borrow() < wanted {
            tokio::select! {
                biased;
                _ = ended.changed() => {}
                _guard = self.round.lock() => {
                    let rounds = if self.ask_all().await { 1 } else { 1 + ROUNDS };
                    self.ended.send_modify(|ended| *ended += rounds);
                }
            }
        }
    }

    /// Sends a command to all switches. A switch that was killed is not waited for. Returns `false`
    /// if a switch neither ends nor answers.
    async fn ask_all(&self) -> bool {
        let sockets: Vec<PathBuf> = lock(&self.sockets).values().cloned().collect();
        let asked = sockets.iter().map(|socket| appctl::call(socket, "version", &[]));
        timeout(ROUND_LIMIT, join_all(asked)).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::Arc;

    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::UnixListener;
    use tokio::time::Instant;

    use super::*;

    /// Answers commands, and counts them.
    async fn serve(listener: UnixListener, count: watch::Sender<u64>) {
        let reply = json!({"id": 0, "result": "4.0.0", "error": null}).to_string();
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut bytes = [0; 1024];
            let length = stream.read(&mut bytes).await.unwrap();
            assert_ne!(length, 0);
            stream.write_all(reply.as_bytes()).await.unwrap();
            count.send_modify(|count| *count += 1);
        }
    }

    #[tokio::test]
    async fn an_answer_counts_while_a_packet_may_be_under_way() {
        let folder = tempfile::tempdir().unwrap();
        let switches = Arc::<Switches>::default();
        let none = switches.wait_for(pending::<Option<()>>()).await;
        assert_eq!(none, None, "a lab without switches does not wait");

        let socket = folder.path().join("ctl");
        let (count, counted) = watch::channel(0);
        let server = tokio::spawn(serve(UnixListener::bind(&socket).unwrap(), count));
        switches.add(1, socket);
        // Nobody listens at the socket of a killed switch.
        switches.add(2, folder.path().join("killed"));
        let answer_after = async |rounds: u64| {
            let mut counted = counted.clone();
            let wanted = *counted.borrow() + rounds;
            let answer = async {
                counted.wait_for(|count| *count >= wanted).await.unwrap();
                Some(rounds)
            };
            switches.wait_for(answer).await
        };
        assert_eq!(answer_after(ROUNDS).await, Some(ROUNDS));
        assert_eq!(answer_after(ROUNDS + 9).await, None);

        let before = *counted.borrow();
        let waiting = (0..100).map(|_| switches.wait_for(pending::<Option<()>>()));
        join_all(waiting).await;
        let rounds = *counted.borrow() - before;
        assert!(rounds <= ROUNDS + 2, "{rounds} rounds are shared");
        server.abort();
    }

    #[tokio::test(start_paused = true)]
    async fn a_switch_that_does_not_answer_is_waited_for_once() {
        let folder = tempfile::tempdir().unwrap();
        let switches = Switches::default();
        let socket = folder.path().join("ctl");
        let _listener = UnixListener::bind(&socket).unwrap();
        switches.add(1, socket);
        let start = Instant::now();
        let waiting = (0..100).map(|_| switches.wait_for(pending::<Option<()>>()));
        join_all(waiting).await;
        assert!(start.elapsed() < 2 * ROUND_LIMIT, "{:?}", start.elapsed());
    }
}
