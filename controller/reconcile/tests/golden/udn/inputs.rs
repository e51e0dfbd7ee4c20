//! Inputs of the controllers, from the objects of a scenario.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;
use patchbay_model::{
    AttachedNetworks, Feature, NetworkActivity, NetworkObjects, NetworkUsers, Networks,
    PRIMARY_NETWORK_LABEL, Pod,
};
use patchbay_policies::gates;
use patchbay_reconcile::activity::network_activity;
use patchbay_resources::conversion;
use patchbay_resources::object::{Namespace, Object};
use patchbay_zone::ZoneObjects;

use super::objects::node_objects;
use super::world::World;

impl World {
    /// Inputs of the controllers.
    pub(super) fn inputs(&mut self) -> Result<ZoneObjects, String> {
        let definitions = self.objects.definitions()?;
        let namespaces = self.objects.namespaces()?;
        let services = self.objects.services()?;
        let nodes = self.objects.nodes()?;
        let labelled = namespaces
            .iter()
            .filter(|namespace| {
                let labels = namespace.labels();
                labels.contains_key(PRIMARY_NETWORK_LABEL)
            })
            .map(Object::name_any)
            .collect();
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
            services: services.iter().map(conversion::network_service).collect(),
            advertisements: self.objects.advertisements()?,
        };
        let activity = self.activity(&objects, &labelled, &namespaces)?;
        if let Some(activity) = &activity {
            objects.limit_to(&self.node, activity, &labelled, &self.settings);
        }
        let mut zone_objects = ZoneObjects::new(&self.node, &self.settings);
        zone_objects.set_objects(&objects, &labelled);
        let slices = self.objects.slices()?;
        for slice in slices.iter().filter_map(conversion::endpoint_slice) {
            zone_objects.put_slice(slice);
        }
        for namespace in &namespaces {
            let (labels, annotations) = (namespace.labels(), namespace.annotations());
            zone_objects.put_namespace(&namespace.name_any(), labels, annotations);
        }
        for firewall in self.objects.firewalls()? {
            zone_objects.put_firewall(firewall);
        }
        for pod in self.objects.pods()?.iter().map(conversion::pod) {
            zone_objects.put_pod(self.in_default_network(pod));
        }
        for policy in self.objects.policies()? {
            zone_objects.put_policy(policy);
        }
        for policy in self.objects.admin_policies()? {
            zone_objects.put_admin_policy(policy);
        }
        for egress_ip in self.objects.egress_ips()? {
            zone_objects.put_egress_ip(egress_ip);
        }
        zone_objects.set_activity(activity.as_ref());
        zone_objects.set_connectable_networks(&conversion::networks(&definitions, &namespaces));
        for object in self.objects.connects()? {
            zone_objects.put_connect(&object.name_any(), conversion::connect_input(&object));
        }
        if let Some(former) = &self.former {
            zone_objects.follow(former);
        }
        zone_objects.set_gates(gates(&zone_objects));
        self.former = Some(zone_objects.clone());
        Ok(zone_objects)
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
        let definitions = objects.definitions.values();
        let attached = AttachedNetworks::new(&objects.networks, definitions.clone(), labelled);
        let mut users = NetworkUsers::new(definitions.cloned(), &attached);
        let names: Vec<String> = namespaces.iter().map(Object::name_any).collect();
        for object in self.objects.egress_ips()? {
            let namespaces =
                names.iter().zip(namespaces).map(|(name, one)| (name.as_str(), one.labels()));
            users.add_egress_ip(&object, &objects.networks, namespaces);
        }
        for object in self.objects.connects()? {
            if let Ok(connect) = conversion::connect_input(&object).connect {
                users.add_connect(&connect, &objects.networks);
            }
        }
        let mut activity = network_activity(&pods, &users);
        let grace_period = self.settings.udn_deletion_grace_period;
        self.rendered.update(&mut activity, &self.node, grace_period, Timestamp::UNIX_EPOCH);
        Ok(Some(activity))
    }

    /// A pod with its recorded addresses in the default network.
    fn in_default_network(&self, pod: Pod) -> Arc<Pod> {
        let recorded = self
            .default_addresses
            .get(&pod.key.to_string())
            .filter(|_| pod.addresses_in_default_network().is_empty());
        Arc::new(Pod {
            default_addresses: recorded.unwrap_or(&pod.default_addresses).clone(),
            ..pod
        })
    }
}
