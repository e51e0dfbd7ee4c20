//! Columns and rows of the places of a picture.
//!
//! The column of a place is its distance from the machines, so links lead to the same column or to a
//! neighbour. The order in a column follows the neighbours (barycentre method of Sugiyama, Tagawa and
//! Toda, 1981). A general layout would choose the columns, too, and mix switches with routers.

use std::collections::{BTreeMap, VecDeque};

use super::topology::{PlaceKind, Topology};

/// Width of a character of the picture's monospaced font.
const CHARACTER_WIDTH: f64 = 7.3;
/// Margin of text in a box, on each side.
const MARGIN: f64 = 10.0;
/// Height of a line in a box.
pub(crate) const LINE_HEIGHT: f64 = 18.0;
/// Distance between two boxes of a column.
const ROW_GAP: f64 = 14.0;
/// Distance between two columns.
const COLUMN_GAP: f64 = 70.0;
/// Distance of the line between two boxes of a column from them.
pub(crate) const ARC: f64 = 40.0;
/// Distance from the edge of the picture.
pub(crate) const EDGE: f64 = 20.0;
/// Times that the order of all columns is improved.
const SWEEPS: usize = 8;
/// Maximum number of characters of a line. Longer texts end with an ellipsis.
pub(crate) const MAX_CHARACTERS: usize = 44;

/// Box of a place.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Frame {
    pub(crate) x: f64,
    pub(crate) y: f64,
    pub(crate) width: f64,
    pub(crate) height: f64,
    pub(crate) column: usize,
}

/// Boxes of all places, and the size of the picture.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) frames: Vec<Frame>,
    pub(crate) width: f64,
    pub(crate) height: f64,
}

impl Layout {
    pub(crate) fn new(topology: &Topology) -> Self {
        let neighbours = neighbours(topology);
        let columns = ordered(topology, &neighbours);
        let frames = (0..topology.places.len()).map(|place| {
            let lines = topology.lines(place);
            let longest = lines.iter().map(|(_, line)| line.chars().count()).max();
            let characters = longest.unwrap_or_default().min(MAX_CHARACTERS);
            Frame {
                width: characters as f64 * CHARACTER_WIDTH + 2.0 * MARGIN,
                height: lines.len() as f64 * LINE_HEIGHT + MARGIN,
                ..Frame::default()
            }
        });
        let mut frames: Vec<Frame> = frames.collect();
        let mut x = EDGE;
        for (column, places) in columns.iter().enumerate() {
            let widths = places.iter().map(|place| frames[*place].width);
            let width = widths.fold(0.0, f64::max);
            for place in places {
                let frame = &mut frames[*place];
                (frame.x, frame.width, frame.column) = (x, width, column);
            }
            x += width + COLUMN_GAP;
            set_rows(places, column, &neighbours, &mut frames);
        }
        let bottoms = frames.iter().map(|frame| frame.y + frame.height);
        let height = bottoms.fold(0.0, f64::max) + EDGE;
        let last = columns.len().saturating_sub(1);
        let in_last = |place: &usize| frames[*place].column == last;
        let has_arcs = topology.links.iter().any(|(one, other)| in_last(one) && in_last(other));
        let arcs = if has_arcs { ARC } else { 0.0 };
        Self { width: (x - COLUMN_GAP + arcs + EDGE).max(2.0 * EDGE), frames, height }
    }
}

fn neighbours(topology: &Topology) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); topology.places.len()];
    for (one, other) in &topology.links {
        neighbours[*one].push(*other);
        neighbours[*other].push(*one);
    }
    neighbours
}

/// Places by column, in their order.
fn ordered(topology: &Topology, neighbours: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let distances = distances(topology, neighbours);
    let mut columns: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (place, distance) in distances.iter().enumerate() {
        columns.entry(*distance).or_default().push(place);
    }
    let mut columns: Vec<Vec<usize>> = columns.into_values().collect();
    let name = |place: usize| {
        (topology.places[place].network.clone(), topology.places[place].name.clone())
    };
    for column in &mut columns {
        column.sort_by_cached_key(|place| name(*place));
    }
    for sweep in 0..SWEEPS {
        let mut rows = vec![0.0; neighbours.len()];
        let count = columns.len();
        for step in 0..count {
            let number = if sweep % 2 == 0 { step } else { count - 1 - step };
            for column in &columns {
                for (row, place) in column.iter().enumerate() {
                    rows[*place] = row as f64 / column.len() as f64;
                }
            }
            let middle = |place: usize| {
                let near = neighbours[place].iter().map(|other| rows[*other]);
                let total: f64 = near.sum();
                let links = neighbours[place].len();
                if links == 0 { rows[place] } else { total / links as f64 }
            };
            columns[number].sort_by(|one, other| middle(*one).total_cmp(&middle(*other)));
        }
    }
    columns
}

/// Distance of each place from the machines, or from the networks and switches without any.
fn distances(topology: &Topology, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let starts: [&[PlaceKind]; 4] = [
        &[PlaceKind::Machine, PlaceKind::Machines],
        &[PlaceKind::Network],
        &[PlaceKind::Switch],
        &[PlaceKind::Router, PlaceKind::Connect, PlaceKind::Outside],
    ];
    let mut distances: Vec<Option<usize>> = vec![None; neighbours.len()];
    for (kinds, first) in starts.into_iter().zip([0, 0, 1, 2]) {
        let mut queue = VecDeque::new();
        for (place, own) in topology.places.iter().enumerate() {
            if kinds.contains(&own.kind) && distances[place].is_none() {
                distances[place] = Some(first);
                queue.push_back((place, first));
            }
        }
        while let Some((place, distance)) = queue.pop_front() {
            for next in &neighbours[place] {
                if distances[*next].is_none() {
                    distances[*next] = Some(distance + 1);
                    queue.push_back((*next, distance + 1));
                }
            }
        }
    }
    distances.into_iter().map(Option::unwrap_or_default).collect()
}

/// Gives the places of a column their rows: beside their neighbours in the columns before, below the
/// place above.
fn set_rows(places: &[usize], column: usize, neighbours: &[Vec<usize>], frames: &mut [Frame]) {
    let mut bottom = EDGE;
    for place in places {
        let before = neighbours[*place].iter().map(|other| frames[*other]);
        let before: Vec<f64> = before
            .filter(|other| other.x > 0.0 && other.column < column)
            .map(|other| other.y + other.height / 2.0)
            .collect();
        let frame = &mut frames[*place];
        let wanted = before.iter().sum::<f64>() / before.len().max(1) as f64 - frame.height / 2.0;
        frame.y = if before.is_empty() { bottom } else { wanted.max(bottom) };
        bottom = frame.y + frame.height + ROW_GAP;
    }
}
