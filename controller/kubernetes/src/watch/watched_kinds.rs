//! The watched kinds: which controllers read them, and what is kept of their objects.

use std::fmt::Debug;

use kube::Client;
use patchbay_model::{ClusterSettings, Feature};
use patchbay_resources::ipam_claim::IPAMClaim;
use patchbay_resources::manifests::{InventoryKind, Sourced};
use patchbay_resources::nad::NetworkAttachmentDefinition;
use patchbay_resources::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, EgressFirewall, EgressIP, EndpointSlice,
    MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod, RouteAdvertisements,
    Service, VTEP,
};
use patchbay_resources::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

use crate::api::tolerant_object::TolerantObject;
use crate::watch::kept_fields::{
    keep_all, keep_cluster_ips, keep_connect, keep_connect_spec, keep_labels, stand_in,
    without_node_details,
};
use crate::watch::list_watch::KindPresence::{self, Optional, Required};
use crate::watch::node_subnets::NetworkNumbers;
use crate::watch::packed_pods::pods_packer;
use crate::watch::sources::{KindSource, ObjectSources};
use crate::watch::task_set::TaskSet;
use crate::watch::watched::Decoding::{self, Whole, WithoutFields};
use crate::watch::watched::{WatchedObject, project};

/// A controller of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Role<'a> {
    pub(crate) settings: &'a ClusterSettings,
    /// `true`: it writes networks, and not only connects.
    pub(crate) writes_networks: bool,
}

/// The controllers of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Roles<'a> {
    pub(crate) manager: Option<Role<'a>>,
    pub(crate) zone: Option<Role<'a>>,
}

/// Watched objects of the controllers.
#[derive(Debug)]
pub(crate) struct WatchedKinds {
    pub(crate) manager: ObjectSources,
    pub(crate) zone: ObjectSources,
}

/// First list of a kind.
#[derive(Clone, Copy, Debug)]
enum FirstList {
    /// Controllers wait until it is complete.
    Awaited,
    /// Controllers begin without it if it fails, for example because of a missing right. What
    /// depends on the kind then stays as it is.
    Separate(KindPresence),
}

/// Watches that are started.
struct Watches<'a> {
    tasks: &'a mut TaskSet,
    client: &'a Client,
    kinds: WatchedKinds,
}

impl WatchedKinds {
    /// Watches each kind once that a controller of this process reads.
    pub(crate) fn start(tasks: &mut TaskSet, client: &Client, roles: Roles<'_>) -> Self {
        use FirstList::{Awaited, Separate};
        let has = |role: Option<Role<'_>>, features: &[Feature]| {
            role.is_some_and(|role| features.iter().all(|one| role.settings.has_feature(*one)))
        };
        let writes = |role: Option<Role<'_>>| role.is_some_and(|role| role.writes_networks);
        let Roles { manager, zone } = roles;
        let (m, z) = (manager.is_some(), zone.is_some());
        let (m_nets, z_nets) = (writes(manager), writes(zone));
        let nets = m_nets || z_nets;
        let dynamic = [Feature::DynamicUdnAllocation];
        let dynamic_egress = [Feature::DynamicUdnAllocation, Feature::EgressIp];
        let m_routes = m_nets && has(manager, &[Feature::RouteAdvertisements]);
        let m_evpn = m_nets && has(manager, &[Feature::Evpn]);
        let m_egress = m_nets && has(manager, &dynamic_egress);
        let z_pods = z_nets || has(zone, &dynamic);
        let z_egress = z_nets || has(zone, &dynamic_egress);
        let numbers = NetworkNumbers::default();
        let mut watches = Watches {
            tasks,
            client,
            kinds: Self {
                manager: ObjectSources::new(!nets, numbers.clone()),
                zone: ObjectSources::new(!nets, numbers.clone()),
            },
        };
        let w = &mut watches;
        w.watch_connects([m, z]);
        w.watch_nodes([m, z], m_nets, nets, numbers);
        w.watch_pods([m_nets, z_pods], nets);
        // Readers (cluster manager, zone); `true` if written; first list; decoding; kept fields.
        w.watch::<NetworkAttachmentDefinition>([m, z], m_nets, Awaited, WithoutFields, keep_all);
        let fields = either(nets, keep_all, keep_labels);
        w.watch::<Namespace>([m, z], false, Awaited, WithoutFields, fields);
        let fields = either(z_nets, keep_all, keep_cluster_ips);
        w.watch::<Service>([false, z], false, Awaited, WithoutFields, fields);
        w.watch::<EndpointSlice>([m_nets, z_nets], m_nets, Awaited, WithoutFields, keep_all);
        w.watch::<UserDefinedNetwork>([m_nets, false], true, Awaited, Whole, keep_all);
        w.watch::<ClusterUserDefinedNetwork>([m_nets, false], true, Awaited, Whole, keep_all);
        let (optional, required) = (Separate(Optional), Separate(Required));
        w.watch::<IPAMClaim>([m_nets, false], true, optional, Whole, keep_all);
        w.watch::<RouteAdvertisements>([m_routes, z_nets], false, optional, Whole, keep_all);
        w.watch::<VTEP>([m_evpn, false], false, optional, Whole, keep_all);
        w.watch::<EgressIP>([m_egress, z_egress], false, optional, Whole, keep_all);
        w.watch::<NetworkPolicy>([false, z_nets], false, required, Whole, keep_all);
        w.watch::<MultiNetworkPolicy>([false, z_nets], false, optional, Whole, keep_all);
        w.watch::<EgressFirewall>([false, z_nets], false, optional, Whole, keep_all);
        w.watch::<AdminNetworkPolicy>([false, z_nets], false, optional, Whole, keep_all);
        w.watch::<BaselineAdminNetworkPolicy>([false, z_nets], false, optional, Whole, keep_all);
        watches.kinds
    }
}

impl Watches<'_> {
    /// Watches a kind for its readers, if it has any.
    fn watch<K>(
        &mut self,
        readers: [bool; 2],
        is_written: bool,
        first_list: FirstList,
        decoding: Decoding,
        keep: fn(&mut K),
    ) where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        if readers.contains(&true) {
            let source = self.source(is_written, first_list, decoding, keep, WatchedObject::new);
            self.add(readers, source);
        }
    }

    /// Watches connects. The status of one that cannot be decoded reports the error.
    fn watch_connects(&mut self, readers: [bool; 2]) {
        let (is_written, first_list) = (readers[0], FirstList::Awaited);
        let keep = either(is_written, keep_connect, keep_connect_spec);
        let source = self.source(is_written, first_list, Whole, keep, WatchedObject::new);
        self.add(readers, source.with_stand_in(stand_in));
    }

    /// Watches nodes. Without networks, their subnets are packed.
    fn watch_nodes(
        &mut self,
        readers: [bool; 2],
        is_written: bool,
        has_networks: bool,
        numbers: NetworkNumbers,
    ) {
        let wrap = move |node: Sourced<Node>| {
            if has_networks { WatchedObject::new(node) } else { numbers.pack_node(node) }
        };
        let (first_list, keep) = (FirstList::Awaited, without_node_details);
        let source = self.source(is_written, first_list, WithoutFields, keep, wrap);
        self.add(readers, source);
    }

    /// Watches pods. Without networks, they are packed.
    fn watch_pods(&mut self, readers: [bool; 2], has_networks: bool) {
        if readers.contains(&true) {
            let (first_list, keep) = (FirstList::Awaited, Pod::drop_unread);
            let source = if has_networks {
                let wrap = WatchedObject::new;
                self.source(has_networks, first_list, WithoutFields, keep, wrap)
            } else {
                let wrap = pods_packer();
                self.source(has_networks, first_list, WithoutFields, keep, wrap)
            };
            self.add(readers, source);
        }
    }

    fn source<K>(
        &mut self,
        is_written: bool,
        first_list: FirstList,
        decoding: Decoding,
        keep: fn(&mut K),
        wrap: impl Fn(Sourced<K>) -> WatchedObject + Send + 'static,
    ) -> KindSource
    where
        K: InventoryKind + Debug + Send + Sync + 'static,
    {
        let prune = move |object: &mut K| {
            if !is_written {
                // Each heartbeat would be a change.
                object.meta_mut().resource_version = None;
            }
            keep(object);
        };
        let project = project(decoding, prune, wrap);
        let decode = move |object| Ok(project(TolerantObject::of(object)));
        match first_list {
            FirstList::Awaited => {
                KindSource::new::<K>(self.tasks.watch::<K, _>(self.client, Required, decode))
            }
            FirstList::Separate(presence) => {
                KindSource::new::<K>(self.tasks.watch::<K, _>(self.client, presence, decode))
                    .separate()
            }
        }
    }

    fn add(&mut self, [manager, zone]: [bool; 2], source: KindSource) {
        if manager {
            self.kinds.manager.add(source.clone());
        }
        if zone {
            self.kinds.zone.add(source);
        }
    }
}

fn either<K>(condition: bool, yes: fn(&mut K), no: fn(&mut K)) -> fn(&mut K) {
    if condition { yes } else { no }
}
