//! Metrics of a client.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, HistogramFn, Key, KeyName, Metadata, Recorder,
    SharedString, Unit,
};
use patchbay_engine::client::CommitOutcome;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::LogicalSwitch;

use crate::proxy::Proxy;
use crate::served::real;
use crate::{add, next_event, soon};

/// Recorded values by metric name and labels: for counters the sum, for gauges the last value.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, Vec<f64>>>>);

/// One metric.
struct Metric(Recorded, String);

impl Metric {
    fn change(&self, change: impl FnOnce(&mut Vec<f64>)) {
        change(self.0.0.lock().unwrap().entry(self.1.clone()).or_default());
    }
}

impl CounterFn for Metric {
    fn increment(&self, value: u64) {
        self.change(|values| *values = vec![values.iter().sum::<f64>() + value as f64]);
    }

    fn absolute(&self, value: u64) {
        self.change(|values| *values = vec![value as f64]);
    }
}

impl GaugeFn for Metric {
    fn increment(&self, value: f64) {
        self.change(|values| *values = vec![values.iter().sum::<f64>() + value]);
    }

    fn decrement(&self, value: f64) {
        self.change(|values| *values = vec![values.iter().sum::<f64>() - value]);
    }

    fn set(&self, value: f64) {
        self.change(|values| *values = vec![value]);
    }
}

impl HistogramFn for Metric {
    fn record(&self, value: f64) {
        self.change(|values| values.push(value));
    }
}

impl Recorded {
    fn metric(&self, key: &Key) -> Arc<Metric> {
        let values: Vec<_> = key.labels().map(metrics::Label::value).collect();
        let name = format!("{} {}", key.name(), values.join(" "));
        Arc::new(Metric(self.clone(), name))
    }

    fn values(&self, name: &str) -> Vec<f64> {
        let recorded = self.0.lock().unwrap();
        recorded.get(name).cloned().unwrap_or_default()
    }

    fn value(&self, name: &str) -> f64 {
        self.values(name).iter().sum()
    }
}

impl Recorder for Recorded {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.metric(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.metric(key))
    }

    fn register_histogram(&self, key: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::from_arc(self.metric(key))
    }
}

#[tokio::test]
async fn a_client_records_its_metrics() {
    let recorded = Recorded::default();
    let _installed = metrics::set_default_local_recorder(&recorded);
    let server = real();
    let proxy = Proxy::start(&server.socket);
    let client = server.client_through(&proxy).await;
    for name in ["a", "b"] {
        add(&client, name).await;
    }
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.assert_lock("not_requested");
    txn.insert(&LogicalSwitch::default()).unwrap();
    let outcome = soon(client.transact(txn.finish())).await;
    assert!(matches!(outcome, CommitOutcome::Rejected(_)), "{outcome:?}");

    let mut events = client.connection_events().unwrap();
    proxy.refuse(true);
    next_event(&mut events, |event| {
        use patchbay_engine::client::ConnectionEvent::Waiting;
        matches!(event, Waiting(_)).then_some(())
    })
    .await;
    let mut txn = TxnBuilder::new(&client.snapshot());
    txn.insert(&LogicalSwitch::default()).unwrap();
    let outcome = soon(client.transact(txn.finish())).await;
    assert!(matches!(outcome, CommitOutcome::NotSent(_)), "{outcome:?}");
    proxy.refuse(false);
    next_event(&mut events, |event| {
        use patchbay_engine::client::ConnectionEvent::Resynced;
        matches!(event, Resynced { .. }).then_some(())
    })
    .await;

    for (name, value) in [
        ("ovsdb_client_transactions_total D committed", 2.0),
        ("ovsdb_client_transactions_total D rejected", 1.0),
        ("ovsdb_client_transactions_total D not_sent", 1.0),
        ("ovsdb_client_transactions_total D unknown", 0.0),
        ("ovsdb_client_connections_total D", 2.0),
        ("ovsdb_client_reconnects_total D", 1.0),
        ("ovsdb_client_disconnects_total D", 1.0),
        // A standalone server keeps no history.
        ("ovsdb_client_resyncs_total D full", 2.0),
        ("ovsdb_client_resyncs_total D continued", 0.0),
        ("ovsdb_client_changed_rows_total D", 2.0),
        ("ovsdb_client_rows D", 2.0),
        // Sent one after the other.
        ("ovsdb_client_queue_depth D", 0.0),
        ("ovsdb_client_requests_under_way D", 3.0),
        ("ovsdb_client_coalesced_transactions D", 3.0),
        ("ovsdb_client_resync_rows D", 0.0),
    ] {
        assert!(
            (recorded.value(name) - value).abs() < 0.5,
            "{name}: {} and not {value}",
            recorded.value(name)
        );
    }
    assert!(recorded.value("ovsdb_client_failed_connections_total D") >= 1.0);
    for name in ["round_trip", "queued"] {
        let times = recorded.values(&format!("ovsdb_client_{name}_seconds D"));
        assert!(
            times.len() == 3 && times.iter().all(|time| (0.0..90.0).contains(time)),
            "{name}: {times:?}"
        );
    }
    for name in ["received", "sent"] {
        let bytes = recorded.value(&format!("ovsdb_client_{name}_bytes_total D"));
        assert!((500.0..100_000.0).contains(&bytes), "{name}: {bytes}");
    }
}
