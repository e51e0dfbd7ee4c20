//! What the rows of a database say about a machine: the facts in which it differs from others.
//!
//! Two machines with the same facts may change places without a change of the rows, so packets of
//! the one and of the other meet the same decisions. A pair of two such sets needs one question.

mod facts;
mod words;

pub(crate) use facts::{FactIds, Facts, Machine};

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use foldhash::fast::RandomState;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Datum;
use patchbay_schemas::row::Row;
use patchbay_schemas::schema::{ColumnId, TableSchema};
use uuid::Uuid;

use crate::address::{Interface, Mac, Prefix};
use words::{Word, words};

/// Tables whose rows do not decide on packets.
const SILENT_TABLES: [&str; 6] =
    ["Connection", "Copp", "DNS", "Meter", "Mirror", "Sample_Collector"];
/// Columns that do not decide on packets.
const SILENT_COLUMNS: [&str; 4] = ["external_ids", "name", "label", "mirror_rules"];
/// Columns of a switch port with its own addresses.
const ADDRESS_COLUMNS: [&str; 3] = ["addresses", "dynamic_addresses", "port_security"];
/// Options of a switch port that no other machine notices.
const SILENT_OPTIONS: [&str; 2] = ["requested-tnl-key", "iface-id-ver"];
/// External ids of a switch port that name its network and its node.
const PLACE_KEYS: [&str; 3] = ["k8s.ovn.org/network", "node", "k8s.ovn.org/node"];
const PORT_TABLE: &str = "Logical_Switch_Port";
/// Maximum number of words in a row whose text is compared. In a longer row each word has a place of
/// its own.
const MAX_WORDS: usize = 8;
/// Table whose rows are sets: no element differs from another.
const SET_TABLE: &str = "Address_Set";

/// Addresses and names in the rows of a database, with their rows.
pub(crate) struct Mentions {
    networks: HashMap<Prefix, Vec<Place>, RandomState>,
    /// Lengths of the networks, IPv4 first.
    lengths: [Vec<u8>; 2],
    macs: HashMap<Mac, Vec<Place>, RandomState>,
    names: HashMap<String, Vec<Place>, RandomState>,
    rows: Vec<MentioningRow>,
    ports: HashMap<String, OwnRow, RandomState>,
    /// `true` if a row compares addresses in another way than by networks.
    is_unclear: bool,
}

/// Word in a row.
#[derive(Clone, Copy, Debug)]
struct Place {
    row: usize,
    /// Number of the word in the row.
    word: usize,
}

/// Row with words.
#[derive(Debug)]
struct MentioningRow {
    table: Arc<str>,
    uuid: Uuid,
    /// Columns in JSON, with the rows that refer to it. Empty for a row with many words.
    text: String,
}

/// Row of a switch port, without its name.
#[derive(Debug)]
struct OwnRow {
    text: String,
    place: String,
    /// Rows that refer to the port: its switch, and port groups.
    holders: Vec<Uuid>,
}

/// Words that mean switch ports.
#[derive(Default)]
struct Known {
    addresses: HashSet<IpAddr, RandomState>,
    macs: HashSet<Mac, RandomState>,
    names: HashSet<String, RandomState>,
}

impl Mentions {
    /// Reads the rows. O(bytes of all rows).
    pub(crate) fn new(snapshot: &Snapshot) -> Self {
        let known = Known::new(snapshot);
        let holders = holders(snapshot);
        let mut mentions = Self {
            networks: HashMap::default(),
            lengths: [Vec::new(), Vec::new()],
            macs: HashMap::default(),
            names: HashMap::default(),
            rows: Vec::new(),
            ports: HashMap::default(),
            is_unclear: false,
        };
        let schema = snapshot.schema();
        for id in schema.table_ids() {
            let table = schema.table(id);
            if SILENT_TABLES.contains(&&*table.name) {
                continue;
            }
            for row in snapshot.table(id).iter() {
                let held_by = holders.get(&row.uuid).map_or(&[][..], Vec::as_slice);
                if &*table.name == PORT_TABLE {
                    mentions.add_port(table, row, held_by);
                }
                mentions.add_row(table, row, held_by, &known);
            }
        }
        for (family, is_ipv4) in [true, false].into_iter().enumerate() {
            let networks = mentions.networks.keys();
            let own = networks.filter(|net| net.address.is_ipv4() == is_ipv4);
            let lengths: BTreeSet<u8> = own.map(|net| net.length).collect();
            mentions.lengths[family] = lengths.into_iter().collect();
        }
        mentions
    }

    fn add_row(&mut self, table: &TableSchema, row: &Row, holders: &[Uuid], known: &Known) {
        let number = self.rows.len();
        let mut count = 0;
        for (_, datum) in deciding(table, row) {
            for text in datum.atoms().filter_map(Atom::as_str) {
                words(text, |_, _, word| {
                    count += usize::from(self.add(word, number, count, known));
                });
            }
        }
        if count == 0 {
            return;
        }
        let is_short = count <= MAX_WORDS && &*table.name != SET_TABLE;
        let text = if is_short { row_text(table, row, holders) } else { String::new() };
        self.rows.push(MentioningRow { table: Arc::clone(&table.name), uuid: row.uuid, text });
    }

    /// Adds a word of a row. Returns `true` if it may mean machines.
    fn add(&mut self, word: Word<'_>, row: usize, number: usize, known: &Known) -> bool {
        let place = Place { row, word: number };
        match word {
            Word::Network(network) => {
                let masked = masked(network);
                if masked.is_host() && !known.addresses.contains(&masked.address) {
                    return false;
                }
                self.networks.entry(masked).or_default().push(place);
            }
            Word::Mac(mac) if known.macs.contains(&mac) => {
                self.macs.entry(mac).or_default().push(place);
            }
            Word::Name(name) if known.names.contains(name) => {
                self.names.entry(name.to_owned()).or_default().push(place);
            }
            Word::Unclear => self.is_unclear = true,
            Word::Mac(_) | Word::Name(_) => return false,
        }
        true
    }

    fn add_port(&mut self, table: &TableSchema, row: &Row, holders: &[Uuid]) {
        let text = |column: &str| {
            let id = table.column_id(column)?;
            row.get(id).as_scalar()?.as_str().map(str::to_owned)
        };
        let ids = table.column_id("external_ids").map(|id| row.get(id));
        let map = ids.as_ref().and_then(|ids| ids.as_map());
        let places = PLACE_KEYS.iter().filter_map(|key| map?.get_str(key));
        let own = OwnRow {
            text: row_text(table, row, &[]),
            place: places.collect::<Vec<_>>().join(" "),
            holders: holders.to_vec(),
        };
        if let Some(name) = text("name") {
            self.ports.insert(name, own);
        }
    }
}

impl Known {
    fn new(snapshot: &Snapshot) -> Self {
        let mut known = Self::default();
        let schema = snapshot.schema();
        let Some((id, table)) = schema.table_by_name(PORT_TABLE) else {
            return known;
        };
        let columns: Vec<ColumnId> =
            ADDRESS_COLUMNS.iter().filter_map(|name| table.column_id(name)).collect();
        for row in snapshot.table(id).iter() {
            if let Some(name) = table.column_id("name") {
                let name = row.get(name);
                known.names.extend(name.atoms().filter_map(|atom| Some(atom.as_str()?.to_owned())));
            }
            for column in &columns {
                let datum = row.get(*column);
                let texts = datum.atoms().filter_map(|atom| atom.as_str());
                for interface in texts.filter_map(Interface::parse) {
                    known.macs.insert(interface.mac);
                    known.addresses.extend(interface.addresses.iter().map(|own| own.address));
                }
            }
        }
        known
    }
}

/// Rows that refer to each row, sorted.
fn holders(snapshot: &Snapshot) -> HashMap<Uuid, Vec<Uuid>, RandomState> {
    let mut holders: HashMap<Uuid, Vec<Uuid>, RandomState> = HashMap::default();
    let schema = snapshot.schema();
    for id in schema.table_ids() {
        let table = schema.table(id);
        let references = table.column_ids().filter(|column| {
            let mut types = table.column_type(*column).base_types();
            !column.is_implicit() && types.any(|base| base.reference().is_some())
        });
        let references: Vec<ColumnId> = references.collect();
        for row in snapshot.table(id).iter().filter(|_| !references.is_empty()) {
            for column in &references {
                for held in row.get(*column).atoms().filter_map(Atom::as_uuid) {
                    holders.entry(held).or_default().push(row.uuid);
                }
            }
        }
    }
    for of in holders.values_mut() {
        of.sort_unstable();
    }
    holders
}

/// Columns of a row that decide on packets of machines, with their values.
fn deciding<'r>(
    table: &'r TableSchema,
    row: &'r Row,
) -> impl Iterator<Item = (&'r str, Cow<'r, Datum>)> {
    columns(table, row)
        .filter(|(column, _)| &*table.name != PORT_TABLE || !ADDRESS_COLUMNS.contains(column))
}

/// Columns of a row that decide on packets, with their values.
fn columns<'r>(
    table: &'r TableSchema,
    row: &'r Row,
) -> impl Iterator<Item = (&'r str, Cow<'r, Datum>)> {
    let columns = table.column_ids().filter(|column| !column.is_implicit());
    columns.filter_map(move |column| {
        let name = table.column_name(column);
        let is_silent = SILENT_COLUMNS.contains(&name) || row.is_default(column, table);
        (!is_silent).then(|| (name, row.get(column)))
    })
}

/// Columns of a row that decide, in JSON, with the rows that refer to it.
fn row_text(table: &TableSchema, row: &Row, holders: &[Uuid]) -> String {
    let mut text = String::new();
    for holder in holders {
        text.push_str(&holder.to_string());
        text.push(' ');
    }
    for (column, datum) in columns(table, row) {
        text.push_str(column);
        text.push('=');
        match &*datum {
            Datum::Map(map) if column == "options" => {
                let kept: BTreeMap<_, _> = map
                    .iter()
                    .filter_map(|(key, value)| Some((key.as_str()?, value.as_str()?)))
                    .filter(|(key, _)| !SILENT_OPTIONS.contains(key))
                    .collect();
                for (key, value) in kept {
                    text.extend(["\"", key, "\"=\"", value, "\" "]);
                }
            }
            other => {
                let mut json = Vec::new();
                other.write_json(&mut json);
                text.push_str(&String::from_utf8_lossy(&json));
            }
        }
        text.push(' ');
    }
    text
}

/// A network without bits behind its prefix.
fn masked(network: Prefix) -> Prefix {
    let bits = network.network_bits();
    let address = match network.address {
        IpAddr::V4(_) => IpAddr::from(Ipv4Addr::from_bits(bits as u32)),
        IpAddr::V6(_) => IpAddr::from(Ipv6Addr::from_bits(bits)),
    };
    Prefix { address, ..network }
}
