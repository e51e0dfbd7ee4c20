//! Receivers of the objects that are listed and watched.

use patchbay_model::FieldProblem;
use patchbay_resources::manifests::ObjectKey;
use serde_json::Value;

use crate::watch::list_requests::RequestedLists;
use crate::watch::read_failure::{ReadFailure, ReadRequest};

/// Receiver of the objects of one kind, which decodes them.
pub(crate) trait ObjectSink: Send {
    /// Starts a list. Readers see the previous objects until it is complete.
    fn begin_list(&mut self);

    /// Adds an object to the list in progress.
    ///
    /// # Errors
    /// The object cannot be decoded. Its former version is listed instead.
    fn add_listed(&mut self, key: ObjectKey, object: Value) -> Result<(), FieldProblem>;

    /// Completes the list: objects that it lacks are removed.
    fn complete_list(&mut self);

    /// Notes that lists or watches fail.
    fn note_failure(&mut self, failure: ReadFailure);

    /// Notes that a list or a watch has succeeded, which ends its failure. A list is complete before,
    /// and its requests are answered.
    fn note_success(&mut self, request: ReadRequest);

    /// `true` after the first complete list.
    fn is_listed(&self) -> bool;

    /// Sets an object to its current value.
    ///
    /// # Errors
    /// The object cannot be decoded. Its former version stays.
    fn put(&mut self, key: ObjectKey, object: Value) -> Result<(), FieldProblem>;

    /// Removes an object.
    fn remove(&mut self, key: &ObjectKey);

    /// `true` if no objects are known.
    fn is_empty(&self) -> bool;

    /// Requests of readers for a new list.
    fn requests(&mut self) -> &mut RequestedLists;
}
