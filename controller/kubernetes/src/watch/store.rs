//! Stores: the last known objects of one kind, shared between the task that watches them and their
//! readers.

use imbl::OrdMap;
use patchbay_model::FieldProblem;
use patchbay_resources::manifests::ObjectKey;
use serde_json::Value;
use tokio::sync::watch;

use crate::watch::list_requests::{ListRequester, RequestedLists, list_requests};
use crate::watch::read_failure::{ReadFailure, ReadFailureCause, ReadRequest};

/// Makes an empty store. Readers see nothing before the first list is complete. `project` decodes an
/// object and reduces it to the fields that are kept.
pub(crate) fn store<V: Clone>(
    project: impl Fn(Value) -> Result<V, FieldProblem> + Send + 'static,
) -> (StoreWriter<V>, StoreReader<V>) {
    let (store, stored) =
        watch::channel(Stored { objects: OrdMap::new(), lists: 0, failure: None });
    let (requester, requests) = list_requests();
    let writer = StoreWriter { project: Box::new(project), store, listing: None, requests };
    let reader = StoreReader { stored, requester };
    (writer, reader)
}

/// Writer of a store, for the task that watches.
pub(crate) struct StoreWriter<V: Clone> {
    /// Decodes an object of an API server, and reduces it to what is kept.
    project: Box<dyn Fn(Value) -> Result<V, FieldProblem> + Send>,
    store: watch::Sender<Stored<V>>,
    /// The list in progress. Readers keep the previous objects until it is complete.
    listing: Option<OrdMap<ObjectKey, V>>,
    /// Requests of readers for a new list.
    pub(crate) requests: RequestedLists,
}

impl<V: Clone + PartialEq> StoreWriter<V> {
    /// Starts a list.
    pub(crate) fn begin_list(&mut self) {
        self.listing = Some(OrdMap::new());
    }

    /// Adds an object to the list in progress.
    ///
    /// # Errors
    /// The object cannot be decoded. Its former version is listed instead.
    pub(crate) fn add_listed(&mut self, key: ObjectKey, object: Value) -> Result<(), FieldProblem> {
        let value = (self.project)(object);
        let stored = self.store.borrow();
        let present = stored.objects.get(&key);
        let (listed, added) = match value {
            // Otherwise the memory of all objects would be needed twice until the list is complete.
            Ok(value) => {
                let unchanged = present.filter(|present| **present == value).cloned();
                (Some(unchanged.unwrap_or(value)), Ok(()))
            }
            Err(violation) => (present.cloned(), Err(violation)),
        };
        if let (Some(listing), Some(value)) = (&mut self.listing, listed) {
            listing.insert(key, value);
        }
        added
    }

    /// Completes the list: objects that it lacks are removed. Readers wake up only if something
    /// differs.
    pub(crate) fn complete_list(&mut self) {
        if let Some(listed) = self.listing.take() {
            self.store.send_if_modified(|stored| {
                let changed = stored.lists == 0 || stored.objects != listed;
                if changed {
                    stored.objects = listed;
                }
                stored.lists += 1;
                changed
            });
        }
    }

    /// Notes that lists or watches fail. Readers wake up if the failure is another one.
    pub(crate) fn note_failure(&mut self, failure: ReadFailure) {
        self.store.send_if_modified(|stored| {
            let changed = stored.failure.as_ref() != Some(&failure);
            if changed {
                stored.failure = Some(failure);
            }
            changed
        });
    }

    /// Notes that a list or a watch has succeeded. Readers wake up if there was a failure, also if
    /// that of watches stays: a list that they wait for may be complete.
    pub(crate) fn note_success(&mut self, request: ReadRequest) {
        self.store.send_if_modified(|stored| {
            let failed = stored.failure.as_ref().map(|failure| failure.request);
            if failed == Some(request) {
                stored.failure = None;
            }
            failed.is_some()
        });
    }

    /// Sets an object to its current value. Readers wake up only if the value differs.
    ///
    /// # Errors
    /// The object cannot be decoded. Its former version stays.
    pub(crate) fn put(&mut self, key: ObjectKey, object: Value) -> Result<(), FieldProblem> {
        let value = (self.project)(object)?;
        self.store.send_if_modified(|stored| {
            let changed = stored.objects.get(&key) != Some(&value);
            if changed {
                stored.objects.insert(key, value);
            }
            changed
        });
        Ok(())
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.store.send_if_modified(|stored| stored.objects.remove(key).is_some());
    }

    /// `true` if no objects are known.
    pub(crate) fn is_empty(&self) -> bool {
        self.store.borrow().objects.is_empty()
    }

    /// `true` after the first complete list.
    pub(crate) fn is_listed(&self) -> bool {
        self.store.borrow().lists > 0
    }
}

/// The objects of a kind.
#[derive(Debug)]
struct Stored<V> {
    objects: OrdMap<ObjectKey, V>,
    /// Number of complete lists.
    lists: u64,
    /// Failure of the last lists or watches. `None`: they have succeeded, or none has ended.
    failure: Option<ReadFailure>,
}

/// Reader of a store. Clones share the objects, and two versions are compared without
/// visiting what they share.
#[derive(Clone, Debug)]
pub(crate) struct StoreReader<V> {
    stored: watch::Receiver<Stored<V>>,
    requester: ListRequester,
}

impl<V: Clone> StoreReader<V> {
    /// Waits for the first complete list.
    ///
    /// # Errors
    /// The writer is gone.
    pub(crate) async fn ready(&mut self) -> Result<(), WatchEnded> {
        let listed = self.stored.wait_for(|stored| stored.lists > 0).await;
        listed.map(|_| ()).map_err(|_| WatchEnded)
    }

    /// Waits for the first complete list, or until lists fail.
    ///
    /// # Errors
    /// The writer is gone.
    pub(crate) async fn tried(&mut self) -> Result<(), WatchEnded> {
        let is_tried = |stored: &Stored<V>| stored.lists > 0 || stored.failure.is_some();
        let tried = self.stored.wait_for(is_tried).await;
        tried.map(|_| ()).map_err(|_| WatchEnded)
    }

    /// Failure of the last lists or watches. `None`: they have succeeded, or none has ended.
    pub(crate) fn failure(&self) -> Option<ReadFailure> {
        self.stored.borrow().failure.clone()
    }

    /// `true` if there is no list because the cluster has no definition of the kind.
    pub(crate) fn is_undefined(&self) -> bool {
        let stored = self.stored.borrow();
        let cause = stored.failure.as_ref().map(|failure| failure.cause);
        stored.lists == 0 && cause == Some(ReadFailureCause::Undefined)
    }

    /// Requests a list. Returns the number of the request.
    pub(crate) fn request_list(&self) -> u64 {
        self.requester.request()
    }

    /// `true` if a list that began after this request is complete.
    pub(crate) fn is_answered(&self, number: u64) -> bool {
        self.requester.is_answered(number)
    }

    /// Waits until a list that began after this request is complete, or until lists or watches
    /// fail.
    ///
    /// # Errors
    /// The writer is gone.
    pub(crate) async fn answered_or_failed(&self, number: u64) -> Result<(), WatchEnded> {
        let mut stored = self.stored.clone();
        tokio::select! {
            answered = self.requester.answered(number) => answered,
            failed = stored.wait_for(|stored| stored.failure.is_some()) => {
                failed.map(drop).map_err(|_| WatchEnded)
            }
        }
    }

    /// `true` after the first complete list.
    pub(crate) fn is_ready(&self) -> bool {
        self.lists() > 0
    }

    /// Waits for a change that [`objects`](Self::objects) has not returned.
    ///
    /// # Errors
    /// The writer is gone.
    pub(crate) async fn changed(&mut self) -> Result<(), WatchEnded> {
        self.stored.changed().await.map_err(|_| WatchEnded)
    }

    /// Waits for a complete list that begins after this call.
    ///
    /// # Errors
    /// The writer is gone.
    pub(crate) async fn list_again(&self) -> Result<(), WatchEnded> {
        self.requester.list_again().await
    }

    /// Number of complete lists. Resource versions may have gone backwards between two lists.
    pub(crate) fn lists(&self) -> u64 {
        self.stored.borrow().lists
    }

    /// Returns the current objects, and leaves it open whether they are seen.
    pub(crate) fn peek(&self) -> OrdMap<ObjectKey, V> {
        self.stored.borrow().objects.clone()
    }

    /// Returns the current objects, and marks them as seen.
    pub(crate) fn objects(&mut self) -> OrdMap<ObjectKey, V> {
        self.stored.borrow_and_update().objects.clone()
    }
}

/// A writer is gone: the task that watched a kind has ended.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("a watch task has ended")]
pub(crate) struct WatchEnded;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::api::api_object::decode;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    #[tokio::test]
    async fn readers_see_a_list_once_it_is_complete() {
        let (mut writer, mut reader) = store(decode::<u32>);
        writer.begin_list();
        writer.add_listed(key("a"), 1.into()).unwrap();
        assert!(reader.objects().is_empty());
        writer.complete_list();
        reader.ready().await.unwrap();
        assert_eq!(reader.objects().len(), 1);

        writer.begin_list();
        writer.add_listed(key("b"), 2.into()).unwrap();
        assert!(reader.objects().contains_key(&key("a")));
        writer.complete_list();
        assert_eq!(reader.objects().keys().collect::<Vec<_>>(), [&key("b")]);
    }

    fn failure(request: ReadRequest) -> ReadFailure {
        ReadFailure { request, reason: "no".into(), cause: ReadFailureCause::Passing }
    }

    #[tokio::test]
    async fn a_failure_counts_until_the_same_request_succeeds() {
        let (mut writer, mut reader) = store(decode::<u32>);
        for request in [ReadRequest::List, ReadRequest::Watch] {
            writer.note_failure(failure(request));
            reader.tried().await.unwrap();
            assert_eq!(reader.failure(), Some(failure(request)));
            reader.objects();
            writer.note_failure(failure(request));
            assert!(!reader.stored.has_changed().unwrap());

            writer.begin_list();
            writer.complete_list();
            writer.note_success(ReadRequest::List);
            assert!(reader.stored.has_changed().unwrap());
            assert_eq!(reader.failure().is_some(), request == ReadRequest::Watch);
            writer.note_success(ReadRequest::Watch);
            assert_eq!(reader.failure(), None);
            reader.objects();
            writer.note_success(request);
            assert!(!reader.stored.has_changed().unwrap());
        }
    }

    #[tokio::test]
    async fn a_requested_list_is_awaited_until_lists_fail() {
        let (mut writer, reader) = store(decode::<u32>);
        let number = reader.request_list();
        writer.note_failure(failure(ReadRequest::List));
        reader.answered_or_failed(number).await.unwrap();
        assert!(!reader.is_answered(number));
        writer.requests.answer(writer.requests.last());
        assert!(reader.is_answered(number));
    }

    #[test]
    fn an_unchanged_value_does_not_wake_readers() {
        let (mut writer, mut reader) = store(decode::<u32>);
        writer.begin_list();
        writer.complete_list();
        writer.put(key("a"), 1.into()).unwrap();
        assert_eq!(reader.objects().len(), 1);

        writer.put(key("a"), 1.into()).unwrap();
        writer.remove(&key("b"));
        writer.begin_list();
        writer.add_listed(key("a"), 1.into()).unwrap();
        writer.complete_list();
        assert!(!reader.stored.has_changed().unwrap());

        writer.remove(&key("a"));
        assert!(reader.stored.has_changed().unwrap());
        assert!(reader.objects().is_empty());
    }

    #[test]
    fn an_object_that_cannot_be_decoded_can_be_removed() {
        let (mut writer, mut reader) = store(decode::<u32>);
        writer.begin_list();
        writer.add_listed(key("a"), 1.into()).unwrap();
        writer.complete_list();
        assert!(writer.put(key("a"), "two".into()).is_err());
        assert_eq!(reader.objects().get(&key("a")), Some(&1));
        writer.remove(&key("a"));
        assert!(reader.objects().is_empty());
    }

    #[test]
    fn a_list_keeps_the_former_version_of_an_object_that_cannot_be_decoded() {
        let (mut writer, mut reader) = store(decode::<u32>);
        for _ in 0..2 {
            writer.begin_list();
            assert!(writer.add_listed(key("new"), "two".into()).is_err());
            writer.add_listed(key("b"), 2.into()).unwrap();
            if reader.is_ready() {
                assert!(writer.add_listed(key("a"), "one".into()).is_err());
            } else {
                writer.add_listed(key("a"), 1.into()).unwrap();
            }
            writer.complete_list();
            let expected = [(key("a"), 1), (key("b"), 2)];
            assert!(reader.objects().into_iter().eq(expected));
        }
    }

    #[test]
    fn unchanged_objects_are_not_kept_twice_during_a_list() {
        let (mut writer, mut reader) = store(|object| Ok(Arc::new(object)));
        for _ in 0..2 {
            let before = reader.objects();
            writer.begin_list();
            writer.add_listed(key("a"), "unchanged".into()).unwrap();
            let listed = &writer.listing.as_ref().unwrap()[&key("a")];
            let former = before.get(&key("a"));
            assert!(former.is_none_or(|former| Arc::ptr_eq(former, listed)));
            writer.complete_list();
        }
        assert_eq!(reader.objects().len(), 1);
    }

    #[tokio::test]
    async fn readers_get_an_error_once_the_writer_is_gone() {
        let (writer, mut reader) = store(decode::<u32>);
        drop(writer);
        assert!(reader.ready().await.is_err());
        assert!(reader.changed().await.is_err());
    }
}
