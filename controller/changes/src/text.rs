//! Text of changes by object, in lines of at most 80 columns. Its length does not follow from the
//! number of objects.

use std::collections::BTreeMap;
use std::io::{self, Write};

use patchbay_model::printable::printable;

use super::changes::{Changes, Counts, Detail, ObjectChange};
use super::object::Object;
use super::rows::ChangeKind;

/// Length of a line, in columns.
const COLUMNS: usize = 80;
/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 300;
/// Maximum number of objects of a kind that are named for one kind of change. All others are a
/// number.
const MAX_OBJECTS: usize = 10;
/// Maximum number of nouns in a line.
const MAX_NOUNS: usize = 3;

/// Nouns for rows, the most telling ones first: for one row, for several, and their tables.
const NOUNS: [(&str, &str, &[&str]); 17] = [
    ("router", "routers", &["Logical_Router"]),
    ("switch", "switches", &["Logical_Switch"]),
    ("port", "ports", &["Logical_Switch_Port", "Logical_Router_Port"]),
    ("load balancer", "load balancers", &["Load_Balancer"]),
    ("ACL", "ACLs", &["ACL"]),
    ("routing policy", "routing policies", &["Logical_Router_Policy"]),
    ("NAT rule", "NAT rules", &["NAT"]),
    ("route", "routes", &["Logical_Router_Static_Route"]),
    ("DHCP option set", "DHCP option sets", &["DHCP_Options"]),
    ("QoS rule", "QoS rules", &["QoS"]),
    ("address set", "address sets", &["Address_Set"]),
    ("port group", "port groups", &["Port_Group"]),
    ("meter", "meters", &["Meter"]),
    ("load balancer group", "load balancer groups", &["Load_Balancer_Group"]),
    ("BFD session", "BFD sessions", &["BFD"]),
    ("gateway chassis", "gateway chassis", &["Gateway_Chassis", "HA_Chassis"]),
    ("MAC binding", "MAC bindings", &["Static_MAC_Binding"]),
];

/// How objects are written.
pub struct Layout<'a> {
    /// What is known about an object beside its rows.
    pub known: &'a BTreeMap<Object, String>,
    /// Returns a text in the colour of a change.
    pub paint: &'a dyn Fn(ChangeKind, &str) -> String,
}

/// Writes a block for each kind of object: what comes, changes and goes.
///
/// # Errors
/// The output cannot be written.
pub fn write_objects(
    output: &mut dyn Write,
    changes: &Changes,
    layout: &Layout<'_>,
) -> io::Result<()> {
    let objects: Vec<_> = changes.objects().collect();
    for (index, group) in
        objects.chunk_by(|(one, _), (other, _)| one.kind == other.kind).enumerate()
    {
        if index > 0 {
            writeln!(output)?;
        }
        for kind in [ChangeKind::Insert, ChangeKind::Change, ChangeKind::Delete] {
            let of_kind: Vec<_> =
                group.iter().copied().filter(|(_, change)| change.kind() == kind).collect();
            write_group(output, (changes.zones(), kind), &of_kind, layout)?;
        }
    }
    Ok(())
}

/// An object, or a number of objects, in words.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Summary {
    /// What happens to it.
    pub change: ChangeKind,
    /// The object with what is known about it.
    pub object: String,
    /// Its rows, and the zones that have them.
    pub rows: String,
}

/// The objects that [`write_objects`] writes, in its order, without rows that change.
pub fn summaries(changes: &Changes, layout: &Layout<'_>) -> Vec<Summary> {
    let objects: Vec<_> = changes.objects().collect();
    let mut summaries = Vec::new();
    for group in objects.chunk_by(|(one, _), (other, _)| one.kind == other.kind) {
        for kind in [ChangeKind::Insert, ChangeKind::Change, ChangeKind::Delete] {
            let mut of_kind = group.iter().filter(|(_, change)| change.kind() == kind);
            for (object, change) in of_kind.by_ref().take(MAX_OBJECTS) {
                let rows = tail(kind, change, changes.zones());
                summaries.push(Summary {
                    change: kind,
                    object: head(object, change, layout),
                    rows,
                });
            }
            let others: Vec<_> = of_kind.collect();
            if let Some((first, _)) = others.first() {
                let rows = others.iter().map(|(_, change)| change.counts().total()).sum();
                let object = format!("{} more of kind {}", grouped(others.len()), first.kind);
                let rows = numbered(rows, "row", "rows");
                summaries.push(Summary { change: kind, object, rows });
            }
        }
    }
    summaries
}

/// The rows of an object in words, with the zones that have them. Empty: there are none.
pub fn rows_text(changes: &Changes, object: &Object) -> String {
    let mut objects = changes.objects();
    let found = objects.find(|(known, _)| *known == object);
    found.map(|(_, change)| tail(change.kind(), change, changes.zones())).unwrap_or_default()
}

/// Writes the objects of one kind to which the same happens.
fn write_group(
    output: &mut dyn Write,
    (zones, kind): (&[String], ChangeKind),
    objects: &[(&Object, &ObjectChange)],
    layout: &Layout<'_>,
) -> io::Result<()> {
    let (named, others) = objects.split_at(objects.len().min(MAX_OBJECTS));
    let lines: Vec<(String, String)> = named
        .iter()
        .map(|(object, change)| (head(object, change, layout), tail(kind, change, zones)))
        .collect();
    let width = lines.iter().map(|(head, _)| columns(head)).max().unwrap_or_default();
    let tails = lines.iter().map(|(_, tail)| columns(tail)).max().unwrap_or_default();
    // The sign with a space, and three spaces between the columns.
    let is_table = 2 + width + 3 + tails <= COLUMNS;
    let sign = (layout.paint)(kind, &kind.sign().to_string());
    for ((head, tail), (_, change)) in lines.iter().zip(named) {
        if is_table {
            let gap = " ".repeat(width - columns(head) + 3);
            writeln!(output, "{sign} {head}{gap}{tail}")?;
        } else {
            writeln!(output, "{sign} {}", cut(head, COLUMNS - 2))?;
            writeln!(output, "    {}", cut(tail, COLUMNS - 4))?;
        }
        for detail in change.details() {
            write_detail(output, detail, layout)?;
        }
        let shown = change.details().len();
        let rows = change.counts().total();
        if shown > 0 && rows > shown && change.zone_count() == 1 {
            writeln!(output, "    … {}", numbered(rows - shown, "more row", "more rows"))?;
        }
    }
    if let Some((first, _)) = others.first() {
        let count = others.iter().map(|(_, change)| change.counts().total()).sum();
        let rows = numbered(count, "row", "rows");
        writeln!(output, "{sign} {} more of kind {}: {rows}", grouped(others.len()), first.kind)?;
    }
    Ok(())
}

/// The object, with what is known about it.
fn head(object: &Object, change: &ObjectChange, layout: &Layout<'_>) -> String {
    let name = object.to_string();
    let facts = layout.known.get(object).cloned().unwrap_or_else(|| change.facts());
    let text = if facts.is_empty() { name } else { format!("{name} ({facts})") };
    printable(&text, MAX_NAME_BYTES).into_owned()
}

/// The rows of an object in words, and the zones that have them.
fn tail(kind: ChangeKind, change: &ObjectChange, zones: &[String]) -> String {
    let mut parts = Vec::new();
    let mut counted = 0;
    for (one, several, tables) in NOUNS {
        let mut counts = Counts::default();
        let of_noun = tables.iter().filter_map(|table| change.tables.get(*table));
        of_noun.for_each(|of_table| counts += *of_table);
        let numbers = [('+', counts.add), ('~', counts.change), ('-', counts.delete)];
        for (sign, number) in numbers.into_iter().filter(|(_, number)| *number > 0) {
            if parts.len() == MAX_NOUNS {
                break;
            }
            counted += number;
            let text = numbered(number, one, several);
            let needs_sign = sign != kind.sign() || kind == ChangeKind::Change;
            parts.push(if needs_sign { format!("{sign}{text}") } else { text });
        }
    }
    let rest = change.counts().total() - counted;
    if rest > 0 {
        let words = if parts.is_empty() { ("row", "rows") } else { ("more row", "more rows") };
        parts.push(numbered(rest, words.0, words.1));
    }
    let rows = match parts.split_last() {
        Some((last, first)) if rest > 0 && !first.is_empty() => {
            format!("{} and {last}", first.join(", "))
        }
        _ => parts.join(", "),
    };
    match change.only_zone(zones) {
        Some(zone) if zones.len() > 1 => format!("{rows} on {zone}"),
        Some(_) => rows,
        None => format!("{rows} on {} zones", grouped(change.zone_count())),
    }
}

/// Writes a changed row with its columns.
fn write_detail(output: &mut dyn Write, detail: &Detail, layout: &Layout<'_>) -> io::Result<()> {
    let sign = (layout.paint)(detail.change, &detail.change.sign().to_string());
    let text = format!("{} {}", detail.table, printable(&detail.row, MAX_NAME_BYTES));
    writeln!(output, "    {sign} {}", cut(&text, COLUMNS - 6))?;
    for line in &detail.lines {
        writeln!(output, "        {}", cut(line, COLUMNS - 8))?;
    }
    if detail.more > 0 {
        writeln!(output, "        … {}", numbered(detail.more, "more element", "more elements"))?;
    }
    Ok(())
}

/// A number with its noun.
fn numbered(count: usize, one: &str, several: &str) -> String {
    format!("{} {}", grouped(count), if count == 1 { one } else { several })
}

/// A number with commas between its groups of three digits.
///
/// ```
/// assert_eq!(patchbay_changes::grouped(1_234_567), "1,234,567");
/// ```
pub fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// The beginning of a text that fits into columns, with `…` in place of the rest.
fn cut(text: &str, limit: usize) -> String {
    if columns(text) <= limit {
        return text.to_owned();
    }
    text.chars().take(limit.saturating_sub(1)).chain(['…']).collect()
}
