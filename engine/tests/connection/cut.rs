//! The connection breaks at every byte of a transaction's request and of what the server sends for it.

use std::time::Duration;

use ovsdb_sim::testing::{RealServer, ScratchDir};

use crate::proxy::{Direction, Proxy};
use crate::{add, config, connect, names, once, schema_file};

#[tokio::test]
async fn nothing_is_lost_or_doubled_wherever_the_connection_breaks() {
    let dir = ScratchDir::new();
    let server = RealServer::start([schema_file(&dir)]);
    let proxy = Proxy::start(server.socket());
    let mut config_of_client = config(&proxy.remote());
    // Hundreds of connections, none of which lives long.
    config_of_client.backoff = (Duration::from_millis(1), Duration::from_millis(4));
    let client = connect(config_of_client).await;
    let mut added = Vec::new();
    for direction in [Direction::ToServer, Direction::ToClient] {
        let (mut made, mut repeated) = (0, 0);
        for offset in 0.. {
            let before = proxy.cuts();
            proxy.cut_after(direction, offset);
            let name = format!("{direction:?} {offset:04}");
            let tries = add(&client, &name).await;
            added.push(name);
            if proxy.cuts() == before {
                // The cut would come after the last byte.
                proxy.spare();
                break;
            }
            match tries {
                1 => made += 1,
                _ => repeated += 1,
            }
        }
        // A request that does not arrive as a whole is repeated; a reply that does not was made before.
        match direction {
            Direction::ToServer => assert!(made == 0 && repeated > 300, "{made} {repeated}"),
            Direction::ToClient => assert!(made > 100 && repeated == 0, "{made} {repeated}"),
        }
        assert_eq!(names(&client), once(added.clone()));
    }
    let fresh = connect(config(&server.remote())).await;
    assert_eq!(names(&fresh), once(added));
}
