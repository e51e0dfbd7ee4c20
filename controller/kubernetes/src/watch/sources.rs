//! The watched objects of several kinds, as an inventory.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::future::{select_all, try_join_all};
use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Problem, RefusedObject};
use patchbay_resources::object::{Node, Object as _, Pod};
use serde_json::Value;

use crate::api::tolerant_object::UndecodableObject;
use crate::config::Timing;
use crate::debounce::{ChangeSource, debounce, sleep_or_forever};
use crate::events::read_failure_events::KindWatch;
use crate::watch::connected_networks::ConnectedNetworks;
use crate::watch::node_subnets::NetworkNumbers;
use crate::watch::read_failure::ReadFailure;
use crate::watch::store::{StoreReader, WatchEnded};
use crate::watch::watched::{ConnectedParts, Watched, WatchedObject};
use crate::write::write_outcome::Written;

/// Problems of objects that cannot be decoded, by kind and key.
type DecodingProblems = BTreeMap<(&'static str, ObjectKey), Vec<String>>;

/// The watched objects of one kind.
#[derive(Clone, Debug)]
pub(crate) struct KindSource {
    kind: &'static str,
    contains: fn(&Inventory, &ObjectKey) -> bool,
    remove: fn(&mut Inventory, &ObjectKey),
    objects: StoreReader<Watched>,
    /// The objects that were read last.
    read: OrdMap<ObjectKey, Watched>,
    /// Failure of the lists or watches, as it was read last.
    failure: Option<ReadFailure>,
    first_list: FirstList,
    /// Inserts what stands in for an object that cannot be decoded, if its kind has that. Returns
    /// `true` if it has the specification of a former version.
    stand_in: Option<fn(&mut Inventory, &UndecodableObject) -> bool>,
    /// Number of the requested list without which the objects may be outdated.
    awaited_list: Option<u64>,
}

/// First list of a kind.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum FirstList {
    /// The controller waits until it is complete.
    Complete,
    /// The controller begins after a failed attempt, too. The kind is then in
    /// [`Inventory::unlisted`].
    Tried,
}

impl KindSource {
    /// The objects of kind `K` that a watch of this kind keeps in a store.
    pub(crate) fn new<K: InventoryKind>(objects: StoreReader<Watched>) -> Self {
        Self {
            kind: K::KIND,
            contains: |inventory, key| K::objects(inventory).get(key).is_some(),
            remove: |inventory, key| {
                K::objects_mut(inventory).remove(key);
            },
            objects,
            read: OrdMap::new(),
            failure: None,
            first_list: FirstList::Complete,
            stand_in: None,
            awaited_list: None,
        }
    }

    /// The kind, whose list may fail without holding up what does not depend on it, for example
    /// because a role does not allow it.
    pub(crate) fn separate(self) -> Self {
        Self { first_list: FirstList::Tried, ..self }
    }

    /// The kind with a function that inserts what stands in for an object that cannot be decoded.
    pub(crate) fn with_stand_in(
        self,
        stand_in: fn(&mut Inventory, &UndecodableObject) -> bool,
    ) -> Self {
        Self { stand_in: Some(stand_in), ..self }
    }

    /// Waits until the objects are listed again. Those of a kind whose list may fail are unlisted
    /// until then.
    async fn list_again(&mut self) -> Result<(), WatchEnded> {
        if self.first_list == FirstList::Complete {
            return self.objects.list_again().await;
        }
        let number = self.objects.request_list();
        self.awaited_list = Some(number);
        self.objects.answered_or_failed(number).await
    }

    /// `true` if objects may be missing or outdated.
    fn is_unlisted(&self) -> bool {
        let is_answered = |number| self.objects.is_answered(number);
        !self.objects.is_ready() || !self.awaited_list.is_none_or(is_answered)
    }

    async fn ready(&mut self) -> Result<(), WatchEnded> {
        match self.first_list {
            FirstList::Complete => self.objects.ready().await,
            FirstList::Tried => self.objects.tried().await,
        }
    }

    /// `true` if the watch shows other objects than those that were read last.
    fn has_changed(&self) -> bool {
        !self.objects.peek().ptr_eq(&self.read) || self.objects.failure() != self.failure
    }

    /// Makes the objects of an inventory those that the watch shows, at the cost of the difference.
    /// Those that cannot be decoded become problems: the last version that could be stays in their
    /// place.
    fn read_into(
        &mut self,
        inventory: &mut Inventory,
        problems: &mut DecodingProblems,
        connected: &ConnectedParts,
    ) {
        let kind = self.kind;
        self.failure = self.objects.failure();
        if self.is_unlisted() {
            inventory.unlisted.insert(kind);
        } else {
            inventory.unlisted.remove(kind);
        }
        let objects = self.objects.objects();
        for item in self.read.diff(&objects) {
            let (key, watched) = match item {
                DiffItem::Add(key, watched) | DiffItem::Update { new: (key, watched), .. } => {
                    (key, Some(watched))
                }
                DiffItem::Remove(key, _) => (key, None),
            };
            let name = (kind, key.clone());
            let was_undecoded = inventory.undecoded.remove(&name);
            problems.remove(&name);
            if self.stand_in.is_some() {
                (inventory.refused).retain(|one| one.kind != kind || one.key != *key);
            }
            match watched {
                None => (self.remove)(inventory, key),
                Some(Watched::Readable(object)) => object.insert_with(key, inventory, connected),
                Some(Watched::Partial(partial)) => {
                    partial.object.insert_with(key, inventory, connected);
                    let reasons = partial.reasons.iter().map(|reason| {
                        format!(
                            "{kind} {key}: cannot be decoded, so the field is ignored: {reason}"
                        )
                    });
                    problems.insert(name, reasons.collect());
                }
                Some(Watched::Unreadable(object)) => {
                    let reason = &object.error;
                    let mut has_former = (self.contains)(inventory, key) && !was_undecoded;
                    if let Some(stand_in) = self.stand_in {
                        if was_undecoded {
                            (self.remove)(inventory, key);
                        }
                        has_former = stand_in(inventory, object);
                        inventory.refused.push(refused(kind, key, object));
                    }
                    let outcome = if has_former {
                        "its former version is used"
                    } else {
                        inventory.undecoded.insert(name.clone());
                        "what depends on objects of the kind stays as it is"
                    };
                    let problem =
                        format!("{kind} {key}: cannot be decoded, so {outcome}: {reason}");
                    problems.insert(name, vec![problem]);
                }
            }
        }
        self.read = objects;
    }

    /// Inserts all objects again.
    fn insert_again(&self, inventory: &mut Inventory, connected: &ConnectedParts) {
        for (key, watched) in &self.read {
            if let Some(object) = watched.object() {
                object.insert_with(key, inventory, connected);
            }
        }
    }

    /// The watch, for events about its failures.
    fn watch(&self) -> KindWatch {
        let waits = self.first_list == FirstList::Complete;
        KindWatch::new(self.kind, waits, &self.objects)
    }

    /// `true` if the watch shows the outcome of a write, or if the write is of another kind.
    fn has_seen(&self, written: &Written) -> bool {
        if written.kind != self.kind {
            return true;
        }
        let objects = self.objects.peek();
        let seen = match objects.get(&written.key) {
            Some(watched) => watched.object().and_then(WatchedObject::meta),
            None => return !written.is_new,
        };
        let Some(seen) = seen else {
            return true;
        };
        match (number(seen.resource_version.as_deref()), written.version) {
            // An earlier object of the same name has an earlier version.
            (Some(seen), Some(version)) => seen >= version,
            (_, None) => seen.uid != written.uid,
            (None, Some(_)) => true,
        }
    }
}

/// A resource version as a number. `None`: it is not one, so versions cannot be compared.
pub(crate) fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// An undecodable object, with the reason.
fn refused(kind: &'static str, key: &ObjectKey, object: &UndecodableObject) -> RefusedObject {
    RefusedObject {
        kind,
        key: key.clone(),
        json: Value::Null,
        position: 0,
        problems: vec![Problem {
            object: Some(format!("{kind} {key}")),
            message: object.error.clone(),
            ..Problem::default()
        }],
    }
}

/// The watched objects of several kinds.
#[derive(Clone, Debug, Default)]
pub(crate) struct ObjectSources {
    kinds: Vec<KindSource>,
    /// The objects that were read last.
    inventory: Inventory,
    problems: DecodingProblems,
    /// `true` if nodes and pods are packed.
    is_packed: bool,
    /// Numbers of networks in packed subnets of nodes.
    numbers: NetworkNumbers,
    connected: ConnectedNetworks,
}

impl ObjectSources {
    /// No objects. `is_packed`: nodes and pods are, with these numbers of networks in subnets.
    pub(crate) fn new(is_packed: bool, numbers: NetworkNumbers) -> Self {
        Self { is_packed, numbers, ..Self::default() }
    }

    /// Adds the objects of a kind.
    pub(crate) fn add(&mut self, kind: KindSource) {
        self.kinds.push(kind);
    }

    /// The store of a kind.
    ///
    /// # Panics
    /// The kind is not watched.
    pub(crate) fn store(&self, kind: &str) -> StoreReader<Watched> {
        let mut kinds = self.kinds.iter();
        let found = kinds.find(|one| one.kind == kind);
        found.expect("each process watches the kind").objects.clone()
    }

    /// The watches, for events about their failures.
    pub(crate) fn watches(&self) -> Vec<KindWatch> {
        self.kinds.iter().map(KindSource::watch).collect()
    }

    /// The connected networks, as of the last [`inventory`](Self::inventory).
    pub(crate) fn connected(&self) -> &ConnectedNetworks {
        &self.connected
    }

    /// Waits for the first complete list of each kind, or for the first list of a separate one.
    pub(crate) async fn ready(&mut self) -> Result<(), WatchEnded> {
        for kind in &mut self.kinds {
            kind.ready().await?;
        }
        Ok(())
    }

    /// `true` if a kind has no list because the cluster has no definition of it.
    pub(crate) fn is_undefined(&self, kind: &str) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|one| one.kind == kind && one.objects.is_undefined())
    }

    /// Waits until the objects of these kinds are listed again, whatever watches have shown. It does
    /// not wait for a separate kind whose lists fail.
    pub(crate) async fn list_again(&mut self, kinds: &[&str]) -> Result<(), WatchEnded> {
        let listed = self.kinds.iter_mut().filter(|one| kinds.contains(&one.kind));
        try_join_all(listed.map(KindSource::list_again)).await.map(drop)
    }

    /// Current objects, and a message for each field that cannot be decoded. Objects of which no
    /// version could be decoded are named in [`Inventory::undecoded`], and kinds without a list in
    /// [`Inventory::unlisted`]. A process that writes no networks has the subnets of nodes in connected
    /// networks only, and the pods that may use these.
    pub(crate) fn inventory(&mut self) -> (Inventory, Vec<String>) {
        let (inventory, problems) = (&mut self.inventory, &mut self.problems);
        let (packed, others): (Vec<_>, Vec<_>) =
            (self.kinds.iter_mut()).partition(|kind| [Node::KIND, Pod::KIND].contains(&kind.kind));
        for kind in others {
            kind.read_into(inventory, problems, &ConnectedParts::default());
        }
        let has_new = self.connected.update_networks(inventory);
        let connected = ConnectedParts {
            networks: self.numbers.numbers_of(self.connected.names()),
            namespaces: self.connected.namespaces(),
        };
        for kind in packed {
            kind.read_into(inventory, problems, &connected);
            if has_new && self.is_packed {
                kind.insert_again(inventory, &connected);
            }
        }
        self.connected.update_nodes(inventory);
        let problems = self.problems.values().flatten().cloned();
        (self.inventory.clone(), problems.collect())
    }

    /// `true` if something differs from the objects that were read last.
    pub(crate) fn have_changed(&self) -> bool {
        self.kinds.iter().any(KindSource::has_changed)
    }

    /// `true` if the watches show the outcome of a write.
    pub(crate) fn have_seen(&self, written: &Written) -> bool {
        self.kinds.iter().all(|kind| kind.has_seen(written))
    }

    /// Waits until something differs from the objects that were read last and changes pause, or
    /// until `retry` is over.
    pub(crate) async fn wait_for_work(
        &mut self,
        timing: &Timing,
        retry: Option<Duration>,
    ) -> Result<(), WatchEnded> {
        // Changes during the last pass have woken nothing.
        if !self.have_changed() {
            tokio::select! {
                changed = self.changed() => changed?,
                () = sleep_or_forever(retry) => return Ok(()),
            }
        }
        debounce(timing, self).await
    }
}

impl ChangeSource for ObjectSources {
    type Error = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        let changes = self.kinds.iter_mut().map(|kind| Box::pin(kind.objects.changed()));
        select_all(changes).await.0
    }
}

#[cfg(test)]
mod tests {
    use patchbay_resources::object::Pod;
    use serde_json::json;

    use super::*;
    use crate::api::tolerant_object::TolerantObject;
    use crate::watch::store::store;
    use crate::watch::watched::{Decoding, project};

    #[tokio::test(start_paused = true)]
    async fn a_change_during_a_pass_is_work() {
        let read = project::<Pod>(Decoding::Whole, |_| {}, WatchedObject::new);
        let (mut writer, reader) = store(move |object| Ok(read(TolerantObject::of(object))));
        writer.begin_list();
        writer.complete_list();
        let mut sources = ObjectSources::default();
        sources.add(KindSource::new::<Pod>(reader));
        assert!(sources.inventory().0.pods.is_empty());
        let object = json!({"metadata": {"namespace": "blue", "name": "a", "uid": "a"}});
        let key = ObjectKey::namespaced("blue", "a");
        writer.put(key, object).unwrap();
        // Something else has been woken.
        sources.changed().await.unwrap();
        let (limit, timing) = (Duration::from_secs(60), Timing::default());
        let work = sources.wait_for_work(&timing, None);
        tokio::time::timeout(limit, work).await.unwrap().unwrap();
        assert_eq!(sources.inventory().0.pods.len(), 1);

        // What was read is no work.
        let work = sources.wait_for_work(&timing, None);
        assert!(tokio::time::timeout(limit, work).await.is_err());
    }
}
