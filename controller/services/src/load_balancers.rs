//! Rows of table `Load_Balancer`.

use std::collections::BTreeMap;

use patchbay_model::external_ids::key;
use patchbay_model::names::{cluster_load_balancer_group, network_prefix};
use patchbay_model::{ClusterSettings, IpFamily, MasqueradePlace, Network, Protocol, Service};
use patchbay_schemas::nb::{LoadBalancer, LoadBalancerProtocol, LoadBalancerSelectionFields};

use super::node::NodePlace;
use super::rules::{ProtocolRules, ServiceRules, Vips};

/// Value of [`key::KIND`].
pub(super) const SERVICE: &str = "Service";
/// Longest affinity in seconds, a day. Clients are then distributed by a hash of their addresses.
const MAX_AFFINITY_TIMEOUT: u32 = 86_400;

/// A load balancer and the rows that use it.
#[derive(Debug)]
pub(super) struct LoadBalancerRows {
    pub(super) row: LoadBalancer,
    pub(super) groups: Vec<String>,
    pub(super) routers: Vec<String>,
    pub(super) switches: Vec<String>,
}

/// Common part of the load balancers of a service.
struct Common<'a> {
    network: &'a Network,
    service: &'a Service,
    hairpin_addresses: String,
}

/// The load balancers of a service. `place`: that of the network on the node of this name; `None`:
/// it has none.
pub(super) fn load_balancers(
    network: &Network,
    service: &Service,
    settings: &ClusterSettings,
    node: &str,
    place: Option<&NodePlace>,
    rules: ServiceRules,
) -> Vec<LoadBalancerRows> {
    let addresses: Vec<String> = IpFamily::BOTH
        .into_iter()
        .filter_map(|family| settings.masquerade_address(MasqueradePlace::Hairpin, family))
        .map(|address| address.to_string())
        .collect();
    let common = Common { network, service, hairpin_addresses: addresses.join(" ") };
    let mut rows = Vec::new();
    for (protocol, mut rules) in rules {
        let cluster = std::mem::take(&mut rules.cluster);
        if !cluster.is_empty() {
            let mut made = common.load_balancer(protocol, "cluster", cluster);
            made.groups.push(cluster_load_balancer_group(&network.name));
            rows.push(made);
        }
        if let Some(place) = place {
            rows.extend(common.of_node(protocol, node, place, rules));
        }
    }
    rows
}

impl Common<'_> {
    /// The load balancers of the zone's node.
    fn of_node(
        &self,
        protocol: Protocol,
        node: &str,
        place: &NodePlace,
        rules: ProtocolRules,
    ) -> Vec<LoadBalancerRows> {
        let make = |scope: &str, vips: Vips| {
            let has_rules = !vips.is_empty();
            has_rules.then(|| self.load_balancer(protocol, &format!("{scope}_{node}"), vips))
        };
        let mut rows = Vec::new();
        let ProtocolRules { router, local_router, switch, .. } = rules;
        if let Some(gateway) = &place.gateway {
            if router == switch {
                rows.extend(make("node_router+switch", router).map(|mut made| {
                    made.routers.push(gateway.router.clone());
                    made.switches.push(place.switch.clone());
                    made
                }));
                return rows;
            }
            rows.extend(make("node_router", router));
            rows.extend(make("node_local_router", local_router).map(|mut made| {
                let skip = ("skip_snat".to_owned(), "true".to_owned());
                made.row.options.extend([skip]);
                made
            }));
            for made in &mut rows {
                made.routers.push(gateway.router.clone());
            }
        }
        rows.extend(make("node_switch", switch).map(|mut made| {
            made.switches.push(place.switch.clone());
            made
        }));
        rows
    }

    fn load_balancer(&self, protocol: Protocol, scope: &str, vips: Vips) -> LoadBalancerRows {
        let Self { network, service, .. } = self;
        let prefix = network_prefix(&network.name);
        let row = LoadBalancer {
            name: format!("{prefix}Service_{}_{protocol}_{scope}", service.key),
            protocol: Some(match protocol {
                Protocol::Tcp => LoadBalancerProtocol::Tcp,
                Protocol::Udp => LoadBalancerProtocol::Udp,
                Protocol::Sctp => LoadBalancerProtocol::Sctp,
            }),
            vips,
            options: self.options(),
            selection_fields: match service.affinity_timeout {
                Some(MAX_AFFINITY_TIMEOUT) => {
                    [LoadBalancerSelectionFields::IpSrc, LoadBalancerSelectionFields::IpDst].into()
                }
                _ => [].into(),
            },
            external_ids: texts([
                (key::OWNER, &service.key.to_string()),
                (key::KIND, SERVICE),
                (key::NETWORK, &network.name),
                (key::ROLE, "primary"),
            ]),
            ..LoadBalancer::default()
        };
        LoadBalancerRows { row, groups: Vec::new(), routers: Vec::new(), switches: Vec::new() }
    }

    fn options(&self) -> BTreeMap<String, String> {
        let mut options = texts([
            ("reject", "true"),
            ("event", "false"),
            ("skip_snat", "false"),
            ("neighbor_responder", "none"),
            ("hairpin_snat_ip", &self.hairpin_addresses),
        ]);
        let timeout = self.service.affinity_timeout;
        if let Some(timeout) = timeout.filter(|timeout| *timeout != MAX_AFFINITY_TIMEOUT) {
            options.insert("affinity_timeout".to_owned(), timeout.to_string());
        }
        options
    }
}

fn texts<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let pairs = pairs.map(|(key, value)| (key.to_owned(), value.to_owned()));
    pairs.into()
}
