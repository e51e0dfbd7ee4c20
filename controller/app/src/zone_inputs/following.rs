//! Steps of a zone's inputs from earlier objects to the present ones.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_model::{
    AttachedNetworks, ClusterSettings, Feature, NetworkActivity, PRIMARY_NETWORK_LABEL, PodKey,
};
use patchbay_policies::{PolicyCell, ZonePolicies};
use patchbay_resources::conversion::{
    admin_network_policy, baseline_admin_network_policy, egress_firewall, egress_ip,
    endpoint_slice, multi_network_policy, network_policy, network_service, node, node_object, pod,
    service_object,
};
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects, Sourced};
use patchbay_resources::object::{Namespace, Object as _};
use patchbay_rows::Inputs as _;

use super::ZoneInputs;
use crate::Cluster;
use crate::policies;
use crate::zone_view::ZoneView;

/// One step from earlier objects to the present ones.
pub(super) struct Following<'a> {
    pub(super) cluster: &'a Cluster,
    pub(super) zone: &'a str,
    pub(super) before: &'a Inventory,
    pub(super) now: &'a Inventory,
    pub(super) settings: &'a ClusterSettings,
    pub(super) policies: ZonePolicies,
    /// Pods with other inputs than before.
    pub(super) changed_pods: BTreeSet<PodKey>,
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
    pub(super) fn update(&mut self, inputs: &mut ZoneInputs) {
        let policies_before = self.policies.clone();
        let has_other_networks =
            self.activity == ChangedActivity::Zone || self.has_other_networks();
        if has_other_networks {
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
        self.follow_labels_and_addresses(inputs);
        self.follow_endpoints(inputs);
        self.follow_policies();
        self.follow_pods(inputs, has_other_networks);
        self.follow_gates(inputs, &policies_before);
        self.follow_admin_policies(inputs);
        self.follow_egress(inputs);
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
    fn read_networks(&mut self, inputs: &mut ZoneInputs) {
        let view = ZoneView::new(self.cluster, self.zone, inputs.activity.take());
        let (mut networks, owners) = view.networks();
        networks.follow(&inputs.networks);
        (inputs.networks, inputs.owners) = (networks, owners);
        let objects = view.objects();
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(&objects.networks, definitions, view.labelled());
        self.policies.set_networks(&attached, &objects.networks);
        inputs.objects.set_networks(&objects.networks, &attached);
        inputs.activity = view.into_activity();
    }

    /// Follows ids and subnets of nodes.
    fn follow_nodes(&mut self, inputs: &mut ZoneInputs) {
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
    fn follow_services(&mut self, inputs: &mut ZoneInputs) {
        let reachable = &self.settings.reachable_default_services;
        let mut changes = self.now.services.changes_since(&self.before.services);
        let is_read = changes.any(|change| reachable.contains(&change.key.to_string()));
        if is_read {
            let services = self.now.services.iter();
            let services: Vec<_> = services
                .map(|(_, service)| service_object(&service.object))
                .collect();
            inputs.networks.set_services(&services);
        }
    }

    /// Follows labels of namespaces and nodes, and addresses of nodes.
    fn follow_labels_and_addresses(&mut self, inputs: &mut ZoneInputs) {
        for change in self.now.namespaces.changes_since(&self.before.namespaces) {
            if let Some(namespace) = change.current {
                let labels = namespace.object.labels();
                inputs.objects.put_namespace(&change.key.name, labels);
                policies::put_namespace(&mut self.policies, &namespace.object);
            } else {
                inputs.objects.remove_namespace(&change.key.name);
                self.policies.remove_namespace(&change.key.name);
            }
        }
        for change in self.now.nodes.changes_since(&self.before.nodes) {
            if let Some(node) = change.current {
                policies::put_node(&mut self.policies, &node.object);
                inputs.objects.put_node(node_object(&node.object));
            } else {
                self.policies.remove_node(&change.key.name);
                inputs.objects.remove_node(&change.key.name);
            }
        }
    }

    /// Follows services and their endpoints.
    fn follow_endpoints(&self, inputs: &mut ZoneInputs) {
        let services = &mut inputs.objects;
        for change in self.now.services.changes_since(&self.before.services) {
            match (change.former, change.current) {
                (_, Some(current)) => services.put_service(network_service(&current.object)),
                (Some(former), None) => {
                    services.remove_service(&network_service(&former.object).key);
                }
                (None, None) => {}
            }
        }
        let slices = &self.now.endpoint_slices;
        for change in slices.changes_since(&self.before.endpoint_slices) {
            let former = change.former.and_then(|one| endpoint_slice(&one.object));
            if let Some(former) = former {
                services.remove_slice(&former.service, &former.name);
            }
            let current = change.current.and_then(|one| endpoint_slice(&one.object));
            if let Some(current) = current {
                services.put_slice(current);
            }
        }
    }

    /// Follows policies and firewalls.
    fn follow_policies(&mut self) {
        let (before, now, policies) = (self.before, self.now, &mut self.policies);
        let changes = now
            .network_policies
            .changes_since(&before.network_policies)
            .map(|change| {
                let read = |one: &_| network_policy(one);
                let former = change.former.map(|one| read(&one.object));
                (former, change.current.map(|one| read(&one.object)))
            });
        let of_secondary = now
            .multi_network_policies
            .changes_since(&before.multi_network_policies)
            .map(|change| {
                let read = |one: &_| multi_network_policy(one);
                let former = change.former.map(|one| read(&one.object));
                (former, change.current.map(|one| read(&one.object)))
            });
        for change in changes.chain(of_secondary) {
            match change {
                (_, Some(current)) => policies.put_policy(current),
                (Some(former), None) => policies.remove_policy(&former.key),
                (None, None) => {}
            }
        }
        let firewalls = &now.egress_firewalls;
        for change in firewalls.changes_since(&before.egress_firewalls) {
            match (change.former, change.current) {
                (_, Some(current)) => policies.put_firewall(egress_firewall(&current.object)),
                (Some(former), None) => {
                    policies.remove_firewall(&egress_firewall(&former.object).namespace);
                }
                (None, None) => {}
            }
        }
    }

    /// Follows pods, and their places in networks.
    fn follow_pods(&mut self, inputs: &mut ZoneInputs, has_other_networks: bool) {
        let objects = &mut inputs.objects;
        for change in self.now.pods.changes_since(&self.before.pods) {
            let Some(current) = change.current else {
                let namespace = change.key.namespace.as_deref().unwrap_or_default();
                let key = PodKey::new(namespace, &change.key.name);
                objects.remove_pod(&key);
                self.policies.remove_pod(&key);
                self.changed_pods.insert(key);
                continue;
            };
            let read = pod(&current.object);
            if objects.pod(&read.key).is_none_or(|known| **known != read) {
                self.changed_pods.insert(read.key.clone());
                objects.put_pod(Arc::new(read));
            }
        }
        if has_other_networks {
            let all = objects.pods();
            let moved = all.filter(|pod| !self.policies.has_places(pod, objects.places(pod)));
            let moved: Vec<PodKey> = moved.map(|pod| pod.key.clone()).collect();
            self.changed_pods.extend(moved);
        }
        for key in &self.changed_pods {
            if let Some(pod) = objects.pod(key) {
                self.policies.put_pod(pod, objects.places(pod));
            }
        }
    }

    /// Follows the port groups that new ports wait for.
    fn follow_gates(&self, inputs: &mut ZoneInputs, policies_before: &ZonePolicies) {
        let objects = &mut inputs.objects;
        let mut namespaces = BTreeSet::new();
        self.policies
            .diff(Some(policies_before), &[()], &mut |cell| match cell {
                PolicyCell::Policies(place)
                | PolicyCell::Policy(place, _)
                | PolicyCell::Group(place) => {
                    namespaces.insert(place.namespace);
                }
                PolicyCell::Primary(namespace) | PolicyCell::Firewall(namespace) => {
                    namespaces.insert(namespace);
                }
                PolicyCell::Network(_)
                | PolicyCell::Namespace(_)
                | PolicyCell::Selection(_)
                | PolicyCell::Uses(_)
                | PolicyCell::Member(..)
                | PolicyCell::Nodes
                | PolicyCell::Unread => {}
            });
        let mut pods = self.changed_pods.clone();
        for namespace in &namespaces {
            let of_namespace = objects.pods_in(namespace);
            pods.extend(of_namespace.map(|pod| pod.key.clone()));
        }
        for port in pods
            .iter()
            .flat_map(|pod| policies_before.gates_of(pod).into_keys())
        {
            objects.remove_gates(&port);
        }
        for (port, groups) in pods.iter().flat_map(|pod| self.policies.gates_of(pod)) {
            objects.put_gates(port, groups);
        }
    }

    /// Follows policies of administrators, and what they select.
    fn follow_admin_policies(&self, inputs: &mut ZoneInputs) {
        let (before, now) = (self.before, self.now);
        let policies = &mut inputs.admin_policies;
        let changes = now
            .admin_network_policies
            .changes_since(&before.admin_network_policies)
            .map(|change| {
                let read = |one: &_| admin_network_policy(one);
                let former = change.former.map(|one| read(&one.object));
                (former, change.current.map(|one| read(&one.object)))
            });
        let of_baseline = now
            .baseline_admin_network_policies
            .changes_since(&before.baseline_admin_network_policies)
            .map(|change| {
                let read = |one: &_| baseline_admin_network_policy(one);
                let former = change.former.map(|one| read(&one.object));
                (former, change.current.map(|one| read(&one.object)))
            });
        for change in changes.chain(of_baseline) {
            match change {
                (_, Some(current)) => policies.put_policy(current),
                (Some(former), None) => policies.remove_policy(&former.key),
                (None, None) => {}
            }
        }
        for change in now.namespaces.changes_since(&before.namespaces) {
            match change.current {
                Some(namespace) => {
                    policies.put_namespace(&change.key.name, namespace.object.labels());
                }
                None => policies.remove_namespace(&change.key.name),
            }
        }
        for change in now.nodes.changes_since(&before.nodes) {
            let name = &change.key.name;
            match change.current.map(|node| &node.object) {
                Some(node) => {
                    policies.put_node(name, node.labels(), policies::known_addresses(node));
                }
                None => policies.remove_node(name),
            }
        }
        for key in &self.changed_pods {
            match inputs.objects.pod(key) {
                Some(pod) => policies.put_pod(pod),
                None => policies.remove_pod(key),
            }
        }
    }

    /// Follows EgressIPs.
    fn follow_egress(&self, inputs: &mut ZoneInputs) {
        let objects = &mut inputs.objects;
        for change in self.now.egress_ips.changes_since(&self.before.egress_ips) {
            match change.current {
                Some(object) => objects.put_egress_ip(egress_ip(&object.object)),
                None => objects.remove_egress_ip(&change.key.name),
            }
        }
    }
}

/// `true` if two versions of the objects of a kind may differ.
pub(crate) fn has_changed<T: InventoryKind>(before: &Objects<T>, now: &Objects<T>) -> bool {
    now.changes_since(before).next().is_some()
}
