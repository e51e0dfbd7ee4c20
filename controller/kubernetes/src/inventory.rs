//! Lists the objects of a cluster once, without watches.

use std::fmt::Debug;

use futures_util::future::BoxFuture;
use kube::Client;
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{
    Inventory, InventoryKind, ObjectKey, Origin, Problem, RefusedObject, Sourced,
};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, RouteAdvertisements,
    Service, VTEP,
};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use thiserror::Error;

use crate::api::list_all::list_all;
use crate::api::requests::Api;
use crate::api::tolerant_object::TolerantObject;
use crate::watch::kept_fields::{keep_all, without_node_details};
use crate::watch::watch_error::WatchError;

/// HTTP code of a request that the user has no right to.
const FORBIDDEN: u16 = 403;

/// A list failed.
#[derive(Debug, Error)]
#[error("cannot list objects of kind {kind}: {source}")]
pub struct ListError {
    kind: String,
    source: WatchError,
}

/// Kinds of objects that are listed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum ListedKinds {
    /// Those that `ClusterNetworkConnect`s depend on.
    Connects,
    /// All that rows of networks depend on.
    Networks,
}

/// Lists the objects of a cluster.
///
/// An object that cannot be decoded is omitted with a warning, and is among the refused ones. A kind
/// of connects that the cluster lacks yields a warning, too. Other kinds may be missing. Without the
/// right to list one of these, its objects count as unknown, with a warning.
///
/// # Errors
/// [`ListError`] if the API server cannot be reached or denies a request that connects need.
pub fn list_inventory(
    client: &Client,
    kinds: ListedKinds,
) -> BoxFuture<'_, Result<Inventory, ListError>> {
    // In a box, so that the decoding of all kinds is compiled in this crate.
    Box::pin(async move {
        let mut inventory = Inventory::default();
        list::<Namespace>(client, &mut inventory, keep_all).await?;
        list::<Node>(client, &mut inventory, without_node_details).await?;
        list::<Service>(client, &mut inventory, keep_all).await?;
        list::<NetworkAttachmentDefinition>(client, &mut inventory, keep_all).await?;
        list::<UserDefinedNetwork>(client, &mut inventory, keep_all).await?;
        list::<ClusterUserDefinedNetwork>(client, &mut inventory, keep_all).await?;
        list::<ClusterNetworkConnect>(client, &mut inventory, keep_all).await?;
        if kinds == ListedKinds::Networks {
            list_known::<Pod>(client, &mut inventory, Pod::drop_unread).await?;
            list_known::<EndpointSlice>(client, &mut inventory, keep_all).await?;
            list_known::<NetworkPolicy>(client, &mut inventory, keep_all).await?;
            list_known::<MultiNetworkPolicy>(client, &mut inventory, keep_all).await?;
            list_known::<AdminNetworkPolicy>(client, &mut inventory, keep_all).await?;
            list_known::<BaselineAdminNetworkPolicy>(client, &mut inventory, keep_all).await?;
            list_known::<EgressFirewall>(client, &mut inventory, keep_all).await?;
            list_known::<EgressIP>(client, &mut inventory, keep_all).await?;
            list_known::<IPAMClaim>(client, &mut inventory, keep_all).await?;
            list_known::<RouteAdvertisements>(client, &mut inventory, keep_all).await?;
            list_known::<VTEP>(client, &mut inventory, keep_all).await?;
        }
        Ok(inventory)
    })
}

/// Lists a kind that a cluster may lack, and that its user may not be allowed to list.
async fn list_known<K: InventoryKind + Clone + Debug>(
    client: &Client,
    inventory: &mut Inventory,
    remove_unused: fn(&mut K),
) -> Result<(), ListError> {
    let warnings = inventory.warnings.len();
    let denied = match list(client, inventory, remove_unused).await {
        Ok(is_there) => {
            if !is_there {
                inventory.warnings.truncate(warnings);
            }
            return Ok(());
        }
        Err(error) if error.source.code() == Some(FORBIDDEN) => error,
        Err(error) => return Err(error),
    };
    inventory.unlisted.insert(K::KIND);
    let message = format!("{denied}: what follows from them is not known");
    inventory.warnings.push(Problem { message, ..Problem::default() });
    Ok(())
}

/// Lists a kind. Returns `false` if the cluster lacks it.
async fn list<K: InventoryKind + Clone + Debug>(
    client: &Client,
    inventory: &mut Inventory,
    remove_unused: fn(&mut K),
) -> Result<bool, ListError> {
    let kind = K::KIND.to_owned();
    let mut add = |decoded: TolerantObject<K>| match decoded.0 {
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
    let api = Api::all::<K>(client.clone());
    match list_all(&api, "", TolerantObject::<K>::of).await {
        Ok(objects) => {
            objects.into_iter().for_each(&mut add);
            Ok(true)
        }
        Err(error) if error.code() == Some(404) => {
            inventory.warnings.push(Problem {
                message: format!("the cluster has no objects of kind {kind}"),
                ..Problem::default()
            });
            Ok(false)
        }
        Err(source) => Err(ListError { kind, source }),
    }
}
