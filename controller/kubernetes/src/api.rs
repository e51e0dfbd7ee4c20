//! Requests to an API server about objects of one kind.

use std::fmt;
use std::marker::PhantomData;

use futures_util::Stream;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::ObjectList;
use kube::core::request::{self, Request};
use kube::{Client, Result};
use patchbay_resources::object::Object;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The objects of a kind: all of them, or those of one namespace.
///
/// This is what `kube::Api` is, for types that are not those of `k8s-openapi`.
#[derive(Clone)]
pub(super) struct Api<K> {
    client: Client,
    path: String,
    kind: PhantomData<fn() -> K>,
}

impl<K> fmt::Debug for Api<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl<K: Object> Api<K> {
    /// The objects of all namespaces, or of a kind without namespaces.
    pub(super) fn all(client: Client) -> Self {
        Self::new(client, "")
    }

    /// The objects of one namespace.
    pub(super) fn namespaced(client: Client, namespace: &str) -> Self {
        Self::new(client, &format!("namespaces/{namespace}/"))
    }

    fn new(client: Client, namespace: &str) -> Self {
        let root = if K::GROUP.is_empty() { "api" } else { "apis" };
        Self {
            client,
            path: format!("/{root}/{}/{namespace}{}", K::api_version(), K::PLURAL),
            kind: PhantomData,
        }
    }

    fn request(&self) -> Request {
        Request::new(&self.path)
    }
}

impl<K: Object + Clone + DeserializeOwned> Api<K> {
    /// Lists one page of objects.
    pub(super) async fn list(&self, params: &ListParams) -> Result<ObjectList<K>> {
        self.send(self.request().list(params)).await
    }

    /// Watches the objects: returns the events after a resource version.
    pub(super) async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<K>>> + use<K>> {
        let request = self.request().watch(params, version);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request_events(request).await
    }

    /// Patches an object. Returns the object after the write.
    pub(super) async fn patch<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        self.send(self.request().patch(name, params, patch)).await
    }

    /// Patches the status of an object. Returns the object after the write.
    pub(super) async fn patch_status<P: Serialize>(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<P>,
    ) -> Result<K> {
        let request = self
            .request()
            .patch_subresource("status", name, params, patch);
        self.send(request).await
    }

    /// Creates an object. Returns it as it is stored.
    pub(super) async fn create<P: Serialize>(&self, params: &PostParams, object: &P) -> Result<K> {
        let object = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        self.send(self.request().create(params, object)).await
    }

    /// Deletes an object, or marks it as deleted while it has finalizers.
    pub(super) async fn delete(&self, name: &str, params: &DeleteParams) -> Result<()> {
        let request = self.request().delete(name, params);
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request_text(request).await.map(drop)
    }

    async fn send<T: DeserializeOwned>(
        &self,
        request: Result<http::Request<Vec<u8>>, request::Error>,
    ) -> Result<T> {
        let request = request.map_err(kube::Error::BuildRequest)?;
        self.client.request(request).await
    }
}
