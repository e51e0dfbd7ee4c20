//! Locks that change hands while they are requested.

use ovsdb_sim::Limits;
use patchbay_schemas::json::Json;

use crate::Bed;

/// Number of times that a lock changes hands: a wrong order of messages comes once in thousands.
const ROUNDS: usize = 12_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_client_reads_that_it_waits_before_it_gets_the_lock() {
    let bed = Bed::new(Limits::default()).await;
    let (mut first, mut second) = (bed.client().await, bed.client().await);
    for round in 0..ROUNDS {
        first.call("lock", r#"["l"]"#).await.unwrap();
        // The owner unlocks while the other client requests the lock.
        tokio::join!(first.request("unlock", r#"["l"]"#, 1), second.request("lock", r#"["l"]"#, 2));
        let reply = second.next().await.unwrap();
        let is_reply = reply.get("id").is_some_and(|id| *id != Json::Null);
        assert!(is_reply, "round {round}: {}", reply.to_text());
        if reply.to_text().contains(r#""locked":false"#) {
            let notification = second.next().await.unwrap();
            assert!(notification.to_text().contains(r#""method":"locked""#));
        }
        first.next().await.unwrap();
        second.call("unlock", r#"["l"]"#).await.unwrap();
    }
}
