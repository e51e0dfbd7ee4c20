//! Naive model of a database: its content in plain maps, and its constraints.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{ChangeSet, Snapshot};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{BaseType, ColumnId, RefType, TableId};
use uuid::Uuid;

/// Rows of all tables.
#[derive(Debug, PartialEq)]
pub(crate) struct Model {
    rows: BTreeMap<(TableId, Uuid), Row>,
    strong: BTreeMap<(TableId, Uuid), usize>,
    table_names: Vec<String>,
}

impl Model {
    pub(crate) fn of(snapshot: &Snapshot) -> Self {
        let schema = snapshot.schema();
        let rows: BTreeMap<_, _> = schema
            .table_ids()
            .flat_map(|table| {
                let rows = snapshot.table(table).iter();
                rows.map(move |row| ((table, row.uuid), Row::clone(row)))
            })
            .collect();
        let mut strong: BTreeMap<_, usize> = rows.keys().map(|key| (*key, 0)).collect();
        for (key, row) in &rows {
            for (ref_type, target) in references(snapshot, key.0, row) {
                if ref_type == RefType::Strong && target != *key {
                    *strong.entry(target).or_default() += 1;
                }
            }
        }
        Self {
            rows,
            strong,
            table_names: schema.tables.iter().map(|t| t.name.to_string()).collect(),
        }
    }

    /// The number of strong references to each row.
    pub(crate) fn strong_counts(&self) -> impl Iterator<Item = (String, String, usize)> {
        let name = |table: TableId| self.table_names[table.index()].clone();
        let counts = self.strong.iter();
        counts.map(move |((table, uuid), count)| (name(*table), uuid.to_string(), *count))
    }

    /// Checks that `changes` are the differences between this and `after`.
    pub(crate) fn check_changes(&self, after: &Self, changes: &ChangeSet) -> Result<(), String> {
        let mut reported = BTreeSet::new();
        for change in &changes.rows {
            let key = (change.table, change.uuid());
            if !reported.insert(key) {
                return Err(format!("{key:?} is reported twice"));
            }
            if change.old.as_deref() != self.rows.get(&key)
                || change.new.as_deref() != after.rows.get(&key)
            {
                return Err(format!("{change:?} is not what changed"));
            }
            if change.old == change.new {
                return Err(format!("{change:?} is no change"));
            }
        }
        let keys: BTreeSet<_> = self.rows.keys().chain(after.rows.keys()).collect();
        let unreported = keys
            .into_iter()
            .find(|key| self.rows.get(key) != after.rows.get(key) && !reported.contains(key));
        unreported.map_or(Ok(()), |key| Err(format!("the change of {key:?} is not reported")))
    }

    /// Checks all constraints.
    pub(crate) fn check(&self, snapshot: &Snapshot) -> Result<(), String> {
        let schema = snapshot.schema();
        for (key, row) in &self.rows {
            let table = schema.table(key.0);
            if row.values.len() != table.columns.len() {
                return Err(format!("{row:?} has not the columns of {}", table.name));
            }
            for column in table.column_ids() {
                let (ty, datum) = (table.column_type(column), row.get(column));
                let is_map = matches!(*datum, Datum::Map(_));
                let counts = (ty.min as usize)..=(ty.max as usize);
                if is_map != ty.is_map() || !counts.contains(&datum.len()) {
                    return Err(format!("{datum:?} is no {}", ty.to_english()));
                }
                is_sorted(&datum)?;
                ty.check(&datum).map_err(|error| error.to_string())?;
            }
            for (ref_type, target) in references(snapshot, key.0, row) {
                if !self.rows.contains_key(&target) {
                    return Err(format!("{key:?} has a {ref_type:?} reference to nothing"));
                }
            }
            if !table.is_root && self.strong[key] == 0 {
                return Err(format!("{key:?} is garbage"));
            }
        }
        for table in schema.table_ids() {
            self.check_table(snapshot, table)?;
        }
        Ok(())
    }

    fn check_table(&self, snapshot: &Snapshot, id: TableId) -> Result<(), String> {
        let table = snapshot.schema().table(id);
        let rows: Vec<&Row> =
            self.rows.iter().filter(|((table, _), _)| *table == id).map(|(_, row)| row).collect();
        if rows.len() > table.max_rows as usize {
            return Err(format!("{} rows in {}", rows.len(), table.name));
        }
        if rows.len() != snapshot.table(id).len() {
            return Err(format!("{} miscounts its rows", table.name));
        }
        for (number, index) in table.indexes.iter().enumerate() {
            let mut keys: Vec<Vec<Datum>> = Vec::new();
            for row in &rows {
                let value = |column: &ColumnId| row.get(*column).into_owned();
                let key: Vec<Datum> = index.iter().map(value).collect();
                if keys.contains(&key) {
                    return Err(format!("{key:?} is twice in an index of {}", table.name));
                }
                let found = snapshot.table(id).find(number, &key);
                if found.map(|row| row.uuid) != Some(row.uuid) {
                    return Err(format!("an index of {} has not {key:?}", table.name));
                }
                keys.push(key);
            }
        }
        Ok(())
    }
}

/// All references of a row, with duplicates.
fn references(snapshot: &Snapshot, table: TableId, row: &Row) -> Vec<(RefType, (TableId, Uuid))> {
    let table = snapshot.schema().table(table);
    let mut found = Vec::new();
    let mut see = |base: &BaseType, atom: &Atom| {
        if let (Some(reference), Some(uuid)) = (base.reference(), atom.as_uuid()) {
            found.push((reference.ref_type, (reference.table, uuid)));
        }
    };
    for column in table.column_ids() {
        let ty = table.column_type(column);
        match &*row.get(column) {
            Datum::Set(set) => set.iter().for_each(|atom| see(&ty.key, atom)),
            Datum::Map(map) => {
                for (key, value) in map {
                    see(&ty.key, key);
                    if let Some(base) = &ty.value {
                        see(base, value);
                    }
                }
            }
        }
    }
    found
}

fn is_sorted(datum: &Datum) -> Result<(), String> {
    let keys: Vec<&Atom> = match datum {
        Datum::Set(set) => set.iter().collect(),
        Datum::Map(map) => map.iter().map(|(key, _)| key).collect(),
    };
    if keys.windows(2).all(|pair| pair[0] < pair[1]) {
        Ok(())
    } else {
        Err(format!("{datum:?} is not sorted"))
    }
}
