//! The task that writes what a zone has to say.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use kube::api::{Patch, PatchParams};
use patchbay_resources::object::ConfigMap;

use super::api::Api;
use tokio::sync::watch;

use super::config::Timing;
use super::failure;
use super::objects::{SeenConnect, SeenNode};
use super::pace::Backoff;
use super::reports::{ConnectSummary, ZoneReport, object, object_name};
use super::store::{Reader, WatchEnded};
use patchbay_resources::manifests::ObjectKey;

const MANAGER: &str = "patchbay-zone";

/// What a zone has to say at the moment: what its half says of its work or, while the database is out of reach, just that.
/// The half itself waits for the database then.
pub(super) struct Saying {
    pub(super) zone: String,
    /// What is connected.
    pub(super) work: watch::Receiver<ZoneReport>,
    /// Whether the database is out of reach.
    pub(super) is_lost: watch::Receiver<bool>,
    pub(super) connects: Reader<Arc<SeenConnect>>,
    pub(super) nodes: Reader<Arc<SeenNode>>,
}

impl Saying {
    /// Waits until there may be something else to say.
    ///
    /// # Errors
    /// Nobody says anything any more.
    async fn changed(&mut self) -> Result<(), WatchEnded> {
        let is_lost = *self.is_lost.borrow();
        tokio::select! {
            changed = self.work.changed() => changed.map_err(|_| WatchEnded),
            changed = self.is_lost.changed() => changed.map_err(|_| WatchEnded),
            // A connect that has changed is out of reach, too.
            changed = self.connects.changed(), if is_lost => changed,
            changed = self.nodes.changed(), if is_lost => changed,
        }
    }

    fn now(&mut self) -> ZoneReport {
        let said = self.work.borrow_and_update().clone();
        if !*self.is_lost.borrow_and_update() {
            return said;
        }
        let nodes = self.nodes.objects();
        let node = nodes.get(&ObjectKey::cluster(&self.zone));
        let connects = self.connects.objects();
        let lost: BTreeMap<String, ConnectSummary> = connects
            .iter()
            .map(|(key, seen)| {
                let before = said.connects.get(&key.name);
                (key.name.clone(), ConnectSummary::out_of_reach(seen, before))
            })
            .collect();
        ZoneReport {
            node: node.and_then(|node| node.uid.clone()),
            connects: lost,
        }
    }
}

/// Writes what a zone says, whenever it is something new, and now and then all the same: somebody may have deleted the
/// object, and zones do not watch it.
pub(super) struct Publisher {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) says: Saying,
    pub(super) timing: Timing,
}

impl Publisher {
    /// Works until nobody says anything any more.
    pub(super) async fn run(mut self) {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let mut written = ZoneReport::default();
        let mut backoff = Backoff::new(&self.timing);
        loop {
            match tokio::time::timeout(self.timing.repeat, self.says.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => written = ZoneReport::default(),
            }
            // More will be said in a moment, and all zones have something to say at once.
            tokio::time::sleep(self.pause()).await;
            loop {
                let report = self.says.now();
                if report == written || report.node.is_none() {
                    break;
                }
                match self.write(&api, &report).await {
                    Ok(()) => {
                        backoff.reset();
                        written = report;
                        break;
                    }
                    Err((error, asked)) => {
                        tracing::warn!(error, "cannot write what the zone reports");
                        let wait = backoff.failed().max(asked.unwrap_or_default());
                        tokio::time::sleep(wait).await;
                    }
                }
            }
        }
    }

    /// Between half the interval and all of it, a time of the zone's own.
    fn pause(&self) -> Duration {
        let mut hasher = DefaultHasher::new();
        self.says.zone.hash(&mut hasher);
        let part = f64::from((hasher.finish() & 0xffff) as u16) / f64::from(u16::MAX);
        self.timing.report.mul_f64(0.5 + part / 2.0)
    }

    /// Writes the report; or says why that cannot be done, and how long the API server asks to wait.
    async fn write(
        &self,
        api: &Api<ConfigMap>,
        report: &ZoneReport,
    ) -> Result<(), (String, Option<Duration>)> {
        let zone = &self.says.zone;
        let object = object(zone, &self.namespace, report);
        let (name, params) = (object_name(zone), PatchParams::apply(MANAGER).force());
        let patch = Patch::Apply(&object);
        let written = tokio::time::timeout(self.timing.request, api.patch(&name, &params, &patch));
        match written.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err((failure::told(&error), failure::asked_wait(&error))),
            Err(_) => Err((failure::NO_ANSWER.to_owned(), None)),
        }
    }
}
