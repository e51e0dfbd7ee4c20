//! The objects of one kind as they were last seen, from the task that watches them to those that work with them.

use imbl::OrdMap;
use tokio::sync::watch;

use patchbay_resources::manifests::ObjectKey;

/// Objects by key. Clones share everything, and the difference of two is found without looking at what they share.
pub(super) type Objects<V> = OrdMap<ObjectKey, V>;

/// A store: one side writes, clones of the other side read. There is nothing in it before the first list is complete.
pub(super) fn store<V: Clone>() -> (Writer<V>, Reader<V>) {
    let (writer, reader) = watch::channel(None);
    let writer = Writer {
        store: writer,
        listing: None,
    };
    (writer, Reader(reader))
}

/// The side of the task that watches.
#[derive(Debug)]
pub(super) struct Writer<V: Clone> {
    store: watch::Sender<Option<Objects<V>>>,
    /// The list that is under way. Until it is complete, readers see what was there before.
    listing: Option<Objects<V>>,
}

impl<V: Clone + PartialEq> Writer<V> {
    /// A list begins.
    pub(super) fn begin(&mut self) {
        self.listing = Some(Objects::new());
    }

    /// The list has another object.
    pub(super) fn list(&mut self, key: ObjectKey, value: V) {
        if let Some(listing) = &mut self.listing {
            listing.insert(key, value);
        }
    }

    /// The list is complete: what it does not have is gone.
    pub(super) fn complete(&mut self) {
        if let Some(listed) = self.listing.take() {
            self.store.send_if_modified(|objects| {
                let changed = objects.as_ref() != Some(&listed);
                if changed {
                    *objects = Some(listed);
                }
                changed
            });
        }
    }

    /// An object is like this now; without a value, it is gone. Readers wake up only if that is news.
    pub(super) fn put(&mut self, key: ObjectKey, value: Option<V>) {
        self.store.send_if_modified(|objects| {
            let objects = objects.get_or_insert_default();
            match value {
                Some(value) if objects.get(&key) == Some(&value) => false,
                Some(value) => {
                    objects.insert(key, value);
                    true
                }
                None => objects.remove(&key).is_some(),
            }
        });
    }
}

/// The side of those who work with the objects.
#[derive(Clone, Debug)]
pub(super) struct Reader<V>(watch::Receiver<Option<Objects<V>>>);

impl<V: Clone> Reader<V> {
    /// Waits for the first complete list.
    ///
    /// # Errors
    /// Nobody writes any more.
    pub(super) async fn ready(&mut self) -> Result<(), WatchEnded> {
        let listed = self.0.wait_for(Option::is_some).await;
        listed.map(|_| ()).map_err(|_| WatchEnded)
    }

    /// Whether there has been a complete list.
    pub(super) fn is_ready(&self) -> bool {
        self.0.borrow().is_some()
    }

    /// Waits until there is something that [`objects`](Self::objects) has not returned.
    ///
    /// # Errors
    /// Nobody writes any more.
    pub(super) async fn changed(&mut self) -> Result<(), WatchEnded> {
        self.0.changed().await.map_err(|_| WatchEnded)
    }

    /// The objects, as they are now.
    pub(super) fn objects(&mut self) -> Objects<V> {
        self.0.borrow_and_update().clone().unwrap_or_default()
    }
}

/// The task that watches a kind of objects has ended.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("nobody watches the objects any more")]
pub(super) struct WatchEnded;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    #[tokio::test]
    async fn a_list_is_seen_when_it_is_complete() {
        let (mut writer, mut reader) = store();
        writer.begin();
        writer.list(key("a"), 1);
        assert!(reader.objects().is_empty());
        writer.complete();
        reader.ready().await.unwrap();
        assert_eq!(reader.objects().len(), 1);

        writer.begin();
        writer.list(key("b"), 2);
        assert!(reader.objects().contains_key(&key("a")));
        writer.complete();
        assert_eq!(reader.objects().keys().collect::<Vec<_>>(), [&key("b")]);
    }

    #[test]
    fn what_is_no_news_wakes_nobody() {
        let (mut writer, mut reader) = store();
        writer.begin();
        writer.complete();
        writer.put(key("a"), Some(1));
        assert_eq!(reader.objects().len(), 1);

        writer.put(key("a"), Some(1));
        writer.put(key("b"), None);
        writer.begin();
        writer.list(key("a"), 1);
        writer.complete();
        assert!(!reader.0.has_changed().unwrap());

        writer.put(key("a"), None);
        assert!(reader.0.has_changed().unwrap());
        assert!(reader.objects().is_empty());
    }

    #[tokio::test]
    async fn readers_learn_that_nobody_writes() {
        let (writer, mut reader) = store::<i32>();
        drop(writer);
        assert!(reader.ready().await.is_err());
        assert!(reader.changed().await.is_err());
    }
}
