//! Deletion of everything that a test has created.

use std::fmt::Debug;

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;

use super::{EVENTS, LABEL, LEASE, NAMESPACE, Testbed, User, eventually};
use crate::networks::udns_in;
use crate::stored::ClusterUserDefinedNetwork;

impl Testbed {
    /// Deletes everything that the test has created, and after the last test the shared
    /// definitions.
    pub(crate) async fn clear(self) {
        self.delete_all().await;
        if self.api.is_none() && User::is_last() {
            self.remove_definitions().await;
        }
    }

    pub(super) async fn delete_all(&self) {
        if self.api.is_some() {
            return;
        }
        let (all, delete) = (ListParams::default().labels(LABEL), DeleteParams::default());
        self.connects().delete_collection(&delete, &all).await.unwrap();
        self.nodes().delete_collection(&delete, &all).await.unwrap();
        let networks = Api::<ClusterUserDefinedNetwork>::all(self.client.clone());
        empty(&networks, &all).await;
        let reports = Api::<ConfigMap>::namespaced(self.client.clone(), NAMESPACE);
        let of_zones = ListParams::default().labels("app.kubernetes.io/component=patchbay-zone");
        reports.delete_collection(&delete, &of_zones).await.unwrap();
        let leases = Api::<LeaseObject>::namespaced(self.client.clone(), NAMESPACE);
        leases.delete_collection(&delete, &of_zones).await.unwrap();
        if leases.get_opt(LEASE).await.unwrap().is_some() {
            leases.delete(LEASE, &delete).await.unwrap();
        }
        let has_controllers = self.has_controllers().await;
        let namespaces = Api::<Namespace>::all(self.client.clone());
        for namespace in namespaces.list(&all).await.unwrap() {
            let name = namespace.name_any();
            self.empty_namespace(&name).await;
            namespaces.delete(&name, &delete).await.unwrap();
            if !has_controllers {
                finalize(&self.client, &name).await;
            }
        }
        eventually("the namespaces are gone", async || {
            let left = namespaces.list(&all).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
        let events = Api::<Event>::namespaced(self.client.clone(), EVENTS);
        let listed = events.list(&ListParams::default()).await.unwrap();
        let is_own = |event: &Event| event.reporting_controller.as_deref() == Some("patchbay");
        for event in listed.into_iter().filter(is_own) {
            events.delete(&event.name_any(), &delete).await.unwrap();
        }
    }

    /// Deletes the objects of a namespace, also those that wait for a controller, because a
    /// namespace without its controller ends before them.
    async fn empty_namespace(&self, name: &str) {
        let all = ListParams::default();
        let client = || self.client.clone();
        empty(&udns_in(self, name), &all).await;
        empty(&self.nads(name), &all).await;
        empty(&Api::<NetworkPolicy>::namespaced(client(), name), &all).await;
        empty(&Api::<Service>::namespaced(client(), name), &all).await;
        empty(&Api::<EndpointSlice>::namespaced(client(), name), &all).await;
        empty(&Api::<Pod>::namespaced(client(), name), &all).await;
    }

    /// Deletes the definitions that tests have created.
    pub(super) async fn remove_definitions(&self) {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let labelled = ListParams::default().labels(LABEL);
        api.delete_collection(&DeleteParams::default(), &labelled).await.unwrap();
        eventually("the definitions are gone", async || {
            let left = api.list(&labelled).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
    }

    /// `true` if a controller manager runs, which ends deleted namespaces. It gives each namespace
    /// a service account.
    async fn has_controllers(&self) -> bool {
        let accounts = Api::<ServiceAccount>::namespaced(self.client.clone(), NAMESPACE);
        accounts.get_opt("default").await.unwrap().is_some()
    }
}

/// Deletes objects without their finalizers, and waits until they are gone.
async fn empty<K>(api: &Api<K>, which: &ListParams)
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let at_once = DeleteParams::default().grace_period(0);
    let free = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    eventually("objects of the last test are gone", async || {
        let listed = api.list(which).await.unwrap().items;
        for object in &listed {
            let name = object.name_any();
            accept_missing(api.delete(&name, &at_once).await.map(drop));
            if !object.finalizers().is_empty() {
                let params = PatchParams::default();
                let freed = api.patch(&name, &params, &free);
                accept_missing(freed.await.map(drop));
            }
        }
        listed.is_empty().then_some(())
    })
    .await;
}

/// Panics unless a request succeeded or its object was missing.
fn accept_missing(result: kube::Result<()>) {
    match result {
        Ok(()) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{error}"),
    }
}

/// Finalizes a namespace on a server without a controller manager.
async fn finalize(client: &Client, name: &str) {
    let namespace = json!({
        "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name},
        "spec": {"finalizers": []},
    });
    let namespaces = Api::<Namespace>::all(client.clone());
    let params = PostParams::default();
    let finalized = namespaces.replace_subresource("finalize", name, &params, &namespace);
    accept_missing(finalized.await.map(drop));
}
