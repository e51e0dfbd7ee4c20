//! The object of each changed row: the one that the row names, or else that of the rows that hold it.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnId, RefType, TableId, TableSchema};
use uuid::Uuid;

use super::object::{Object, text_of};
use super::rows::{ChangedRow, Snapshots};

/// Maximum number of rows between a row and the one that names their object. A chassis of a gateway
/// has two: its port and the router.
const MAX_HOLDERS: usize = 4;

/// Row by its table and UUID.
type Place = (TableId, Uuid);

/// How a row that names no object is found to have one.
#[derive(Clone, Debug, Eq, PartialEq)]
enum Claim {
    /// A holder names this object.
    Object(Object),
    /// A holder names none, and may have one in turn.
    Holder(Place),
    /// Holders of several objects.
    Several,
}

impl Snapshots<'_> {
    /// The objects of changed rows, in their order.
    pub(crate) fn objects(&self, changes: &[RowChange]) -> Vec<Object> {
        let own: Vec<Option<Object>> =
            changes.iter().map(|change| self.own_object(change)).collect();
        let mut unnamed = (HashSet::new(), HashSet::new());
        for (change, _) in changes.iter().zip(&own).filter(|(_, own)| own.is_none()) {
            let is_there = change.new.is_some();
            let places = if is_there { &mut unnamed.1 } else { &mut unnamed.0 };
            places.insert((change.table, change.uuid()));
        }
        let before = Claims::new(self.before, unnamed.0);
        let after = Claims::new(self.after, unnamed.1);
        let objects = changes.iter().zip(own).map(|(change, own)| {
            let claims = if change.new.is_some() { &after } else { &before };
            let held = || claims.object((change.table, change.uuid()));
            own.or_else(held).unwrap_or_else(Object::shared)
        });
        objects.collect()
    }

    /// The changed rows of an object, by table and name.
    pub fn rows_of(&self, object: &Object, changes: &[RowChange]) -> Vec<ChangedRow> {
        let objects = self.objects(changes).into_iter().zip(changes);
        let own = objects.filter(|(of_row, _)| of_row == object);
        let mut rows: Vec<_> = own.filter_map(|(_, change)| self.changed_row(change)).collect();
        rows.sort();
        rows
    }

    fn own_object(&self, change: &RowChange) -> Option<Object> {
        let row = change.new.as_ref().or(change.old.as_ref())?;
        Object::of(self.after.schema().table(change.table), row)
    }
}

/// Rows that hold rows without an object of their own.
struct Claims(HashMap<Place, Claim>);

impl Claims {
    fn new(snapshot: &Snapshot, unnamed: HashSet<Place>) -> Self {
        let mut claims = Self(HashMap::new());
        let mut wanted = unnamed;
        for _ in 0..MAX_HOLDERS {
            if wanted.is_empty() {
                break;
            }
            wanted = claims.add_holders(snapshot, &wanted);
        }
        claims
    }

    /// Finds the holders of rows. Returns the holders that name no object.
    fn add_holders(&mut self, snapshot: &Snapshot, wanted: &HashSet<Place>) -> HashSet<Place> {
        let schema = snapshot.schema();
        let targets: BTreeSet<TableId> = wanted.iter().map(|(table, _)| *table).collect();
        let mut holders = HashSet::new();
        for table in schema.table_ids() {
            let table_schema = schema.table(table);
            let columns = holding_columns(table_schema, &targets);
            if columns.is_empty() {
                continue;
            }
            for row in snapshot.table(table).iter() {
                for place in held(row, &columns).filter(|place| wanted.contains(place)) {
                    let holder = Object::of(table_schema, row);
                    let is_unnamed = holder.is_none();
                    let claim = holder.map_or(Claim::Holder((table, row.uuid)), Claim::Object);
                    self.claim(place, claim);
                    if is_unnamed {
                        holders.insert((table, row.uuid));
                    }
                }
            }
        }
        for (place, port) in ports_of_bindings(snapshot, wanted) {
            self.claim(place, Claim::Holder(port));
            holders.insert(port);
        }
        holders.retain(|place| !self.0.contains_key(place));
        holders
    }

    fn claim(&mut self, place: Place, claim: Claim) {
        match self.0.entry(place) {
            Entry::Vacant(entry) => {
                entry.insert(claim);
            }
            Entry::Occupied(entry) if *entry.get() == claim => {}
            Entry::Occupied(mut entry) => {
                entry.insert(Claim::Several);
            }
        }
    }

    /// The object of a row.
    fn object(&self, place: Place) -> Option<Object> {
        let mut at = place;
        for _ in 0..MAX_HOLDERS {
            match self.0.get(&at)? {
                Claim::Object(object) => return Some(object.clone()),
                Claim::Holder(holder) => at = *holder,
                Claim::Several => return None,
            }
        }
        None
    }
}

/// Columns with strong references to rows of these tables, with the table.
fn holding_columns(schema: &TableSchema, targets: &BTreeSet<TableId>) -> Vec<(ColumnId, TableId)> {
    let target = |ty: &BaseType| {
        let reference = ty.reference().filter(|one| one.ref_type == RefType::Strong)?;
        targets.contains(&reference.table).then_some(reference.table)
    };
    let columns = schema.column_ids();
    columns.filter_map(|column| Some((column, target(&schema.column_type(column).key)?))).collect()
}

/// The rows that these columns of a row refer to.
fn held<'a>(
    row: &'a Arc<Row>,
    columns: &'a [(ColumnId, TableId)],
) -> impl Iterator<Item = Place> + 'a {
    columns.iter().flat_map(|(column, table)| {
        let uuids: Vec<Uuid> = match &*row.get(*column) {
            Datum::Set(set) => set.iter().filter_map(Atom::as_uuid).collect(),
            Datum::Map(_) => Vec::new(),
        };
        uuids.into_iter().map(|uuid| (*table, uuid))
    })
}

/// The router ports that MAC bindings name.
fn ports_of_bindings(snapshot: &Snapshot, wanted: &HashSet<Place>) -> Vec<(Place, Place)> {
    let schema = snapshot.schema();
    let tables = schema.table_by_name("Static_MAC_Binding");
    let Some(((bindings, binding), (ports, port))) =
        tables.zip(schema.table_by_name("Logical_Router_Port"))
    else {
        return Vec::new();
    };
    let mut places = HashMap::<String, Vec<Place>>::new();
    for place in wanted.iter().filter(|(table, _)| *table == bindings) {
        if let Some(row) = snapshot.row(bindings, place.1) {
            let name = text_of(binding, row, "logical_port");
            places.entry(name).or_default().push(*place);
        }
    }
    if places.is_empty() {
        return Vec::new();
    }
    let rows = snapshot.table(ports).iter();
    let found = rows.flat_map(|row| {
        let of_port = places.get(&text_of(port, row, "name")).into_iter().flatten();
        of_port.map(|place| (*place, (ports, row.uuid))).collect::<Vec<_>>()
    });
    found.collect()
}
