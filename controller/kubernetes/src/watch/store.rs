//! Stores: the last known objects of one kind, shared between the task that watches them and their
//! readers.

use imbl::OrdMap;
use patchbay_model::FieldProblem;
use patchbay_resources::manifests::ObjectKey;
use serde_json::Value;
use tokio::sync::watch;

use crate::watch::list_requests::{ListRequester, RequestedLists, list_requests};
use crate::watch::object_sink::ObjectSink;
use crate::watch::read_failure::{ReadFailure, ReadFailureCause, ReadRequest};

/// Makes an empty store. Readers see nothing before the first list is complete.
pub(crate) fn store<V: Clone>() -> (StoreWriter<V>, StoreReader<V>) {
    let (store, stored) = watch::channel(Stored {
        objects: OrdMap::new(),
        lists: 0,
        failure: None,
    });
    let (requester, requests) = list_requests();
    let writer = StoreWriter {
        store,
        listing: None,
        requests,
    };
    let reader = StoreReader { stored, requester };
    (writer, reader)
}

/// Writer of a store, for the task that watches.
#[derive(Debug)]
pub(crate) struct StoreWriter<V: Clone> {
    store: watch::Sender<Stored<V>>,
    /// The list in progress. Readers keep the previous objects until it is complete.
    listing: Option<OrdMap<ObjectKey, V>>,
    requests: RequestedLists,
}

impl<V: Clone + PartialEq> StoreWriter<V> {
    /// Starts a list.
    pub(crate) fn begin_list(&mut self) {
        self.listing = Some(OrdMap::new());
    }

    /// Adds an object to the list in progress.
    pub(crate) fn add_listed(&mut self, key: ObjectKey, value: V) {
        let Some(listing) = &mut self.listing else {
            return;
        };
        // Otherwise the memory of all objects would be needed twice until the list is complete.
        let stored = self.store.borrow();
        let present = stored.objects.get(&key);
        let unchanged = present.filter(|present| **present == value).cloned();
        listing.insert(key, unchanged.unwrap_or(value));
    }

    /// Adds the present version of an object to the list in progress, if there is one.
    fn keep_listed(&mut self, key: ObjectKey) {
        let stored = self.store.borrow();
        let value = stored.objects.get(&key);
        if let (Some(listing), Some(value)) = (&mut self.listing, value) {
            listing.insert(key, value.clone());
        }
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
    pub(crate) fn put(&mut self, key: ObjectKey, value: V) {
        self.store.send_if_modified(|stored| {
            let changed = stored.objects.get(&key) != Some(&value);
            if changed {
                stored.objects.insert(key, value);
            }
            changed
        });
    }

    /// Removes an object.
    pub(crate) fn remove(&mut self, key: &ObjectKey) {
        self.store
            .send_if_modified(|stored| stored.objects.remove(key).is_some());
    }

    /// `true` if no objects are known.
    fn is_empty(&self) -> bool {
        self.store.borrow().objects.is_empty()
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

/// Writer of a store that decodes the objects of an API server, and reduces them to what is kept.
struct Projection<F, V: Clone> {
    project: F,
    writer: StoreWriter<V>,
}

/// Makes an empty store with its receiver of a watch. `project` decodes an object and reduces it to
/// the fields that are kept.
pub(crate) fn projected_store<V>(
    project: impl Fn(Value) -> Result<V, FieldProblem> + Send + 'static,
) -> (Box<dyn ObjectSink>, StoreReader<V>)
where
    V: Clone + PartialEq + Send + Sync + 'static,
{
    let (writer, reader) = store();
    (Box::new(Projection { project, writer }), reader)
}

impl<F, V> ObjectSink for Projection<F, V>
where
    F: Fn(Value) -> Result<V, FieldProblem> + Send,
    V: Clone + PartialEq + Send + Sync,
{
    fn begin_list(&mut self) {
        self.writer.begin_list();
    }

    fn add_listed(&mut self, key: ObjectKey, object: Value) -> Result<(), FieldProblem> {
        match (self.project)(object) {
            Ok(value) => {
                self.writer.add_listed(key, value);
                Ok(())
            }
            Err(violation) => {
                self.writer.keep_listed(key);
                Err(violation)
            }
        }
    }

    fn complete_list(&mut self) {
        self.writer.complete_list();
    }

    fn note_failure(&mut self, failure: ReadFailure) {
        self.writer.note_failure(failure);
    }

    fn note_success(&mut self, request: ReadRequest) {
        self.writer.note_success(request);
    }

    fn is_listed(&self) -> bool {
        self.writer.store.borrow().lists > 0
    }

    fn put(&mut self, key: ObjectKey, object: Value) -> Result<(), FieldProblem> {
        let value = (self.project)(object)?;
        self.writer.put(key, value);
        Ok(())
    }

    fn remove(&mut self, key: &ObjectKey) {
        self.writer.remove(key);
    }

    fn is_empty(&self) -> bool {
        self.writer.is_empty()
    }

    fn requests(&mut self) -> &mut RequestedLists {
        &mut self.writer.requests
    }
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
    use crate::api::api_object;

    fn key(name: &str) -> ObjectKey {
        ObjectKey::cluster(name)
    }

    #[tokio::test]
    async fn readers_see_a_list_once_it_is_complete() {
        let (mut writer, mut reader) = store();
        writer.begin_list();
        writer.add_listed(key("a"), 1);
        assert!(reader.objects().is_empty());
        writer.complete_list();
        reader.ready().await.unwrap();
        assert_eq!(reader.objects().len(), 1);

        writer.begin_list();
        writer.add_listed(key("b"), 2);
        assert!(reader.objects().contains_key(&key("a")));
        writer.complete_list();
        assert_eq!(reader.objects().keys().collect::<Vec<_>>(), [&key("b")]);
    }

    fn failure(request: ReadRequest) -> ReadFailure {
        ReadFailure {
            request,
            reason: "no".into(),
            cause: ReadFailureCause::Passing,
        }
    }

    #[tokio::test]
    async fn a_failure_counts_until_the_same_request_succeeds() {
        let (mut writer, mut reader) = store::<u32>();
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
        let (mut writer, reader) = store::<u32>();
        let number = reader.request_list();
        writer.note_failure(failure(ReadRequest::List));
        reader.answered_or_failed(number).await.unwrap();
        assert!(!reader.is_answered(number));
        writer.requests.answer(writer.requests.last());
        assert!(reader.is_answered(number));
    }

    #[test]
    fn an_unchanged_value_does_not_wake_readers() {
        let (mut writer, mut reader) = store();
        writer.begin_list();
        writer.complete_list();
        writer.put(key("a"), 1);
        assert_eq!(reader.objects().len(), 1);

        writer.put(key("a"), 1);
        writer.remove(&key("b"));
        writer.begin_list();
        writer.add_listed(key("a"), 1);
        writer.complete_list();
        assert!(!reader.stored.has_changed().unwrap());

        writer.remove(&key("a"));
        assert!(reader.stored.has_changed().unwrap());
        assert!(reader.objects().is_empty());
    }

    #[test]
    fn an_object_that_cannot_be_decoded_can_be_removed() {
        let (mut sink, mut reader) = projected_store(api_object::decode::<u32>);
        sink.begin_list();
        sink.add_listed(key("a"), 1.into()).unwrap();
        sink.complete_list();
        assert!(sink.put(key("a"), "two".into()).is_err());
        assert_eq!(reader.objects().get(&key("a")), Some(&1));
        sink.remove(&key("a"));
        assert!(reader.objects().is_empty());
    }

    #[test]
    fn a_list_keeps_the_former_version_of_an_object_that_cannot_be_decoded() {
        let (mut sink, mut reader) = projected_store(api_object::decode::<u32>);
        for _ in 0..2 {
            sink.begin_list();
            assert!(sink.add_listed(key("new"), "two".into()).is_err());
            sink.add_listed(key("b"), 2.into()).unwrap();
            if reader.is_ready() {
                assert!(sink.add_listed(key("a"), "one".into()).is_err());
            } else {
                sink.add_listed(key("a"), 1.into()).unwrap();
            }
            sink.complete_list();
            let expected = [(key("a"), 1), (key("b"), 2)];
            assert!(reader.objects().into_iter().eq(expected));
        }
    }

    #[test]
    fn unchanged_objects_are_not_kept_twice_during_a_list() {
        let (mut writer, mut reader) = store();
        for _ in 0..2 {
            let before = reader.objects();
            writer.begin_list();
            writer.add_listed(key("a"), Arc::new("unchanged"));
            let listed = &writer.listing.as_ref().unwrap()[&key("a")];
            let former = before.get(&key("a"));
            assert!(former.is_none_or(|former| Arc::ptr_eq(former, listed)));
            writer.complete_list();
        }
        assert_eq!(reader.objects().len(), 1);
    }

    #[tokio::test]
    async fn readers_get_an_error_once_the_writer_is_gone() {
        let (writer, mut reader) = store::<i32>();
        drop(writer);
        assert!(reader.ready().await.is_err());
        assert!(reader.changed().await.is_err());
    }
}
