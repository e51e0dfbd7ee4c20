//! A synthetic capability: sites have routers, links of sites to nodes have ports and routes, and
//! switches of another program hold a group of each site.

use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_rows::{
    Capability, Holding, Identity, Inputs, Layout, Owner, PartRows, Phase, Phases, Reader, RowView,
    Table,
};
use patchbay_schemas::nb::{
    AddressSet, Copp, LoadBalancer, LoadBalancerGroup, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPort, LogicalRouterStaticRoute, LogicalSwitch,
};
use patchbay_schemas::typed::Ref;

use crate::plots::{MADE, Terms};

/// A router of a site.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Site {
    pub(crate) key: u8,
    pub(crate) has_group: bool,
    pub(crate) members: u8,
}

/// A node with which all sites have a link.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct Node {
    pub(crate) address: u8,
    pub(crate) routes: u8,
    /// `true`: the rows of its links stay as they are.
    pub(crate) is_frozen: bool,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Farm {
    pub(crate) sites: OrdMap<u8, Arc<Site>>,
    pub(crate) nodes: OrdMap<u8, Arc<Node>>,
    pub(crate) setting: u8,
}

#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Cell {
    Site(u8),
    Node(u8),
    Setting,
}

impl Inputs for Farm {
    type Cell = Cell;
    type Kind = ();

    fn kind(_: &Cell) {}

    fn diff(&self, earlier: Option<&Self>, _: &[()], changed: &mut dyn FnMut(Cell)) {
        let nothing = Self::default();
        let earlier_or_nothing = earlier.unwrap_or(&nothing);
        for site in keys(&earlier_or_nothing.sites, &self.sites) {
            changed(Cell::Site(site));
        }
        for node in keys(&earlier_or_nothing.nodes, &self.nodes) {
            changed(Cell::Node(node));
        }
        if earlier.is_none_or(|earlier| earlier.setting != self.setting) {
            changed(Cell::Setting);
        }
    }
}

fn keys<V: PartialEq>(old: &OrdMap<u8, V>, new: &OrdMap<u8, V>) -> Vec<u8> {
    let changes = old.diff(new);
    let keys = changes.map(|item| match item {
        DiffItem::Add(key, _)
        | DiffItem::Remove(key, _)
        | DiffItem::Update { new: (key, _), .. } => *key,
    });
    keys.collect()
}

#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(crate) enum Part {
    Shared,
    Site(u8),
    Link(u8, u8),
    Policies(u8),
    Tally(u8),
}

#[derive(Debug)]
pub(crate) struct Farming {
    copps: Table<Copp>,
    routers: Table<LogicalRouter>,
    pub(crate) ports: Table<LogicalRouterPort>,
    routes: Table<LogicalRouterStaticRoute>,
    pub(crate) policies: Table<LogicalRouterPolicy>,
    pub(crate) sets: Table<AddressSet>,
    pub(crate) crowds: Table<AddressSet>,
    groups: Table<LoadBalancerGroup>,
    router_copp: Holding,
    router_ports: Holding,
    router_routes: Holding,
    pub(crate) router_policies: Holding,
    switch_groups: Holding,
    balancers: Table<LoadBalancer>,
}

/// Ports of different links to the first nodes may want one name.
pub(crate) fn port_name(site: u8, node: u8) -> String {
    if node < 5 { format!("port{}", (3 * site + node) % 11) } else { format!("port{site}-{node}") }
}

fn owner(row: &RowView<'_>) -> Owner<Part> {
    let number = |key| row.external_id(key).and_then(|text| text.parse().ok());
    if let (Some("policies"), Some(site)) = (row.external_id("kind"), number("site")) {
        return Owner::Part(Part::Policies(site));
    }
    if row.external_id("kind") == Some("crowd") {
        return Owner::Unowned;
    }
    match (row.external_id("owner"), number("site"), number("node")) {
        (Some("farm"), Some(site), Some(node)) => Owner::Part(Part::Link(site, node)),
        (Some("farm"), Some(site), None) => Owner::Part(Part::Site(site)),
        (Some("farm"), ..) => Owner::Part(Part::Shared),
        (Some(_), ..) => Owner::Other,
        (None, ..) => Owner::Unowned,
    }
}

/// Address sets whose members links contribute.
fn crowd_owner(row: &RowView<'_>) -> Owner<Part> {
    let is_crowd = row.external_id("kind") == Some("crowd");
    let site = row.external_id("site").filter(|_| is_crowd);
    let site = site.and_then(|site| site.parse().ok());
    site.map_or(Owner::Unowned, |site| Owner::Part(Part::Site(site)))
}

/// Load balancers of links belong to their sites, which never want one.
fn balancer_owner(row: &RowView<'_>) -> Owner<Part> {
    let site = row.name().strip_prefix("balancer").and_then(|name| {
        let (site, _) = name.split_once('-')?;
        site.parse().ok()
    });
    site.map_or(Owner::Unowned, |site| Owner::Part(Part::Site(site)))
}

impl Capability for Farming {
    type Part = Part;
    type Inputs = Farm;
    type Group = Option<u8>;
    type Report = String;
    type SharedKey = Terms;
    type Shared = u8;

    const KINDS: &'static [()] = &[()];

    fn declare(layout: &mut Layout<Part>) -> Self {
        let phases = |come, go| Phases { come: Phase(come), change: Phase(come), go: Phase(go) };
        let copps = layout.table(Identity::NAME).shared().declare();
        let routers = layout.table(Identity::NAME).phases(phases(3, 2)).owned_by(owner).declare();
        let ports = layout.table(Identity::NAME).phases(phases(3, 1)).owned_by(owner).declare();
        let routes = layout
            .table(Identity::InHolder(&["ip_prefix"]))
            .phases(phases(4, 0))
            .owned_by(owner)
            .declare();
        let policies =
            layout.table(Identity::InPart("id")).phases(phases(5, 0)).owned_by(owner).declare();
        let sets = layout
            .table(Identity::NAME)
            .staged(AddressSet::ADDRESSES)
            .phases(phases(0, 6))
            .owned_by(owner)
            .declare();
        let crowds = layout
            .table(Identity::NAME)
            .members(AddressSet::ADDRESSES)
            .phases(phases(3, 1))
            .owned_by(crowd_owner)
            .declare();
        let groups = layout.table(Identity::NAME).shared().declare();
        let balancers = layout.table(Identity::NAME).owned_by(balancer_owner).declare();
        let switches = layout.table::<LogicalSwitch>(Identity::NAME).shared().declare();
        Self {
            router_copp: layout.holding(routers, LogicalRouter::COPP, copps),
            router_ports: layout.exclusive_holding(routers, LogicalRouter::PORTS, ports),
            router_routes: layout.exclusive_holding(routers, LogicalRouter::STATIC_ROUTES, routes),
            switch_groups: layout.holding(switches, LogicalSwitch::LOAD_BALANCER_GROUP, groups),
            router_policies: layout.exclusive_holding(routers, LogicalRouter::POLICIES, policies),
            copps,
            routers,
            ports,
            routes,
            policies,
            sets,
            crowds,
            groups,
            balancers,
        }
    }

    fn group(&self, part: &Part) -> Option<u8> {
        match part {
            Part::Shared => None,
            Part::Site(site) | Part::Link(site, _) | Part::Policies(site) | Part::Tally(site) => {
                Some(*site)
            }
        }
    }

    fn comment(&self, group: &Option<u8>) -> String {
        format!("farm {group:?}")
    }

    fn shared(&self, key: &Terms, reader: &Reader<'_, Self>) -> u8 {
        Self::terms(*key, reader)
    }

    fn parts(&self, cell: &Cell, inputs: &Farm, part: &mut dyn FnMut(Part)) {
        match cell {
            // Without sites there are no parts, so that engines meet databases before they index
            // them.
            Cell::Site(site) => {
                part(Part::Shared);
                part(Part::Site(*site));
                part(Part::Policies(*site));
                part(Part::Tally(*site));
                inputs.nodes.keys().for_each(|node| part(Part::Link(*site, *node)));
            }
            Cell::Node(node) => inputs.sites.keys().for_each(|site| part(Part::Link(*site, *node))),
            Cell::Setting => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &Farm) -> bool {
        match part {
            Part::Shared => true,
            Part::Site(site) | Part::Policies(site) | Part::Tally(site) => {
                inputs.sites.contains_key(site)
            }
            Part::Link(site, node) => {
                inputs.sites.contains_key(site) && inputs.nodes.contains_key(node)
            }
        }
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut PartRows<String>) {
        match part {
            Part::Shared => {
                let name = "shared".to_owned();
                rows.put(self.copps, &Copp { name, ..Copp::default() });
            }
            Part::Site(site) => self.site(*site, reader, rows),
            Part::Link(site, node) => self.link(*site, *node, reader, rows),
            Part::Policies(site) => self.policies(*site, reader, rows),
            Part::Tally(site) => Self::tally(*site, reader, rows),
        }
    }
}

impl Farming {
    fn site(&self, number: u8, reader: &Reader<'_, Self>, rows: &mut PartRows<String>) {
        let Some(site) = reader.read(&Cell::Site(number)).sites.get(&number) else {
            return;
        };
        let ids = [("owner", "farm".to_owned()), ("site", number.to_string())];
        let router = LogicalRouter {
            name: format!("router{number}"),
            options: [("key".to_owned(), site.key.to_string())].into(),
            external_ids: ids.map(|(key, value)| (key.to_owned(), value)).into(),
            ..LogicalRouter::default()
        };
        rows.put(self.routers, &router).holds(self.router_copp, "shared");
        self.set(number, site, rows);
        self.crowd(number, site, rows);
        if site.has_group {
            let group = LoadBalancerGroup {
                name: format!("group{number}"),
                load_balancer: reader_balancers(reader),
            };
            rows.put(self.groups, &group).held_by(self.switch_groups, format!("switch{number}"));
        } else {
            rows.report(format!("site {number} has no group"));
        }
    }

    fn link(&self, site: u8, node: u8, reader: &Reader<'_, Self>, rows: &mut PartRows<String>) {
        let inputs = reader.read(&Cell::Site(site));
        if !inputs.sites.contains_key(&site) {
            return;
        }
        let Some(facts) = reader.read(&Cell::Node(node)).nodes.get(&node) else {
            return;
        };
        if facts.is_frozen {
            return self.frozen_link(reader, rows);
        }
        if let Some(first) = reader.claim("address", (site, facts.address)) {
            rows.report(format!("address {} is that of {first:?}", facts.address));
            return;
        }
        rows.report(MADE.to_owned());
        self.join_crowds((site, node), facts, rows);
        let terms = reader.shared(&Terms::OfSite(site));
        let router = format!("router{site}");
        let ids =
            [("owner", "farm".to_owned()), ("site", site.to_string()), ("node", node.to_string())]
                .map(|(key, value)| (key.to_owned(), value));
        let port = LogicalRouterPort {
            name: port_name(site, node),
            mac: format!("{}:{terms}", facts.address),
            external_ids: ids.clone().into(),
            ..LogicalRouterPort::default()
        };
        rows.put(self.ports, &port).held_by(self.router_ports, router.as_str());
        if facts.routes > 0 {
            let balancer =
                LoadBalancer { name: format!("balancer{site}-{node}"), ..LoadBalancer::default() };
            rows.put(self.balancers, &balancer);
        }
        for place in 0..facts.routes {
            // Routes of different nodes may have one prefix.
            let route = LogicalRouterStaticRoute {
                ip_prefix: format!("10.{}.{place}.0/24", if node < 5 { node % 3 } else { node }),
                nexthop: facts.address.to_string(),
                external_ids: ids.clone().into(),
                ..LogicalRouterStaticRoute::default()
            };
            rows.put(self.routes, &route).held_by(self.router_routes, router.as_str());
        }
    }
}

fn reader_balancers<T>(_: &Reader<'_, Farming>) -> std::collections::BTreeSet<Ref<T>> {
    std::collections::BTreeSet::new()
}
