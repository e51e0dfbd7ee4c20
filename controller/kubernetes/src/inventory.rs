//! Lists the objects of a cluster once, without watches.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use kube::Client;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Problem, RefusedObject, Sourced,
};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{Namespace, Node, Service};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use serde_json::Value;
use thiserror::Error;

use crate::api::api_error;
use crate::api::requests::Api;
use crate::api::tolerant_object::TolerantObject;
use crate::watch::kept_fields::{keep_all, without_node_details};
use crate::watch::list_pages::{ListProgress, first_page, next_page, shrink_page};
use crate::watch::watch_error::WatchError;

/// Attempts per page, if the API server asks to wait.
const MAX_PAGE_ATTEMPTS: usize = 5;

/// Attempts to list a kind, if the API server forgets the version of the list meanwhile.
const MAX_LISTS: usize = 5;
/// HTTP code of a version that the API server has forgotten.
const FORGOTTEN: u16 = 410;

/// A list failed.
#[derive(Debug, Error)]
#[error("cannot list objects of kind {kind}: {source}")]
pub struct ListError {
    kind: String,
    source: WatchError,
}

/// Lists the objects of all kinds that `ClusterNetworkConnect`s depend on.
///
/// An object that cannot be decoded is omitted with a warning, and is among the refused ones. A kind that the cluster lacks yields
/// a warning, too.
///
/// # Errors
/// [`ListError`] if the API server cannot be reached or denies the request.
pub fn list_inventory(client: &Client) -> BoxFuture<'_, Result<Inventory, ListError>> {
    // In a box, so that the decoding of all kinds is compiled in this crate.
    Box::pin(async {
        let mut inventory = Inventory::default();
        list::<Namespace>(client, &mut inventory, keep_all).await?;
        list::<Node>(client, &mut inventory, without_node_details).await?;
        list::<Service>(client, &mut inventory, keep_all).await?;
        list::<NetworkAttachmentDefinition>(client, &mut inventory, keep_all).await?;
        list::<UserDefinedNetwork>(client, &mut inventory, keep_all).await?;
        list::<ClusterUserDefinedNetwork>(client, &mut inventory, keep_all).await?;
        list::<ClusterNetworkConnect>(client, &mut inventory, keep_all).await?;
        Ok(inventory)
    })
}

async fn list<K: InventoryKind + Clone + Debug>(
    client: &Client,
    inventory: &mut Inventory,
    remove_unused: fn(&mut K),
) -> Result<(), ListError> {
    let kind = K::KIND.to_owned();
    let mut add = |object: Value| match TolerantObject::<K>::of(object).0 {
        Ok(mut object) => {
            object.meta_mut().managed_fields = None;
            remove_unused(&mut object);
            let position = K::objects(inventory).len() as u64;
            K::objects_mut(inventory).insert(Sourced { object, origin: Origin::Cluster, position });
        }
        Err(invalid) => {
            let key = ObjectKey::of(&invalid.metadata);
            let problem = |message: String| Problem {
                object: Some(format!("{kind} {key}")),
                message,
                ..Problem::default()
            };
            let warning = format!("cannot be decoded, ignored: {}", invalid.error);
            inventory.warnings.push(problem(warning));
            inventory.undecoded.insert((K::KIND, key.clone()));
            inventory.refused.push(RefusedObject {
                kind: K::KIND,
                problems: vec![problem(invalid.error)],
                key,
                json: invalid.raw,
                position: K::objects(inventory).len() as u64,
            });
        }
    };
    match list_all(&Api::all::<K>(client.clone())).await {
        Ok(objects) => {
            objects.into_iter().for_each(&mut add);
            Ok(())
        }
        Err(error) if error.code() == Some(404) => {
            inventory.warnings.push(Problem {
                message: format!("the cluster has no objects of kind {kind}"),
                ..Problem::default()
            });
            Ok(())
        }
        Err(source) => Err(ListError { kind, source }),
    }
}

/// Lists all objects, page by page. A list whose later pages the API server has forgotten (410)
/// begins again.
async fn list_all(api: &Api) -> Result<Vec<Value>, WatchError> {
    let mut lists = 0;
    loop {
        lists += 1;
        match list_once(api).await {
            Err(error) if error.code() == Some(FORGOTTEN) && lists < MAX_LISTS => {}
            listed => return listed,
        }
    }
}

async fn list_once(api: &Api) -> Result<Vec<Value>, WatchError> {
    let mut page = first_page("");
    let mut progress = ListProgress::default();
    let (mut objects, mut attempts) = (Vec::new(), 0);
    loop {
        attempts += 1;
        let (listed, bytes) = match api.list(&page).await {
            Ok(listed) => listed,
            Err(error) => {
                let wait = api_error::retry_after(&error);
                let error = WatchError::Request(error);
                match wait {
                    Some(wait) if attempts < MAX_PAGE_ATTEMPTS => tokio::time::sleep(wait).await,
                    _ if shrink_page(&mut page, &error) => {}
                    _ => return Err(error),
                }
                continue;
            }
        };
        progress.note(&listed)?;
        let size = (listed.items.len(), bytes);
        objects.extend(listed.items);
        attempts = 0;
        if !next_page(&mut page, &listed.metadata, size)? {
            return Ok(objects);
        }
    }
}
