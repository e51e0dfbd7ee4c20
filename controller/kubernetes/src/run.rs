//! All tasks together.

use std::convert::Infallible;
use std::fmt::Debug;
use std::future::Future;

use kube::Client;
use patchbay_resources::object::Object;

use super::api::Api;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::sync::watch as channel;
use tokio::task::JoinSet;

use super::cluster::{ClusterSources, ClusterTask, Sources};
use super::config::{Config, Timing};
use super::egress_ips::egress_ip;
use super::events::events;
use super::lease::Elector;
use super::node_subnets::NetworkNames;
use super::objects;
use super::publisher::{Publisher, Saying};
use super::reach::Reach;
use super::reports::{self, ZoneReport};
use super::store::{Reader, store};
use super::watches::Watch;
use super::writes::Writes;
use super::zone::ZoneTask;
use super::zone_inputs::{NetworkUsers, ZoneSources};

/// A task has ended that never should.
#[derive(Debug, Error)]
#[error("{task} has ended: {reason}")]
pub struct RunError {
    task: &'static str,
    reason: String,
}

/// Runs the configured halves until `stop` is done, then gives the lease back.
///
/// # Errors
/// A task has ended that never should: the process has to be started anew.
///
/// # Cancel safety
/// Dropping the future stops everything; the lease then has to run out before another process works.
pub async fn run(
    client: Client,
    config: Config,
    stop: impl Future<Output = ()>,
) -> Result<(), RunError> {
    let Config {
        cluster,
        zone,
        namespace,
        identity,
        timing,
    } = config;
    let mut tasks = Tasks::new(timing);
    let sources = Sources {
        connects: tasks.watch(&client, objects::connect),
        nads: tasks.watch(&client, objects::attachment_definition),
        namespaces: tasks.watch(&client, objects::namespace),
    };
    let networks = NetworkNames::default();
    // Subnets are a matter of zones.
    let names = zone.is_some().then(|| networks.clone());
    let nodes = tasks.watch(&client, move |object| objects::node(object, names.as_ref()));
    let (stopping, stopped) = channel::channel(false);
    let mut elector = JoinSet::new();
    let mut publishing = JoinSet::new();
    if let Some(half) = cluster {
        let (events, publisher) = events(client.clone(), identity.clone(), timing);
        publishing.spawn(publisher);
        let (candidate, leads) = Elector::new(client.clone(), half.lease, identity);
        elector.spawn(candidate.run(stopped));
        let task = ClusterTask {
            settings: half.settings,
            sources: ClusterSources {
                common: sources.clone(),
                nodes: nodes.clone(),
                reports: tasks.watch_labelled(&client, &namespace, reports::LABEL, reports::seen),
            },
            writes: Writes::new(client.clone(), timing.request, leads.clone()),
            events,
            leads,
            timing,
        };
        tasks.spawn("the cluster-wide half", task.run());
    }
    if let Some(half) = zone {
        let (says, said) = channel::channel(ZoneReport::default());
        let (is_lost, lost) = channel::channel(false);
        let publisher = Publisher {
            client: client.clone(),
            namespace,
            says: Saying {
                zone: half.zone.clone(),
                work: said,
                is_lost: lost,
                connects: sources.connects.clone(),
                nodes: nodes.clone(),
            },
            timing,
        };
        publishing.spawn(publisher.run());
        let users = half.dynamic_udn.then(|| NetworkUsers {
            pods: tasks.watch(&client, objects::pod),
            egress_ips: tasks.watch_if_any(&client, egress_ip),
        });
        let task = ZoneTask {
            half,
            sources: ZoneSources {
                users,
                common: sources,
                nodes,
                services: tasks.watch(&client, objects::service),
                networks,
            },
            says,
            reach: Reach {
                is_lost,
                patience: timing.report,
            },
            timing,
        };
        tasks.spawn("the zone half", task.run());
    }
    let ended = tokio::select! {
        error = tasks.ended() => Err(error),
        () = stop => Ok(()),
    };
    // Nothing is written any more when the lease is given back.
    tasks.running.shutdown().await;
    stopping.send_replace(true);
    if tokio::time::timeout(timing.request, elector.join_next())
        .await
        .is_err()
    {
        tracing::warn!("the lease has to run out");
    }
    ended
}

/// The tasks that never end. Dropping them stops them.
struct Tasks {
    running: JoinSet<RunError>,
    timing: Timing,
}

impl Tasks {
    fn new(timing: Timing) -> Self {
        Self {
            running: JoinSet::new(),
            timing,
        }
    }

    fn spawn<E: std::fmt::Display>(
        &mut self,
        task: &'static str,
        work: impl Future<Output = Result<Infallible, E>> + Send + 'static,
    ) {
        self.running.spawn(async move {
            let Err(error) = work.await;
            RunError {
                task,
                reason: error.to_string(),
            }
        });
    }

    /// Watches all objects of a kind.
    fn watch<K, V>(&mut self, client: &Client, keep: impl Fn(K) -> V + Send + 'static) -> Reader<V>
    where
        K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        self.watch_some(Api::<K>::all(client.clone()), "", keep)
    }

    /// Watches all objects of a kind that the cluster may not have.
    fn watch_if_any<K, V>(
        &mut self,
        client: &Client,
        keep: impl Fn(K) -> V + Send + 'static,
    ) -> Reader<V>
    where
        K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (writer, reader) = store();
        let api = Api::<K>::all(client.clone());
        self.spawn_watch(Watch::new(api, "", self.timing, keep, writer).if_any());
        reader
    }

    /// Watches the objects of a kind that are in a namespace and have these labels.
    fn watch_labelled<K, V>(
        &mut self,
        client: &Client,
        namespace: &str,
        labels: &'static str,
        keep: impl Fn(K) -> V + Send + 'static,
    ) -> Reader<V>
    where
        K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        self.watch_some(
            Api::<K>::namespaced(client.clone(), namespace),
            labels,
            keep,
        )
    }

    fn watch_some<K, V>(
        &mut self,
        api: Api<K>,
        labels: &'static str,
        keep: impl Fn(K) -> V + Send + 'static,
    ) -> Reader<V>
    where
        K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        let (writer, reader) = store();
        self.spawn_watch(Watch::new(api, labels, self.timing, keep, writer));
        reader
    }

    fn spawn_watch<K, F, V>(&mut self, watch: Watch<K, F, V>)
    where
        K: Object + Clone + Debug + DeserializeOwned + Send + 'static,
        F: Fn(K) -> V + Send + 'static,
        V: Clone + PartialEq + Send + Sync + 'static,
    {
        self.spawn::<Infallible>("a watch", async move { Ok(watch.run().await) });
    }

    /// Waits for the first that ends all the same.
    async fn ended(&mut self) -> RunError {
        let failed = |reason: String| RunError {
            task: "a task",
            reason,
        };
        match self.running.join_next().await {
            Some(Ok(error)) => error,
            Some(Err(error)) => failed(error.to_string()),
            None => failed("there was none".to_owned()),
        }
    }
}
