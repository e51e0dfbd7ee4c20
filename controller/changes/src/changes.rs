//! Changes of the zones of a cluster by object.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::AddAssign;

use patchbay_engine::db::{RowChange, Snapshot};
use patchbay_model::external_ids::key;
use patchbay_model::printable::printable;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::TableSchema;
use serde::Serialize;

use super::object::{NETWORK, Object, text_of};
use super::rows::{ChangeKind, Snapshots};

/// Maximum number of changed rows of an object that are kept with their columns.
const MAX_DETAILS: usize = 4;
/// Maximum number of elements of a column in such a row.
const MAX_ELEMENTS: usize = 2;
/// Maximum number of lines of such a row.
const MAX_LINES: usize = 6;
/// Maximum length of such a line, in bytes.
const MAX_LINE_BYTES: usize = 400;
/// Maximum number of addresses in the description of an object.
const MAX_ADDRESSES: usize = 2;

/// Tables whose rows OVN-Kubernetes names by a hash.
const HASHED: [&str; 2] = ["Address_Set", "Port_Group"];

/// Numbers of rows that come, change and go.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Counts {
    /// Rows that come.
    pub add: usize,
    /// Rows that change.
    pub change: usize,
    /// Rows that go.
    pub delete: usize,
}

/// Object whose rows change.
#[derive(Clone, Debug, Default)]
pub struct ObjectChange {
    /// Numbers of rows by table.
    pub tables: BTreeMap<String, Counts>,
    /// Zones in which its rows change.
    zones: BTreeSet<usize>,
    was_there: bool,
    is_there: bool,
    /// Facts from its rows.
    facts: BTreeSet<String>,
    /// Changed rows, which are equal in the zones that have them.
    details: Vec<Detail>,
}

/// Changed row, with the lines of its columns.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct Detail {
    pub(crate) change: ChangeKind,
    pub(crate) table: String,
    pub(crate) row: String,
    pub(crate) lines: Vec<String>,
    /// Number of lines that are left out.
    pub(crate) more: usize,
}

/// Changes of zones by object. Its size follows from the number of objects, not from that of rows.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    objects: BTreeMap<Object, ObjectChange>,
    zones: Vec<String>,
}

impl Counts {
    /// Number of all rows.
    pub fn total(self) -> usize {
        self.add + self.change + self.delete
    }

    /// Counts a row.
    pub fn add_row(&mut self, change: ChangeKind) {
        match change {
            ChangeKind::Insert => self.add += 1,
            ChangeKind::Change => self.change += 1,
            ChangeKind::Delete => self.delete += 1,
        }
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.add += other.add;
        self.change += other.change;
        self.delete += other.delete;
    }
}

impl ObjectChange {
    /// What happens to the object: it comes or goes with all its rows, or it changes.
    pub fn kind(&self) -> ChangeKind {
        match (self.was_there, self.is_there) {
            (false, true) => ChangeKind::Insert,
            (true, false) => ChangeKind::Delete,
            _ => ChangeKind::Change,
        }
    }

    /// Numbers of rows of all tables.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.tables.values().for_each(|counts| sum += *counts);
        sum
    }

    /// Number of zones in which its rows change.
    pub fn zone_count(&self) -> usize {
        self.zones.len()
    }

    /// Facts from its rows, such as the addresses of a pod. Empty: none.
    pub fn facts(&self) -> String {
        let shown: Vec<&str> = self.facts.iter().take(MAX_ADDRESSES).map(String::as_str).collect();
        match self.facts.len().checked_sub(MAX_ADDRESSES) {
            Some(more @ 1..) => format!("{} and {more} more", shown.join(", ")),
            _ => shown.join(", "),
        }
    }

    pub(crate) fn details(&self) -> &[Detail] {
        &self.details
    }

    /// Names of the zones, if the object changes in one of several only.
    pub(crate) fn only_zone<'z>(&self, zones: &'z [String]) -> Option<&'z str> {
        let first = self.zones.first().filter(|_| self.zones.len() == 1)?;
        zones.get(*first).map(String::as_str)
    }

    fn add_row(&mut self, zone: usize, schema: &TableSchema, change: &RowChange) {
        let kind = ChangeKind::of(change);
        if let Some(counts) = self.tables.get_mut(&*schema.name) {
            counts.add_row(kind);
        } else {
            let mut counts = Counts::default();
            counts.add_row(kind);
            self.tables.insert(schema.name.to_string(), counts);
        }
        self.zones.insert(zone);
        self.was_there |= change.old.is_some();
        self.is_there |= change.new.is_some();
    }

    fn add_detail(&mut self, snapshots: Snapshots<'_>, sets: &HashedNames<'_>, change: &RowChange) {
        if self.details.len() == MAX_DETAILS {
            return;
        }
        let Some(row) = snapshots.changed_row(change) else {
            return;
        };
        let mut lines = match row.change {
            ChangeKind::Change => row.lines(MAX_ELEMENTS),
            ChangeKind::Insert | ChangeKind::Delete => Vec::new(),
        };
        let more = lines.len().saturating_sub(MAX_LINES);
        lines.truncate(MAX_LINES);
        let lines = lines.iter().map(|line| sets.spell_out(line));
        let lines = lines.map(|line| printable(&line, MAX_LINE_BYTES).into_owned());
        let detail = Detail {
            change: row.change,
            lines: lines.collect(),
            more,
            row: title(snapshots, change).unwrap_or(row.row),
            table: row.table,
        };
        if !self.details.contains(&detail) {
            self.details.push(detail);
        }
    }
}

impl Changes {
    /// Adds the changed rows of a zone.
    pub fn add_zone(&mut self, zone: &str, snapshots: Snapshots<'_>, changes: &[RowChange]) {
        let number = self.zones.len();
        self.zones.push(zone.to_owned());
        let objects = snapshots.objects(changes);
        let schema = snapshots.after.schema();
        let mut added = HashSet::new();
        let mut removed = HashSet::new();
        for (object, change) in objects.iter().zip(changes) {
            let table = schema.table(change.table);
            let known = match self.objects.get_mut(object) {
                Some(known) => known,
                None => self.objects.entry(object.clone()).or_default(),
            };
            known.add_row(number, table, change);
            if let Some(row) = change.new.as_ref().or(change.old.as_ref()) {
                known.facts.extend(facts(object, table, row));
            }
            match ChangeKind::of(change) {
                ChangeKind::Insert => added.insert(object),
                ChangeKind::Delete => removed.insert(object),
                ChangeKind::Change => false,
            };
        }
        added.retain(|object| self.objects.get(object).is_some_and(|known| !known.was_there));
        removed.retain(|object| self.objects.get(object).is_some_and(|known| !known.is_there));
        for object in objects_in(snapshots.before, &added) {
            self.objects.entry(object).or_default().was_there = true;
        }
        for object in objects_in(snapshots.after, &removed) {
            self.objects.entry(object).or_default().is_there = true;
        }
        let sets = HashedNames::new(snapshots);
        // Rows that change come before rows that are added or deleted.
        for is_change in [true, false] {
            for (object, change) in objects.iter().zip(changes) {
                let is_of_kind = (ChangeKind::of(change) == ChangeKind::Change) == is_change;
                let known = self.objects.get_mut(object).filter(|_| is_of_kind);
                if let Some(known) = known.filter(|known| known.kind() == ChangeKind::Change) {
                    known.add_detail(snapshots, &sets, change);
                }
            }
        }
    }

    /// The objects, in the order of a list.
    pub fn objects(&self) -> impl Iterator<Item = (&Object, &ObjectChange)> {
        self.objects.iter()
    }

    /// The zones, in the order in which they were added.
    pub fn zones(&self) -> &[String] {
        &self.zones
    }

    /// Numbers of rows of all objects.
    pub fn counts(&self) -> Counts {
        let mut sum = Counts::default();
        self.objects.values().for_each(|object| sum += object.counts());
        sum
    }

    /// `true` if no row changes.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

/// Names of address sets and port groups that are hashes, with what they stand for. They are read
/// when a line has one.
struct HashedNames<'a> {
    snapshots: Snapshots<'a>,
    names: OnceCell<HashMap<String, String>>,
}

impl<'a> HashedNames<'a> {
    fn new(snapshots: Snapshots<'a>) -> Self {
        Self { snapshots, names: OnceCell::new() }
    }

    /// The line with what hashes behind `$` and `@` stand for.
    fn spell_out(&self, line: &str) -> String {
        let mut text = String::with_capacity(line.len());
        let mut rest = line;
        while let Some(place) = rest.find(['$', '@']) {
            let (before, reference) = rest.split_at(place + 1);
            text.push_str(before);
            let length = reference.find(|c: char| !c.is_ascii_alphanumeric());
            let (name, after) = reference.split_at(length.unwrap_or(reference.len()));
            text.push_str(self.names().get(name).map_or(name, String::as_str));
            rest = after;
        }
        text.push_str(rest);
        text
    }

    fn names(&self) -> &HashMap<String, String> {
        self.names.get_or_init(|| {
            let Snapshots { before, after } = self.snapshots;
            let mut names = HashMap::new();
            for snapshot in [before, after] {
                for table in HASHED {
                    let Some((id, schema)) = snapshot.schema().table_by_name(table) else {
                        continue;
                    };
                    let rows = snapshot.table(id).iter();
                    names.extend(rows.filter_map(|row| {
                        Some((text_of(schema, row, "name"), meaning(schema, row)?))
                    }));
                }
            }
            names
        })
    }
}

/// What a row with a hash as its name stands for: selected pods, or its identity.
fn meaning(schema: &TableSchema, row: &Row) -> Option<String> {
    let external_ids = row.get(schema.column_id("external_ids")?);
    let ids = external_ids.as_map()?;
    if ids.get_str(key::OWNER_TYPE) == Some("PodSelector") {
        return ids.get_str(key::NAME).map(str::to_owned);
    }
    let id = ids.get_str(key::ID)?;
    // The controller stands before the first colon.
    Some(id.split_once(':').map_or(id, |(_, rest)| rest).to_owned())
}

/// Identity of a row that is named by a hash of it. `None`: the row has a name of its own.
fn title(snapshots: Snapshots<'_>, change: &RowChange) -> Option<String> {
    let schema = snapshots.after.schema().table(change.table);
    if !HASHED.contains(&&*schema.name) {
        return None;
    }
    let row = change.new.as_ref().or(change.old.as_ref())?;
    meaning(schema, row)
}

/// Which of these objects rows of a snapshot name.
fn objects_in(snapshot: &Snapshot, objects: &HashSet<&Object>) -> BTreeSet<Object> {
    let mut found = BTreeSet::new();
    if objects.is_empty() {
        return found;
    }
    let schema = snapshot.schema();
    for table in schema.table_ids() {
        let table_schema = schema.table(table);
        let named = snapshot.table(table).iter().filter_map(|row| Object::of(table_schema, row));
        found.extend(named.filter(|object| objects.contains(object)));
        if found.len() == objects.len() {
            break;
        }
    }
    found
}

/// Facts about the object of a row.
fn facts(object: &Object, schema: &TableSchema, row: &Row) -> Vec<String> {
    match (object.kind.as_str(), &*schema.name) {
        ("pod", "Logical_Switch_Port") => texts(schema, row, "addresses")
            .iter()
            .flat_map(|addresses| addresses.split_whitespace().skip(1).map(str::to_owned))
            .collect(),
        ("Subnet", "Logical_Router_Port") => texts(schema, row, "networks"),
        (_, "NAT") if object.kind != NETWORK => {
            let (outside, inside) =
                (text_of(schema, row, "external_ip"), text_of(schema, row, "logical_ip"));
            vec![format!("{outside} for {inside}")]
        }
        ("Service", "Load_Balancer") => keys(schema, row, "vips"),
        (NETWORK, "Logical_Switch" | "Logical_Router") => {
            let ids = schema.column_id("external_ids").map(|column| row.get(column));
            let ids = ids.as_deref().and_then(|ids| ids.as_map());
            let id = |key: &str| ids.and_then(|ids| ids.get_str(key));
            let topology = id(key::TOPOLOGY);
            let role = id(key::ROLE);
            let both = topology.zip(role);
            both.map(|(topology, role)| format!("{topology}, {role}")).into_iter().collect()
        }
        _ => Vec::new(),
    }
}

fn texts(schema: &TableSchema, row: &Row, column: &str) -> Vec<String> {
    let datum = schema.column_id(column).map(|column| row.get(column));
    let set = datum.as_deref().and_then(|datum| datum.as_set());
    let texts = set.into_iter().flat_map(|set| set.iter().filter_map(|atom| atom.as_str()));
    texts.map(str::to_owned).collect()
}

fn keys(schema: &TableSchema, row: &Row, column: &str) -> Vec<String> {
    let datum = schema.column_id(column).map(|column| row.get(column));
    let map = datum.as_deref().and_then(|datum| datum.as_map());
    let keys = map.into_iter().flat_map(|map| map.iter().filter_map(|(key, _)| key.as_str()));
    keys.map(str::to_owned).collect()
}
