//! What parts have read, recorded while they read it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::index::RowKey;
use crate::parts::PartId;

/// Something that parts read and that can change.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub(crate) enum Source<C> {
    /// A piece of the inputs.
    Cell(C),
    /// Rows of an identity: which there are, and their managed columns.
    Key(RowKey),
}

/// A part that has read a source, and in the lowest bit, whether it wants a row of this identity.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct Reader(u32);

/// Number of a source, and in the lowest bit, whether a row of this identity is wanted.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct Read(u32);

#[derive(Debug)]
enum Readers {
    One(Reader),
    Many(HashSet<Reader, RandomState>),
}

/// Sources and the parts that have read them, both ways.
#[derive(Debug)]
pub(crate) struct Dependencies<C> {
    ids: HashMap<Source<C>, u32, RandomState>,
    /// For each number of a source. Those without readers are used again.
    sources: Vec<Option<(Source<C>, Readers)>>,
    free: Vec<u32>,
    /// For each part, sorted.
    reads: Vec<Box<[Read]>>,
}

impl<C> Default for Dependencies<C> {
    fn default() -> Self {
        Self {
            ids: HashMap::default(),
            sources: Vec::new(),
            free: Vec::new(),
            reads: Vec::new(),
        }
    }
}

impl Reader {
    fn new(part: PartId, is_wanted: bool) -> Self {
        Self(part.0 << 1 | u32::from(is_wanted))
    }

    fn part(self) -> PartId {
        PartId(self.0 >> 1)
    }

    fn wants(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Read {
    fn source(self) -> u32 {
        self.0 >> 1
    }

    fn is_wanted(self) -> bool {
        self.0 & 1 == 1
    }
}

impl Readers {
    fn iter(&self) -> impl Iterator<Item = Reader> {
        let (one, many) = match self {
            Self::One(reader) => (Some(*reader), None),
            Self::Many(readers) => (None, Some(readers)),
        };
        one.into_iter().chain(many.into_iter().flatten().copied())
    }

    fn add(&mut self, reader: Reader) {
        match self {
            Self::One(have) if *have == reader => {}
            Self::One(have) => *self = Self::Many(HashSet::from_iter([*have, reader])),
            Self::Many(have) => {
                have.insert(reader);
            }
        }
    }

    /// Removes a reader. Returns `true` if none is left.
    fn remove(&mut self, reader: Reader) -> bool {
        match self {
            Self::One(have) => *have == reader,
            Self::Many(readers) => {
                readers.remove(&reader);
                readers.is_empty()
            }
        }
    }
}

impl<C: Clone + Eq + Hash> Dependencies<C> {
    /// Parts that have read a source.
    pub(crate) fn readers<'s>(
        &'s self,
        source: &Source<C>,
    ) -> impl Iterator<Item = PartId> + use<'s, C> {
        self.of(source).map(Reader::part)
    }

    /// Parts that want a row of an identity.
    pub(crate) fn claimants(&self, key: RowKey) -> impl Iterator<Item = PartId> {
        let readers = self.of(&Source::Key(key));
        readers.filter(|reader| reader.wants()).map(Reader::part)
    }

    fn of<'s>(&'s self, source: &Source<C>) -> impl Iterator<Item = Reader> + use<'s, C> {
        let id = self.ids.get(source);
        let found = id.and_then(|id| self.sources.get(*id as usize)?.as_ref());
        found.into_iter().flat_map(|(_, readers)| readers.iter())
    }

    /// Replaces what a part has read. Sources with `true` are identities of rows that it wants. Returns the identities
    /// that it does not want any more.
    pub(crate) fn record(
        &mut self,
        part: PartId,
        sources: impl IntoIterator<Item = (Source<C>, bool)>,
    ) -> Vec<RowKey> {
        let place = part.0 as usize;
        if self.reads.len() <= place {
            self.reads.resize_with(place + 1, Box::default);
        }
        let mut reads: Vec<Read> = sources
            .into_iter()
            .map(|(source, is_wanted)| {
                let id = self.add(source, Reader::new(part, is_wanted));
                Read(id << 1 | u32::from(is_wanted))
            })
            .collect();
        reads.sort_unstable();
        reads.dedup();
        let former = std::mem::replace(&mut self.reads[place], reads.into());
        let mut released = Vec::new();
        for read in &former {
            if self.reads[place].binary_search(read).is_ok() {
                continue;
            }
            let found = self.sources.get(read.source() as usize);
            if read.is_wanted()
                && let Some(Some((Source::Key(key), _))) = found
            {
                released.push(*key);
            }
            self.remove(read.source(), Reader::new(part, read.is_wanted()));
        }
        released
    }

    fn add(&mut self, source: Source<C>, reader: Reader) -> u32 {
        if let Some(id) = self.ids.get(&source) {
            if let Some((_, readers)) = &mut self.sources[*id as usize] {
                readers.add(reader);
            }
            return *id;
        }
        let entry = Some((source.clone(), Readers::One(reader)));
        let id = if let Some(id) = self.free.pop() {
            self.sources[id as usize] = entry;
            id
        } else {
            self.sources.push(entry);
            u32::try_from(self.sources.len() - 1).unwrap_or(u32::MAX)
        };
        self.ids.insert(source, id);
        id
    }

    fn remove(&mut self, id: u32, reader: Reader) {
        let Some((_, readers)) = &mut self.sources[id as usize] else {
            return;
        };
        if readers.remove(reader)
            && let Some((source, _)) = self.sources[id as usize].take()
        {
            self.ids.remove(&source);
            self.free.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::TablePlace;

    #[test]
    fn a_source_knows_its_readers_until_they_stop_reading_it() {
        let mut dependencies = Dependencies::<&str>::default();
        let [one, two] = [PartId(1), PartId(2)];
        let key = RowKey {
            table: TablePlace(0),
            hash: 7,
        };
        dependencies.record(one, [(Source::Cell("a"), false), (Source::Key(key), true)]);
        dependencies.record(two, [(Source::Cell("a"), false), (Source::Key(key), false)]);
        let readers = |dependencies: &Dependencies<_>, source| {
            let mut readers: Vec<PartId> = dependencies.readers(&source).collect();
            readers.sort_unstable();
            readers
        };
        assert_eq!(readers(&dependencies, Source::Cell("a")), [one, two]);
        let claimants: Vec<PartId> = dependencies.claimants(key).collect();
        assert_eq!(claimants, [one]);
        let released = dependencies.record(one, [(Source::Cell("b"), false)]);
        assert_eq!(released, [key]);
        assert_eq!(readers(&dependencies, Source::Cell("a")), [two]);
        assert_eq!(readers(&dependencies, Source::Key(key)), [two]);
        dependencies.record(two, []);
        dependencies.record(one, []);
        assert!(dependencies.ids.is_empty());
        assert_eq!(dependencies.free.len(), dependencies.sources.len());
    }
}
