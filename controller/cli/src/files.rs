//! Northbound databases in files.

use std::path::Path;

use ovsdb_sim::LogEnd;
use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb;
use patchbay_sources::{UnpackedLog, open_log};

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
