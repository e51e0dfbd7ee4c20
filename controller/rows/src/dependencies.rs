//! Sources that parts and shared values have read, recorded while they read them.

use std::collections::{HashMap, HashSet};
use std::ops::RangeInclusive;

use foldhash::fast::RandomState;

use crate::parts::PartId;
use crate::shared::SharedId;
use crate::sources::{Read, Source};

/// Bit of [`Readers`] that are several.
const SEVERAL: u32 = 1 << 31;
/// Sources that only one part reads, on average.
const SOURCES_OF_PART: usize = 3;
/// Sources that a part claims, on average.
const CLAIMS_OF_PART: usize = 2;

/// A part or a shared value.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Node {
    Part(PartId),
    Shared(SharedId),
}

/// Sources and their readers, both ways. Most sources have one reader.
#[derive(Debug)]
pub(crate) struct Dependencies<P> {
    sources: HashMap<Source, Readers, RandomState>,
    /// Readers of sources that have several.
    many: Vec<HashSet<SourceReader, RandomState>>,
    /// Places in `many` that are not used.
    free: Vec<u32>,
    /// Sources that several nodes claim: few.
    contested: HashSet<Source, RandomState>,
    /// `true` in a first pass: `sources` lacks readers that do not claim.
    is_first_pass: bool,
    parts: Vec<Box<[Read]>>,
    shared: Vec<Box<[Read]>>,
    /// Ranges of parts whose rows a node has read.
    ranges: Vec<(Node, RangeInclusive<P>)>,
}

/// A reader of a source in 31 bits. The lower bits encode whether it is a shared value and whether
/// it claims the source.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct SourceReader(u32);

impl SourceReader {
    fn new(node: Node, is_claimed: bool) -> Self {
        let (id, is_shared) = match node {
            Node::Part(part) => (part.0, false),
            Node::Shared(shared) => (shared.0, true),
        };
        Self(id << 2 | u32::from(is_shared) << 1 | u32::from(is_claimed))
    }

    fn node(self) -> Node {
        if self.0 & 2 == 0 {
            Node::Part(PartId(self.0 >> 2))
        } else {
            Node::Shared(SharedId(self.0 >> 2))
        }
    }

    fn claims(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The only reader of a source, or with [`SEVERAL`] the place of its readers.
#[derive(Clone, Copy, Debug)]
struct Readers(u32);

impl Readers {
    fn one(reader: SourceReader) -> Self {
        Self(reader.0)
    }

    /// The only reader, or the place of several.
    fn get(self) -> Result<SourceReader, usize> {
        if self.0 & SEVERAL == 0 {
            Ok(SourceReader(self.0))
        } else {
            Err((self.0 & !SEVERAL) as usize)
        }
    }
}

impl<P> Default for Dependencies<P> {
    fn default() -> Self {
        Self {
            sources: HashMap::default(),
            many: Vec::new(),
            free: Vec::new(),
            contested: HashSet::default(),
            is_first_pass: false,
            parts: Vec::new(),
            shared: Vec::new(),
            ranges: Vec::new(),
        }
    }
}

impl<P: Ord> Dependencies<P> {
    /// Dependencies for a first pass of parts.
    ///
    /// All parts are pending in it, so that nothing depends on who reads a source without claiming
    /// it. A command has no other pass and needs no index of these readers.
    pub(crate) fn of_first_pass(parts: usize) -> Self {
        let mut this = Self { is_first_pass: true, ..Self::default() };
        this.sources.reserve(parts * CLAIMS_OF_PART);
        this.parts.reserve(parts);
        this
    }

    /// Indexes the readers that a first pass has left out.
    pub(crate) fn end_first_pass(&mut self) {
        if !std::mem::replace(&mut self.is_first_pass, false) {
            return;
        }
        self.sources.reserve(self.parts.len() * SOURCES_OF_PART);
        let (parts, shared) = (std::mem::take(&mut self.parts), std::mem::take(&mut self.shared));
        let of_parts = (0..).map(PartId).map(Node::Part).zip(&parts);
        let of_shared = (0..).map(SharedId).map(Node::Shared).zip(&shared);
        for (node, reads) in of_parts.chain(of_shared) {
            for read in reads.iter().filter(|read| !read.is_claimed()) {
                self.add_reader(read.source(), SourceReader::new(node, false));
            }
        }
        (self.parts, self.shared) = (parts, shared);
    }

    /// Readers of a source, also those that claim it. In a first pass only these.
    pub(crate) fn readers(&self, source: Source) -> impl Iterator<Item = Node> {
        self.source_readers(source).map(SourceReader::node)
    }

    fn source_readers(&self, source: Source) -> impl Iterator<Item = SourceReader> {
        let (one, many) = match self.sources.get(&source).map(|readers| readers.get()) {
            None => (None, None),
            Some(Ok(reader)) => (Some(reader), None),
            Some(Err(place)) => (None, self.many.get(place)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    fn add_reader(&mut self, source: Source, reader: SourceReader) {
        let readers = self.sources.entry(source).or_insert(Readers::one(reader));
        let is_contested = match readers.get() {
            Ok(have) if have == reader => false,
            Ok(have) => {
                let place = self.free.pop().unwrap_or_else(|| {
                    self.many.push(HashSet::default());
                    u32::try_from(self.many.len() - 1).unwrap_or(!SEVERAL) & !SEVERAL
                });
                *readers = Readers(place | SEVERAL);
                self.many[place as usize].extend([have, reader]);
                have.claims() && reader.claims()
            }
            Err(place) => {
                let readers = &mut self.many[place];
                let mut others = readers.iter();
                let is_contested = reader.claims() && others.any(|other| other.claims());
                readers.insert(reader) && is_contested
            }
        };
        if is_contested {
            self.contested.insert(source);
        }
    }

    fn remove_reader(&mut self, source: Source, reader: SourceReader) {
        let is_last = match self.sources.get(&source).map(|readers| readers.get()) {
            None => false,
            Some(Ok(have)) => have == reader,
            Some(Err(place)) => {
                let readers = &mut self.many[place];
                readers.remove(&reader);
                let is_last = readers.is_empty();
                if is_last {
                    *readers = HashSet::default();
                    self.free.push(place as u32);
                }
                is_last
            }
        };
        if is_last {
            self.sources.remove(&source);
        }
        if reader.claims() && self.contested.contains(&source) {
            let claimants = self.claimants(source).count();
            if claimants < 2 {
                self.contested.remove(&source);
            }
        }
    }

    /// Returns `true` if no other part claims a source that a part has claimed before. Most claims
    /// are of this kind.
    pub(crate) fn claims_alone(&self, part: PartId, source: Source) -> bool {
        let reads = self.parts.get(part.0 as usize);
        !self.contested.contains(&source)
            && reads.is_some_and(|reads| reads.binary_search(&Read::new(source, true)).is_ok())
    }

    /// Parts that claim a source.
    pub(crate) fn claimants(&self, source: Source) -> impl Iterator<Item = PartId> {
        let readers = self.source_readers(source);
        let claimants = readers.filter(|reader| reader.claims());
        claimants.filter_map(|reader| match reader.node() {
            Node::Part(part) => Some(part),
            Node::Shared(_) => None,
        })
    }

    /// Returns `true` if some node has read the rows of a range of parts.
    pub(crate) fn has_ranges(&self) -> bool {
        !self.ranges.is_empty()
    }

    /// Nodes that have read the rows of a part among those of a range.
    pub(crate) fn readers_of_rows(&self, part: &P) -> impl Iterator<Item = Node> {
        let ranges = self.ranges.iter();
        let found = ranges.filter(move |(_, range)| range.contains(part));
        found.map(|(node, _)| *node)
    }

    /// Replaces what a node has read, and sorts it. Returns the sources that it does not claim any
    /// more.
    pub(crate) fn record(
        &mut self,
        node: Node,
        reads: &mut Vec<Read>,
        ranges: Vec<RangeInclusive<P>>,
    ) -> Vec<Source> {
        if !(ranges.is_empty() && self.ranges.is_empty()) {
            self.ranges.retain(|(reader, _)| *reader != node);
            let ranges = ranges.into_iter().map(|range| (node, range));
            self.ranges.extend(ranges);
        }
        reads.sort_unstable();
        // Of a source that was read and claimed, the claim is noted.
        reads.dedup_by(|later, read| {
            let is_same = later.source() == read.source();
            if is_same {
                *read = *later;
            }
            is_same
        });
        let place = self.reads(node);
        if **place == **reads {
            return Vec::new();
        }
        let former = std::mem::replace(place, reads.as_slice().into());
        if former.is_empty() {
            let is_first_pass = self.is_first_pass;
            let indexed = reads.iter().filter(|read| !is_first_pass || read.is_claimed());
            for read in indexed {
                let reader = SourceReader::new(node, read.is_claimed());
                self.add_reader(read.source(), reader);
            }
            return Vec::new();
        }
        self.end_first_pass();
        let mut released = Vec::new();
        for (read, is_new) in self.changed_reads(node, &former) {
            let reader = SourceReader::new(node, read.is_claimed());
            if is_new {
                self.add_reader(read.source(), reader);
                continue;
            }
            self.remove_reader(read.source(), reader);
            if read.is_claimed() {
                released.push(read.source());
            }
        }
        released
    }

    /// Reads that only the former or only the present ones have, and whether they are new.
    fn changed_reads(&mut self, node: Node, former: &[Read]) -> Vec<(Read, bool)> {
        let mut changed = Vec::new();
        let mut former = former.iter().copied().peekable();
        let mut reads = self.reads(node).iter().copied().peekable();
        loop {
            match (former.peek(), reads.peek()) {
                (Some(old), Some(new)) if old == new => {
                    former.next();
                    reads.next();
                }
                (Some(old), new) if new.is_none_or(|new| old < new) => {
                    changed.extend(former.next().map(|read| (read, false)));
                }
                (_, Some(_)) => changed.extend(reads.next().map(|read| (read, true))),
                (_, None) => return changed,
            }
        }
    }

    /// Values that a node has read, sorted.
    fn reads(&mut self, node: Node) -> &mut Box<[Read]> {
        let (nodes, place) = match node {
            Node::Part(part) => (&mut self.parts, part.0 as usize),
            Node::Shared(shared) => (&mut self.shared, shared.0 as usize),
        };
        if nodes.len() <= place {
            nodes.resize_with(place + 1, Box::default);
        }
        &mut nodes[place]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_knows_its_readers_until_they_stop_reading_it() {
        let mut dependencies = Dependencies::<u8>::default();
        let [one, two] = [PartId(1), PartId(2)];
        let value = Node::Shared(SharedId(1));
        let [cell, key] = [Source::new(1), Source::new(2)];
        let read = |source| Read::new(source, false);
        let claim = |source| Read::new(source, true);
        dependencies.record(Node::Part(one), &mut vec![read(cell), claim(key)], Vec::new());
        dependencies.record(Node::Part(two), &mut vec![read(cell), read(key)], Vec::new());
        dependencies.record(value, &mut vec![read(cell)], vec![3..=5]);
        let readers = |dependencies: &Dependencies<_>, source| {
            let mut readers: Vec<Node> = dependencies.readers(source).collect();
            readers.sort_by_key(|node| format!("{node:?}"));
            readers
        };
        let parts = [Node::Part(one), Node::Part(two)];
        assert_eq!(readers(&dependencies, cell), [&parts[..], &[value]].concat());
        assert_eq!(readers(&dependencies, key), parts);
        let claimants: Vec<PartId> = dependencies.claimants(key).collect();
        assert_eq!(claimants, [one]);
        let of_rows = |part| dependencies.readers_of_rows(&part).collect::<Vec<_>>();
        assert_eq!((of_rows(2), of_rows(5)), (vec![], vec![value]));
        assert!(dependencies.claims_alone(one, key) && !dependencies.claims_alone(two, key));
        dependencies.record(Node::Part(two), &mut vec![claim(key)], Vec::new());
        assert!(!dependencies.claims_alone(one, key) && !dependencies.claims_alone(two, key));
        dependencies.record(Node::Part(two), &mut vec![read(cell), read(key)], Vec::new());
        assert!(dependencies.claims_alone(one, key));
        let released = dependencies.record(Node::Part(one), &mut vec![read(cell)], Vec::new());
        assert_eq!(released, [key]);
        assert_eq!(readers(&dependencies, key), parts[1..]);
        for node in [parts[0], parts[1], value] {
            dependencies.record(node, &mut Vec::new(), Vec::new());
        }
        assert!(dependencies.sources.is_empty() && !dependencies.has_ranges());
        assert!(dependencies.contested.is_empty());
        assert_eq!(dependencies.free.len(), dependencies.many.len());
    }

    #[test]
    fn readers_of_a_first_pass_are_known_after_it() {
        let [one, two] = [PartId(0), PartId(1)];
        let value = Node::Shared(SharedId(0));
        let [cell, key] = [Source::new(1), Source::new(2)];
        let claim = || vec![Read::new(cell, false), Read::new(key, true)];
        let mut dependencies = Dependencies::<u8>::of_first_pass(2);
        dependencies.record(Node::Part(one), &mut claim(), Vec::new());
        dependencies.record(Node::Part(two), &mut claim(), Vec::new());
        dependencies.record(value, &mut vec![Read::new(cell, false)], Vec::new());
        let readers = |dependencies: &Dependencies<_>, source| dependencies.readers(source).count();
        assert_eq!((readers(&dependencies, cell), readers(&dependencies, key)), (0, 2));
        assert!(!dependencies.claims_alone(one, key));
        dependencies.end_first_pass();
        assert_eq!((readers(&dependencies, cell), readers(&dependencies, key)), (3, 2));
        dependencies.record(Node::Part(one), &mut Vec::new(), Vec::new());
        assert_eq!((readers(&dependencies, cell), readers(&dependencies, key)), (2, 1));
    }

    #[test]
    fn a_node_that_reads_something_else_ends_the_first_pass() {
        let one = Node::Part(PartId(0));
        let [cell, key] = [Source::new(1), Source::new(2)];
        let mut dependencies = Dependencies::<u8>::of_first_pass(1);
        dependencies.record(one, &mut vec![Read::new(cell, false)], Vec::new());
        dependencies.record(one, &mut vec![Read::new(key, false)], Vec::new());
        assert_eq!(dependencies.readers(cell).next(), None);
        assert_eq!(dependencies.readers(key).next(), Some(one));
    }
}
