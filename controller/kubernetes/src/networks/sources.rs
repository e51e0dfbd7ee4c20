//! The watched objects of several kinds, as an inventory.

use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use futures_util::future::select_all;
use patchbay_resources::manifests::{Inventory, InventoryKind, ObjectKey, Origin, Sourced};
use thiserror::Error;

use super::watched::Watched;
use super::writer::Written;
use crate::config::Timing;
use crate::debounce::{ChangeSource, debounce, sleep_or_forever};
use crate::store::{StoreReader, WatchEnded};

/// Outcome of a wait for changes.
type Change<'a> = Pin<Box<dyn Future<Output = Result<(), WatchEnded>> + Send + 'a>>;

/// An object that cannot be decoded. Without it nothing is written, because its absence would look
/// like its deletion.
#[derive(Debug, Error)]
#[error("{kind} {key}: cannot be decoded, so all networks stay as they are: {reason}")]
pub(super) struct UnreadableObject {
    kind: &'static str,
    key: ObjectKey,
    reason: String,
}

/// The watched objects of one kind.
trait KindSource: Debug + Send + Sync {
    fn ready(&mut self) -> Change<'_>;

    fn changed(&mut self) -> Change<'_>;

    /// Adds the objects to an inventory, and marks them as seen.
    fn read_into(&mut self, inventory: &mut Inventory) -> Result<(), UnreadableObject>;

    /// `true` if the watch shows the outcome of a write, or if the write is of another kind.
    fn has_seen(&mut self, written: &Written) -> bool;

    fn boxed_clone(&self) -> Box<dyn KindSource>;
}

impl<K> KindSource for StoreReader<Watched<K>>
where
    K: InventoryKind + Clone + Debug + Send + Sync + 'static,
{
    fn ready(&mut self) -> Change<'_> {
        Box::pin(self.ready())
    }

    fn changed(&mut self) -> Change<'_> {
        Box::pin(self.changed())
    }

    fn read_into(&mut self, inventory: &mut Inventory) -> Result<(), UnreadableObject> {
        for (key, watched) in &self.objects() {
            let object = match watched {
                Watched::Readable(object) => K::clone(object),
                Watched::Unreadable(reason) => {
                    return Err(UnreadableObject {
                        kind: K::KIND,
                        key: key.clone(),
                        reason: reason.to_string(),
                    });
                }
            };
            // Objects of the same second are in the order of their keys.
            let created = object.creation_timestamp();
            let created = created.map_or(0, |time| time.0.as_second());
            K::objects_mut(inventory).insert(Sourced {
                object,
                origin: Origin::Cluster,
                position: created.try_into().unwrap_or(0),
            });
        }
        Ok(())
    }

    fn has_seen(&mut self, written: &Written) -> bool {
        if written.kind != K::KIND {
            return true;
        }
        let objects = self.objects();
        let seen = match objects.get(&written.key) {
            Some(Watched::Readable(object)) => object.meta(),
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
        self.0.push(Box::new(objects));
        self
    }

    /// Waits for the first complete list of each kind.
    pub(super) async fn ready(&mut self) -> Result<(), WatchEnded> {
        for kind in &mut self.0 {
            kind.ready().await?;
        }
        Ok(())
    }

    /// The current objects.
    ///
    /// # Errors
    /// [`UnreadableObject`]: one cannot be decoded.
    pub(super) fn inventory(&mut self) -> Result<Inventory, UnreadableObject> {
        let mut inventory = Inventory::default();
        for kind in &mut self.0 {
            kind.read_into(&mut inventory)?;
        }
        Ok(inventory)
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
