//! Northbound databases of servers, files and archives, with their zones.

use std::path::{Path, PathBuf};

use clap::Args;
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_sources::own_zone;

use super::console::Console;
use super::failure::Failure;
use super::files::read_file;
use super::keys::Keys;
use super::moment::Moment;
use super::reach::source::{read_archive, split_zone};
use super::time_limit::TimeLimit;
use super::zones::open_remote;

/// Flags that name databases.
#[derive(Clone, Debug, Args)]
pub(super) struct DatabaseFlags {
    /// A Northbound database: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several remotes of one
    /// cluster, separated by commas. Repeated for several zones; NODE= names the zone.
    #[arg(long, value_name = "[NODE=]REMOTE")]
    pub(super) nb: Vec<String>,
    /// A database file, as it is or packed with gzip or xz. It is only read. Repeated for several
    /// zones.
    #[arg(long, value_name = "[NODE=]FILE")]
    pub(super) file: Vec<String>,
    /// The moment in the history of the file: the number of a record, or a time such as
    /// 2026-11-29T03:00:00Z. Default: its end.
    #[arg(long, value_name = "MOMENT", requires = "file")]
    pub(super) at: Option<Moment>,
    /// A must-gather of OVN-Kubernetes' collector, or a sosreport: a folder, or an archive as it is or
    /// packed. All zones in it are read.
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
    /// Reads the databases that the flags name, in the order of their zones in archives.
    ///
    /// # Errors
    /// A database cannot be read.
    pub(super) async fn read(
        &self,
        (keys, limit): (&Keys, TimeLimit),
        console: &mut Console<'_>,
    ) -> Result<Vec<ZoneDatabase>, Failure> {
        let mut found = Vec::new();
        for named in &self.nb {
            let (zone, remote) = split_zone(named);
            let opened = open_remote(remote, keys, limit, console).await?;
            found.push((zone.map(str::to_owned), remote.to_owned(), opened.snapshot()));
        }
        for named in &self.file {
            let (zone, file) = split_zone(named);
            let snapshot = read_file(Path::new(file), self.at, console)?;
            found.push((zone.map(str::to_owned), file.to_owned(), snapshot));
        }
        if let Some(archive) = &self.must_gather {
            found.extend(read_archive(archive, console)?);
        }
        let databases = found.into_iter().map(|(zone, place, snapshot)| ZoneDatabase {
            zone: zone.or_else(|| own_zone(&snapshot)).unwrap_or(place),
            snapshot,
        });
        Ok(databases.collect())
    }
}
