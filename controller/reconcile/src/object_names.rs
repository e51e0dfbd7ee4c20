//! Names of the objects that rows are about.

use std::collections::BTreeSet;
use std::sync::Arc;

use patchbay_model::names::{cudn_network, network_in_rows, udn_network};
use patchbay_model::{CniConfig, object_kind};
use patchbay_resources::conversion::{machine_name, node, pod};
use patchbay_resources::manifests::{InventoryKind, Objects};
use patchbay_resources::object::kube_ovn::{
    IPPool, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, RouterLBRule, SecurityGroup, Subnet, Vip, Vpc,
};
use patchbay_resources::object::{AdminNetworkPolicy, BaselineAdminNetworkPolicy, Object as _};
use patchbay_rows::ObjectName;

use crate::Cluster;

impl Cluster {
    /// Names of all objects that rows may be about.
    pub fn object_names(&self) -> Arc<BTreeSet<ObjectName>> {
        let inventory = &self.inventory;
        let mut names = BTreeSet::new();
        add(&mut names, object_kind::CONNECT, &inventory.cluster_network_connects);
        add(&mut names, object_kind::NODE, &inventory.nodes);
        add(&mut names, object_kind::NAMESPACE, &inventory.namespaces);
        add(&mut names, object_kind::POD, &inventory.pods);
        add(&mut names, object_kind::SERVICE, &inventory.services);
        add(&mut names, object_kind::NETWORK_POLICY, &inventory.network_policies);
        add(&mut names, object_kind::NETWORK_POLICY, &inventory.multi_network_policies);
        add(&mut names, object_kind::EGRESS_IP, &inventory.egress_ips);
        add(&mut names, Vpc::KIND, &inventory.vpcs);
        add(&mut names, Subnet::KIND, &inventory.subnets);
        add(&mut names, OvnEip::KIND, &inventory.ovn_eips);
        add(&mut names, OvnSnatRule::KIND, &inventory.ovn_snat_rules);
        add(&mut names, OvnDnatRule::KIND, &inventory.ovn_dnat_rules);
        add(&mut names, OvnFip::KIND, &inventory.ovn_fips);
        add(&mut names, RouterLBRule::KIND, &inventory.router_lb_rules);
        add(&mut names, SecurityGroup::KIND, &inventory.security_groups);
        add(&mut names, Vip::KIND, &inventory.vips);
        add(&mut names, IPPool::KIND, &inventory.ip_pools);
        add(&mut names, AdminNetworkPolicy::KIND, &inventory.admin_network_policies);
        let baselines = &inventory.baseline_admin_network_policies;
        add(&mut names, BaselineAdminNetworkPolicy::KIND, baselines);
        // A namespace has one firewall.
        let firewalls = inventory.egress_firewalls.iter();
        let namespaces = firewalls.filter_map(|(key, _)| key.namespace.as_deref());
        names.extend(namespaces.map(|of| ObjectName::new(object_kind::EGRESS_FIREWALL, of)));
        let machines = inventory.pods.iter().filter_map(|(_, sourced)| {
            let pod = pod(&sourced.object);
            let machine = pod.machine.as_ref()?;
            let name = format!("{}/{}", pod.key.namespace, machine.name);
            Some(ObjectName::new(object_kind::VIRTUAL_MACHINE, name))
        });
        names.extend(machines);
        // Ports in subnets of VPCs name the virtual machine in place of its pods.
        let machines = inventory.pods.iter().filter_map(|(key, sourced)| {
            let machine = machine_name(&sourced.object)?;
            let namespace = key.namespace.as_deref().unwrap_or_default();
            Some(ObjectName::new(object_kind::POD, format!("{namespace}/{machine}")))
        });
        names.extend(machines);
        let ids = inventory.nodes.iter().filter_map(|(_, sourced)| {
            let (node, _) = node(&sourced.object);
            Some(ObjectName::new(object_kind::NODE_ID, node.id?))
        });
        names.extend(ids);
        let features = self.settings().features.iter();
        names.extend(features.map(|feature| ObjectName::new(object_kind::FEATURE, feature)));
        self.add_networks(&mut names);
        Arc::new(names)
    }

    /// Adds networks by name and by id, also those that cannot be made.
    fn add_networks(&self, names: &mut BTreeSet<ObjectName>) {
        let inventory = &self.inventory;
        let ids = self.networks();
        let ids = ids.iter().map(|network| network.id);
        names.extend(ids.map(|id| ObjectName::new(object_kind::NETWORK_ID, id)));
        let definitions = inventory.network_attachment_definitions.iter();
        let of_definitions = definitions.filter_map(|(_, nad)| {
            let config = nad.object.spec.config.as_deref()?;
            Some(CniConfig::from_json(config).ok()??.name)
        });
        let cudns = inventory.cluster_user_defined_networks.iter();
        let udns = inventory.user_defined_networks.iter();
        let networks =
            of_definitions.chain(cudns.map(|(key, _)| cudn_network(&key.name))).chain(udns.map(
                |(key, _)| udn_network(key.namespace.as_deref().unwrap_or_default(), &key.name),
            ));
        let of_network =
            |name: String| ObjectName::new(object_kind::NETWORK, network_in_rows(&name));
        names.extend(networks.map(of_network));
    }
}

fn add<T: InventoryKind>(names: &mut BTreeSet<ObjectName>, kind: &str, objects: &Objects<T>) {
    names.extend(objects.iter().map(|(key, _)| ObjectName::new(kind, key)));
}
