//! Addresses from which OVN sends health checks, for which switches answer requests.

use std::net::IpAddr;

use patchbay_schemas::nb::{LoadBalancer, LoadBalancerProtocol};

use super::backend_check::{mapped_check, mapping_key};
use super::id::{PortId, SwitchId};
use super::ports::Ports;
use super::rows::{Tables, option};
use super::vip::Vip;

/// The switches on which OVN sends health checks, each with a source address.
///
/// A load balancer need not be one of a switch or router for it.
pub(super) fn read_check_sources(tables: &Tables, ports: &Ports) -> Vec<(SwitchId, IpAddr)> {
    let balancers = tables.load_balancers.iter();
    let mut sources: Vec<_> =
        balancers.flat_map(|(_, balancer)| backend_sources(balancer, tables, ports)).collect();
    for (uuid, row) in tables.switch_ports.iter() {
        let Some(id) = ports.by_uuid.get(uuid) else {
            continue;
        };
        let port = &ports.switch_ports[id.0 as usize];
        for (_, check) in tables.port_checks.of(&row.health_checks) {
            let is_own = |address: &IpAddr| port.has(*address);
            if check.address.parse().as_ref().is_ok_and(is_own)
                && let Ok(source) = check.src_ip.parse()
            {
                sources.push((port.switch, source));
            }
        }
    }
    sources
}

/// Sources of the health checks of a load balancer's backends.
fn backend_sources(
    balancer: &LoadBalancer,
    tables: &Tables,
    ports: &Ports,
) -> Vec<(SwitchId, IpAddr)> {
    let is_checked = !option(&balancer.options, "template")
        && balancer.protocol != Some(LoadBalancerProtocol::Sctp);
    let checks = tables.health_checks.of(&balancer.health_check);
    let vips = checks
        .filter(|_| is_checked)
        .filter_map(|(_, check)| Vip::parse(&check.vip, balancer.vips.get(&check.vip)?));
    let backends = vips.flat_map(|vip| vip.backends);
    let sources = backends.filter_map(|(backend, _)| {
        let (port, source) = mapped_check(&balancer.ip_port_mappings, &mapping_key(backend))?;
        match ports.by_name.get(port)? {
            PortId::Switch(id) => Some((ports.switch_ports[id.0 as usize].switch, source)),
            PortId::Router(_) => None,
        }
    });
    sources.collect()
}
