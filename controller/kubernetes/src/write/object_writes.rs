//! Writes of objects, which go on while their controller does other work.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::time::Duration;

use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Sourced};
use patchbay_resources::object::ObjectMeta;
use serde::Serialize;

use crate::metrics::controllers::QueueMetrics;
use crate::watch::sources::ObjectSources;
use crate::write::object_change::{ObjectChange, ObjectPart, Target};
use crate::write::request_pool::{Progress, RequestPool};
use crate::write::write_outcome::WriteOutcome;
use crate::write::write_retries::WriteRetries;
use crate::write::writer::{ObjectWriter, WriteAnswer};
use crate::write::written_object::{DesiredObject, WrittenObject};

/// Objects of one controller that are written.
pub(crate) struct ObjectWrites {
    writer: ObjectWriter,
    /// Objects whose writes fail.
    retries: WriteRetries,
    requests: RequestPool<WriteAnswer>,
    /// Writes that wait for their answers, by kind and key of the object.
    running: BTreeMap<(&'static str, ObjectKey), RunningWrite>,
    /// Objects that are written, and that the watches do not show yet.
    unseen: BTreeMap<(&'static str, ObjectKey), WrittenObject>,
    metrics: QueueMetrics,
}

/// An object before and after a change. `None`: it is absent.
struct Versions<'a, K> {
    old: Option<&'a Sourced<K>>,
    new: Option<&'a Sourced<K>>,
}

/// Write that waits for its answer.
struct RunningWrite {
    target: Target,
    desired: DesiredObject,
}

impl<K: InventoryKind> Versions<'_, K> {
    fn differ(&self) -> bool {
        self.old.map(|old| &old.object) != self.new.map(|new| &new.object)
    }

    /// Metadata after the change, or before the deletion.
    fn meta(&self) -> Option<&ObjectMeta> {
        self.new.or(self.old).map(|one| one.object.meta())
    }
}

impl Drop for ObjectWrites {
    fn drop(&mut self) {
        self.metrics.set_depth(0);
    }
}

impl ObjectWrites {
    pub(crate) fn new(writer: ObjectWriter) -> Self {
        Self {
            metrics: QueueMetrics::new(writer.controller),
            writer,
            retries: WriteRetries::default(),
            requests: RequestPool::default(),
            running: BTreeMap::new(),
            unseen: BTreeMap::new(),
        }
    }

    /// Starts a pass over the objects that `sources` will show then. The outcome has the answers
    /// since the last pass.
    pub(crate) fn begin_pass(&mut self, sources: &ObjectSources) -> WriteOutcome {
        let mut outcome = WriteOutcome::default();
        self.retries.begin_pass();
        for answer in self.requests.take_answers() {
            self.settle(answer, &mut outcome);
        }
        let limit = self.writer.timing.request_timeout;
        self.unseen.retain(|_, written| {
            !written.time_to_expiry(limit).is_zero() && !sources.have_seen(written.last())
        });
        for (name, running) in &self.running {
            self.retries.keep(name);
            outcome.fail_owners(&running.target.meta);
            if let Some(error) = self.retries.lasting_answer(name) {
                outcome.refuse(&running.target, error);
            }
        }
        outcome
    }

    /// Puts the objects of successful writes into an inventory that does not show them yet.
    pub(crate) fn add_written(&self, inventory: &mut Inventory) {
        for (name, written) in &self.unseen {
            written.put_into(inventory, &name.1);
        }
    }

    /// Puts the objects of writes without an answer into an inventory, so that what they hold is not
    /// allocated again.
    pub(crate) fn add_running(&self, inventory: &mut Inventory) {
        for (name, running) in &self.running {
            running.desired.put_into(inventory, &name.1);
        }
    }

    /// Writes the differences between two inventories in the objects of a kind, several at a time:
    /// first objects that are new or differ, then those that are gone. Slow writes have no answer
    /// when it returns.
    pub(crate) async fn write_kind<K>(
        &mut self,
        before: &Inventory,
        after: &Inventory,
        outcome: &mut WriteOutcome,
    ) where
        K: InventoryKind + Debug + Serialize + Send + Sync + 'static,
    {
        let changes = K::objects(after)
            .changes_since(K::objects(before))
            .map(|change| Versions { old: change.former, new: change.current })
            .filter(Versions::differ);
        let (gone, kept): (Vec<_>, Vec<_>) = changes.partition(|change| change.new.is_none());
        for mut changes in [kept, gone] {
            // The last ones are those that failed, so that they do not hold up the others.
            changes.sort_by_cached_key(|change| {
                let name = change.meta().map(|meta| (K::KIND, ObjectKey::of(meta)));
                name.is_some_and(|name| self.retries.note_current(&name))
            });
            self.write_changes(changes, ObjectPart::Whole, outcome).await;
        }
        for running in self.running.values() {
            outcome.fail_owners(&running.target.meta);
        }
    }

    /// Writes the status of objects of a kind whose other writes the API server refuses.
    pub(crate) async fn write_refused_status<K>(
        &mut self,
        before: &Inventory,
        after: &Inventory,
        outcome: &mut WriteOutcome,
    ) where
        K: InventoryKind + Debug + Serialize + Send + Sync + 'static,
    {
        let refused = outcome.refused_of(K::KIND).map(|one| Versions {
            old: K::objects(before).get(&one.key),
            new: K::objects(after).get(&one.key),
        });
        let has_same_meta = |change: &Versions<'_, K>| {
            let metas = change.old.zip(change.new);
            metas.is_some_and(|(old, new)| old.object.meta() == new.object.meta())
        };
        let changes: Vec<_> = refused.filter(Versions::differ).filter(has_same_meta).collect();
        self.write_changes(changes, ObjectPart::RefusedStatus, outcome).await;
    }

    async fn write_changes<K>(
        &mut self,
        changes: Vec<Versions<'_, K>>,
        part: ObjectPart,
        outcome: &mut WriteOutcome,
    ) where
        K: InventoryKind + Debug + Serialize + Send + Sync + 'static,
    {
        let mut changes = changes.into_iter();
        loop {
            while !outcome.is_stopped && self.requests.has_room() {
                let Some(change) = changes.next() else {
                    break;
                };
                self.begin(&change, part, outcome);
            }
            match self.requests.progress().await {
                Progress::Answer(answer) => self.settle(answer, outcome),
                Progress::Slow => {}
                Progress::Idle => break,
            }
        }
        for left in changes {
            if let Some(meta) = left.meta() {
                outcome.fail_owners(meta);
            }
        }
    }

    /// Does other work while writes go on.
    pub(crate) async fn go_on_during<T>(&mut self, work: impl Future<Output = T>) -> T {
        self.requests.go_on_during(work).await
    }

    /// Waits for an answer, and until answers pause.
    pub(crate) async fn wait_for_answers(&mut self) {
        self.requests.wait_for_answers(&self.writer.timing).await;
    }

    /// Time until a written object that the watches do not show is forgotten. `None`: there is none.
    pub(crate) fn time_to_expiry(&self) -> Option<Duration> {
        let limit = self.writer.timing.request_timeout;
        let left = self.unseen.values().map(|one| one.time_to_expiry(limit));
        left.min()
    }

    /// Begins the write of a change, unless the object has to wait.
    fn begin<K>(&mut self, versions: &Versions<'_, K>, part: ObjectPart, outcome: &mut WriteOutcome)
    where
        K: InventoryKind + Debug + Serialize + Send + Sync + 'static,
    {
        let client = &self.writer.client;
        let Versions { old, new } = versions;
        let objects = (old.map(|one| &one.object), new.map(|one| &one.object));
        let Some(change) = ObjectChange::new(client, part, objects.0, objects.1) else {
            return;
        };
        let (target, name) = (&change.target, change.target.name());
        let unseen = self.unseen.get(&name);
        let is_unknown = unseen.is_some_and(|one| !one.is_known());
        if is_unknown || self.requests.is_busy(&name) {
            outcome.fail_owners(&target.meta);
            return;
        }
        if part == ObjectPart::Whole && outcome.is_delayed(target, &mut self.retries) {
            return;
        }
        let running =
            RunningWrite { target: target.clone(), desired: DesiredObject::new(*old, *new) };
        self.running.insert(name.clone(), running);
        self.metrics.add();
        self.metrics.set_depth(self.running.len());
        let writer = self.writer.clone();
        let request = async move { writer.write(change).await };
        let was_slow = self.retries.was_slow(&name);
        self.requests.begin(name, was_slow, request);
    }

    fn settle(&mut self, answer: WriteAnswer, outcome: &mut WriteOutcome) {
        let WriteAnswer { target, written, result } = answer;
        let name = target.name();
        let begun = self.requests.end(&name);
        let running = self.running.remove(&name);
        self.metrics.settle(begun.elapsed(), result.is_err());
        self.metrics.set_depth(self.running.len());
        if let Some(last) = written.into_iter().next_back() {
            outcome.has_written = true;
            let desired = running.filter(|_| result.is_ok()).map(|one| one.desired);
            self.unseen.insert(name, WrittenObject::new(last, desired));
        }
        let (retries, timing) = (&mut self.retries, &self.writer.timing);
        outcome.settle(&target, result, begun, retries, timing);
    }
}
