//! NAT rules of a router.

mod tracking;

use std::net::IpAddr;
use std::sync::Arc;

use patchbay_schemas::nb::{self, NatType};
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::id::RouterPortId;
use super::note::{Notes, RowRef};
use super::port_range::PortRange;
use super::router::RouterPort;
use super::rows::{Tables, option};
use super::{Names, RouterKind};
use crate::address::{Mac, Prefix, bits, width};
use crate::expression::{Match, ValueSet};
use crate::packet::Packet;

/// Priority of a rule with a match, without the one of its row.
const MATCH_PRIORITY: i64 = 300;
/// Priority of a DNAT rule without a match.
const DNAT_PRIORITY: i64 = 100;
/// Advantage of SNAT rules of a distributed router over those of a gateway router.
const DISTRIBUTED_SNAT_BONUS: i64 = 128;
/// Advantage of the exempted addresses of a rule over the rule.
const EXEMPTED_BONUS: i64 = 2;

/// NAT rule that OVN has.
#[derive(Debug)]
pub(crate) struct Nat {
    pub(crate) row: RowRef,
    pub(crate) kind: NatType,
    pub(crate) external: IpAddr,
    pub(crate) logical: Prefix,
    /// Gateway port at which a distributed router translates. `None`: all ports.
    pub(crate) gateway: Option<RouterPortId>,
    /// Machine whose port and MAC address the rule names. `None`: it is not of type
    /// `dnat_and_snat` at a gateway port, or names none.
    machine: Option<Machine>,
    /// `true` if the gateway port's chassis translates even if the rule names a machine.
    is_central: bool,
    /// `true` if other routers get a route to the external address.
    pub(crate) is_routable: bool,
    /// `stateless`: the rule translates without connection tracking.
    pub(crate) is_stateless: bool,
    /// `external_port_range`. `None`: ports stay.
    ports: Option<PortRange>,
    actions: ValidActions,
    matches: NatMatch,
    row_priority: i64,
    /// Addresses on the other side for which the rule holds. `None`: all.
    allowed: Option<Arc<ValueSet>>,
    /// Addresses on the other side for which the rule does not hold.
    exempted: Option<Arc<ValueSet>>,
}

/// Machine that a rule names.
#[derive(Clone, Copy, Debug)]
struct Machine {
    /// Column `external_mac`.
    mac: Mac,
    /// `true` if the port exists on some chassis.
    is_resident: bool,
}

/// Actions of a rule that OVN can read: they have texts of the row.
#[derive(Clone, Copy, Debug)]
struct ValidActions {
    on_destinations: bool,
    on_sources: bool,
}

/// Condition of the column `match`.
#[derive(Debug)]
enum NatMatch {
    Always,
    If(Match),
    /// The match is bad.
    Never,
}

impl NatMatch {
    fn holds(&self, packet: &Packet) -> bool {
        match self {
            Self::Always => true,
            Self::If(own) => own.matches(packet),
            Self::Never => false,
        }
    }
}

impl Nat {
    /// Reads a rule. The error is the reason why OVN ignores it.
    pub(super) fn new(
        uuid: Uuid,
        row: &nb::Nat,
        kind: &RouterKind,
        ports: &[(RouterPortId, &RouterPort)],
        tables: &Tables,
        names: &Names,
        notes: &mut Notes,
    ) -> Result<Self, String> {
        let external = Prefix::parse(&row.external_ip)
            .ok_or_else(|| format!("bad external_ip {}", row.external_ip))?;
        let mac = match &row.external_mac {
            Some(text) => Some(Mac::parse(text).ok_or_else(|| format!("bad external_mac {text}"))?),
            None => None,
        };
        if row.allowed_ext_ips.is_some() && row.exempted_ext_ips.is_some() {
            return Err("allowed_ext_ips and exempted_ext_ips exclude each other".to_owned());
        }
        let logical = Prefix::parse(&row.logical_ip)
            .filter(|logical| logical.address.is_ipv4() == external.address.is_ipv4())
            .filter(|logical| row.r#type == NatType::Snat || logical.is_host())
            .ok_or_else(|| format!("bad logical_ip {}", row.logical_ip))?;
        let gateway = gateway_port(row, external.address, kind, ports)?;
        // A bad match leaves the address with the router, although nothing is translated.
        let parsed = (!row.r#match.is_empty()).then(|| Match::parse_nested(&row.r#match, names));
        let reference = RowRef::new::<nb::Nat>(uuid);
        let matches = match parsed {
            None => NatMatch::Always,
            Some(Ok(parsed)) => match parsed.first_group(names) {
                None => NatMatch::If(parsed),
                Some(group) => {
                    notes.add(reference, format!("routers do not know port group {group}"));
                    NatMatch::Never
                }
            },
            Some(Err(error)) => {
                notes.add(reference, format!("bad match: {error}"));
                NatMatch::Never
            }
        };
        let machine = row
            .logical_port
            .as_ref()
            .zip(mac)
            .filter(|_| row.r#type == NatType::DnatAndSnat && gateway.is_some())
            .map(|(port, mac)| Machine { mac, is_resident: names.is_resident(port) });
        let address_set = |reference: Option<Ref<nb::AddressSet>>| {
            let set = tables.address_sets.get(reference?)?;
            names.address_set(&set.name).map(Arc::clone)
        };
        let is_stateless = row.r#type == NatType::DnatAndSnat && option(&row.options, "stateless");
        let range = &row.external_port_range;
        let has_range = !is_stateless && !range.is_empty();
        let ports_of_range = has_range.then(|| PortRange::parse(range)).flatten();
        let is_range_valid = !has_range || ports_of_range.is_some();
        if !is_range_valid {
            notes.add(reference, format!("bad external_port_range {range}"));
        }
        // OVN cannot compare IPv4 addresses with a set that has IPv6 addresses.
        let is_comparable = |set: &Arc<ValueSet>| set.width() <= width(external.address).into();
        Ok(Self {
            row: reference,
            kind: row.r#type,
            external: external.address,
            logical,
            gateway,
            machine,
            is_central: gateway.is_some_and(|gateway| is_central(gateway, kind, ports)),
            is_routable: row.r#type != NatType::Snat && option(&row.options, "add_route"),
            is_stateless,
            ports: ports_of_range,
            actions: ValidActions {
                on_destinations: is_range_valid && !row.logical_ip.contains('/'),
                on_sources: is_range_valid && !row.external_ip.contains('/'),
            },
            matches,
            row_priority: row.priority,
            allowed: address_set(row.allowed_ext_ips)
                .map(|set| if is_comparable(&set) { set } else { Arc::default() }),
            exempted: address_set(row.exempted_ext_ips).filter(is_comparable),
        })
    }

    /// `true` if the rule gives packets another port of its range than a port.
    pub(crate) fn moves_port(&self, port: u16) -> bool {
        self.ports.is_some_and(|ports| !ports.contains(port))
    }

    pub(crate) fn translates_destination(&self) -> bool {
        self.kind != NatType::Snat
    }

    pub(crate) fn translates_source(&self) -> bool {
        self.kind != NatType::Dnat
    }

    /// MAC address of the external address, if a distributed router translates where the machine
    /// is. `None`: the router port's.
    pub(crate) fn distributed_mac(&self) -> Option<Mac> {
        Some(self.distributed()?.mac)
    }

    /// `true` if the rule works on some chassis.
    pub(crate) fn is_resident(&self) -> bool {
        self.distributed().is_none_or(|machine| machine.is_resident)
    }

    fn distributed(&self) -> Option<Machine> {
        self.machine.filter(|_| !self.is_central)
    }

    /// MAC address by which other routers know the external address, even if the gateway port's
    /// chassis translates. `None`: the router port's.
    pub(crate) fn known_mac(&self) -> Option<Mac> {
        Some(self.machine?.mac)
    }

    /// `true` if a switch sends packets for a MAC address to the gateway ports of the router.
    pub(crate) fn attracts(&self, mac: Mac) -> bool {
        let mut machine = self.machine.iter();
        machine.any(|machine| machine.mac == mac && machine.is_resident)
    }

    /// Addresses on the other side that a rule without state names, and what the rule does for
    /// them. `None`: the rule has state, or holds for all addresses.
    pub(crate) fn stateless_limit(&self) -> Option<(Limit, &ValueSet)> {
        if !self.is_stateless {
            return None;
        }
        let allowed = self.allowed.as_deref().map(|set| (Limit::Allowed, set));
        allowed.or(self.exempted.as_deref().map(|set| (Limit::Exempted, set)))
    }

    /// Priority of the translation of destinations.
    fn dnat_priority(&self) -> i64 {
        match self.matches {
            NatMatch::Always => DNAT_PRIORITY,
            NatMatch::If(_) | NatMatch::Never => MATCH_PRIORITY + self.row_priority,
        }
    }

    /// Priority of the translation of sources.
    fn snat_priority(&self) -> i64 {
        match (&self.matches, self.gateway) {
            (NatMatch::Always, None) => i64::from(self.logical.length) + 1,
            (NatMatch::Always, Some(_)) => {
                i64::from(self.logical.length) + 1 + DISTRIBUTED_SNAT_BONUS
            }
            (NatMatch::If(_) | NatMatch::Never, _) => MATCH_PRIORITY + self.row_priority,
        }
    }

    /// The effect of the rule on the destination of a packet that came in by a port.
    pub(crate) fn dnat(
        &self,
        packet: &Packet,
        source: IpAddr,
        destination: IpAddr,
        input: RouterPortId,
    ) -> Option<NatEffect<'_>> {
        let applies = self.translates_destination()
            && self.is_resident()
            && destination == self.external
            && self.gateway.is_none_or(|gateway| gateway == input);
        self.effect(applies, self.actions.on_destinations, self.dnat_priority(), packet, source)
    }

    /// The effect of the rule on the source of a packet that goes out by a port.
    pub(crate) fn snat(
        &self,
        packet: &Packet,
        source: IpAddr,
        destination: IpAddr,
        output: RouterPortId,
    ) -> Option<NatEffect<'_>> {
        let applies = self.translates_source()
            && self.is_resident()
            && self.logical.contains(source)
            && self.gateway.is_none_or(|gateway| gateway == output);
        self.effect(applies, self.actions.on_sources, self.snat_priority(), packet, destination)
    }

    /// `true` if the rule holds for an address on the other side, apart from exempted ones.
    pub(crate) fn allows(&self, other: IpAddr) -> bool {
        let allowed = self.allowed.as_ref();
        allowed.is_none_or(|allowed| allowed.contains(bits(other)))
    }

    /// The effect of the rule, if it applies, with the address on the other side of the packet.
    /// `is_valid`: OVN can read its action.
    fn effect(
        &self,
        applies: bool,
        is_valid: bool,
        priority: i64,
        packet: &Packet,
        other: IpAddr,
    ) -> Option<NatEffect<'_>> {
        if !applies || !self.allows(other) {
            return None;
        }
        let exempted = self.exempted.as_ref();
        if exempted.is_some_and(|exempted| exempted.contains(bits(other))) {
            return Some(NatEffect {
                priority: priority + EXEMPTED_BONUS,
                nat: self,
                is_exempted: true,
            });
        }
        (is_valid && self.matches.holds(packet)).then_some(NatEffect {
            priority,
            nat: self,
            is_exempted: false,
        })
    }
}

/// Translation of the addresses that a rule names.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Limit {
    /// `allowed_ext_ips`: the rule holds for them only.
    Allowed,
    /// `exempted_ext_ips`: the rule does not hold for them.
    Exempted,
}

/// Effect of a NAT rule on a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NatEffect<'a> {
    pub(crate) priority: i64,
    pub(crate) nat: &'a Nat,
    /// `true` if the rule leaves the packet as it is.
    pub(crate) is_exempted: bool,
}

/// Reads the rules of a router.
pub(super) fn read_rules<'a>(
    rows: impl IntoIterator<Item = (Uuid, &'a nb::Nat)>,
    kind: &RouterKind,
    ports: &[(RouterPortId, &RouterPort)],
    tables: &Tables,
    names: &Names,
    notes: &mut Notes,
) -> Vec<Nat> {
    let mut rules = Vec::new();
    for (uuid, row) in rows {
        match Nat::new(uuid, row, kind, ports, tables, names, notes) {
            Ok(rule) => rules.push(rule),
            Err(reason) => notes.add(RowRef::new::<nb::Nat>(uuid), reason),
        }
    }
    rules
}

/// `true` if a gateway port serves all addresses at its chassis.
fn is_central(
    gateway: RouterPortId,
    kind: &RouterKind,
    ports: &[(RouterPortId, &RouterPort)],
) -> bool {
    let is_only = matches!(kind, RouterKind::Distributed { gateways } if gateways.len() == 1);
    let mut ports = ports.iter().filter(|(id, _)| *id == gateway);
    is_only && ports.any(|(_, port)| port.is_overlay)
}

/// The gateway port of a rule: the named one, the only one, or the one with a network that has the
/// external address. `Ok(None)`: the router has none.
fn gateway_port(
    row: &nb::Nat,
    external: IpAddr,
    kind: &RouterKind,
    ports: &[(RouterPortId, &RouterPort)],
) -> Result<Option<RouterPortId>, String> {
    let gateways = match kind {
        RouterKind::Distributed { gateways } => gateways,
        RouterKind::Gateway { .. } => &Vec::new(),
    };
    if let Some(reference) = row.gateway_port {
        let named =
            ports.iter().find(|(id, port)| port.uuid == reference.uuid && gateways.contains(id));
        return match named {
            Some((id, _)) => Ok(Some(*id)),
            None => Err("gateway_port is no distributed gateway port of the router".to_owned()),
        };
    }
    match gateways[..] {
        [] => Ok(None),
        [only] => Ok(Some(only)),
        _ => ports
            .iter()
            .find(|(id, port)| gateways.contains(id) && port.network_of(external).is_some())
            .map(|(id, _)| Some(*id))
            .ok_or_else(|| "external_ip is in no network of a gateway port".to_owned()),
    }
}
