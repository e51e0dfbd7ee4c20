//! The tasks that run forever, and their watches.

use std::convert::Infallible;
use std::fmt::Display;

use kube::Client;
use patchbay_model::FieldProblem;
use patchbay_resources::object::Object;
use serde_json::Value;
use tokio::task::JoinSet;

use crate::admin::Heartbeats;
use crate::api::requests::Api;
use crate::config::Timing;
use crate::run::RunError;
use crate::watch::etcd_restores::EtcdRestores;
use crate::watch::list_watch::{KindPresence, ListWatch};
use crate::watch::store::{StoreReader, store};
use crate::watch::watch_backoff::Recovery;

/// The tasks that run forever. Dropping the set stops them.
pub(crate) struct TaskSet {
    pub(crate) running: JoinSet<RunError>,
    timing: Timing,
    recovery: Recovery,
    pub(crate) restores: EtcdRestores,
    pub(crate) heartbeats: Heartbeats,
}

impl TaskSet {
    pub(crate) fn new(timing: Timing) -> Self {
        Self {
            running: JoinSet::new(),
            timing,
            recovery: Recovery::default(),
            restores: EtcdRestores::default(),
            heartbeats: Heartbeats::default(),
        }
    }

    /// Starts a task. `loop_name` is its name in checks of liveness.
    pub(crate) fn spawn<E: Display>(
        &mut self,
        task: &'static str,
        loop_name: &str,
        work: impl Future<Output = Result<Infallible, E>> + Send + 'static,
    ) {
        let heartbeat = self.heartbeats.add(loop_name);
        self.running.spawn(async move {
            let Err(error) = heartbeat.during(work).await;
            RunError { task, reason: error.to_string() }
        });
    }

    /// Watches all objects of a kind. `decode` decodes an object and reduces it to what is kept.
    pub(crate) fn watch<K, V>(
        &mut self,
        client: &Client,
        presence: KindPresence,
        decode: impl Fn(Value) -> Result<V, FieldProblem> + Send + 'static,
    ) -> StoreReader<V>
    where
        K: Object,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (watch, reader) = self.list_watch::<K, V>(Api::all::<K>(client.clone()), decode);
        self.spawn_watch(K::KIND, watch.with_presence(presence));
        reader
    }

    /// Watches the objects of a kind in one namespace, with the given labels.
    pub(crate) fn watch_labelled<K, V>(
        &mut self,
        client: &Client,
        namespace: &str,
        labels: &'static str,
        decode: impl Fn(Value) -> Result<V, FieldProblem> + Send + 'static,
    ) -> StoreReader<V>
    where
        K: Object,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let api = Api::namespaced::<K>(client.clone(), namespace);
        let (watch, reader) = self.list_watch::<K, V>(api, decode);
        self.spawn_watch(K::KIND, watch.labelled(labels));
        reader
    }

    /// Makes a watch with the store of its objects.
    fn list_watch<K, V>(
        &self,
        api: Api,
        decode: impl Fn(Value) -> Result<V, FieldProblem> + Send + 'static,
    ) -> (ListWatch<V>, StoreReader<V>)
    where
        K: Object,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (writer, reader) = store(decode);
        let recovery = self.recovery.clone();
        let watch = ListWatch::new(api, K::KIND, self.timing, writer, recovery);
        (watch.with_restores(self.restores.clone()), reader)
    }

    fn spawn_watch<V>(&mut self, kind: &str, watch: ListWatch<V>)
    where
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let loop_name = format!("watch-{kind}");
        self.spawn::<Infallible>("a watch", &loop_name, async move { Ok(watch.run().await) });
    }

    /// Waits for the first task that ends.
    pub(crate) async fn first_error(&mut self) -> RunError {
        let failed = |reason: String| RunError { task: "a task", reason };
        match self.running.join_next().await {
            Some(Ok(error)) => error,
            Some(Err(error)) => failed(error.to_string()),
            None => failed("no task is running".to_owned()),
        }
    }
}
