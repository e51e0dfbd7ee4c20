//! Northbound databases of servers, files and archives, with their zones.

use std::path::{Path, PathBuf};

use clap::Args;
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_resources::manifests::Inventory;
use patchbay_sources::{Moment, own_zone};

use super::console::Console;
use super::failure::Failure;
use super::files::{ArchivePart, read_archive, read_file, split_zone};
use super::keys::Keys;
use super::source_age::SourceAge;
use super::time_limit::TimeLimit;
use super::zones::open_remote;

/// Flags that name databases.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct DatabaseFlags {
    /// The Northbound database of a zone: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several
    /// remotes, separated by commas. Repeated for several zones: packets go on behind tunnels.
    /// Without NODE= the zone is that of `NB_Global.name`.
    #[arg(long, value_name = "[NODE=]REMOTE")]
    pub(super) nb: Vec<String>,
    /// A database file of a zone, likewise: of a standalone database, of a member of a clustered
    /// database, or the text of `ovsdb-client dump`, as it is or packed with gzip or xz. It is only
    /// read. A path with `=` in its first name begins with ./
    #[arg(long, value_name = "[NODE=]FILE")]
    pub(super) file: Vec<String>,
    /// The moment in the history of the files: the number of a record, or a time such as
    /// 2026-11-29T03:00:00Z. Of an archive a time, at which each of its databases is read. Default:
    /// their ends.
    #[arg(long, value_name = "MOMENT")]
    pub(super) at: Option<Moment>,
    /// Databases of all zones in an archive that a collector made (must-gather, sosreport): a
    /// folder, or a tar archive, packed or not. Each member that is a northbound is read, whatever
    /// its name.
    #[arg(long, value_name = "PATH")]
    pub(super) must_gather: Option<PathBuf>,
}

/// Database with its zone.
pub(super) struct ZoneDatabase {
    /// Name of the zone, or of the place of the database if it names no zone.
    pub(super) zone: String,
    pub(super) snapshot: Snapshot,
}

impl DatabaseFlags {
    /// `true` if no database is named.
    pub(super) fn is_empty(&self) -> bool {
        self.nb.is_empty() && self.file.is_empty() && self.must_gather.is_none()
    }

    /// Reads the databases that the flags name, in the order of their zones in archives.
    ///
    /// # Errors
    /// A database cannot be read.
    pub(super) async fn read(
        &self,
        (keys, limit): (&Keys, TimeLimit),
        console: &mut Console<'_>,
    ) -> Result<Vec<ZoneDatabase>, Failure> {
        let part = ArchivePart::Databases;
        let (databases, _) = self.read_part(part, (keys, limit), console).await?;
        Ok(databases)
    }

    /// Reads the databases that the flags name, and the objects of the archive.
    ///
    /// # Errors
    /// A database cannot be read, or there is none.
    pub(super) async fn read_with_objects(
        &self,
        keys: (&Keys, TimeLimit),
        console: &mut Console<'_>,
    ) -> Result<(Vec<ZoneDatabase>, Inventory), Failure> {
        let (databases, inventory) = self.read_part(ArchivePart::Both, keys, console).await?;
        if let Some(archive) = &self.must_gather {
            require_databases(archive, &databases)?;
        }
        Ok((databases, inventory))
    }

    /// Reads the databases that the flags name, and a part of the archive.
    ///
    /// # Errors
    /// A database cannot be read, or the archive has nothing of the part.
    pub(super) async fn read_part(
        &self,
        part: ArchivePart,
        (keys, limit): (&Keys, TimeLimit),
        console: &mut Console<'_>,
    ) -> Result<(Vec<ZoneDatabase>, Inventory), Failure> {
        if self.at.is_some() && self.file.is_empty() && self.must_gather.is_none() {
            let message = "--at is a moment in the history of --file or --must-gather";
            return Err(Failure::Arguments(message.to_owned()));
        }
        let (mut found, mut inventory) = (Vec::new(), Inventory::default());
        for named in &self.nb {
            let (zone, remote) = split_zone(named);
            let opened = open_remote(remote, keys, limit, console).await?;
            console.note_source(SourceAge::live(remote))?;
            found.push((zone.map(str::to_owned), remote.to_owned(), opened.snapshot()));
        }
        for named in &self.file {
            let (zone, file) = split_zone(named);
            let snapshot = read_file(Path::new(file), self.at, console)?;
            found.push((zone.map(str::to_owned), file.to_owned(), snapshot));
        }
        if let Some(archive) = &self.must_gather {
            if let Some(Moment::Record(record)) = self.at {
                let message = format!(
                    "--at {record}: databases of an archive have records of their own: --at takes a time"
                );
                return Err(Failure::Arguments(message));
            }
            let read = read_archive(archive, (part, self.at), console)?;
            let zones = read.zones.into_iter();
            found.extend(zones.map(|found| (Some(found.zone), found.member, found.state.snapshot)));
            inventory = read.inventory;
        }
        let databases = found.into_iter().map(|(zone, place, snapshot)| ZoneDatabase {
            zone: zone.or_else(|| own_zone(&snapshot)).unwrap_or(place),
            snapshot,
        });
        Ok((databases.collect(), inventory))
    }
}

/// Fails if an archive has objects alone.
pub(super) fn require_databases(archive: &Path, databases: &[ZoneDatabase]) -> Result<(), Failure> {
    if databases.is_empty() {
        let message = format!("{}: no Northbound database in it", archive.display());
        return Err(Failure::Arguments(message));
    }
    Ok(())
}
