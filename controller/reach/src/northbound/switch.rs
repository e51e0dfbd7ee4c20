//! Switches and their ports.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use foldhash::fast::RandomState;
use patchbay_schemas::nb;
use uuid::Uuid;

use super::acl_list::SwitchAcls;
use super::attached::Attached;
use super::dhcp::Gateways;
use super::forwarding_group::ForwardingGroup;
use super::id::{PortId, RouterPortId, SwitchId, SwitchPortId};
use super::mark::Marks;
use super::note::RowRef;
use super::port_security::PortSecurity;
use super::protocol_redirect::ProtocolRedirect;
use super::routable::Announcer;
use super::rows::option;
use super::segment::Segment;
use super::tunnel::Binding;
use crate::address::{Interface, Mac, Prefix};
use crate::packet::Packet;

/// Switch.
#[derive(Debug)]
pub(crate) struct Switch {
    pub(crate) row: RowRef,
    pub(crate) name: String,
    pub(crate) external_ids: BTreeMap<String, String>,
    /// `requested-tnl-key`
    pub(crate) tunnel_key: Option<String>,
    /// Networks of `other_config`.
    pub(crate) subnets: Vec<Prefix>,
    pub(crate) by_mac: HashMap<Mac, Vec<SwitchPortId>, RandomState>,
    /// Ports, with the MAC addresses of the interfaces that have the address.
    pub(crate) by_address: HashMap<IpAddr, Vec<(SwitchPortId, Mac)>, RandomState>,
    pub(crate) router_ports: Vec<(SwitchPortId, RouterPortId)>,
    /// Ports of routers that announce addresses on the switch.
    pub(super) announcers: Vec<Announcer>,
    /// Ports that get packets for unknown MAC addresses.
    pub(crate) unknown: Vec<SwitchPortId>,
    /// Enabled ports of type `switch`, with their peers.
    pub(crate) links: Vec<(SwitchPortId, SwitchPortId)>,
    pub(super) acls: SwitchAcls,
    pub(crate) marks: Marks,
    pub(crate) load_balancers: Attached,
    pub(crate) forwarding_groups: Vec<ForwardingGroup>,
    pub(crate) redirects: Vec<ProtocolRedirect>,
    /// Ports of type `virtual` by their virtual addresses.
    pub(crate) virtual_ports: HashMap<IpAddr, SwitchPortId, RandomState>,
    /// Addresses from which OVN sends health checks. The switch answers requests for them.
    pub(crate) check_sources: HashSet<IpAddr, RandomState>,
    /// Row of `DNS` with records: the switch answers queries for their names.
    pub(crate) dns: Option<RowRef>,
    /// `true` if the switch learns neighbours by EVPN, from `dynamic-routing-vni`.
    pub(crate) has_remote_neighbors: bool,
    pub(crate) flood: RequestFlood,
    /// `vlan-passthru`: the switch answers no ARP requests.
    pub(crate) is_transparent: bool,
    /// `enable-stateless-acl-with-lb`: packets for VIPs are tracked although ACLs do not want it.
    pub(crate) tracks_vips: bool,
    /// Network that ports of type `switch` make with other switches, once a question needed it.
    pub(super) segment: OnceLock<Segment>,
}

/// Switch port.
#[derive(Debug)]
pub(crate) struct SwitchPort {
    pub(crate) row: RowRef,
    pub(crate) name: String,
    pub(crate) switch: SwitchId,
    pub(crate) kind: SwitchPortKind,
    pub(crate) is_enabled: bool,
    pub(crate) external_ids: BTreeMap<String, String>,
    pub(crate) binding: Binding,
    /// Gateways from the `dhcpv4_options` of the port. `None`: OVN gives it no options.
    pub(super) gateways: Option<Arc<Gateways>>,
    /// Gateways that the caller gives. `None`: it gives none.
    pub(crate) given_gateways: Option<Box<Gateways>>,
    /// MAC and IP addresses; for a port to a router with the address `router`, the router port's.
    pub(crate) interfaces: Vec<Interface>,
    /// `true` if the port gets packets for MAC addresses that no port has.
    pub(crate) is_unknown: bool,
    pub(crate) mac_lookup: MacLookup,
    /// Addresses that the port may use. `None`: all.
    pub(crate) security: Option<PortSecurity>,
    /// 802.1Q tag of packets on the network behind a `localnet` port. `None`: they have none.
    pub(crate) tag: Option<u16>,
    /// Router port or other switch port behind this port.
    pub(crate) peer: Option<PortId>,
    /// Networks for which the port answers ARP and ND requests, with its MAC address.
    pub(crate) proxy: Option<Interface>,
    /// `enable_router_port_acl` of a port to a gateway port.
    pub(crate) tracks_router: bool,
    pub(crate) requests: Requests,
    /// `virtual-ip` of a port of type `virtual`.
    pub(crate) virtual_address: Option<IpAddr>,
    /// Aspect of packets from the port that cannot be judged because of its type.
    pub(crate) sender_limit: Option<&'static str>,
}

/// Ports whose requests get to all routers of a switch. Requests for some addresses of a router
/// always get there.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum RequestFlood {
    /// Those of machines and routers, because only routers are on the switch.
    All,
    Machines,
    /// Nobody's, because of `broadcast-arps-to-all-routers=false`.
    Nobody,
}

/// Type of a switch port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum SwitchPortKind {
    /// A machine, or `localport`.
    Machine,
    /// A machine on another chassis.
    Remote,
    Router,
    /// `localnet`: a network that OVN does not know.
    Outside,
    /// `l2gateway`: a network that OVN does not know. Packets from the port and to it are tracked
    /// like those of machines.
    Layer2Gateway,
    /// `vtep`: a network that OVN does not know. Packets from the port meet no ACLs.
    Ramp,
    /// A port of another switch.
    Switch,
    /// `external` or `virtual`: addresses that no port of the type itself delivers.
    Indirect,
}

/// Way in which a switch finds the port of a MAC address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum MacLookup {
    /// By the addresses of the row.
    Row,
    /// By what it learns, because of `force_fdb_lookup`. Before, no port has the MAC address.
    Learned,
}

/// Requests for the addresses of a switch port.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Requests {
    /// `true` if the switch answers them. Otherwise the machine does, because of the address
    /// `unknown` or of `disable_arp_nd_rsp`.
    pub(crate) has_responder: bool,
    /// `true` if the machine does not get those that it would have to answer.
    pub(crate) is_deaf: bool,
}

impl SwitchPortKind {
    /// `true` for a network that OVN does not know.
    pub(crate) fn is_outside(self) -> bool {
        matches!(self, Self::Outside | Self::Layer2Gateway | Self::Ramp)
    }

    /// `true` if machines that are not on the switch may be behind the port.
    pub(crate) fn leads_on(self) -> bool {
        self.is_outside() || self == Self::Switch
    }

    /// The kind that a value of the column `type` stands for.
    pub(super) fn of(name: &str) -> Self {
        match name {
            "remote" => Self::Remote,
            "router" => Self::Router,
            "localnet" => Self::Outside,
            "l2gateway" => Self::Layer2Gateway,
            "vtep" => Self::Ramp,
            "switch" => Self::Switch,
            "external" | "virtual" => Self::Indirect,
            _ => Self::Machine,
        }
    }
}

impl SwitchPort {
    /// Reads a port. `needs_up`: switches answer ARP requests only for ports that are up. `dhcp`: the
    /// gateways of `dhcpv4_options`.
    pub(super) fn new(
        uuid: Uuid,
        row: &nb::LogicalSwitchPort,
        switch: SwitchId,
        needs_up: bool,
        dhcp: Option<&Arc<Gateways>>,
    ) -> Self {
        let kind = SwitchPortKind::of(&row.r#type);
        let addresses = row.addresses.iter().filter_map(|text| {
            let is_dynamic = text.split_ascii_whitespace().any(|word| word == "dynamic");
            let dynamic = row.dynamic_addresses.as_ref().filter(|_| is_dynamic);
            dynamic.or((!is_dynamic).then_some(text))
        });
        let interfaces: Vec<_> = addresses.filter_map(|text| Interface::parse(text)).collect();
        let gateways = dhcp.filter(|dhcp| dhcp.serves(&interfaces));
        let is_unknown = row.addresses.contains("unknown") || kind == SwitchPortKind::Switch;
        let is_deaf = row
            .options
            .get("receive_multicast")
            .is_some_and(|value| value.eq_ignore_ascii_case("false"));
        let is_down = needs_up
            && row.up == Some(false)
            && !matches!(row.r#type.as_str(), "router" | "localport");
        let is_left_alone =
            is_down || row.r#type.is_empty() && option(&row.options, "disable_arp_nd_rsp");
        let is_learned = row.r#type.is_empty()
            && row.addresses.contains("unknown")
            && option(&row.options, "force_fdb_lookup");
        let mac_lookup = if is_learned { MacLookup::Learned } else { MacLookup::Row };
        let sender_limit = match row.r#type.as_str() {
            "external" => Some("by which localnet port the packets of an external port come in"),
            "virtual" => Some("which parent sends the packets of a virtual port"),
            "localport" => Some("which packets of a localport have to leave its chassis"),
            _ => None,
        };
        Self {
            row: RowRef::new::<nb::LogicalSwitchPort>(uuid),
            name: row.name.clone(),
            switch,
            kind,
            is_enabled: row.enabled != Some(false),
            external_ids: row.external_ids.clone(),
            binding: Binding::new(&row.options, &row.external_ids),
            gateways: gateways.map(Arc::clone),
            given_gateways: None,
            interfaces,
            is_unknown: is_unknown && !is_deaf,
            mac_lookup,
            security: PortSecurity::new(&row.port_security),
            tag: row
                .tag
                .filter(|_| kind == SwitchPortKind::Outside)
                .and_then(|tag| tag.try_into().ok()),
            peer: None,
            proxy: row.options.get("arp_proxy").and_then(|text| parse_proxy(text)),
            tracks_router: false,
            requests: Requests { has_responder: !is_unknown && !is_left_alone, is_deaf },
            virtual_address: (row.r#type == "virtual")
                .then(|| row.options.get("virtual-ip")?.parse().ok())
                .flatten(),
            sender_limit,
        }
    }

    /// `true` if packets from this port, and to it, are not sent to connection tracking by ACLs.
    pub(crate) fn skips_tracking(&self) -> bool {
        match self.kind {
            SwitchPortKind::Router => !self.tracks_router,
            SwitchPortKind::Outside | SwitchPortKind::Switch => true,
            _ => false,
        }
    }

    /// `true` if the port has an address, apart from the link-local one of its MAC address.
    pub(crate) fn has(&self, address: IpAddr) -> bool {
        self.interfaces.iter().any(|own| own.has(address))
    }

    /// `true` if the port may send a packet.
    pub(crate) fn may_send(&self, packet: &Packet) -> bool {
        let security = self.security.as_ref();
        security.is_none_or(|security| security.may_send(packet))
    }

    /// `true` if a machine with a MAC address may answer for an IP address.
    pub(crate) fn may_answer(&self, mac: Mac, address: IpAddr) -> bool {
        let security = self.security.as_ref();
        security.is_none_or(|security| security.may_answer(mac, address))
    }

    /// The source MAC address of the frames in which a machine asks or answers with a MAC address.
    pub(crate) fn frame_mac(&self, mac: Mac) -> Mac {
        let security = self.security.as_ref();
        security.map_or(mac, |security| security.frame_mac(mac))
    }

    /// `true` if the port may receive a packet: its own MAC and IP addresses only.
    pub(crate) fn may_receive(&self, packet: &Packet) -> bool {
        let security = self.security.as_ref();
        security.is_none_or(|security| security.may_receive(packet))
    }
}

/// Parses `arp_proxy`: `[MAC] NETWORK...`. Without a MAC address it is zero. `None`: bad option.
fn parse_proxy(text: &str) -> Option<Interface> {
    if let Some(interface) = Interface::parse(text) {
        return Some(interface);
    }
    let words = text.split_ascii_whitespace();
    let addresses: Vec<_> = words.map_while(Prefix::parse).collect();
    (!addresses.is_empty()).then_some(Interface { mac: Mac::ZERO, addresses })
}
