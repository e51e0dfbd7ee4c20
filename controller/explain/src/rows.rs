//! Rows of a zone's database that are not as a connect wants them, as reasons and notices.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_connects::{DifferenceKind, RowDifference, RowPurpose};
use patchbay_model::{NetworkId, Networks, Node, Topology};

use super::explanation::{RowWriter, ZoneView};
use super::reasons::Reason;

/// Rows that a reason names; further ones are counted.
const MAX_NAMED_ROWS: usize = 3;

/// Tables of a connect's rows, with the words for one row and for several.
const NOUNS: [(&str, &str, &str); 8] = [
    ("Logical_Router", "router", "routers"),
    ("Logical_Router_Port", "port", "ports"),
    ("Logical_Router_Static_Route", "route", "routes"),
    ("Logical_Router_Policy", "policy", "policies"),
    ("Load_Balancer_Group", "load balancer group", "load balancer groups"),
    ("Address_Set", "address set", "address sets"),
    ("ACL", "ACL", "ACLs"),
    ("Logical_Switch", "switch", "switches"),
];

/// Rows of all zones that are not as a connect wants them.
#[derive(Debug, Default)]
pub(super) struct RowReasons {
    /// Rows of a network on a node.
    of_nodes: BTreeMap<(NetworkId, String), Reason>,
    /// Connect router of a node's zone, without which no network is connected there.
    of_routers: BTreeMap<String, Reason>,
    /// Rows that concern the connect as a whole.
    pub(super) of_connect: Vec<Reason>,
    /// Rows that are too many.
    pub(super) notices: Vec<String>,
}

/// Where rows that are not as wanted are missing.
#[derive(Eq, Ord, PartialEq, PartialOrd)]
enum Concern {
    Router,
    Network(NetworkId, String),
    Connect,
}

impl RowReasons {
    pub(super) fn of(
        zones: &BTreeMap<String, ZoneView>,
        networks: &Networks,
        nodes: &[Node],
    ) -> Self {
        let names: BTreeMap<u16, &String> =
            nodes.iter().filter_map(|node| Some((node.id?.get(), &node.name))).collect();
        let mut reasons = Self::default();
        for (zone, view) in zones {
            let mut concerns = BTreeMap::<Concern, Vec<&RowDifference>>::new();
            let mut unwanted = Vec::new();
            for (purpose, row) in &view.differences {
                if row.kind == DifferenceKind::Unwanted {
                    unwanted.push(row);
                    continue;
                }
                let concern = match *purpose {
                    RowPurpose::Router => Concern::Router,
                    RowPurpose::Link { network, index } => {
                        let topology = networks.by_id(network).map(|network| network.topology);
                        let node = names
                            .get(&index)
                            .copied()
                            .filter(|_| topology == Some(Topology::Layer3));
                        Concern::Network(network, node.unwrap_or(zone).clone())
                    }
                    RowPurpose::Policy { source, .. } => Concern::Network(source, zone.clone()),
                    RowPurpose::Services | RowPurpose::Isolation | RowPurpose::Nothing => {
                        Concern::Connect
                    }
                };
                concerns.entry(concern).or_default().push(row);
            }
            for (concern, rows) in concerns {
                let reason = reason(zone, &rows, view.writer);
                match concern {
                    Concern::Router => {
                        reasons.of_routers.insert(zone.clone(), reason);
                    }
                    Concern::Network(network, node) => {
                        let place = reasons.of_nodes.entry((network, node));
                        let known = place.or_insert_with(|| reason.clone());
                        if *known != reason {
                            known.message = format!("{}; {}", known.message, reason.message);
                        }
                    }
                    Concern::Connect => reasons.of_connect.push(reason),
                }
            }
            if !unwanted.is_empty() {
                let rows = named(&unwanted);
                let work = work(&unwanted, view.writer);
                reasons.notices.push(format!("zone {zone}: {rows}: {work}"));
            }
        }
        reasons
    }

    /// Reasons why a network is not connected on a node.
    pub(super) fn of_node(&self, network: NetworkId, node: &str) -> impl Iterator<Item = &Reason> {
        let router = self.of_routers.get(node);
        let own = self.of_nodes.get(&(network, node.to_owned()));
        router.into_iter().chain(own)
    }
}

fn reason(zone: &str, rows: &[&RowDifference], writer: RowWriter) -> Reason {
    Reason::new(
        format!("{}: {}", named(rows), work(rows, writer)),
        format!("Northbound database of zone {zone}"),
        None,
    )
}

/// The first rows with their differences, and the number of the others.
fn named(rows: &[&RowDifference]) -> String {
    let first = rows.iter().take(MAX_NAMED_ROWS).map(|row| describe(row));
    let first = first.collect::<Vec<_>>().join("; ");
    match rows.len().saturating_sub(MAX_NAMED_ROWS) {
        0 => first,
        1 => format!("{first}; 1 more row"),
        more => format!("{first}; {more} more rows"),
    }
}

fn describe(difference: &RowDifference) -> String {
    let RowDifference { table, row, kind } = difference;
    let (noun, _) = nouns(table);
    match kind {
        DifferenceKind::Missing => format!("{noun} {row} is missing"),
        DifferenceKind::Changed(columns) => {
            format!("{noun} {row} is different ({})", columns.join(", "))
        }
        DifferenceKind::NotHeld { table, holder } => {
            let (of, _) = nouns(table);
            format!("{noun} {row} is not in {of} {holder}")
        }
        DifferenceKind::Held { table, holder } => {
            let (of, _) = nouns(table);
            format!("{noun} {row} is in {of} {holder} and should not be")
        }
        DifferenceKind::Unwanted => format!("{noun} {row} is left over"),
    }
}

/// Rows that a command would insert, change and delete.
fn work(rows: &[&RowDifference], writer: RowWriter) -> String {
    let changes = rows.iter().map(|row| match &row.kind {
        DifferenceKind::Missing => ("insert", row.table, &row.row),
        DifferenceKind::Changed(_) => ("change", row.table, &row.row),
        // The other row changes, and may do so for several rows.
        DifferenceKind::NotHeld { table, holder } | DifferenceKind::Held { table, holder } => {
            ("change", *table, holder)
        }
        DifferenceKind::Unwanted => ("delete", row.table, &row.row),
    });
    let mut holders = BTreeSet::new();
    let mut counts = BTreeMap::<(&str, &'static str), usize>::new();
    for (verb, table, row) in changes {
        if verb != "change" || holders.insert((table, row)) {
            *counts.entry((verb, table)).or_default() += 1;
        }
    }
    let parts = ["insert", "change", "delete"].into_iter().filter_map(|verb| {
        let of_verb = counts.iter().filter(|((of, _), _)| *of == verb);
        let objects: Vec<String> = of_verb
            .map(|((_, table), count)| {
                let (one, several) = nouns(table);
                format!("{count} {}", if *count == 1 { one } else { several })
            })
            .collect();
        (!objects.is_empty()).then(|| format!("{verb} {}", objects.join(" and ")))
    });
    let command = match writer {
        RowWriter::Apply => "apply",
        RowWriter::Run => "run",
    };
    format!("`{command}` would {}", parts.collect::<Vec<_>>().join(", "))
}

fn nouns(table: &'static str) -> (&'static str, &'static str) {
    let mut nouns = NOUNS.iter().filter(|(of, ..)| *of == table);
    nouns.next().map_or((table, table), |(_, one, several)| (one, several))
}
