//! Interface of a capability to the engine.

use std::fmt::Debug;
use std::hash::Hash;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_engine::db::Snapshot;

use crate::part_rows::PartRows;
use crate::reader::{PartRow, Reader};
use crate::scope::ObjectName;
use crate::table::Layout;

/// Everything that rows follow from besides the database: one version of it.
///
/// Versions should be persistent (`Arc`, `imbl`), so that clones are cheap and differences are
/// found at the cost of the difference.
pub trait Inputs: Clone {
    /// Name of a piece of the inputs that can change on its own, such as one node.
    type Cell: Clone + Debug + Eq + Hash;
    /// Kind of cells. A capability names the kinds that it reads. Others are not compared for it.
    type Kind: Copy + Debug + PartialEq + 'static;

    /// Returns the kind of a cell.
    fn kind(cell: &Self::Cell) -> Self::Kind;

    /// Calls `changed` for each cell of some kinds that differs from an earlier version. `None`: for
    /// each cell because of which there are parts.
    fn diff(
        &self,
        earlier: Option<&Self>,
        kinds: &[Self::Kind],
        changed: &mut dyn FnMut(Self::Cell),
    );
}

/// A kind of rows that the engine keeps as they should be.
///
/// [`rows`](Self::rows) is a pure function of the part's key and of what it reads through the
/// reader. Nothing else may decide about rows: what was not read cannot make the part pending
/// again.
pub trait Capability {
    /// Key of a part: rows that are computed and compared together. Parts are evaluated in their
    /// order. If several want the same row or claim the same value, the first of them has it.
    type Part: Clone + Debug + Eq + Hash + Ord;
    /// Parts whose changes are one transaction, such as those of one object of the user. A
    /// transaction that the database refuses holds no other group back. `()`: one group.
    type Group: Clone + Debug + Ord;
    /// Inputs from which rows follow.
    type Inputs: Inputs;
    /// Report of a part besides its rows, such as the reason why it has none.
    type Report: Debug + PartialEq;
    /// Key of a value that many parts read. [`Infallible`](std::convert::Infallible): there is
    /// none.
    type SharedKey: Clone + Debug + Eq + Hash;
    /// Value that many parts read. It is computed once.
    type Shared: Debug + PartialEq;

    /// Kinds of the cells that the capability reads, and because of which it has parts.
    const KINDS: &'static [<Self::Inputs as Inputs>::Kind];

    /// Returns `true` if the inputs want no rows at all, because a feature is off. Then the engine
    /// looks once whether there [are](Self::has_rows) any, and has nothing to do if there are none.
    fn is_off(inputs: &Self::Inputs) -> bool {
        let _ = inputs;
        false
    }

    /// Returns `true` if there are rows of the capability. Asked for only while it is
    /// [off](Self::is_off).
    fn has_rows(snapshot: &Snapshot) -> bool {
        let _ = snapshot;
        true
    }

    /// Declares the tables.
    fn declare(layout: &mut Layout<Self::Part>) -> Self;

    /// Returns the group of a part. It never changes.
    fn group(&self, part: &Self::Part) -> Self::Group;

    /// Returns the comment that a group's transactions carry into the server's log.
    fn comment(&self, group: &Self::Group) -> String;

    /// Calls `part` for each part that exists because of a cell.
    ///
    /// Only new parts have to be found here. A part that exists is pending whenever something
    /// changed that it has read.
    fn parts(
        &self,
        cell: &<Self::Inputs as Inputs>::Cell,
        inputs: &Self::Inputs,
        part: &mut dyn FnMut(Self::Part),
    );

    /// Returns `true` if the inputs still have what a part is about. A part that has neither this
    /// nor rows is forgotten.
    fn exists(&self, part: &Self::Part, inputs: &Self::Inputs) -> bool;

    /// Computes a shared value: a pure function of its key and of cells, rows and other shared
    /// values that it reads through the reader.
    fn shared(&self, key: &Self::SharedKey, reader: &Reader<'_, Self>) -> Self::Shared
    where
        Self: Sized;

    /// Computes the rows of a part.
    fn rows(&self, part: &Self::Part, reader: &Reader<'_, Self>, rows: &mut PartRows<Self::Report>)
    where
        Self: Sized;

    /// Returns `true` if a row of the part that it does not want stays as it is. Rows of
    /// [`PartRows::keep`] and [`PartRows::keep_rest`] are not asked for.
    fn keeps(&self, part: &Self::Part, row: PartRow<'_>, reader: &Reader<'_, Self>) -> bool
    where
        Self: Sized,
    {
        let _ = (part, row, reader);
        false
    }

    /// Objects that a row of the part is about, each after those that contain it. With a
    /// [`Scope`](crate::Scope) they decide whether a row goes that no part wants. By default there
    /// are none, and the row goes.
    fn objects(
        &self,
        part: &Self::Part,
        row: PartRow<'_>,
        reader: &Reader<'_, Self>,
    ) -> Vec<ObjectName>
    where
        Self: Sized,
    {
        let _ = (part, row, reader);
        Vec::new()
    }

    /// Returns `true` if unwanted rows and members of a part stay for as long as unwanted rows of
    /// another part do, such as the address sets that ACLs name.
    fn is_needed_by(&self, part: &Self::Part, other: &Self::Part) -> bool {
        let _ = (part, other);
        false
    }
}

/// Keys of two versions of a map whose values differ, or that only one of them has. It costs the
/// difference, if one version is made of the other. For [`Inputs::diff`].
pub fn changed_keys<'a, K: Ord, V: PartialEq>(
    old: &'a OrdMap<K, V>,
    new: &'a OrdMap<K, V>,
) -> impl Iterator<Item = &'a K> {
    old.diff(new).map(|item| match item {
        DiffItem::Add(key, _)
        | DiffItem::Remove(key, _)
        | DiffItem::Update { new: (key, _), .. } => key,
    })
}
