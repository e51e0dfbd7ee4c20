//! Configuration of a scenario as settings.

use std::collections::BTreeSet;

use ipnet::IpNet;
use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily};
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) node: String,
    ipv4: bool,
    ipv6: bool,
    gateway_mode: String,
    /// With the prefix length of the nodes' subnets.
    pub(crate) cluster_subnets: Vec<String>,
    service_cidrs: Vec<IpNet>,
    join_subnets: Vec<IpNet>,
    transit_subnets: Vec<IpNet>,
    masquerade_subnets: Vec<IpNet>,
    mtu: u32,
    ephemeral_port_range: String,
    node_ports: bool,
    udn_allowed_default_services: Vec<String>,
    features: Vec<String>,
}

/// Features that are not always on.
fn features(names: &[String]) -> BTreeSet<Feature> {
    let features = Feature::ALL.into_iter();
    let named = features.filter(|feature| names.iter().any(|name| name == feature.as_str()));
    named.collect()
}

/// The cluster's settings.
pub(crate) fn settings(config: &Config) -> Result<ClusterSettings, String> {
    let families = [(config.ipv4, IpFamily::V4), (config.ipv6, IpFamily::V6)].into_iter();
    let range = config.ephemeral_port_range.split_once('-');
    let port = |text: &str| text.parse().map_err(|_| format!("port {text:?}"));
    let range = range.map(|(first, last)| Ok::<_, String>((port(first)?, port(last)?)));
    let cluster_subnet = |text: &String| {
        let at = text.match_indices('/').nth(1).map_or(text.len(), |(at, _)| at);
        let subnet = text[..at].parse::<IpNet>();
        subnet.map_err(|_| format!("cluster subnet {text:?}"))
    };
    Ok(ClusterSettings {
        families: families.filter_map(|(runs, family)| runs.then_some(family)).collect(),
        mtu: config.mtu,
        cluster_subnets: config
            .cluster_subnets
            .iter()
            .map(cluster_subnet)
            .collect::<Result<_, _>>()?,
        service_cidrs: config.service_cidrs.clone(),
        join_subnets: config.join_subnets.clone(),
        masquerade_subnets: config.masquerade_subnets.clone(),
        transit_subnets: config.transit_subnets.clone(),
        gateway_mode: match config.gateway_mode.as_str() {
            "shared" => GatewayMode::Shared,
            "local" => GatewayMode::Local,
            other => return Err(format!("gateway mode {other:?}")),
        },
        ephemeral_ports: range.transpose()?,
        node_ports: config.node_ports,
        reachable_default_services: config.udn_allowed_default_services.clone(),
        features: features(&config.features),
        ..ClusterSettings::default()
    })
}
