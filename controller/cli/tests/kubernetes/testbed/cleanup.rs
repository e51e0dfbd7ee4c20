//! Deletion of everything that a test has created.

use k8s_openapi::api::coordination::v1::Lease as LeaseObject;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::{EVENTS, LABEL, LEASE, NAMESPACE, Testbed, User, eventually};
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
        if self.api.is_none() {
            let (all, delete) = (ListParams::default().labels(LABEL), DeleteParams::default());
            self.connects()
                .delete_collection(&delete, &all)
                .await
                .unwrap();
            self.nodes().delete_collection(&delete, &all).await.unwrap();
            let networks = Api::<ClusterUserDefinedNetwork>::all(self.client.clone());
            networks.delete_collection(&delete, &all).await.unwrap();
            let reports = Api::<ConfigMap>::namespaced(self.client.clone(), NAMESPACE);
            let of_zones =
                ListParams::default().labels("app.kubernetes.io/component=patchbay-zone");
            reports.delete_collection(&delete, &of_zones).await.unwrap();
            let leases = Api::<LeaseObject>::namespaced(self.client.clone(), NAMESPACE);
            leases.delete_collection(&delete, &of_zones).await.unwrap();
            if leases.get_opt(LEASE).await.unwrap().is_some() {
                leases.delete(LEASE, &delete).await.unwrap();
            }
            let namespaces = Api::<Namespace>::all(self.client.clone());
            for namespace in namespaces.list(&all).await.unwrap() {
                let name = namespace.name_any();
                self.nads(&name)
                    .delete_collection(&delete, &all)
                    .await
                    .unwrap();
                namespaces.delete(&name, &delete).await.unwrap();
                if !self.has_controllers().await {
                    finalize(&self.client, &name).await;
                }
            }
            let gone = "the namespaces are gone";
            eventually(gone, async || {
                let left = namespaces.list(&all).await.unwrap();
                left.items.is_empty().then_some(())
            })
            .await;
            let events = Api::<Event>::namespaced(self.client.clone(), EVENTS);
            let all = events.list(&ListParams::default()).await.unwrap();
            let is_own = |event: &Event| event.reporting_controller.as_deref() == Some("patchbay");
            for event in all.into_iter().filter(is_own) {
                events.delete(&event.name_any(), &delete).await.unwrap();
            }
        }
    }

    /// Deletes the definitions that tests have created.
    pub(super) async fn remove_definitions(&self) {
        let api = Api::<CustomResourceDefinition>::all(self.client.clone());
        let labelled = ListParams::default().labels(LABEL);
        api.delete_collection(&DeleteParams::default(), &labelled)
            .await
            .unwrap();
        eventually("the definitions are gone", async || {
            let left = api.list(&labelled).await.unwrap();
            left.items.is_empty().then_some(())
        })
        .await;
    }

    /// `true` if a controller manager runs, which empties deleted namespaces.
    async fn has_controllers(&self) -> bool {
        let leases = Api::<LeaseObject>::namespaced(self.client.clone(), "kube-system");
        let lease = leases.get_opt("kube-controller-manager").await.unwrap();
        lease.is_some()
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
    match finalized.await {
        Ok(_) => {}
        Err(kube::Error::Api(status)) if status.code == 404 => {}
        Err(error) => panic!("{name}: {error}"),
    }
}
