//! Steps of a zone's inputs from earlier objects to the present ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, ClusterSettings, Feature, NetworkActivity, PRIMARY_NETWORK_LABEL, PodKey,
};
use patchbay_policies::gates_of;
use patchbay_resources::conversion::{
    admin_network_policy, baseline_admin_network_policy, egress_firewall, egress_ip,
    endpoint_slice, multi_network_policy, network_policy, network_service, node, node_object, pod,
    service_object,
};
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects, Sourced};
use patchbay_resources::object::{Namespace, Object as _};
use patchbay_rows::Inputs as _;
use patchbay_zone::{Cell, Kind, ZoneObjects};

use super::ZoneInputs;
use crate::Cluster;
use crate::zone_view::ZoneView;

/// One step from earlier objects to the present ones.
pub(super) struct Following<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) zone: &'a str,
    pub(super) before: &'a Inventory,
    pub(super) now: &'a Inventory,
    pub(super) settings: &'a ClusterSettings,
    pub(super) activity: ChangedActivity,
}

/// Change of the nodes on which networks are rendered.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ChangedActivity {
    None,
    /// The zone has the same networks as before.
    OtherNodes,
    /// The zone has others.
    Zone,
}

/// `true` if a zone has the same networks in both activities.
pub(super) fn has_same_networks(
    zone: &str,
    one: &NetworkActivity,
    other: &NetworkActivity,
) -> bool {
    let mut limited = one.limited().chain(other.limited());
    limited.all(|(name, _)| one.is_rendered(name, zone) == other.is_rendered(name, zone))
}

impl Following<'_> {
    pub(super) fn update(&self, inputs: &mut ZoneInputs) {
        let earlier = inputs.objects.clone();
        if self.activity == ChangedActivity::Zone || self.has_other_networks() {
            self.read_networks(inputs);
        } else {
            self.follow_nodes(inputs);
            self.follow_services(inputs);
            let activity = inputs.activity.as_ref();
            let activity = activity.filter(|_| self.activity == ChangedActivity::OtherNodes);
            if let Some(activity) = activity {
                inputs.networks.set_activity(activity);
            }
        }
        let objects = &mut inputs.objects;
        self.follow_nodes_and_namespaces(objects);
        self.follow_endpoints(objects);
        self.follow_policies(objects);
        self.follow_admin_policies(objects);
        self.follow_egress_ips(objects);
        self.follow_pods(objects);
        follow_gates(objects, &earlier);
    }

    /// `true` if networks, their definitions or namespaces may differ.
    fn has_other_networks(&self) -> bool {
        let (before, now) = (self.before, self.now);
        let is_announced = self.settings.has_feature(Feature::RouteAdvertisements);
        let has_other_announcements = || {
            let zone = |inventory: &Inventory| inventory.nodes.named(self.zone).cloned();
            has_changed(&before.route_advertisements, &now.route_advertisements)
                || zone(before) != zone(now)
        };
        let is_labelled = |namespace: Option<&Sourced<Namespace>>| {
            let labels = namespace.map(|namespace| namespace.object.labels());
            labels.is_some_and(|labels| labels.contains_key(PRIMARY_NETWORK_LABEL))
        };
        let mut namespaces = now.namespaces.changes_since(&before.namespaces);
        has_changed(
            &before.network_attachment_definitions,
            &now.network_attachment_definitions,
        ) || namespaces.any(|change| is_labelled(change.former) != is_labelled(change.current))
            || is_announced && has_other_announcements()
    }

    /// Reads networks from nothing, and gives them to all inputs.
    fn read_networks(&self, inputs: &mut ZoneInputs) {
        let view = ZoneView::new(self.cluster, self.zone, inputs.activity.take());
        let (mut networks, owners) = view.networks();
        networks.follow(&inputs.networks);
        (inputs.networks, inputs.owners) = (networks, owners);
        let objects = view.objects();
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(&objects.networks, definitions, view.labelled());
        inputs.objects.set_networks(&objects.networks, &attached);
        inputs.activity = view.into_activity();
    }

    /// Follows ids and subnets of nodes.
    fn follow_nodes(&self, inputs: &mut ZoneInputs) {
        let mut names = BTreeSet::<Arc<str>>::new();
        for change in self.now.nodes.changes_since(&self.before.nodes) {
            if let Some(former) = change.former {
                inputs.owners.remove(&node(&former.object).0);
            }
            if let Some(current) = change.current {
                inputs.owners.add(&node(&current.object).0);
            }
            names.insert(change.key.name.as_str().into());
        }
        names.append(&mut inputs.owners.take_affected());
        for name in names {
            match self.now.nodes.named(&name) {
                Some(object) => {
                    let object = node_object(object);
                    inputs.networks.put_node(object, &inputs.owners);
                }
                None => inputs.networks.remove_node(&name),
            }
        }
    }

    /// Follows the services of the default network that networks depend on.
    fn follow_services(&self, inputs: &mut ZoneInputs) {
        let reachable = &self.settings.reachable_default_services;
        let mut changes = self.now.services.changes_since(&self.before.services);
        if changes.any(|change| reachable.contains(&change.key.to_string())) {
            let services = self.now.services.iter();
            let services: Vec<_> = services
                .map(|(_, service)| service_object(&service.object))
                .collect();
            inputs.networks.set_services(&services);
        }
    }

    fn follow_nodes_and_namespaces(&self, objects: &mut ZoneObjects) {
        for change in self.now.nodes.changes_since(&self.before.nodes) {
            match change.current {
                Some(node) => objects.put_node(node_object(&node.object)),
                None => objects.remove_node(&change.key.name),
            }
        }
        for change in self.now.namespaces.changes_since(&self.before.namespaces) {
            match change.current.map(|namespace| &namespace.object) {
                Some(namespace) => {
                    let (labels, annotations) = (namespace.labels(), namespace.annotations());
                    objects.put_namespace(&change.key.name, labels, annotations);
                }
                None => objects.remove_namespace(&change.key.name),
            }
        }
    }

    /// Follows services and their endpoints.
    fn follow_endpoints(&self, objects: &mut ZoneObjects) {
        for change in self.now.services.changes_since(&self.before.services) {
            match (change.former, change.current) {
                (_, Some(current)) => objects.put_service(network_service(&current.object)),
                (Some(former), None) => {
                    objects.remove_service(&network_service(&former.object).key);
                }
                (None, None) => {}
            }
        }
        let slices = &self.now.endpoint_slices;
        for change in slices.changes_since(&self.before.endpoint_slices) {
            let former = change.former.and_then(|one| endpoint_slice(&one.object));
            if let Some(former) = former {
                objects.remove_slice(&former.service, &former.name);
            }
            let current = change.current.and_then(|one| endpoint_slice(&one.object));
            if let Some(current) = current {
                objects.put_slice(current);
            }
        }
    }

    /// Follows policies and firewalls.
    fn follow_policies(&self, objects: &mut ZoneObjects) {
        let (before, now) = (self.before, self.now);
        let changes = changes(
            &before.network_policies,
            &now.network_policies,
            network_policy,
        );
        let of_secondary = self::changes(
            &before.multi_network_policies,
            &now.multi_network_policies,
            multi_network_policy,
        );
        for change in changes.chain(of_secondary) {
            match change {
                (_, Some(current)) => objects.put_policy(current),
                (Some(former), None) => objects.remove_policy(&former.key),
                (None, None) => {}
            }
        }
        let firewalls = self::changes(
            &before.egress_firewalls,
            &now.egress_firewalls,
            egress_firewall,
        );
        for change in firewalls {
            match change {
                (_, Some(current)) => objects.put_firewall(current),
                (Some(former), None) => objects.remove_firewall(&former.namespace),
                (None, None) => {}
            }
        }
    }

    /// Follows policies of administrators.
    fn follow_admin_policies(&self, objects: &mut ZoneObjects) {
        let (before, now) = (self.before, self.now);
        let changes = changes(
            &before.admin_network_policies,
            &now.admin_network_policies,
            admin_network_policy,
        );
        let of_baseline = self::changes(
            &before.baseline_admin_network_policies,
            &now.baseline_admin_network_policies,
            baseline_admin_network_policy,
        );
        for change in changes.chain(of_baseline) {
            match change {
                (_, Some(current)) => objects.put_admin_policy(current),
                (Some(former), None) => objects.remove_admin_policy(&former.key),
                (None, None) => {}
            }
        }
    }

    fn follow_egress_ips(&self, objects: &mut ZoneObjects) {
        for change in self.now.egress_ips.changes_since(&self.before.egress_ips) {
            match change.current {
                Some(object) => objects.put_egress_ip(egress_ip(&object.object)),
                None => objects.remove_egress_ip(&change.key.name),
            }
        }
    }

    fn follow_pods(&self, objects: &mut ZoneObjects) {
        for change in self.now.pods.changes_since(&self.before.pods) {
            let Some(current) = change.current else {
                let namespace = change.key.namespace.as_deref().unwrap_or_default();
                objects.remove_pod(&PodKey::new(namespace, &change.key.name));
                continue;
            };
            let read = pod(&current.object);
            if objects.pod(&read.key).is_none_or(|known| **known != read) {
                objects.put_pod(Arc::new(read));
            }
        }
    }
}

/// Follows the port groups that new ports wait for.
fn follow_gates(objects: &mut ZoneObjects, earlier: &ZoneObjects) {
    let (mut namespaces, mut pods) = (BTreeSet::new(), BTreeSet::new());
    let kinds = [Kind::Networks, Kind::Policies];
    objects.diff(Some(earlier), &kinds, &mut |cell| match cell {
        Cell::Policies(place) | Cell::Policy(place, _) | Cell::Group(place) => {
            namespaces.insert(place.namespace);
        }
        Cell::PrimaryNetwork(namespace) | Cell::Firewall(namespace) => {
            namespaces.insert(namespace);
        }
        Cell::Places(pod) => {
            pods.insert(pod);
        }
        _ => {}
    });
    for namespace in &namespaces {
        let of_namespace = objects.pods_in(namespace);
        pods.extend(of_namespace.map(|pod| pod.key.clone()));
    }
    for pod in &pods {
        for port in gates_of(earlier, pod).into_keys() {
            objects.remove_gates(&port);
        }
    }
    for pod in &pods {
        for (port, groups) in gates_of(objects, pod) {
            objects.put_gates(port, groups);
        }
    }
}

/// Former and current objects of a kind that differ.
fn changes<'a, T: InventoryKind, R>(
    before: &'a Objects<T>,
    now: &'a Objects<T>,
    read: impl Fn(&T) -> R + 'a,
) -> impl Iterator<Item = (Option<R>, Option<R>)> + 'a {
    now.changes_since(before).map(move |change| {
        let former = change.former.map(|one| read(&one.object));
        (former, change.current.map(|one| read(&one.object)))
    })
}

/// `true` if two versions of the objects of a kind may differ.
pub(crate) fn has_changed<T: InventoryKind>(before: &Objects<T>, now: &Objects<T>) -> bool {
    now.changes_since(before).next().is_some()
}
