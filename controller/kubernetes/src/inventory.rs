//! All objects of a cluster at one moment, for those who look once.

use std::fmt::Debug;

use super::api::Api;
use kube::Client;
use kube::api::ListParams;
use patchbay_resources::object::{Namespace, Node, Service};
use thiserror::Error;

use super::failure;
use super::received::Received;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Problem, Sourced,
};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// How many objects are listed at once.
const PAGE: u32 = 250;
/// How often it is tried to list them, if the API server asks to wait.
const ATTEMPTS: usize = 5;

/// Objects of a kind that cannot be listed.
#[derive(Debug, Error)]
#[error("cannot list objects of kind {kind}: {}", failure::told(source))]
pub struct ListError {
    kind: String,
    source: kube::Error,
}

/// Lists the objects of all kinds that connects depend on. What cannot be understood is left out with a warning, as is a kind
/// that the cluster does not have.
///
/// # Errors
/// [`ListError`], if the API server cannot be reached or does not allow it.
pub async fn inventory(client: &Client) -> Result<Inventory, ListError> {
    let mut inventory = Inventory::default();
    list::<Namespace>(client, &mut inventory, |_| {}).await?;
    let strip = |node: &mut Node| {
        node.spec = None;
        node.status = None;
    };
    list::<Node>(client, &mut inventory, strip).await?;
    list::<Service>(client, &mut inventory, |_| {}).await?;
    list::<NetworkAttachmentDefinition>(client, &mut inventory, |_| {}).await?;
    list::<UserDefinedNetwork>(client, &mut inventory, |_| {}).await?;
    list::<ClusterUserDefinedNetwork>(client, &mut inventory, |_| {}).await?;
    list::<ClusterNetworkConnect>(client, &mut inventory, |_| {}).await?;
    Ok(inventory)
}

async fn list<K: InventoryKind + Clone + Debug>(
    client: &Client,
    inventory: &mut Inventory,
    strip: impl Fn(&mut K),
) -> Result<(), ListError> {
    let kind = K::KIND.to_owned();
    let api = Api::<Received<K>>::all(client.clone());
    let mut page = ListParams::default().limit(PAGE);
    let mut attempts = 0;
    loop {
        attempts += 1;
        let listed = match api.list(&page).await {
            Ok(listed) => listed,
            Err(kube::Error::Api(status)) if status.code == 404 => {
                inventory.warnings.push(Problem {
                    message: format!("the cluster has no objects of kind {kind}"),
                    ..Problem::default()
                });
                return Ok(());
            }
            Err(source) => match failure::asked_wait(&source) {
                Some(wait) if attempts < ATTEMPTS => {
                    tokio::time::sleep(wait).await;
                    continue;
                }
                _ => return Err(ListError { kind, source }),
            },
        };
        for object in listed.items {
            match object.0 {
                Ok(mut object) => {
                    object.meta_mut().managed_fields = None;
                    strip(&mut object);
                    let position = K::of(inventory).len() as u64;
                    K::of_mut(inventory).insert(Sourced {
                        object,
                        origin: Origin::Cluster,
                        position,
                    });
                }
                Err(invalid) => inventory.warnings.push(Problem {
                    object: Some(format!("{kind} {}", ObjectKey::of(&invalid.metadata))),
                    message: format!("cannot be understood, ignored: {}", invalid.error),
                    ..Problem::default()
                }),
            }
        }
        attempts = 0;
        match listed.metadata.continue_ {
            Some(token) if !token.is_empty() => page.continue_token = Some(token),
            _ => return Ok(()),
        }
    }
}
