//! The present state of a process, as metrics.
//!
//! Each scrape has a recorder of its own for it. A series therefore exists exactly as long as what it
//! is about.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use metrics::{Label, gauge, with_local_recorder};
use metrics_exporter_prometheus::PrometheusBuilder;
use metrics_process::Collector;

use crate::admin::Heartbeat;
use crate::events::read_failure_events::KindWatch;
use crate::metrics::manager_state::ManagerState;
use crate::metrics::names;

/// What a scrape shows besides counters.
#[derive(Default)]
pub(crate) struct ProcessState {
    pub(crate) tasks: Vec<(String, Heartbeat)>,
    pub(crate) watches: Arc<Vec<KindWatch>>,
    /// State of the cluster manager and of the problems of both controllers.
    pub(crate) published: PublishedState,
    /// `None`: there is no zone controller.
    pub(crate) northbound: Option<NorthboundState>,
}

/// What the controllers publish after each pass. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct PublishedState(Arc<Mutex<Published>>);

#[derive(Debug, Default)]
struct Published {
    /// `None`: the process does not lead.
    manager: Option<Arc<ManagerState>>,
    problems: Vec<(&'static str, usize)>,
}

/// Whether the replica follows the Northbound database. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct NorthboundState(Arc<Mutex<Option<Instant>>>);

impl PublishedState {
    /// Publishes the state of the cluster manager. `None`: it does not lead.
    pub(crate) fn set_manager(&self, state: Option<ManagerState>) {
        let state = state.map(Arc::new);
        self.update(|published| published.manager = state);
    }

    /// Publishes the number of problems of a controller.
    pub(crate) fn set_problems(&self, controller: &'static str, count: usize) {
        self.update(|published| {
            published.problems.retain(|(name, _)| *name != controller);
            published.problems.push((controller, count));
        });
    }

    fn update<T>(&self, change: impl FnOnce(&mut Published) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl NorthboundState {
    /// The database has not been reached yet.
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Some(Instant::now()))))
    }

    /// Notes that the replica does not follow the database.
    pub(crate) fn lose(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_with(Instant::now);
    }

    /// Notes that the replica follows the database.
    pub(crate) fn follow(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Time for which the replica has not followed the database. `None`: it does.
    pub(crate) fn lag(&self) -> Option<Duration> {
        let lost = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        lost.map(|since| since.elapsed())
    }
}

impl ProcessState {
    /// The metrics, as Prometheus reads them.
    pub(crate) fn render(&self) -> String {
        let recorder = PrometheusBuilder::new().build_recorder();
        with_local_recorder(&recorder, || {
            names::describe(names::OBSERVED);
            names::describe(names::PROCESS);
            self.record();
        });
        recorder.handle().render()
    }

    fn record(&self) {
        Collector::default().collect();
        set(names::BUILD, &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        for (task, heartbeat) in &self.tasks {
            if let Some(age) = heartbeat.age() {
                set(names::HEARTBEAT_AGE, &[("task", task)], age.as_secs_f64());
            }
        }
        for watch in self.watches.iter() {
            let labels = [("kind", watch.kind())];
            set(names::WATCHED_OBJECTS, &labels, watch.object_count() as f64);
            set(names::LISTED, &labels, number(watch.is_listed()));
            set(names::FAILING, &labels, number(watch.is_failing()));
        }
        if let Some(northbound) = &self.northbound {
            let lag = northbound.lag();
            set(names::CONNECTED, &[], number(lag.is_none()));
            set(names::LAG, &[], lag.unwrap_or_default().as_secs_f64());
        }
        // Passes wait for the lock, not for what is computed here.
        let (manager, problems) =
            self.published.update(|one| (one.manager.clone(), one.problems.clone()));
        for (controller, count) in problems {
            set(names::PROBLEMS, &[("controller", controller)], count as f64);
        }
        if let Some(manager) = manager {
            manager.record();
        }
    }
}

/// Sets a gauge of the present recorder.
pub(super) fn set(name: &'static str, labels: &[(&'static str, &str)], value: f64) {
    let labels: Vec<Label> =
        labels.iter().map(|(name, value)| Label::new(*name, (*value).to_owned())).collect();
    gauge!(name, labels).set(value);
}

fn number(is_true: bool) -> f64 {
    f64::from(u8::from(is_true))
}
