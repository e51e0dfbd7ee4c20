//! Inputs of the controllers, from the objects of a scenario.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use patchbay_app::activity::NetworkUsers;
use patchbay_model::{
    Feature, NetworkActivity, NetworkObjects, Networks, PRIMARY_NETWORK_LABEL, Pod, PodKey,
    PolicyKey, PolicyKind,
};
use patchbay_networks::ZoneNetworks;
use patchbay_policies::ZonePolicies;
use patchbay_policies::admin::{AdminPolicyNode, AdminPolicyObjects, ZoneAdminPolicies};
use patchbay_resources::conversion;
use patchbay_resources::object::{Namespace, Object};
use patchbay_zone::ZoneObjects;

use super::controllers::Inputs;
use super::objects::{AnnotatedNode, ObjectId, node_objects};
use super::world::World;

impl World {
    /// Inputs of the controllers.
    pub(super) fn inputs(&mut self) -> Result<Inputs, String> {
        let definitions = self.objects.definitions()?;
        let namespaces = self.objects.namespaces()?;
        let services = self.objects.services()?;
        let nodes = self.objects.nodes()?;
        let labelled = namespaces.iter().filter(|namespace| {
            let labels = namespace.labels();
            labels.contains_key(PRIMARY_NETWORK_LABEL)
        });
        let labelled = labelled.map(Object::name_any).collect();
        let mut objects = NetworkObjects {
            networks: Networks::of_cluster(
                definitions.iter().map(conversion::definition),
                &labelled,
                &self.settings,
            ),
            definitions: definitions
                .iter()
                .map(conversion::definition)
                .map(|definition| (definition.key.clone(), definition))
                .collect(),
            nodes: node_objects(&nodes),
            services: services.iter().map(conversion::service_object).collect(),
            advertisements: self.objects.advertisements()?,
        };
        let activity = self.activity(&objects, &labelled, &namespaces)?;
        let networks = conversion::networks(&definitions, &namespaces);
        let connects = self.connect_inputs(networks, activity.as_ref())?;
        if let Some(activity) = &activity {
            objects.limit_to(&self.node, activity, &labelled, &self.settings);
        }
        let mut zone_objects = ZoneObjects::new(&self.node, &self.settings);
        zone_objects.set_objects(&objects, &labelled);
        for service in services.iter().map(conversion::network_service) {
            zone_objects.put_service(service);
        }
        let slices = self.objects.slices()?;
        for slice in slices.iter().filter_map(conversion::endpoint_slice) {
            zone_objects.put_slice(slice);
        }
        for pod in self.objects.pods()?.iter().map(conversion::pod) {
            zone_objects.put_pod(Arc::new(pod));
        }
        let names: Vec<String> = namespaces.iter().map(Object::name_any).collect();
        self.update_policies(&objects, &labelled, &namespaces, &nodes, &zone_objects)?;
        let policies = self.policies.clone();
        zone_objects.set_gates(policies.gates());
        for (name, namespace) in names.iter().zip(&namespaces) {
            zone_objects.put_namespace(name, namespace.labels());
        }
        for egress_ip in self.objects.egress_ips()? {
            zone_objects.put_egress_ip(egress_ip);
        }
        let admin_policies = AdminPolicyObjects {
            policies: self.objects.admin_policies()?,
            pods: zone_objects
                .pods()
                .map(|pod| self.in_default_network(pod))
                .collect(),
            namespaces: names
                .iter()
                .zip(&namespaces)
                .map(|(name, namespace)| (name.as_str(), namespace.labels()))
                .collect(),
            nodes: nodes
                .iter()
                .map(|node| {
                    let (labels, addresses) = (&node.labels, node.host_addresses());
                    (node.name.as_str(), AdminPolicyNode { labels, addresses })
                })
                .collect(),
        };
        let admin_policies = ZoneAdminPolicies::read(&self.node, &self.settings, &admin_policies);
        let mut zone_networks = ZoneNetworks::read(&objects, &self.node, &self.settings);
        if let Some(activity) = &activity {
            zone_networks.set_activity(activity);
        }
        if let Some((networks, former)) = &self.former {
            zone_networks.follow(networks);
            zone_objects.follow(former);
        }
        self.former = Some((zone_networks.clone(), zone_objects.clone()));
        Ok(Inputs {
            admin_policies,
            connects,
            networks: zone_networks,
            policies,
            objects: zone_objects,
        })
    }

    /// Nodes on which networks are rendered. `None`: all. A recording takes less time than a
    /// network without users stays.
    fn activity(
        &mut self,
        objects: &NetworkObjects<'_>,
        labelled: &BTreeSet<String>,
        namespaces: &[Namespace],
    ) -> Result<Option<NetworkActivity>, String> {
        if !self.settings.has_feature(Feature::DynamicUdnAllocation) {
            return Ok(None);
        }
        let mut pods = ZoneObjects::new(&self.node, &self.settings);
        pods.set_objects(objects, labelled);
        for pod in self.objects.pods()?.iter().map(conversion::pod) {
            pods.put_pod(Arc::new(pod));
        }
        let names: Vec<String> = namespaces.iter().map(Object::name_any).collect();
        let users = NetworkUsers {
            objects,
            labelled,
            pods: &pods,
            namespaces: names
                .iter()
                .zip(namespaces)
                .map(|(name, namespace)| (name.as_str(), namespace.labels()))
                .collect(),
            egress_ips: self.objects.egress_ips()?,
            connects: self
                .objects
                .connects()?
                .iter()
                .filter_map(|object| conversion::connect_input(object).connect.ok())
                .collect(),
        };
        let mut activity = users.activity();
        let grace_period = self.settings.udn_deletion_grace_period;
        self.rendered.update(
            &mut activity,
            &self.node,
            grace_period,
            Timestamp::UNIX_EPOCH,
        );
        Ok(Some(activity))
    }

    /// A pod with its recorded addresses in the default network.
    fn in_default_network(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match self.default_addresses.get(&pod.key.to_string()) {
            Some(addresses) if pod.addresses_in_default_network().is_empty() => Arc::new(Pod {
                default_addresses: addresses.clone(),
                ..Pod::clone(pod)
            }),
            _ => pod.clone(),
        }
    }

    /// Replaces the policies by those of the current objects, as the watches of running controllers
    /// do.
    fn update_policies(
        &mut self,
        objects: &NetworkObjects<'_>,
        labelled: &BTreeSet<String>,
        namespaces: &[Namespace],
        nodes: &[AnnotatedNode],
        pods: &ZoneObjects,
    ) -> Result<(), String> {
        let policies = &mut self.policies;
        let current = self.objects.ids();
        for gone in self.seen.difference(&current) {
            forget(policies, gone);
        }
        self.seen = current;
        policies.set_objects(objects, labelled);
        for namespace in namespaces {
            let (labels, annotations) = (namespace.labels(), namespace.annotations());
            policies.put_namespace(&namespace.name_any(), labels, annotations);
        }
        for node in nodes {
            policies.put_node(&node.name, &node.labels, node.host_addresses());
        }
        for firewall in self.objects.firewalls()? {
            policies.put_firewall(firewall);
        }
        for pod in pods.pods() {
            policies.put_pod(pod, pods.places(pod));
        }
        for policy in self.objects.policies()? {
            policies.put_policy(policy);
        }
        Ok(())
    }
}

/// Removes a deleted object from the policies.
pub(super) fn forget(policies: &mut ZonePolicies, (kind, namespace, name): &ObjectId) {
    let policy = |kind| PolicyKey {
        kind,
        namespace: namespace.as_str().into(),
        name: name.as_str().into(),
    };
    match kind.as_str() {
        "Namespace" => policies.remove_namespace(name),
        "Node" => policies.remove_node(name),
        "Pod" => policies.remove_pod(&PodKey::new(namespace.as_str(), name.as_str())),
        "EgressFirewall" => policies.remove_firewall(namespace),
        "NetworkPolicy" => policies.remove_policy(&policy(PolicyKind::NetworkPolicy)),
        "MultiNetworkPolicy" => policies.remove_policy(&policy(PolicyKind::MultiNetworkPolicy)),
        _ => {}
    }
}
