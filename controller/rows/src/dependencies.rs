//! What parts have read, recorded while they read it.

use std::collections::{HashMap, HashSet};
use std::hash::Hash;

use foldhash::fast::RandomState;

use crate::index::RowKey;
use crate::parts::PartId;
use crate::table::TablePlace;

/// Something that parts read and that can change.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) enum Source<C> {
    /// A piece of the inputs.
    Cell(C),
    /// Rows of an identity: which there are, and their managed columns.
    Key(RowKey),
}

/// Cells and identities, and the parts that have read them, both ways. Cells are few and long and
/// have many readers; identities are many and short, and most have one reader.
#[derive(Debug)]
pub(crate) struct Dependencies<C> {
    cell_ids: HashMap<C, CellId, RandomState>,
    /// For each number of a cell. Those without readers are used again.
    cells: Vec<Option<(C, HashSet<PartId, RandomState>)>>,
    free_cells: Vec<CellId>,
    keys: HashMap<RowKey, KeyReaders, RandomState>,
    /// For each part.
    reads: Vec<Reads>,
}

/// Number of a cell.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct CellId(u32);

/// What one part has read, sorted.
#[derive(Debug, Default)]
struct Reads {
    cells: Box<[CellId]>,
    keys: Box<[KeyRead]>,
}

/// An identity that a part has read, in the room of a [`RowKey`].
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
struct KeyRead {
    table: TablePlace,
    /// `true` if the part wants a row of this identity.
    is_wanted: bool,
    hash: u64,
}

impl KeyRead {
    fn key(self) -> RowKey {
        RowKey {
            table: self.table,
            hash: self.hash,
        }
    }
}

/// A part that has read an identity, and in the lowest bit, whether it wants a row of it.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
struct KeyReader(u32);

impl KeyReader {
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

#[derive(Debug)]
enum KeyReaders {
    One(KeyReader),
    #[expect(
        clippy::box_collection,
        reason = "few of many: the others are half as long for it"
    )]
    Many(Box<HashSet<KeyReader, RandomState>>),
}

impl KeyReaders {
    fn iter(&self) -> impl Iterator<Item = KeyReader> {
        let (one, many) = match self {
            Self::One(reader) => (Some(*reader), None),
            Self::Many(readers) => (None, Some(readers)),
        };
        let many = many.into_iter().flat_map(|readers| readers.iter());
        one.into_iter().chain(many.copied())
    }

    fn add(&mut self, reader: KeyReader) {
        match self {
            Self::One(have) if *have == reader => {}
            Self::One(have) => {
                *self = Self::Many(Box::new(HashSet::from_iter([*have, reader])));
            }
            Self::Many(have) => {
                have.insert(reader);
            }
        }
    }

    /// Removes a reader. Returns `true` if none is left.
    fn remove(&mut self, reader: KeyReader) -> bool {
        match self {
            Self::One(have) => *have == reader,
            Self::Many(readers) => {
                readers.remove(&reader);
                readers.is_empty()
            }
        }
    }
}

impl<C> Default for Dependencies<C> {
    fn default() -> Self {
        Self {
            cell_ids: HashMap::default(),
            cells: Vec::new(),
            free_cells: Vec::new(),
            keys: HashMap::default(),
            reads: Vec::new(),
        }
    }
}

impl<C: Clone + Eq + Hash> Dependencies<C> {
    /// Parts that have read a cell.
    pub(crate) fn readers_of_cell(&self, cell: &C) -> impl Iterator<Item = PartId> {
        let id = self.cell_ids.get(cell);
        let found = id.and_then(|id| self.cells[id.0 as usize].as_ref());
        found.into_iter().flat_map(|(_, readers)| readers).copied()
    }

    /// Parts that have read an identity.
    pub(crate) fn readers_of_key(&self, key: RowKey) -> impl Iterator<Item = PartId> {
        let readers = self.keys.get(&key).into_iter();
        readers.flat_map(KeyReaders::iter).map(KeyReader::part)
    }

    /// Parts that want a row of an identity.
    pub(crate) fn claimants(&self, key: RowKey) -> impl Iterator<Item = PartId> {
        let readers = self.keys.get(&key).into_iter().flat_map(KeyReaders::iter);
        readers.filter(|reader| reader.wants()).map(KeyReader::part)
    }

    /// Replaces what a part has read. Sources with `true` are identities of rows that it wants.
    /// Returns the identities that it does not want any more.
    pub(crate) fn record(
        &mut self,
        part: PartId,
        sources: impl IntoIterator<Item = (Source<C>, bool)>,
    ) -> Vec<RowKey> {
        let (mut cells, mut keys) = (Vec::new(), Vec::new());
        for (source, is_wanted) in sources {
            match source {
                Source::Cell(cell) => cells.push(self.add_cell(cell, part)),
                Source::Key(key) => {
                    self.add_key(key, KeyReader::new(part, is_wanted));
                    keys.push(KeyRead {
                        table: key.table,
                        is_wanted,
                        hash: key.hash,
                    });
                }
            }
        }
        cells.sort_unstable();
        cells.dedup();
        keys.sort_unstable();
        keys.dedup();
        let place = part.0 as usize;
        if self.reads.len() <= place {
            self.reads.resize_with(place + 1, Reads::default);
        }
        let reads = Reads {
            cells: cells.into(),
            keys: keys.into(),
        };
        let former = std::mem::replace(&mut self.reads[place], reads);
        self.drop_former(part, &former)
    }

    /// Forgets what a part has read before and not again.
    fn drop_former(&mut self, part: PartId, former: &Reads) -> Vec<RowKey> {
        let place = part.0 as usize;
        for cell in &former.cells {
            if self.reads[place].cells.binary_search(cell).is_err() {
                self.remove_cell(*cell, part);
            }
        }
        let mut released = Vec::new();
        for read in &former.keys {
            if self.reads[place].keys.binary_search(read).is_ok() {
                continue;
            }
            if read.is_wanted {
                released.push(read.key());
            }
            let reader = KeyReader::new(part, read.is_wanted);
            let readers = self.keys.get_mut(&read.key());
            if readers.is_some_and(|readers| readers.remove(reader)) {
                self.keys.remove(&read.key());
            }
        }
        released
    }

    fn add_key(&mut self, key: RowKey, reader: KeyReader) {
        let readers = self.keys.entry(key).or_insert(KeyReaders::One(reader));
        readers.add(reader);
    }

    fn add_cell(&mut self, cell: C, part: PartId) -> CellId {
        if let Some(id) = self.cell_ids.get(&cell) {
            if let Some((_, readers)) = &mut self.cells[id.0 as usize] {
                readers.insert(part);
            }
            return *id;
        }
        let id = self.free_cells.pop().unwrap_or_else(|| {
            self.cells.push(None);
            CellId(u32::try_from(self.cells.len() - 1).unwrap_or(u32::MAX))
        });
        self.cell_ids.insert(cell.clone(), id);
        self.cells[id.0 as usize] = Some((cell, HashSet::from_iter([part])));
        id
    }

    fn remove_cell(&mut self, id: CellId, part: PartId) {
        let cell = &mut self.cells[id.0 as usize];
        let Some((_, readers)) = cell else {
            return;
        };
        readers.remove(&part);
        if readers.is_empty()
            && let Some((cell, _)) = cell.take()
        {
            self.cell_ids.remove(&cell);
            self.free_cells.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        let of_cell = |dependencies: &Dependencies<_>| {
            let mut readers: Vec<PartId> = dependencies.readers_of_cell(&"a").collect();
            readers.sort_unstable();
            readers
        };
        let of_key = |dependencies: &Dependencies<_>| -> Vec<PartId> {
            dependencies.readers_of_key(key).collect()
        };
        assert_eq!(of_cell(&dependencies), [one, two]);
        let claimants: Vec<PartId> = dependencies.claimants(key).collect();
        assert_eq!(claimants, [one]);
        let released = dependencies.record(one, [(Source::Cell("b"), false)]);
        assert_eq!(released, [key]);
        assert_eq!(of_cell(&dependencies), [two]);
        assert_eq!(of_key(&dependencies), [two]);
        dependencies.record(two, []);
        dependencies.record(one, []);
        assert!(dependencies.cell_ids.is_empty() && dependencies.keys.is_empty());
        assert_eq!(dependencies.free_cells.len(), dependencies.cells.len());
    }
}
