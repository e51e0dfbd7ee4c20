//! Northbound databases in files and archives.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use ovsdb_sim::LogEnd;
use patchbay_engine::db::Snapshot;
use patchbay_resources::manifests::{Inventory, ObservedObjects};
use patchbay_schemas::nb;
use patchbay_sources::{
    Gathered, GatheredZone, Moment, ObjectFiles, OpenedFile, SourceKind, StateError, Wanted,
    gather, kind_of, open_log, state_at,
};

use super::console::Console;
use super::failure::Failure;
use super::source_age::{SourceAge, SourceTime};

/// Opens a file, which must be of a Northbound database.
pub(super) fn open_northbound(path: &Path) -> Result<OpenedFile, Failure> {
    let opened = open_log(path)?;
    let (found, expected) = (&opened.log.schema().name, &nb::schema().name);
    if found != expected {
        let path = path.display();
        let message = format!("{path}: no database {expected}: the file has {found}");
        return Err(Failure::Arguments(message));
    }
    Ok(opened)
}

/// Warns of what a dump has lost.
pub(super) fn warn_of_lost(
    path: &Path,
    lost: &[String],
    console: &mut Console<'_>,
) -> io::Result<()> {
    let mut lost = lost.iter();
    lost.try_for_each(|lost| console.warn("damaged files", &format!("{}: {lost}", path.display())))
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
    let OpenedFile { mut log, dumped, lost } = open_northbound(path)?;
    warn_of_lost(path, &lost, console)?;
    let state = state_at(&mut log, at).map_err(|error| match error {
        StateError::File(error) => Failure::File(error),
        other => Failure::Arguments(format!("{}: {other}", path.display())),
    })?;
    warn_of_damage(path, log.end(), console)?;
    note_file(path, (state.time.or(dumped), state.latest), console)?;
    Ok(state.snapshot)
}

/// Notes the age of a database file. `times`: of its last transaction, and the latest one.
pub(super) fn note_file(
    path: &Path,
    (time, latest): (Option<SystemTime>, Option<SystemTime>),
    console: &mut Console<'_>,
) -> io::Result<()> {
    let name = path.display().to_string();
    console.note_source(SourceAge { name, time: SourceTime::Kept { time, latest } })
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

/// Reader of the objects in an archive.
#[derive(Default)]
struct ArchiveObjects(ObservedObjects);

impl ObjectFiles for ArchiveObjects {
    fn has_resource(&self, group: &str, resource: &str) -> bool {
        ObservedObjects::has_resource(group, resource)
    }

    fn read(&mut self, member: &str, content: Vec<u8>) {
        self.0.read(member, content);
    }
}

/// What a command reads of an archive.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum ArchivePart {
    Databases,
    Objects,
    Both,
}

/// Content of an archive.
pub(super) struct Archive {
    /// Northbound databases, each of another zone.
    pub(super) zones: Vec<GatheredZone>,
    /// Objects, with warnings about those that cannot be read.
    pub(super) inventory: Inventory,
}

/// Reads an archive. Of two databases of a zone, the one with more rows is read: a collector may have
/// copied a database that was starting.
///
/// # Errors
/// The archive cannot be read, or has nothing of what is wanted.
pub(super) fn read_archive(
    archive: &Path,
    (part, at): (ArchivePart, Option<Moment>),
    console: &mut Console<'_>,
) -> Result<Archive, Failure> {
    let mut objects = ArchiveObjects::default();
    let wanted = Wanted {
        no_databases: part == ArchivePart::Objects,
        at,
        objects: (part != ArchivePart::Databases).then_some(&mut objects),
    };
    let Gathered { zones: found, time, problems } = gather(archive, wanted)?;
    for problem in &problems {
        let warning = format!("{}: {problem}", archive.display());
        console.warn("members of archives", &warning)?;
    }
    let mut zones: BTreeMap<String, GatheredZone> = BTreeMap::new();
    for gathered in found {
        let Some(other) = zones.remove(&gathered.zone) else {
            zones.insert(gathered.zone.clone(), gathered);
            continue;
        };
        let is_larger = gathered.state.snapshot.row_count() > other.state.snapshot.row_count();
        let (kept, left) = if is_larger { (gathered, other) } else { (other, gathered) };
        let warning = format!(
            "two databases of zone {}: {} is read, {} is left out",
            kept.zone, kept.member, left.member
        );
        console.warn("members of archives", &warning)?;
        zones.insert(kept.zone.clone(), kept);
    }
    let zones: Vec<_> = zones.into_values().collect();
    let of_zones = zones.iter().filter_map(|zone| zone.state.time).max();
    let time = if at.is_some() { of_zones } else { time.or(of_zones) };
    let name = archive.display().to_string();
    console.note_source(SourceAge { name, time: SourceTime::Kept { time, latest: time } })?;
    Ok(Archive { zones, inventory: objects.0.finish() })
}

/// The archive among paths of `-f`. `None`: they are manifests.
///
/// # Errors
/// There is another path beside the archive.
pub(super) fn archive_of(paths: &[PathBuf]) -> Result<Option<&Path>, Failure> {
    // Paths that cannot be read are reported by the reader of manifests.
    let is_archive = |path: &&PathBuf| kind_of(path).is_ok_and(|kind| kind == SourceKind::Archive);
    match (paths.iter().find(is_archive), paths) {
        (Some(archive), [_]) => Ok(Some(archive)),
        (Some(archive), _) => {
            let message = format!("-f {}: an archive is read alone", archive.display());
            Err(Failure::Arguments(message))
        }
        (None, _) => Ok(None),
    }
}

/// Reads the objects of an archive.
pub(super) fn read_objects(
    archive: &Path,
    console: &mut Console<'_>,
) -> Result<Inventory, Failure> {
    let Archive { inventory, .. } = read_archive(archive, (ArchivePart::Objects, None), console)?;
    Ok(inventory)
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
