//! The walk over the difference of two inventories, which puts and removes objects of a zone.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_allocate::connects::refusals;
use patchbay_model::{ConnectInput, NetworkActivity, PRIMARY_NETWORK_LABEL, PodKey};
use patchbay_policies::gates_of;
use patchbay_resources::conversion::{
    admin_network_policy, baseline_admin_network_policy, egress_firewall, egress_ip,
    endpoint_slice, multi_network_policy, network_objects, network_policy, network_service,
    networks_of, node_object, pod, route_advertisement,
};
use patchbay_resources::manifests::{Inventory, InventoryKind, Objects, Sourced};
use patchbay_resources::object::{Namespace, Object as _};
use patchbay_rows::Inputs as _;
use patchbay_zone::{Cell, Kind, ZoneObjects};

use crate::connects::{connect_objects, vpc_members};
use crate::pods::labelled_namespaces;
use crate::refused::connect_inputs;

/// One step from earlier objects of a cluster to the present ones.
pub(super) struct Walk<'a> {
    pub(super) before: &'a Inventory,
    pub(super) now: &'a Inventory,
    pub(super) objects: &'a mut ZoneObjects,
}

impl Walk<'_> {
    /// `true` if networks, their definitions or their namespaces may differ.
    pub(super) fn has_other_networks(&self) -> bool {
        let (before, now) = (self.before, self.now);
        let is_labelled = |namespace: Option<&Sourced<Namespace>>| {
            let labels = namespace.map(|namespace| namespace.object.labels());
            labels.is_some_and(|labels| labels.contains_key(PRIMARY_NETWORK_LABEL))
        };
        let mut namespaces = now.namespaces.changes_since(&before.namespaces);
        has_changed(&before.network_attachment_definitions, &now.network_attachment_definitions)
            || namespaces.any(|change| is_labelled(change.former) != is_labelled(change.current))
    }

    /// Sets the networks that the zone renders. `activity`: nodes on which networks are rendered;
    /// `None`: all.
    pub(super) fn set_networks(&mut self, activity: Option<&NetworkActivity>) {
        let labelled = labelled_namespaces(self.now);
        let settings = self.objects.settings();
        let mut present = network_objects(self.now, settings);
        if let Some(activity) = activity {
            present.limit_to(self.objects.zone(), activity, &labelled, settings);
        }
        self.objects.set_networks(&present.networks, &present.definitions, &labelled);
    }

    /// Sets the networks of all definitions.
    pub(super) fn set_connectable_networks(&mut self) {
        self.objects.set_connectable_networks(&networks_of(self.now));
    }

    /// Follows connects. Whether one is refused depends on the others and on all networks.
    pub(super) fn follow_connects(&mut self) {
        let (before, now) = (self.before, self.now);
        let is_same = !has_changed(&before.cluster_network_connects, &now.cluster_network_connects)
            && !has_changed(
                &before.network_attachment_definitions,
                &now.network_attachment_definitions,
            )
            && !has_changed(&before.namespaces, &now.namespaces)
            && !has_changed(&before.vpcs, &now.vpcs)
            && !has_changed(&before.subnets, &now.subnets)
            && before.refused == now.refused
            && before.undecoded == now.undecoded;
        let has_connects =
            connect_inputs(now).next().is_some() || self.objects.connects().next().is_some();
        if is_same || !has_connects {
            return;
        }
        let networks = networks_of(now);
        let vpcs = vpc_members(now, self.objects.settings());
        let objects = connect_objects(now, &networks).with_vpcs(vpcs.as_ref());
        let mut refusals = refusals(self.objects.settings(), &objects);
        let inputs: BTreeMap<String, ConnectInput> = connect_inputs(now)
            .map(|(name, mut input)| {
                input.refusal = refusals.remove(&name);
                let of_connect = vpcs.as_ref().and_then(|vpcs| vpcs.vpcs(&name));
                if let (Ok(connect), Some(vpcs)) = (&mut input.connect, of_connect) {
                    connect.vpcs.clone_from(vpcs);
                }
                (name, input)
            })
            .collect();
        let known = self.objects.connects().map(|(name, _)| name.to_string());
        let gone: Vec<String> = known.filter(|name| !inputs.contains_key(name)).collect();
        for name in &gone {
            self.objects.remove_connect(name);
        }
        for (name, input) in inputs {
            if self.objects.connect_input(&name) != Some(&input) {
                self.objects.put_connect(&name, input);
            }
        }
    }

    /// Follows nodes and services.
    pub(super) fn follow_nodes_and_services(&mut self) {
        self.each(
            |of| &of.nodes,
            |objects, node| objects.put_node(node_object(node)),
            |objects, node| objects.remove_node(&node.name_any()),
        );
        self.each(
            |of| &of.services,
            |objects, object| objects.put_service(network_service(object)),
            |objects, object| objects.remove_service(&network_service(object).key),
        );
    }

    /// Puts and removes all other objects that differ.
    pub(super) fn follow_others(&mut self) {
        self.each(
            |of| &of.pods,
            |objects, object| {
                let read = pod(object);
                if objects.pod(&read.key).is_none_or(|known| **known != read) {
                    objects.put_pod(Arc::new(read));
                }
            },
            |objects, object| {
                let namespace = object.namespace().unwrap_or_default();
                objects.remove_pod(&PodKey::new(&namespace, &object.name_any()));
            },
        );
        self.each(
            |of| &of.namespaces,
            |objects, object| {
                let (labels, annotations) = (object.labels(), object.annotations());
                objects.put_namespace(&object.name_any(), labels, annotations);
            },
            |objects, object| objects.remove_namespace(&object.name_any()),
        );
        self.follow_policies();
        self.each(
            |of| &of.egress_ips,
            |objects, object| objects.put_egress_ip(egress_ip(object)),
            |objects, object| objects.remove_egress_ip(&object.name_any()),
        );
        self.follow_slices();
        self.each(
            |of| &of.route_advertisements,
            |objects, object| objects.put_advertisement(route_advertisement(object)),
            |objects, object| objects.remove_advertisement(&object.name_any()),
        );
    }

    /// Follows policies and firewalls.
    fn follow_policies(&mut self) {
        self.each(
            |of| &of.network_policies,
            |objects, object| objects.put_policy(network_policy(object)),
            |objects, object| objects.remove_policy(&network_policy(object).key),
        );
        self.each(
            |of| &of.multi_network_policies,
            |objects, object| objects.put_policy(multi_network_policy(object)),
            |objects, object| objects.remove_policy(&multi_network_policy(object).key),
        );
        self.each(
            |of| &of.egress_firewalls,
            |objects, object| objects.put_firewall(egress_firewall(object)),
            |objects, object| objects.remove_firewall(&egress_firewall(object).namespace),
        );
        self.each(
            |of| &of.admin_network_policies,
            |objects, object| objects.put_admin_policy(admin_network_policy(object)),
            |objects, object| objects.remove_admin_policy(&admin_network_policy(object).key),
        );
        self.each(
            |of| &of.baseline_admin_network_policies,
            |objects, object| objects.put_admin_policy(baseline_admin_network_policy(object)),
            |objects, object| {
                objects.remove_admin_policy(&baseline_admin_network_policy(object).key);
            },
        );
    }

    /// Follows slices. A slice may get another service.
    fn follow_slices(&mut self) {
        let slices = &self.now.endpoint_slices;
        for change in slices.changes_since(&self.before.endpoint_slices) {
            let former = change.former.and_then(|one| endpoint_slice(&one.object));
            if let Some(former) = former {
                self.objects.remove_slice(&former.service, &former.name);
            }
            let current = change.current.and_then(|one| endpoint_slice(&one.object));
            if let Some(current) = current {
                self.objects.put_slice(current);
            }
        }
    }

    /// Calls `put` for the new and changed objects of a kind, and `remove` for those that are gone.
    fn each<T: InventoryKind>(
        &mut self,
        kind: impl Fn(&Inventory) -> &Objects<T>,
        put: impl Fn(&mut ZoneObjects, &T),
        remove: impl Fn(&mut ZoneObjects, &T),
    ) {
        for change in kind(self.now).changes_since(kind(self.before)) {
            match (change.former, change.current) {
                (_, Some(current)) => put(self.objects, &current.object),
                (Some(former), None) => remove(self.objects, &former.object),
                (None, None) => {}
            }
        }
    }
}

/// Follows the port groups that new ports wait for.
pub(super) fn follow_gates(objects: &mut ZoneObjects, earlier: &ZoneObjects) {
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

/// `true` if two versions of the objects of a kind may differ.
pub(crate) fn has_changed<T: InventoryKind>(before: &Objects<T>, now: &Objects<T>) -> bool {
    now.changes_since(before).next().is_some()
}
