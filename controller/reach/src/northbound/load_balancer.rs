//! Load balancer of a row.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;

use patchbay_schemas::nb::{self, LoadBalancerProtocol};
use uuid::Uuid;

use super::Names;
use super::backend_check::{mapped_port, mapping_key};
use super::note::{Notes, RowRef};
use super::rows::{Tables, option};
use super::vip::{EmptyVip, Vip};
use crate::packet::Transport;
use crate::question::Protocol;

/// Load balancer.
#[derive(Debug)]
pub(crate) struct LoadBalancer {
    pub(crate) row: RowRef,
    pub(crate) name: String,
    /// External ids, by which services are found.
    pub(crate) external_ids: BTreeMap<String, String>,
    protocol: LoadBalancerProtocol,
    pub(crate) vips: Vec<Vip>,
    /// Number of VIPs of the row, bad ones included.
    row_vips: usize,
    pub(crate) skips_snat: bool,
    /// Source addresses of connections from a backend to itself.
    pub(crate) hairpin_sources: Vec<IpAddr>,
    pub(crate) responder: Responder,
    pub(crate) variables: Variables,
    /// `true` if other routers get routes to the VIPs.
    pub(crate) is_routable: bool,
    /// `use_stateless_nat`: routers with gateway ports translate by addresses alone.
    pub(crate) is_stateless: bool,
}

/// Variables of a template.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Variables {
    /// The load balancer is no template.
    None,
    Known,
    /// Chassis have different variables, and none was chosen.
    Guessed,
}

/// VIPs for which a router answers ARP and ND requests.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Responder {
    /// VIPs in a network of the router.
    Reachable,
    All,
    None,
}

impl LoadBalancer {
    /// Protocols and ports of the VIPs.
    pub(crate) fn protocols(&self) -> impl Iterator<Item = Protocol> {
        self.vips.iter().filter_map(|vip| self.protocol_of(vip))
    }

    /// Protocol and port of a VIP. `None`: it is about all of them.
    pub(crate) fn protocol_of(&self, vip: &Vip) -> Option<Protocol> {
        let port = vip.port?;
        Some(match self.protocol {
            LoadBalancerProtocol::Tcp => Protocol::Tcp(port),
            LoadBalancerProtocol::Udp => Protocol::Udp(port),
            LoadBalancerProtocol::Sctp => Protocol::Sctp(port),
        })
    }

    pub(super) fn new(
        uuid: Uuid,
        row: &nb::LoadBalancer,
        tables: &Tables,
        names: &Names,
        has_enabled_port: &dyn Fn(&str) -> bool,
        notes: &mut Notes,
    ) -> Self {
        let reference = RowRef::new::<nb::LoadBalancer>(uuid);
        let is_template = option(&row.options, "template");
        let checked: HashSet<&str> = tables
            .health_checks
            .of(&row.health_check)
            .map(|(_, check)| check.vip.as_str())
            .collect();
        let is_distributed = option(&row.options, "distributed");
        let has_event = option(&row.options, "event") || tables.global_option("controller_event");
        // OVN takes any other value for IPv6.
        let family = row.options.get("address-family");
        let is_ipv4 = family.is_none_or(|family| family == "ipv4");
        let is_mapped = |key: &str| mapped_port(&row.ip_port_mappings, key, true).is_some();
        let is_mapped: Option<&dyn Fn(&str) -> bool> = is_distributed.then_some(&is_mapped);
        let mut vips = Vec::with_capacity(row.vips.len());
        for (key, value) in &row.vips {
            let parsed = if is_template {
                Vip::parse_template(key, value, is_ipv4, names, is_mapped)
            } else {
                Vip::parse(key, value)
            };
            let Some(mut vip) = parsed else {
                notes.add(reference, format!("bad VIP {key} with backends {value}"));
                continue;
            };
            let has_backend = value.split(',').any(|text| !text.is_empty());
            let is_checked = checked.contains(key.as_str())
                && !is_template
                && row.protocol != Some(LoadBalancerProtocol::Sctp);
            if is_checked || is_distributed && !is_template {
                vip.backends.retain(|(address, _)| {
                    mapped_port(&row.ip_port_mappings, &mapping_key(*address), !is_checked)
                        .is_some_and(|port| !is_checked || has_enabled_port(port))
                });
            }
            vip.is_checked = is_checked;
            vip.empty = if option(&row.options, "reject") {
                EmptyVip::Reject
            } else if has_event && !has_backend {
                EmptyVip::Event
            } else {
                EmptyVip::Drop
            };
            vips.push(vip);
        }
        let responder = match row.options.get("neighbor_responder").map(String::as_str) {
            Some("all") => Responder::All,
            Some("none") => Responder::None,
            Some("reachable") if !is_template => Responder::Reachable,
            _ if is_template => Responder::None,
            _ => Responder::Reachable,
        };
        let hairpin_sources = row.options.get("hairpin_snat_ip").map(|text| {
            let words = text.split_ascii_whitespace();
            words.map_while(|word| word.parse().ok()).collect()
        });
        Self {
            row: reference,
            name: row.name.clone(),
            external_ids: row.external_ids.clone(),
            protocol: row.protocol.unwrap_or(LoadBalancerProtocol::Tcp),
            vips,
            row_vips: row.vips.len(),
            skips_snat: option(&row.options, "skip_snat"),
            hairpin_sources: hairpin_sources.unwrap_or_default(),
            responder,
            variables: match (is_template, names.has_guessed_variables()) {
                (false, _) => Variables::None,
                (true, false) => Variables::Known,
                (true, true) => Variables::Guessed,
            },
            is_routable: option(&row.options, "add_route") && !is_template,
            is_stateless: option(&row.options, "use_stateless_nat"),
        }
    }

    /// `true` if switches track packets for the VIPs, although all of them may be bad.
    pub(super) fn has_vip(&self) -> bool {
        self.row_vips > 0
    }

    /// Name, or the UUID if the load balancer has none.
    pub(crate) fn label(&self) -> String {
        if self.name.is_empty() { self.row.uuid.to_string() } else { self.name.clone() }
    }

    pub(crate) fn has_protocol(&self, transport: Transport) -> bool {
        matches!(
            (self.protocol, transport),
            (LoadBalancerProtocol::Tcp, Transport::Tcp { .. })
                | (LoadBalancerProtocol::Udp, Transport::Udp { .. })
                | (LoadBalancerProtocol::Sctp, Transport::Sctp { .. })
        )
    }

    /// `true` if the VIP has a port and the packet is for it.
    pub(super) fn serves(&self, vip: &Vip, transport: Transport) -> bool {
        self.has_protocol(transport) && vip.port == Some(transport.destination_port())
    }
}
