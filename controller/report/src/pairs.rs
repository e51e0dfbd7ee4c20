//! Pairs of networks or machines: verdict, path and decisions of the packet of each.

use std::collections::{HashMap, HashSet};

use patchbay_graph::{Topology, short_network};
use patchbay_reach::{AskedPair, Outcome, Protocol};
use serde::Serialize;

use super::Words;

/// Number of networks or machines up to which each pair has the decisions on its way.
pub const MAX_DETAILED: usize = 60;

/// Number of networks or machines whose pairs are asked. Further ones are counted.
pub const MAX_ASKED: usize = 500;

/// Packets between all pairs of a list.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Pairs {
    /// What the names are of.
    what: &'static str,
    /// Protocol of the packets.
    protocol: Protocol,
    /// Names of networks or machines.
    names: Vec<String>,
    /// Number of further names, whose pairs are not asked.
    left_out: usize,
    /// Texts and lists of cells, each once.
    texts: Texts,
    /// Ways through places of the picture, each once.
    ways: Vec<Vec<usize>>,
    /// One cell for each sender and destination, row by row. `None`: the pair cannot be asked.
    cells: Vec<Option<Cell>>,
    /// `true`: cells have the decisions on the way.
    is_detailed: bool,
}

/// Cell of a table, as numbers of texts: state, verdict in words, sender, destination, way, object
/// that stops the packet and its row, and the decisions. 0 is no text.
type Cell = (u8, usize, usize, usize, usize, usize, usize, Vec<[usize; 4]>);

/// Texts, each with its number.
#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Texts {
    all: Vec<String>,
    #[serde(skip)]
    numbers: HashMap<String, usize>,
}

impl Texts {
    fn new() -> Self {
        Self { all: vec![String::new()], numbers: [(String::new(), 0)].into() }
    }

    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len();
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

impl Pairs {
    /// Asks all pairs.
    pub(super) fn new(
        what: &'static str,
        pairs: &patchbay_reach::Pairs<'_>,
        protocol: Protocol,
        topology: &Topology,
        words: &impl Words,
    ) -> Self {
        let mut names = short_names(pairs.names());
        let left_out = names.len().saturating_sub(MAX_ASKED);
        names.truncate(MAX_ASKED);
        let count = names.len();
        let mut own = Self {
            what,
            protocol,
            names,
            left_out,
            texts: Texts::new(),
            ways: Vec::new(),
            cells: Vec::with_capacity(count * count),
            is_detailed: count <= MAX_DETAILED,
        };
        let mut ways = HashMap::new();
        for row in 0..count {
            for column in 0..count {
                let asked = pairs.ask(row, column, protocol);
                let cell = asked.map(|asked| own.cell(&asked, topology, &mut ways, words));
                own.cells.push(cell);
            }
        }
        own
    }

    fn cell(
        &mut self,
        asked: &AskedPair,
        topology: &Topology,
        ways: &mut HashMap<Vec<usize>, usize>,
        words: &impl Words,
    ) -> Cell {
        let course = &asked.course;
        let behind = course.behind().map(|zone| &zone.answer);
        let answers: Vec<_> = [&course.answer].into_iter().chain(behind).collect();
        let hops = || answers.iter().flat_map(|answer| &answer.hops);
        let end = course.last().out.as_deref().filter(|_| course.outcome.is_arrival());
        let names = [&*asked.from].into_iter().chain(hops().map(|hop| hop.name.as_str()));
        let places = topology.way(names.chain(end));
        let next = ways.len();
        let way = *ways.entry(places).or_insert_with_key(|places| {
            self.ways.push(places.clone());
            next
        });
        let stopped_by = course.stopping_row();
        let decisions: Vec<[String; 4]> = hops()
            .filter(|_| self.is_detailed)
            .map(|hop| {
                let device = format!("{} {}", hop.kind, hop.name);
                let row = hop.row.map(|row| row.to_string()).unwrap_or_default();
                [device, hop.stage.to_owned(), hop.decision.clone(), row]
            })
            .collect();
        let mut number = |text: &str| self.texts.number(text);
        (
            state(asked),
            number(&words.outcome(course)),
            number(&asked.from),
            number(&asked.to),
            way,
            number(&stopped_by.and_then(|row| words.owner(row)).unwrap_or_default()),
            number(&stopped_by.map(|(_, row)| row.to_string()).unwrap_or_default()),
            decisions.iter().map(|texts| [0, 1, 2, 3].map(|place| number(&texts[place]))).collect(),
        )
    }
}

/// Names without the prefix of cluster-wide networks, unless two would be equal.
fn short_names(names: &[String]) -> Vec<String> {
    let short: Vec<String> = names.iter().map(|name| short_network(name).to_owned()).collect();
    let distinct: HashSet<&String> = short.iter().collect();
    if distinct.len() == names.len() { short } else { names.to_vec() }
}

/// State of a pair, as the page's script knows it: connected, another zone was not asked, leaves, or
/// not connected.
fn state(asked: &AskedPair) -> u8 {
    match &asked.course.outcome {
        _ if asked.is_connected => 0,
        Outcome::Unasked { .. } => 1,
        Outcome::Leaves | Outcome::Isolated => 2,
        _ => 3,
    }
}
