//! Spans and events that a client logs.
//!
//! The test has its own process, because `tracing` caches for all threads whether a call site has a
//! subscriber. Other tests have none.
#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::io;
use std::sync::{Arc, Mutex};

use ovsdb_sim::Sim;
use patchbay_engine::client::{Client, CommitOutcome, Config};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::nb::LogicalSwitch;
use patchbay_schemas::typed::Ref;
use tracing_subscriber::fmt::format::FmtSpan;

/// Buffer for the log.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn spans_name_the_database_the_transaction_and_its_size() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let _installed = tracing::subscriber::set_default(subscriber);
    let sim = Sim::builder().build().unwrap();
    let config = Config::new(sim.connector().into(), "OVN_Northbound");
    let client = Client::connect(config).await.unwrap();
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.insert(&LogicalSwitch::default()).unwrap();
    let outcome = client.transact(txn.finish()).await;
    assert!(matches!(outcome, CommitOutcome::Committed(_)), "{outcome:?}");
    let mut txn = TxnBuilder::new(&client.snapshot());
    let missing: Ref<LogicalSwitch> = Ref::new(uuid::Uuid::from_u128(7));
    txn.expect(missing, "name", Datum::scalar("x")).unwrap();
    let outcome = client.transact(txn.finish()).await;
    assert!(matches!(outcome, CommitOutcome::Rejected(_)), "{outcome:?}");
    drop(client);

    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let closed: Vec<_> = log
        .lines()
        .filter(|line| line.contains("transaction{") && line.contains("close"))
        .collect();
    let [committed, rejected] = closed[..] else { panic!("{log}") };
    for word in
        [r#"database="OVN_Northbound""#, "operations=1", "bytes=", "id=", r#"outcome="committed""#]
    {
        assert!(committed.contains(word), "{word}: {committed}");
    }
    assert!(rejected.contains(r#"outcome="rejected""#), "{rejected}");
    let update =
        log.lines().find(|line| line.contains("an update")).unwrap_or_else(|| panic!("{log}"));
    assert!(update.contains("session{") && update.contains("rows=1"), "{update}");
}
