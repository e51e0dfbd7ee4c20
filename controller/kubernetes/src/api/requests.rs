//! Requests to an API server about objects of one kind.

use std::fmt;

use futures_util::Stream;
use kube::api::{
    DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use kube::core::ObjectList;
use kube::core::request::{self, Request};
use kube::{Client, Result};
use patchbay_resources::manifests::ObjectKey;
use patchbay_resources::object::{Object, ObjectMeta};
use serde::de::DeserializeOwned;
use serde_json::Value;

/// The objects of a kind: all of them, or those of one namespace.
///
/// Objects are JSON here, and their readers decode them. Requests and watches of `kube::Api` are
/// compiled once for each kind instead.
#[derive(Clone)]
pub(crate) struct Api {
    client: Client,
    path: String,
}

impl fmt::Debug for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Api").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Api {
    /// The objects of all namespaces, or of a kind without namespaces.
    pub(crate) fn all<K: Object>(client: Client) -> Self {
        Self::new::<K>(client, "")
    }

    /// The objects of one namespace.
    pub(crate) fn namespaced<K: Object>(client: Client, namespace: &str) -> Self {
        Self::new::<K>(client, &format!("namespaces/{namespace}/"))
    }

    /// The objects of the namespace of an object, or of its kind without namespaces.
    pub(crate) fn of<K: Object>(client: Client, object: &K) -> Self {
        match object.namespace() {
            Some(namespace) => Self::namespaced::<K>(client, &namespace),
            None => Self::all::<K>(client),
        }
    }

    fn new<K: Object>(client: Client, namespace: &str) -> Self {
        let root = if K::GROUP.is_empty() { "api" } else { "apis" };
        Self::at(client, &format!("/{root}/{}/{namespace}{}", K::api_version(), K::PLURAL))
    }

    /// The objects at a path.
    pub(crate) fn at(client: Client, path: &str) -> Self {
        Self { client, path: path.to_owned() }
    }

    fn request(&self) -> Request {
        Request::new(&self.path)
    }

    /// Lists one page of objects. Returns them, and the size of the page in bytes.
    pub(crate) async fn list(&self, params: &ListParams) -> Result<(ObjectList<Value>, usize)> {
        let request = self.request().list(params).map_err(kube::Error::BuildRequest)?;
        let text = self.client.request_text(request).await?;
        let listed = serde_json::from_str(&text).map_err(kube::Error::SerdeError)?;
        Ok((listed, text.len()))
    }

    /// The present resource version, which the API server reads from etcd. `None`: the API server
    /// does not name it.
    pub(crate) async fn present_version(&self) -> Result<Option<String>> {
        let page = ListParams::default().limit(1);
        let listed: ObjectList<Value> = self.send(self.request().list_metadata(&page)).await?;
        Ok(listed.metadata.resource_version)
    }

    /// Watches the objects: returns the events after a resource version.
    pub(crate) async fn watch(
        &self,
        params: &WatchParams,
        version: &str,
    ) -> Result<impl Stream<Item = Result<WatchEvent<Value>>> + use<>> {
        let request = self.request().watch(params, version).map_err(kube::Error::BuildRequest)?;
        self.client.request_events(request).await
    }

    /// Patches an object. Returns the object after the write.
    pub(crate) async fn patch(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<Value>,
    ) -> Result<Value> {
        self.send(self.request().patch(name, params, patch)).await
    }

    /// Patches the status of an object. Returns the object after the write.
    pub(crate) async fn patch_status(
        &self,
        name: &str,
        params: &PatchParams,
        patch: &Patch<Value>,
    ) -> Result<Value> {
        let request = self.request().patch_subresource("status", name, params, patch);
        self.send(request).await
    }

    /// Creates an object. Returns it as it is stored.
    pub(crate) async fn create(&self, params: &PostParams, object: &Value) -> Result<Value> {
        let object = serde_json::to_vec(object).map_err(kube::Error::SerdeError)?;
        self.send(self.request().create(params, object)).await
    }

    /// Deletes an object, or marks it as deleted while it has finalizers.
    pub(crate) async fn delete(&self, name: &str, params: &DeleteParams) -> Result<()> {
        let request = self.request().delete(name, params).map_err(kube::Error::BuildRequest)?;
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

/// The metadata of an object that identify it and its version, and its annotations. The others need
/// not be decodable.
pub(crate) fn identity_of(object: &Value) -> ObjectMeta {
    let metadata = &object["metadata"];
    let text = |field: &str| metadata[field].as_str().map(str::to_owned);
    let annotations = metadata["annotations"]
        .as_object()
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .map(|(key, value)| (key.clone(), value.to_owned()));
    ObjectMeta {
        annotations: Some(annotations.collect()),
        name: text("name"),
        namespace: text("namespace"),
        uid: text("uid"),
        resource_version: text("resourceVersion"),
        ..ObjectMeta::default()
    }
}

/// Key of an object of an API server.
pub(crate) fn key_of(object: &Value) -> ObjectKey {
    let metadata = &object["metadata"];
    ObjectKey {
        namespace: metadata["namespace"].as_str().map(str::to_owned),
        name: metadata["name"].as_str().unwrap_or_default().to_owned(),
    }
}

/// Resource version of an object of an API server; empty: it has none.
pub(crate) fn version_of(object: &Value) -> String {
    let version = object["metadata"]["resourceVersion"].as_str();
    version.unwrap_or_default().to_owned()
}
