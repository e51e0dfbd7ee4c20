//! EgressFirewalls, and when a changed object is read.

use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{EgressFirewall, FirewallDestination};

use super::ZonePolicies;
use crate::firewall::MAX_FIREWALL_RULES;
use crate::logging::AclLogging;

/// What a firewall was read with: the primary network of its namespace, and logging.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FirewallContext {
    network: Arc<str>,
    subnets: Vec<IpNet>,
    logging: AclLogging,
}

impl ZonePolicies {
    /// Adds an EgressFirewall, or replaces the one of its namespace. As in OVN-Kubernetes, an object of
    /// the known resource version is the known one, unless the known one cannot be used or chooses
    /// nodes, or the namespace's network or logging is another one.
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
