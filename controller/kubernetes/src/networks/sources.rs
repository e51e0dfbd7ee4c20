//! The watched objects of several kinds, as an inventory.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::select_all;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Origin, Sourced};

use super::watched::Watched;
use super::writer::Written;
use crate::config::Timing;
use crate::debounce::{ChangeSource, debounce, sleep_or_forever};
use crate::store::{StoreReader, WatchEnded};

/// Outcome of a wait for changes.
type Change<'a> = Pin<Box<dyn Future<Output = Result<(), WatchEnded>> + Send + 'a>>;

/// The watched objects of one kind.
trait KindSource: Debug + Send + Sync {
    fn ready(&mut self) -> Change<'_>;

    fn changed(&mut self) -> Change<'_>;

    /// Adds the objects to an inventory, and marks them as seen. Those that cannot be decoded become
    /// problems: the last version that could be takes their place.
    fn read_into(&mut self, inventory: &mut Inventory, problems: &mut Vec<String>);

    /// `true` if the watch shows the outcome of a write, or if the write is of another kind.
    fn has_seen(&mut self, written: &Written) -> bool;

    fn boxed_clone(&self) -> Box<dyn KindSource>;
}

/// The objects of one kind, with the last version of each that could be decoded.
#[derive(Clone, Debug)]
struct ObjectSource<K> {
    objects: StoreReader<Watched<K>>,
    decoded: BTreeMap<ObjectKey, Arc<K>>,
}

impl<K: InventoryKind> ObjectSource<K>
where
    K: Clone + Debug + Send + Sync + 'static,
{
    /// The object to use, and what is to be reported. `None`: no version of it could be decoded.
    fn usable(
        &self,
        key: &ObjectKey,
        watched: &Watched<K>,
        problems: &mut Vec<String>,
    ) -> Option<Arc<K>> {
        let kind = K::KIND;
        match watched {
            Watched::Readable(object) => Some(object.clone()),
            Watched::Partial(object, reasons) => {
                let reasons = reasons.iter();
                problems.extend(reasons.map(|reason| {
                    format!("{kind} {key}: cannot be decoded, so the field is ignored: {reason}")
                }));
                Some(object.clone())
            }
            Watched::Unreadable(reason) => {
                let decoded = self.decoded.get(key).cloned();
                let outcome = match &decoded {
                    Some(_) => "its former version is used",
                    None => "what depends on objects of the kind stays as it is",
                };
                problems.push(format!(
                    "{kind} {key}: cannot be decoded, so {outcome}: {reason}"
                ));
                decoded
            }
        }
    }
}

impl<K> KindSource for ObjectSource<K>
where
    K: InventoryKind + Clone + Debug + Send + Sync + 'static,
{
    fn ready(&mut self) -> Change<'_> {
        Box::pin(self.objects.ready())
    }

    fn changed(&mut self) -> Change<'_> {
        Box::pin(self.objects.changed())
    }

    fn read_into(&mut self, inventory: &mut Inventory, problems: &mut Vec<String>) {
        let objects = self.objects.objects();
        self.decoded.retain(|key, _| objects.contains_key(key));
        for (key, watched) in &objects {
            let Some(object) = self.usable(key, watched, problems) else {
                inventory.undecoded.insert((K::KIND, key.clone()));
                continue;
            };
            self.decoded.insert(key.clone(), object.clone());
            // Objects of the same second are in the order of their keys.
            let created = object.creation_timestamp();
            let created = created.map_or(0, |time| time.0.as_second());
            K::objects_mut(inventory).insert(Sourced {
                object: K::clone(&object),
                origin: Origin::Cluster,
                position: created.try_into().unwrap_or(0),
            });
        }
    }

    fn has_seen(&mut self, written: &Written) -> bool {
        if written.kind != K::KIND {
            return true;
        }
        let objects = self.objects.objects();
        let seen = match objects.get(&written.key) {
            Some(Watched::Readable(object) | Watched::Partial(object, _)) => object.meta(),
            Some(Watched::Unreadable(_)) => return true,
            None => return !written.is_new,
        };
        seen.uid != written.uid
            || match (number(seen.resource_version.as_deref()), written.version) {
                (Some(seen), Some(version)) => seen >= version,
                (_, None) => false,
                (None, _) => true,
            }
    }

    fn boxed_clone(&self) -> Box<dyn KindSource> {
        Box::new(self.clone())
    }
}

/// A resource version as a number. `None`: it is not one, so versions cannot be compared.
pub(super) fn number(version: Option<&str>) -> Option<u64> {
    version?.parse().ok()
}

/// The watched objects of several kinds.
#[derive(Debug, Default)]
pub(crate) struct ObjectSources(Vec<Box<dyn KindSource>>);

impl Clone for ObjectSources {
    fn clone(&self) -> Self {
        Self(self.0.iter().map(|kind| kind.boxed_clone()).collect())
    }
}

impl ObjectSources {
    /// Adds the objects of a kind.
    pub(crate) fn with<K>(mut self, objects: StoreReader<Watched<K>>) -> Self
    where
        K: InventoryKind + Clone + Debug + Send + Sync + 'static,
    {
        self.0.push(Box::new(ObjectSource {
            objects,
            decoded: BTreeMap::new(),
        }));
        self
    }

    /// Waits for the first complete list of each kind.
    pub(super) async fn ready(&mut self) -> Result<(), WatchEnded> {
        for kind in &mut self.0 {
            kind.ready().await?;
        }
        Ok(())
    }

    /// The current objects, and what of them cannot be decoded. Objects of which no version could be
    /// are named in [`Inventory::undecoded`].
    pub(super) fn inventory(&mut self) -> (Inventory, Vec<String>) {
        let (mut inventory, mut problems) = (Inventory::default(), Vec::new());
        for kind in &mut self.0 {
            kind.read_into(&mut inventory, &mut problems);
        }
        (inventory, problems)
    }

    /// Waits until the watches show all these writes, but at most for `limit`.
    pub(super) async fn wait_for_writes(
        &mut self,
        mut written: Vec<Written>,
        limit: Duration,
    ) -> Result<(), WatchEnded> {
        let all_seen = async {
            loop {
                let kinds = &mut self.0;
                written.retain(|one| !kinds.iter_mut().all(|kind| kind.has_seen(one)));
                if written.is_empty() {
                    return Ok(());
                }
                self.changed().await?;
            }
        };
        // A write that is not shown in time is made again from what the watches show; it names the
        // version that it is based on.
        tokio::time::timeout(limit, all_seen)
            .await
            .unwrap_or(Ok(()))
    }

    /// Waits until something has changed and changes pause, or until `retry` is over.
    pub(super) async fn wait_for_work(
        &mut self,
        timing: &Timing,
        retry: Option<Duration>,
    ) -> Result<(), WatchEnded> {
        tokio::select! {
            changed = self.changed() => changed?,
            () = sleep_or_forever(retry) => return Ok(()),
        }
        debounce(timing, self).await
    }
}

impl ChangeSource for ObjectSources {
    type Error = WatchEnded;

    async fn changed(&mut self) -> Result<(), WatchEnded> {
        let kinds = self.0.iter_mut().map(|kind| kind.changed());
        select_all(kinds).await.0
    }
}
