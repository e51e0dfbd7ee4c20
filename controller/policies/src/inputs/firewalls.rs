//! EgressFirewalls, and when a changed object is read.

use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{EgressFirewall, FirewallDestination};

use super::ZonePolicies;
use crate::firewall::MAX_FIREWALL_RULES;
use crate::logging::AclLogging;

/// Inputs with which a firewall was read: the primary network of its namespace, and logging.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FirewallContext {
    network: Arc<str>,
    subnets: Vec<IpNet>,
    logging: AclLogging,
}

impl ZonePolicies {
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

    /// `None`: the namespace has no primary network.
    fn firewall_context(&self, namespace: &str) -> Option<FirewallContext> {
        let network = self.networks.get(self.primary.get(namespace)?)?;
        let logging = self.namespaces.get(namespace).map(|one| one.logging);
        Some(FirewallContext {
            network: network.name.clone(),
            subnets: network.subnets.clone(),
            logging: AclLogging {
                pass: None,
                ..logging.unwrap_or_default()
            },
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
    fn put(zone: &mut ZonePolicies, destination: &str) -> String {
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

    fn set_network(zone: &mut ZonePolicies, subnet: &str) {
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
        zone.networks.insert("net".into(), Arc::new(network));
        zone.primary.insert("blue".into(), "net".into());
    }

    fn set_logging(zone: &mut ZonePolicies, logging: &str) {
        let annotations = BTreeMap::from([(ACL_LOGGING.to_owned(), logging.to_owned())]);
        zone.put_namespace("blue", &BTreeMap::new(), &annotations);
    }

    #[test]
    fn a_known_version_is_read_again_with_another_network_or_logging() {
        let mut zone = ZonePolicies::new("n1", &ClusterSettings::default());
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
