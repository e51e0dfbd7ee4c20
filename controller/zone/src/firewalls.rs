//! EgressFirewalls, and when a changed object is read.

use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{EgressFirewall, Feature, FirewallDestination};

use super::logging::AclLogging;
use super::objects::ZoneObjects;

/// Largest number of rules of a firewall: that of its ACLs' priorities.
pub const MAX_FIREWALL_RULES: usize = 8001;

/// Inputs with which a firewall was read: the primary network of its namespace, and logging.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FirewallContext {
    network: Arc<str>,
    subnets: Vec<IpNet>,
    logging: AclLogging,
}

impl ZoneObjects {
    /// Adds an EgressFirewall, or replaces the one of its namespace. As in OVN-Kubernetes, an
    /// object of the known resource version is the known one, unless the known one cannot be used
    /// or chooses nodes, or the namespace's network or logging is another one.
    pub fn put_firewall(&mut self, firewall: EgressFirewall) {
        let namespace = firewall.namespace.clone();
        let context = self.firewall_context(&namespace);
        let known = self.firewalls.get(&namespace);
        let is_known = known.is_some_and(|known| is_read(known, &firewall));
        if is_known
            && context.is_some()
            && self.firewall_contexts.get(&namespace) == context.as_ref()
        {
            return;
        }
        match context {
            Some(context) => self.firewall_contexts.insert(namespace.clone(), context),
            None => self.firewall_contexts.remove(&namespace),
        };
        self.firewalls.insert(namespace, Arc::new(firewall));
    }

    /// Removes the EgressFirewall of a namespace.
    pub fn remove_firewall(&mut self, namespace: &str) {
        self.firewalls.remove(namespace);
        self.firewall_contexts.remove(namespace);
    }

    /// The EgressFirewall of a namespace, while the feature is on.
    pub fn firewall(&self, namespace: &str) -> Option<&Arc<EgressFirewall>> {
        let is_on = self.settings().has_feature(Feature::EgressFirewall);
        self.firewalls.get(namespace).filter(|_| is_on)
    }

    /// All EgressFirewalls.
    pub fn firewalls(&self) -> impl Iterator<Item = &Arc<EgressFirewall>> {
        self.firewalls.values()
    }

    /// Takes over firewalls that need not be read again.
    pub(crate) fn follow_firewalls(&mut self, earlier: &Self) {
        for (namespace, known) in &earlier.firewalls {
            let context = self.firewall_contexts.get(namespace);
            let current = self.firewalls.get(namespace);
            let is_known = current.is_some_and(|current| is_read(known, current))
                && context.is_some()
                && context == earlier.firewall_contexts.get(namespace);
            if is_known {
                self.firewalls.insert(namespace.clone(), known.clone());
            }
        }
    }

    /// `None`: the namespace has no primary network.
    fn firewall_context(&self, namespace: &str) -> Option<FirewallContext> {
        let network = self.attached.get(self.attached_primary.get(namespace)?)?;
        let logging = self.namespaces.get(namespace).map(|one| one.logging);
        Some(FirewallContext {
            network: network.name.clone(),
            subnets: network.subnets.clone(),
            logging: AclLogging { pass: None, ..logging.unwrap_or_default() },
        })
    }
}

/// Returns `true` if an object that has been read need not be read again.
fn is_read(known: &EgressFirewall, current: &EgressFirewall) -> bool {
    let mut rules = known.rules.iter();
    let has_nodes = rules.any(|rule| matches!(rule.destination, FirewallDestination::Nodes(_)));
    let is_usable = known.problems.is_empty() && known.rules.len() <= MAX_FIREWALL_RULES;
    known.version.is_some() && known.version == current.version && is_usable && !has_nodes
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_model::{
        ACL_LOGGING, AttachedNetwork, AttachedTopology, ClusterSettings, FirewallAction,
        FirewallRule, Role, Transport,
    };

    use super::*;

    /// Puts a firewall of the version `1` with one destination. Returns the destination that
    /// applies.
    fn put(zone: &mut ZoneObjects, destination: &str) -> String {
        let rule = FirewallRule {
            action: FirewallAction::Deny,
            destination: FirewallDestination::Cidr {
                cidr: destination.parse().unwrap(),
                text: destination.to_owned(),
            },
            ports: Vec::new(),
        };
        zone.put_firewall(EgressFirewall {
            namespace: "blue".into(),
            version: Some("1".into()),
            rules: vec![rule],
            problems: Vec::new(),
        });
        match &zone.firewalls["blue"].rules[0].destination {
            FirewallDestination::Cidr { text, .. } => text.clone(),
            other => panic!("{other:?}"),
        }
    }

    fn set_network(zone: &mut ZoneObjects, subnet: &str) {
        let network = AttachedNetwork {
            name: "net".into(),
            topology: AttachedTopology::Layer2,
            role: Role::Primary,
            transport: Transport::Overlay,
            subnets: vec![subnet.parse().unwrap()],
            join_subnets: Vec::new(),
            excluded_subnets: Vec::new(),
            reserved_subnets: Vec::new(),
            infrastructure_subnets: Vec::new(),
            default_gateways: Vec::new(),
            mtu: None,
            keeps_addresses: false,
        };
        zone.attached.insert("net".into(), Arc::new(network));
        zone.attached_primary.insert("blue".into(), "net".into());
    }

    fn set_logging(zone: &mut ZoneObjects, logging: &str) {
        let annotations = BTreeMap::from([(ACL_LOGGING.to_owned(), logging.to_owned())]);
        zone.put_namespace("blue", &BTreeMap::new(), &annotations);
    }

    #[test]
    fn a_known_version_is_read_again_with_another_network_or_logging() {
        let mut zone = ZoneObjects::new("n1", &ClusterSettings::default());
        set_network(&mut zone, "10.1.0.0/16");
        assert_eq!(put(&mut zone, "192.0.2.1/32"), "192.0.2.1/32");
        assert_eq!(put(&mut zone, "192.0.2.2/32"), "192.0.2.1/32");
        set_logging(&mut zone, r#"{"deny":"alert"}"#);
        assert_eq!(put(&mut zone, "192.0.2.3/32"), "192.0.2.3/32");
        // No ACL of a firewall passes packets on to other policies.
        set_logging(&mut zone, r#"{"deny":"alert","pass":"info"}"#);
        assert_eq!(put(&mut zone, "192.0.2.4/32"), "192.0.2.3/32");
        set_network(&mut zone, "10.2.0.0/16");
        assert_eq!(put(&mut zone, "192.0.2.5/32"), "192.0.2.5/32");
    }
}
