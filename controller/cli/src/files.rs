//! Northbound databases in files and archives.

use std::collections::BTreeMap;
use std::path::Path;

use ovsdb_sim::LogEnd;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb;
use patchbay_sources::{GatheredZone, UnpackedLog, gather, open_log};

use super::console::Console;
use super::failure::Failure;
use super::moment::{Moment, time_text};

/// Opens a file, which must be of a Northbound database.
pub(super) fn open_northbound(path: &Path) -> Result<UnpackedLog, Failure> {
    let log = open_log(path)?;
    let (found, expected) = (&log.schema().name, &nb::schema().name);
    if found != expected {
        let path = path.display();
        let message = format!("{path}: no database {expected}: the file has {found}");
        return Err(Failure::Arguments(message));
    }
    Ok(log)
}

/// The rows of a file at a moment, or at its end. Warns of a damaged end.
///
/// # Errors
/// The file cannot be read, or its history begins after the moment.
pub(super) fn read_file(
    path: &Path,
    at: Option<Moment>,
    console: &mut Console<'_>,
) -> Result<Snapshot, Failure> {
    let mut log = open_northbound(path)?;
    let Some(moment) = at else {
        log.replay()?;
        warn_of_damage(path, log.end(), console)?;
        return Ok(log.snapshot());
    };
    let (mut first, mut last) = (None, None);
    while let Some(transaction) = log.next()? {
        first.get_or_insert((transaction.record, transaction.time));
        if moment.includes(transaction.record, transaction.time) {
            last = Some(log.snapshot());
        } else if matches!(moment, Moment::Record(_)) {
            break;
        }
    }
    warn_of_damage(path, log.end(), console)?;
    last.ok_or_else(|| {
        let path = path.display();
        let begin = first.map_or_else(
            || "it has no transaction".to_owned(),
            |(record, time)| format!("it begins with record {record} of {}", time_text(time)),
        );
        Failure::Arguments(format!("{path}: no transaction up to --at: {begin}"))
    })
}

/// Warns if a file ends with a damaged record.
pub(super) fn warn_of_damage(
    path: &Path,
    end: Option<&LogEnd>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let Some(problem) = end.and_then(LogEnd::problem) else {
        return Ok(());
    };
    let warning = format!("{}: {problem}", path.display());
    Ok(console.warn("damaged files", &warning)?)
}

/// The Northbound databases of an archive, each with its zone and its member. Of two databases of a
/// zone, the one with more rows is read: a collector may have copied a database that was starting.
pub(super) fn read_archive(
    archive: &Path,
    console: &mut Console<'_>,
) -> Result<Vec<(Option<String>, String, Snapshot)>, Failure> {
    let gathered = gather(archive)?;
    for problem in &gathered.problems {
        let warning = format!("{}: {problem}", archive.display());
        console.warn("members of archives", &warning)?;
    }
    let mut zones: BTreeMap<String, GatheredZone> = BTreeMap::new();
    for gathered in gathered.zones {
        let Some(other) = zones.remove(&gathered.zone) else {
            zones.insert(gathered.zone.clone(), gathered);
            continue;
        };
        let is_larger = gathered.snapshot.row_count() > other.snapshot.row_count();
        let (kept, left) = if is_larger { (gathered, other) } else { (other, gathered) };
        let warning = format!(
            "two databases of zone {}: {} is read, {} is left out",
            kept.zone, kept.member, left.member
        );
        console.warn("members of archives", &warning)?;
        zones.insert(kept.zone.clone(), kept);
    }
    let zones = zones.into_values();
    Ok(zones.map(|found| (Some(found.zone), found.member, found.snapshot)).collect())
}

/// The zone before a remote or path, and the rest. `None`: a name of a node does not stand before
/// the first `=`.
pub(super) fn split_zone(text: &str) -> (Option<&str>, &str) {
    let is_name = |zone: &str| {
        let mut characters = zone.chars();
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        !zone.is_empty() && characters.all(is_part)
    };
    match text.split_once('=') {
        Some((zone, rest)) if is_name(zone) => (Some(zone), rest),
        _ => (None, text),
    }
}
