//! Columns of each view.

use std::collections::HashMap;

use super::index::{Index, RowView};
use super::table::{Column, Line};

/// Rows that a command shows.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Kind {
    Routes,
    Policies,
    Acls,
    Nat,
    LoadBalancers,
    Ports,
}

const ROUTES: &[Column] = &[
    Column::new("ROUTER"),
    Column::new("PREFIX"),
    Column::new("NEXT HOP"),
    Column::new("PORT"),
    Column::new("ROUTE TABLE"),
    Column::wide("POLICY"),
    Column::wide("BFD"),
];
const POLICIES: &[Column] = &[
    Column::new("ROUTER"),
    Column::new("PRIORITY"),
    Column::new("MATCH"),
    Column::new("ACTION"),
    Column::wide("CHAIN"),
    Column::wide("OPTIONS"),
];
const ACLS: &[Column] = &[
    Column::new("ON"),
    Column::new("DIRECTION"),
    Column::new("TIER"),
    Column::new("PRIORITY"),
    Column::new("MATCH"),
    Column::new("ACTION"),
    Column::wide("NAME"),
    Column::wide("LOG"),
];
const NAT: &[Column] = &[
    Column::new("ROUTER"),
    Column::new("TYPE"),
    Column::new("EXTERNAL"),
    Column::new("LOGICAL"),
    Column::new("PORT"),
    Column::wide("MATCH"),
    Column::wide("OPTIONS"),
];
const LOAD_BALANCERS: &[Column] = &[
    Column::new("NAME"),
    Column::new("PROTOCOL"),
    Column::new("VIP"),
    Column::new("BACKENDS"),
    Column::wide("ON"),
    Column::wide("OPTIONS"),
];
const PORTS: &[Column] = &[
    Column::new("NAME"),
    Column::new("ON"),
    Column::new("TYPE"),
    Column::new("ADDRESSES"),
    Column::wide("PEER"),
    Column::wide("SECURITY"),
    Column::wide("OPTIONS"),
];

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Routes => "routes",
            Self::Policies => "policies",
            Self::Acls => "acls",
            Self::Nat => "nat",
            Self::LoadBalancers => "lbs",
            Self::Ports => "ports",
        }
    }

    pub(super) fn columns(self) -> &'static [Column] {
        match self {
            Self::Routes => ROUTES,
            Self::Policies => POLICIES,
            Self::Acls => ACLS,
            Self::Nat => NAT,
            Self::LoadBalancers => LOAD_BALANCERS,
            Self::Ports => PORTS,
        }
    }

    /// All rows of the kind in a database, in an order for readers.
    pub(super) fn lines<'a>(self, index: &Index<'a>) -> Vec<Line<'a>> {
        let mut lines = match self {
            Self::Routes => routes(index),
            Self::Policies => policies(index),
            Self::Acls => acls(index),
            Self::Nat => nat(index),
            Self::LoadBalancers => load_balancers(index),
            Self::Ports => ports(index),
        };
        lines.sort_by_cached_key(|line| self.order(&line.cells));
        lines
    }

    /// Cells by which lines are sorted. High priorities come first.
    fn order(self, cells: &[String]) -> Vec<String> {
        let falling = |text: &str| format!("{:05}", 99_999 - text.parse::<i64>().unwrap_or(0));
        match self {
            Self::Policies => {
                vec![cells[0].clone(), cells[4].clone(), falling(&cells[1]), cells[2].clone()]
            }
            Self::Acls => vec![
                cells[0].clone(),
                cells[1].clone(),
                cells[2].clone(),
                falling(&cells[3]),
                cells[4].clone(),
            ],
            Self::Ports => vec![cells[1].clone(), cells[0].clone()],
            Self::Routes | Self::Nat | Self::LoadBalancers => cells.to_vec(),
        }
    }
}

/// Names of the rows that hold a row: the first one, and the number of the others.
fn held_by(index: &Index<'_>, row: &RowView<'_>) -> String {
    match index.holders(row.uuid()) {
        [] => "-".to_owned(),
        [only] => title(only),
        [first, others @ ..] => format!("{} +{}", title(first), others.len()),
    }
}

/// Name of a switch, router or group, as its owner knows it.
fn title(row: &RowView<'_>) -> String {
    match row.owner() {
        Some(owner) if owner.kind == "network" || owner.kind == "router" => {
            // Neutron's own names are UUIDs.
            if row.name().starts_with("neutron-") { owner.name } else { row.name() }
        }
        _ => row.name(),
    }
}

fn routes<'a>(index: &Index<'a>) -> Vec<Line<'a>> {
    let rows = index.rows("Logical_Router_Static_Route").into_iter();
    let lines = rows.map(|row| {
        let cells = vec![
            held_by(index, &row),
            row.text("ip_prefix"),
            row.text("nexthop"),
            row.text("output_port"),
            row.text("route_table"),
            row.text("policy"),
            row.text("bfd"),
        ];
        Line::new(row, cells)
    });
    lines.collect()
}

fn policies<'a>(index: &Index<'a>) -> Vec<Line<'a>> {
    let rows = index.rows("Logical_Router_Policy").into_iter();
    let lines = rows.map(|row| {
        let mut hops = row.texts("nexthops");
        hops.extend(row.texts("nexthop"));
        let target = [hops.join(","), row.text("jump_chain")].join("");
        let action = format!("{} {target}", row.text("action"));
        let cells = vec![
            held_by(index, &row),
            row.text("priority"),
            row.text("match"),
            action.trim_end().to_owned(),
            row.text("chain"),
            row.texts("options").join(","),
        ];
        Line::new(row, cells)
    });
    lines.collect()
}

fn acls<'a>(index: &Index<'a>) -> Vec<Line<'a>> {
    let rows = index.rows("ACL").into_iter();
    let lines = rows.map(|row| {
        let cells = vec![
            held_by(index, &row),
            row.text("direction"),
            row.text("tier"),
            row.text("priority"),
            row.text("match"),
            row.text("action"),
            row.text("name"),
            row.text("log"),
        ];
        Line::new(row, cells)
    });
    lines.collect()
}

fn nat<'a>(index: &Index<'a>) -> Vec<Line<'a>> {
    let rows = index.rows("NAT").into_iter();
    let lines = rows.map(|row| {
        let range = row.text("external_port_range");
        let external = [row.text("external_ip"), range].join(":");
        let cells = vec![
            held_by(index, &row),
            row.text("type"),
            external.trim_end_matches(':').to_owned(),
            row.text("logical_ip"),
            row.text("logical_port"),
            row.text("match"),
            row.texts("options").join(","),
        ];
        Line::new(row, cells)
    });
    lines.collect()
}

fn load_balancers<'a>(index: &Index<'a>) -> Vec<Line<'a>> {
    let mut lines = Vec::new();
    for row in index.rows("Load_Balancer") {
        let protocol = row.text("protocol");
        let protocol = if protocol.is_empty() { "tcp".to_owned() } else { protocol };
        for (vip, backends) in row.pairs("vips") {
            let backends = if backends.is_empty() { "-".to_owned() } else { backends };
            let cells = vec![
                row.name(),
                protocol.clone(),
                vip,
                backends,
                held_by(index, &row),
                row.texts("options").join(","),
            ];
            lines.push(Line::new(row, cells));
        }
    }
    lines
}

fn ports<'a>(index: &Index<'a>) -> Vec<Line<'a>> {
    let router_ports: HashMap<String, RowView<'a>> =
        index.rows("Logical_Router_Port").into_iter().map(|row| (row.text("name"), row)).collect();
    let mut lines = Vec::new();
    for row in index.rows("Logical_Switch_Port") {
        let peer = row.value("options", "router-port");
        let mut addresses = row.texts("addresses");
        // The address of a port to a router is that of the router's port.
        if let Some(behind) = router_ports.get(&peer).filter(|_| addresses == ["router"]) {
            addresses =
                vec![[vec![behind.text("mac")], behind.texts("networks")].concat().join(" ")];
        }
        addresses.extend(row.texts("dynamic_addresses"));
        let switch = index.holders(row.uuid()).iter();
        let mut switch = switch.filter(|holder| holder.table_name() == "Logical_Switch");
        let cells = vec![
            row.name(),
            switch.next().map_or_else(|| "-".to_owned(), title),
            row.text("type"),
            addresses.join(", "),
            if peer.is_empty() { row.text("peer") } else { peer },
            row.texts("port_security").join(", "),
            row.texts("options").join(","),
        ];
        lines.push(Line::new(row, cells));
    }
    for row in router_ports.into_values() {
        let addresses = [vec![row.text("mac")], row.texts("networks")].concat().join(" ");
        let cells = vec![
            row.name(),
            held_by(index, &row),
            "router port".to_owned(),
            addresses,
            row.text("peer"),
            String::new(),
            row.texts("options").join(","),
        ];
        lines.push(Line::new(row, cells));
    }
    lines
}
