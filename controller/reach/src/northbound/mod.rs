//! Index of a Northbound database: what the rows mean, ready to be asked.

mod acl;
mod acl_list;
mod attached;
mod backend_check;
mod build;
mod build_switches;
mod check_source;
mod conflict;
mod dhcp;
mod forwarding_group;
mod id;
mod load_balancer;
mod load_balancer_index;
mod mark;
mod nat;
mod neighbor;
mod note;
mod policy;
mod port_range;
mod port_security;
mod ports;
mod protocol_redirect;
mod routable;
mod route;
mod router;
mod rows;
mod segment;
mod switch;
mod tunnel;
mod vip;
mod virtual_router;

pub(crate) use acl::{Acl, AclDecision, AclPlace};
pub use conflict::Conflict;
pub(crate) use dhcp::Hop;
pub use dhcp::MachineRoute;
pub(crate) use forwarding_group::ForwardingGroup;
pub(crate) use id::{PortId, RouterId, RouterPortId, SwitchId, SwitchPortId};
pub(crate) use load_balancer::{LoadBalancer, Responder, Variables};
pub(crate) use load_balancer_index::LoadBalancers;
pub(crate) use nat::{Limit, Nat, NatEffect};
pub(crate) use neighbor::{Neighbor, Owner};
pub use note::{Note, RowRef};
pub(crate) use policy::{Policy, PolicyAction, PolicyHop};
pub use route::Northd;
pub(crate) use route::{Route, RouteKind};
pub(crate) use router::{CommitAll, Link, Router, RouterKind, RouterPort};
pub(crate) use segment::Linked;
pub(crate) use switch::{Switch, SwitchPort, SwitchPortKind};
pub(crate) use vip::{Backend, Vip};

use std::collections::HashMap;
use std::net::IpAddr;

use foldhash::fast::RandomState;

use crate::address::Mac;
use crate::expression::Names;

/// Index of a Northbound database.
///
/// It is built once from a snapshot, in O(rows) and their references, and answers any number of
/// questions.
///
/// ```
/// use patchbay_engine::db::Database;
/// use patchbay_engine::txn::TxnBuilder;
/// use patchbay_reach::{Destination, Northbound, Protocol, Question, Sender, Verdict};
/// use patchbay_schemas::nb::{self, LogicalSwitch, LogicalSwitchPort};
///
/// let mut database = Database::new(nb::schema());
/// let mut txn = TxnBuilder::new(&database.snapshot());
/// let mut ports = std::collections::BTreeSet::new();
/// for number in 1..=2 {
///     ports.insert(txn.insert(&LogicalSwitchPort {
///         name: format!("vm{number}"),
///         addresses: [format!("0a:00:00:00:00:0{number} 10.0.0.{number}")].into(),
///         ..Default::default()
///     })?);
/// }
/// let other_config = [("subnet".to_owned(), "10.0.0.0/24".to_owned())].into();
/// txn.insert(&LogicalSwitch { name: "sw0".into(), ports, other_config, ..Default::default() })?;
/// database.transact(txn.finish().operations())?;
///
/// let northbound = Northbound::new(&database.snapshot(), None);
/// let answer = northbound.answer(&Question {
///     sender: Sender::port("vm1"),
///     destination: Destination::Address("10.0.0.2".parse()?),
///     protocol: Protocol::Tcp(80),
/// })?;
/// assert_eq!((answer.verdict, answer.out.as_deref()), (Verdict::Reaches, Some("vm2")));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Northbound {
    pub(crate) switches: Vec<Switch>,
    pub(crate) routers: Vec<Router>,
    switch_ports: Vec<SwitchPort>,
    router_ports: Vec<RouterPort>,
    pub(crate) names: Names,
    pub(crate) load_balancers: LoadBalancers,
    static_macs: HashMap<(RouterPortId, IpAddr), Mac, RandomState>,
    /// Row with `acl_ct_translation`. `None`: the option is not set.
    acl_translation: Option<RowRef>,
    /// `true` if packets that no ACL allows are dropped, on switches with ACLs.
    pub(crate) drops_by_default: bool,
    /// `svc_monitor_mac`: MAC address from which OVN sends health checks.
    pub(crate) monitor_mac: Mac,
    /// `use_common_zone`: distributed routers track all connections in one zone.
    pub(crate) has_common_zone: bool,
    /// The ovn-northd that reads the database. `None`: not known.
    northd: Option<Northd>,
    /// Names of nodes by their chassis.
    node_names: HashMap<String, String, RandomState>,
    notes: Vec<Note>,
}

impl Northbound {
    /// Rows, or parts of rows, that OVN ignores.
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Names the ovn-northd that reads the database. Without it, answers are those of
    /// [`Northd::Stock`], and their field `open` names others that Kube-OVN's would give.
    pub fn set_northd(&mut self, northd: Northd) {
        self.northd = Some(northd);
    }

    /// Names the node of a chassis, for texts of answers.
    pub fn set_node_name(&mut self, chassis: impl Into<String>, node: impl Into<String>) {
        self.node_names.insert(chassis.into(), node.into());
    }

    pub(crate) fn northd(&self) -> Option<Northd> {
        self.northd
    }

    /// The name of a chassis' node, or else its own.
    pub(crate) fn node_name<'a>(&'a self, chassis: &'a str) -> &'a str {
        self.node_names.get(chassis).map_or(chassis, String::as_str)
    }

    /// Number of switch ports.
    pub fn port_count(&self) -> usize {
        self.switch_ports.len()
    }

    pub(crate) fn switch(&self, id: SwitchId) -> &Switch {
        &self.switches[id.0 as usize]
    }

    pub(crate) fn router(&self, id: RouterId) -> &Router {
        &self.routers[id.0 as usize]
    }

    pub(crate) fn switch_port(&self, id: SwitchPortId) -> &SwitchPort {
        &self.switch_ports[id.0 as usize]
    }

    pub(crate) fn router_port(&self, id: RouterPortId) -> &RouterPort {
        &self.router_ports[id.0 as usize]
    }

    pub(crate) fn switch_ports(&self) -> impl Iterator<Item = (SwitchPortId, &SwitchPort)> {
        let ports = self.switch_ports.iter().enumerate();
        ports.map(|(number, port)| (SwitchPortId(number as u32), port))
    }

    pub(crate) fn port_name(&self, port: PortId) -> &str {
        match port {
            PortId::Switch(port) => &self.switch_port(port).name,
            PortId::Router(port) => &self.router_port(port).name,
        }
    }
}
