//! Load balancers: VIPs, backends, and the datapaths that they are attached to.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, SocketAddr};

use foldhash::fast::RandomState;
use patchbay_schemas::nb::{self, LoadBalancerProtocol};
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::Names;
use super::id::LoadBalancerId;
use super::note::{Notes, RowRef};
use super::rows::{Tables, option};
use crate::packet::{IpPacket, Transport};

/// Load balancer.
#[derive(Debug)]
pub(crate) struct LoadBalancer {
    pub(crate) row: RowRef,
    pub(crate) name: String,
    /// External ids, by which services are found.
    pub(crate) external_ids: BTreeMap<String, String>,
    protocol: LoadBalancerProtocol,
    pub(crate) vips: Vec<Vip>,
    pub(crate) skips_snat: bool,
    /// Source addresses of connections from a backend to itself.
    pub(crate) hairpin_sources: Vec<IpAddr>,
    pub(crate) responder: Responder,
    pub(crate) variables: Variables,
    /// `true` if other routers get routes to the VIPs.
    pub(crate) is_routable: bool,
    /// `use_stateless_nat`: routers with gateway ports translate by addresses alone.
    is_stateless: bool,
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

/// Which VIPs a router answers ARP and ND requests for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Responder {
    /// VIPs in a network of the router.
    Reachable,
    All,
    None,
}

/// Virtual address and its backends.
#[derive(Debug)]
pub(crate) struct Vip {
    pub(crate) address: IpAddr,
    /// `None`: all protocols and ports.
    pub(crate) port: Option<u16>,
    /// Backends that get connections; the port is 0 if the packet's port stays.
    pub(crate) backends: Vec<(IpAddr, u16)>,
    /// What happens to packets if there are no backends.
    pub(crate) empty: EmptyVip,
    /// `true` if the VIP came from a template.
    pub(crate) is_template: bool,
    /// `true` if health checks decide which of the backends get connections.
    pub(crate) is_checked: bool,
}

/// What happens to packets for a VIP without backends.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum EmptyVip {
    Drop,
    Reject,
    /// OVN takes the packets of the protocol for an event, before other VIPs with the address.
    Event,
}

impl EmptyVip {
    /// Verb of what the load balancer does.
    pub(crate) fn verb(self) -> &'static str {
        match self {
            Self::Drop | Self::Event => "drops",
            Self::Reject => "rejects",
        }
    }
}

/// All load balancers, with an index of their VIPs.
#[derive(Debug, Default)]
pub(crate) struct LoadBalancers {
    all: Vec<LoadBalancer>,
    ids: HashMap<Uuid, LoadBalancerId, RandomState>,
    by_address: HashMap<IpAddr, Vec<(LoadBalancerId, usize)>, RandomState>,
}

/// Load balancers of a switch or router.
#[derive(Debug, Default)]
pub(crate) struct Attached {
    ids: HashSet<LoadBalancerId, RandomState>,
    /// `true` if one of the load balancers has a VIP.
    pub(crate) has_vip: bool,
    /// `true` if one of them does, without those of another datapath: a switch tracks packets for it.
    pub(crate) has_own_vip: bool,
    has_stateless: bool,
}

impl LoadBalancers {
    pub(super) fn new(
        tables: &Tables,
        names: &Names,
        has_enabled_port: &dyn Fn(&str) -> bool,
        notes: &mut Notes,
    ) -> Self {
        let mut balancers = Self::default();
        for (uuid, row) in tables.load_balancers.iter() {
            let balancer = LoadBalancer::new(*uuid, row, tables, names, has_enabled_port, notes);
            let id = LoadBalancerId(balancers.all.len() as u32);
            balancers.ids.insert(*uuid, id);
            for (place, vip) in balancer.vips.iter().enumerate() {
                let places = balancers.by_address.entry(vip.address).or_default();
                places.push((id, place));
            }
            balancers.all.push(balancer);
        }
        balancers
    }

    pub(crate) fn get(&self, id: LoadBalancerId) -> &LoadBalancer {
        &self.all[id.0 as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &LoadBalancer> {
        self.all.iter()
    }

    /// The load balancers of a datapath, own ones and those of its groups.
    pub(super) fn attached(
        &self,
        tables: &Tables,
        own: &BTreeSet<Ref<nb::LoadBalancer>>,
        groups: &BTreeSet<Ref<nb::LoadBalancerGroup>>,
    ) -> Attached {
        let mut attached = Attached::default();
        let members = tables.load_balancer_groups.of(groups);
        let of_groups = members.flat_map(|(_, group)| &group.load_balancer);
        for reference in own.iter().chain(of_groups) {
            if let Some(id) = self.ids.get(&reference.uuid) {
                attached.ids.insert(*id);
                attached.has_vip |= !self.get(*id).vips.is_empty();
                attached.has_stateless |= self.get(*id).is_stateless;
            }
        }
        attached.has_own_vip = attached.has_vip;
        attached
    }

    /// VIPs of a datapath that match a packet, those with a port first.
    pub(crate) fn find<'a>(
        &'a self,
        attached: &'a Attached,
        packet: &IpPacket,
    ) -> Vec<(&'a LoadBalancer, &'a Vip)> {
        let Some(places) = self.by_address.get(&packet.destination) else {
            return Vec::new();
        };
        let candidates = || {
            places
                .iter()
                .filter(|(id, _)| attached.ids.contains(id))
                .map(|(id, place)| {
                    let balancer = self.get(*id);
                    (balancer, &balancer.vips[*place])
                })
        };
        let event: Vec<_> = self.event(attached, packet).into_iter().collect();
        if !event.is_empty() {
            return event;
        }
        let exact: Vec<_> = candidates()
            .filter(|(balancer, vip)| balancer.serves(vip, packet.transport))
            .collect();
        if !exact.is_empty() {
            return exact;
        }
        candidates().filter(|(_, vip)| vip.port.is_none()).collect()
    }

    /// `true` if a packet is for a VIP of a datapath. The port counts if the load balancer has
    /// hairpin addresses.
    pub(crate) fn has_destination(&self, attached: &Attached, packet: &IpPacket) -> bool {
        let mut vips = self.at(attached, packet.destination);
        vips.any(|(balancer, vip)| {
            vip.port.is_none()
                || balancer.has_protocol(packet.transport)
                    && (balancer.hairpin_sources.is_empty()
                        || balancer.serves(vip, packet.transport))
        })
    }

    /// A VIP of a datapath without backends that takes a packet for an event.
    pub(crate) fn event<'a>(
        &'a self,
        attached: &'a Attached,
        packet: &IpPacket,
    ) -> Option<(&'a LoadBalancer, &'a Vip)> {
        let port = packet.transport.destination_port();
        self.at(attached, packet.destination)
            .find(|(balancer, vip)| {
                vip.empty == EmptyVip::Event
                    && vip.backends.is_empty()
                    && balancer.has_protocol(packet.transport)
                    && vip.port.is_none_or(|own| own == port)
            })
    }

    /// VIPs of a datapath with an address.
    pub(crate) fn at<'a>(
        &'a self,
        attached: &'a Attached,
        address: IpAddr,
    ) -> impl Iterator<Item = (&'a LoadBalancer, &'a Vip)> {
        let places = self.by_address.get(&address).into_iter().flatten();
        places
            .filter(|(id, _)| attached.ids.contains(id))
            .map(|(id, place)| {
                let balancer = self.get(*id);
                (balancer, &balancer.vips[*place])
            })
    }

    /// `true` if a router does not track packets for an address, so that its VIPs get no new
    /// connections: all of them have `use_stateless_nat`.
    pub(crate) fn is_untracked(&self, attached: &Attached, address: IpAddr) -> bool {
        attached.has_stateless
            && self
                .at(attached, address)
                .all(|(balancer, _)| balancer.is_stateless)
    }

    /// A load balancer with `use_stateless_nat` that takes packets of a backend for answers, because
    /// its VIP has no port. `None`: there is none.
    pub(crate) fn stateless_of(
        &self,
        attached: &Attached,
        backend: IpAddr,
    ) -> Option<&LoadBalancer> {
        let ids = attached.ids.iter().filter(|_| attached.has_stateless);
        let mut stateless = ids
            .map(|id| self.get(*id))
            .filter(|balancer| balancer.is_stateless);
        stateless.find(|balancer| {
            let vips = balancer.vips.iter().filter(|vip| vip.port.is_none());
            vips.flat_map(|vip| &vip.backends)
                .any(|(own, _)| *own == backend)
        })
    }

    /// VIPs of a datapath whose addresses other routers get routes to.
    pub(super) fn routable<'a>(
        &'a self,
        attached: &'a Attached,
    ) -> impl Iterator<Item = (&'a LoadBalancer, &'a Vip)> {
        attached
            .ids
            .iter()
            .map(|id| self.get(*id))
            .filter(|balancer| balancer.is_routable)
            .flat_map(|balancer| balancer.vips.iter().map(move |vip| (balancer, vip)))
    }
}

impl Attached {
    /// Adds the load balancers of another datapath.
    pub(super) fn extend(&mut self, other: &Self) {
        self.ids.extend(&other.ids);
        self.has_vip |= other.has_vip;
        self.has_stateless |= other.has_stateless;
    }
}

impl LoadBalancer {
    fn new(
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
        let mut vips = Vec::with_capacity(row.vips.len());
        for (key, value) in &row.vips {
            let parsed = if is_template {
                parse_vip(
                    &names.expand_templates(key),
                    &names.expand_templates(value),
                    true,
                )
            } else {
                parse_vip(key, value, false)
            };
            let Some(mut vip) = parsed else {
                notes.add(reference, format!("bad VIP {key} with backends {value}"));
                continue;
            };
            let is_checked = checked.contains(key.as_str())
                && !is_template
                && row.protocol != Some(LoadBalancerProtocol::Sctp);
            if is_checked || is_distributed {
                vip.backends.retain(|(address, _)| {
                    mapped_port(&row.ip_port_mappings, *address, !is_checked)
                        .is_some_and(|port| !is_checked || has_enabled_port(port))
                });
            }
            vip.is_checked = is_checked;
            vip.is_template = is_template && key.contains('^');
            vip.empty = match has_event {
                _ if option(&row.options, "reject") => EmptyVip::Reject,
                true => EmptyVip::Event,
                false => EmptyVip::Drop,
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

    /// Name, or the UUID if the load balancer has none.
    pub(crate) fn label(&self) -> String {
        if self.name.is_empty() {
            self.row.uuid.to_string()
        } else {
            self.name.clone()
        }
    }

    fn has_protocol(&self, transport: Transport) -> bool {
        matches!(
            (self.protocol, transport),
            (LoadBalancerProtocol::Tcp, Transport::Tcp { .. })
                | (LoadBalancerProtocol::Udp, Transport::Udp { .. })
                | (LoadBalancerProtocol::Sctp, Transport::Sctp { .. })
        )
    }

    /// `true` if the VIP has a port and the packet is for it.
    fn serves(&self, vip: &Vip, transport: Transport) -> bool {
        self.has_protocol(transport) && vip.port == Some(transport.destination_port())
    }
}

/// Parses a VIP and its backends. `None`: OVN ignores the VIP.
fn parse_vip(key: &str, value: &str, is_template: bool) -> Option<Vip> {
    let (address, port) = parse_endpoint(key)?;
    let mut backends = Vec::new();
    for text in value.split(',').filter(|text| !text.is_empty()) {
        let (backend, backend_port) = parse_endpoint(text.trim())?;
        let is_same_kind = backend.is_ipv4() == address.is_ipv4()
            && (is_template || (backend_port != 0) == (port != 0));
        backends.push(is_same_kind.then_some((backend, backend_port))?);
    }
    Some(Vip {
        address,
        port: (port != 0).then_some(port),
        backends,
        empty: EmptyVip::Drop,
        is_template: false,
        is_checked: false,
    })
}

/// Parses `ADDRESS` or `ADDRESS:PORT`, with brackets around an IPv6 address. The port is 0 if there
/// is none.
fn parse_endpoint(text: &str) -> Option<(IpAddr, u16)> {
    if let Ok(endpoint) = text.parse::<SocketAddr>() {
        return Some((endpoint.ip(), endpoint.port()));
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let address = bare.unwrap_or(text).parse().ok()?;
    Some((address, 0))
}

/// The switch port of a backend in `ip_port_mappings`, whose values are `PORT:SOURCE[:ZONE]`, and
/// also `PORT` if the source is optional.
fn mapped_port(
    mappings: &BTreeMap<String, String>,
    backend: IpAddr,
    is_source_optional: bool,
) -> Option<&str> {
    let value = match backend {
        IpAddr::V4(_) => mappings.get(&backend.to_string()),
        IpAddr::V6(_) => mappings.get(&format!("[{backend}]")),
    }?;
    let (port, source) = match value.strip_prefix('"') {
        Some(quoted) => {
            let (port, source) = quoted.split_once('"')?;
            (port, source.strip_prefix(':'))
        }
        None => match value.split_once(':') {
            Some((port, source)) => (port, Some(source)),
            None => (value.as_str(), None),
        },
    };
    let is_valid = source.map_or(is_source_optional, is_check_source);
    (is_valid && !port.is_empty()).then_some(port)
}

/// `true` if a text is `SOURCE[:ZONE]`, with brackets around an IPv6 address.
fn is_check_source(text: &str) -> bool {
    let (address, zone) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, zone)) => (address, zone.strip_prefix(':')),
            None => return false,
        },
        None => match text.split_once(':') {
            Some((address, zone)) => (address, Some(zone)),
            None => (text, None),
        },
    };
    address.parse::<IpAddr>().is_ok() && zone != Some("")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vip_and_its_backends_are_of_one_kind() {
        let vip = parse_vip("10.96.0.1:80", "10.0.0.1:8080, 10.0.0.2:81", false).unwrap();
        assert_eq!((vip.port, vip.backends.len()), (Some(80), 2));
        let vip = parse_vip("[fd00::1]:80", "[fd01::1]:8080", false).unwrap();
        assert_eq!(vip.backends, [("fd01::1".parse().unwrap(), 8080)]);
        let vip = parse_vip("10.96.0.1", "", false).unwrap();
        assert_eq!((vip.port, vip.backends.len()), (None, 0));
        for (key, value) in [
            ("?", ""),
            ("10.96.0.1:80", "10.0.0.1"),
            ("10.96.0.1", "10.0.0.1:80"),
            ("10.96.0.1:80", "[fd00::1]:80"),
            ("10.96.0.1:80", "10.0.0.1:80,?"),
            ("10.96.0.1:99999", ""),
        ] {
            assert!(parse_vip(key, value, false).is_none(), "{key} {value}");
        }
    }

    #[test]
    fn the_port_of_a_backend_is_before_the_source_of_its_checks() {
        let mappings = [
            ("10.0.0.1".to_owned(), "vm1:10.0.0.254".to_owned()),
            ("[fd00::1]".to_owned(), "\"vm:2\":[fd00::fe]".to_owned()),
            ("fd00::2".to_owned(), "vm3:[fd00::fe]".to_owned()),
            ("[fd00::3]".to_owned(), "vm3:fd00::fe".to_owned()),
            ("10.0.0.4".to_owned(), "vm4".to_owned()),
            ("10.0.0.5".to_owned(), "vm5:10.0.0.254:".to_owned()),
        ];
        let mappings = mappings.into();
        let port = |backend: &str| mapped_port(&mappings, backend.parse().unwrap(), false);
        assert_eq!(port("10.0.0.1"), Some("vm1"));
        assert_eq!(port("fd00::1"), Some("vm:2"));
        for bad in ["10.0.0.2", "fd00::2", "fd00::3", "10.0.0.4", "10.0.0.5"] {
            assert_eq!(port(bad), None, "{bad}");
        }
        let optional = mapped_port(&mappings, "10.0.0.4".parse().unwrap(), true);
        assert_eq!(optional, Some("vm4"));
    }
}
