//! Canonical form of a configuration, by which the definitions of one network are compared.

use std::str::FromStr;

use ipnet::IpNet;

use super::{CniConfig, CniEvpn, CniVrf, UninterpretedValue};
use crate::network::IpFamily;
use crate::settings::USER_DEFINED_JOIN_SUBNETS;
use crate::transit_subnets::derived_transit_subnets;

impl CniConfig {
    /// Returns the canonical form. Definitions with equal canonical forms may define one network,
    /// as in OVN-Kubernetes.
    ///
    /// Lists are sorted, without spaces and host bits, and defaults are explicit. What may differ
    /// between the definitions of a network is missing: the definition itself, the version,
    /// gateways and VLAN ids on a fabric. So are fields that topology or role do not have.
    ///
    /// ```
    /// use patchbay_model::CniConfig;
    ///
    /// let read = |fields: &str| {
    ///     let text = format!(r#"{{"type":"ovn-k8s-cni-overlay","name":"n","topology":"layer3",{fields}}}"#);
    ///     CniConfig::from_json(&text).unwrap().unwrap().canonical()
    /// };
    /// let one = read(r#""netAttachDefName":"a/n","subnets":"10.1.0.0/16/24,fd01::/48""#);
    /// let other = read(r#""netAttachDefName":"b/n","subnets":"fd01::/48, 10.1.0.0/16","role":"secondary""#);
    /// assert_eq!(one, other);
    /// assert_ne!(one, read(r#""subnets":"10.1.0.0/16/25,fd01::/48""#));
    /// ```
    #[must_use]
    pub fn canonical(&self) -> Self {
        let is_primary = self.is_primary();
        let subnets = self.subnets.as_deref().unwrap_or_default();
        let joins = join_subnets(self.join_subnet.as_deref().unwrap_or_default());
        Self {
            cni_version: UninterpretedValue::default(),
            default_gateway_ips: UninterpretedValue::default(),
            evpn: self.evpn.as_ref().map(without_vlan_ids),
            exclude_subnets: list(&self.exclude_subnets),
            infrastructure_subnets: list(&self.infrastructure_subnets),
            net_attach_def_name: String::new(),
            reserved_subnets: list(&self.reserved_subnets),
            role: if is_primary { "primary" } else { "secondary" }.to_owned(),
            subnets: Some(match self.topology.as_str() {
                "layer3" => sorted(subnets, node_subnet_range),
                _ => sorted(subnets, subnet),
            }),
            transit_subnet: (is_primary && self.topology == "layer2").then(|| {
                match self.transit_subnet.as_deref().unwrap_or_default() {
                    "" => sorted(&transit_subnets(subnets, &joins), subnet),
                    configured => sorted(configured, subnet),
                }
            }),
            join_subnet: (self.topology != "localnet").then_some(joins),
            ..self.clone()
        }
    }
}

/// The entries of a list, in order. One that cannot be read stays as it is.
fn sorted(list: &str, canonical: impl Fn(&str) -> Option<String>) -> String {
    let mut entries: Vec<String> = list
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .map(|entry| canonical(entry).unwrap_or_else(|| entry.to_owned()))
        .collect();
    entries.sort_unstable();
    entries.join(",")
}

fn list(field: &UninterpretedValue) -> UninterpretedValue {
    match field.as_value().as_str() {
        Some(text) => sorted(text, subnet).into(),
        None => field.clone(),
    }
}

fn subnet(text: &str) -> Option<String> {
    let net = IpNet::from_str(text).ok()?;
    Some(net.trunc().to_string())
}

/// A subnet with the prefix length of node subnets.
fn node_subnet_range(text: &str) -> Option<String> {
    let (cidr, host) = match text.match_indices('/').nth(1) {
        Some((at, _)) => (&text[..at], Some(text[at + 1..].parse::<u8>().ok()?)),
        None => (text, None),
    };
    let net = IpNet::from_str(cidr).ok()?.trunc();
    let host = host.unwrap_or_else(|| IpFamily::of_net(net).default_host_prefix());
    Some(format!("{net}/{host}"))
}

/// One join subnet of each family: the last configured one, or the default.
fn join_subnets(configured: &str) -> String {
    let configured: Vec<IpNet> =
        configured.split(',').filter_map(|entry| entry.trim().parse().ok()).collect();
    let of_family = |default: IpNet| {
        let mut configured = configured.iter().rev();
        let family = IpFamily::of_net(default);
        let found = configured.find(|net| IpFamily::of_net(**net) == family);
        found.unwrap_or(&default).trunc().to_string()
    };
    USER_DEFINED_JOIN_SUBNETS.map(of_family).join(",")
}

/// The transit subnets that a configuration without them has.
fn transit_subnets(subnets: &str, join_subnets: &str) -> String {
    let nets = |list: &str| -> Vec<IpNet> {
        let entries = list.split(',').filter_map(|entry| entry.trim().parse().ok());
        entries.map(|net: IpNet| net.trunc()).collect()
    };
    let derived: Vec<String> = derived_transit_subnets(&nets(subnets), &nets(join_subnets))
        .iter()
        .map(ToString::to_string)
        .collect();
    derived.join(",")
}

fn without_vlan_ids(evpn: &CniEvpn) -> CniEvpn {
    let without = |vrf: &Option<CniVrf>| {
        let vrf = vrf.clone()?;
        Some(CniVrf { vid: None, ..vrf })
    };
    CniEvpn {
        vtep: evpn.vtep.clone(),
        mac_vrf: without(&evpn.mac_vrf),
        ip_vrf: without(&evpn.ip_vrf),
    }
}
