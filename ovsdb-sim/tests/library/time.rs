//! Time is the runtime's: in a test that pauses it, an hour takes no time.

use std::thread;
use std::time::Duration;

use ovsdb_sim::Sim;
use patchbay_schemas::json::{Framer, Json};
use patchbay_schemas::nb::LogicalSwitch;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::time::{Instant, sleep};

const HOUR: Duration = Duration::from_secs(3600);

/// Connection on which a test writes messages itself.
struct Raw {
    stream: DuplexStream,
    framer: Framer,
}

impl Raw {
    fn new(sim: &Sim) -> Self {
        Self { stream: sim.connect().unwrap(), framer: Framer::new(1 << 20) }
    }

    async fn send(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.unwrap();
    }

    async fn next(&mut self) -> Json {
        loop {
            if let Some(text) = self.framer.next_text().unwrap() {
                return Json::parse(text.as_text().bytes()).unwrap();
            }
            assert!(self.stream.read_buf(self.framer.buffer_mut()).await.unwrap() > 0);
        }
    }
}

/// A request that waits for a switch of this name, for at most `timeout` milliseconds.
fn wait(id: u64, name: &str, timeout: u64) -> String {
    format!(
        r#"{{"id":{id},"method":"transact","params":["OVN_Northbound",{{"op":"wait","timeout":{timeout},
            "table":"Logical_Switch","where":[["name","==","{name}"]],"columns":["name"],"until":"==",
            "rows":[{{"name":"{name}"}}]}}]}}"#
    )
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_after_an_hour_and_not_before() {
    let sim = Sim::builder().build().unwrap();
    let mut client = Raw::new(&sim);
    let start = Instant::now();
    client.send(&wait(1, "never", 3_600_000)).await;
    let reply = client.next().await;
    assert!(start.elapsed() >= HOUR, "{:?}", start.elapsed());
    let text = reply.to_text();
    assert!(text.contains(r#""error":"timed out""#), "{text}");
    assert!(text.contains(r#"\"wait\" timed out after 3600000 ms"#), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_it_is_satisfied() {
    let sim = Sim::builder().build().unwrap();
    let database = sim.database("OVN_Northbound").unwrap();
    let mut client = Raw::new(&sim);
    let start = Instant::now();
    client.send(&wait(1, "sw0", 3_600_000)).await;
    let owner = tokio::spawn(async move {
        sleep(HOUR / 2).await;
        let mut txn = database.txn();
        let row = LogicalSwitch { name: "sw0".into(), ..Default::default() };
        txn.insert(&row).unwrap();
        database.transact(&txn.finish()).unwrap();
    });
    let reply = client.next().await;
    assert_eq!(reply.get("result").unwrap().to_text(), "[{}]");
    assert_eq!(start.elapsed().as_secs(), 1800);
    owner.await.unwrap();
}

/// ovsdb-server measures the time of a `wait` from the first execution.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wait_without_time_fails_at_once_however_busy_the_database_is() {
    let sim = Sim::builder().build().unwrap();
    let database = sim.database("OVN_Northbound").unwrap();
    let owner = thread::spawn(move || {
        for _ in 0..12 {
            let mut txn = database.txn();
            for _ in 0..2000 {
                txn.insert(&LogicalSwitch::default()).unwrap();
            }
            database.transact(&txn.finish()).unwrap();
        }
    });
    let mut client = Raw::new(&sim);
    for id in 0.. {
        if owner.is_finished() {
            break;
        }
        client.send(&wait(id, "never", 0)).await;
        let text = client.next().await.to_text();
        assert!(text.contains(r#"\"where\" clause test failed"#), "{text}");
    }
    owner.join().unwrap();
}
