//! The database that a command reads: that of a server, or a file at any moment of its history.

use std::path::PathBuf;

use clap::Args;
use patchbay_engine::db::Snapshot;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_sources::Moment;

use super::console::Console;
use super::failure::Failure;
use super::files::read_file;
use super::keys::Keys;
use super::source_age::SourceAge;
use super::time_limit::TimeLimit;
use super::zones::open_remote;

/// Flags that name one Northbound database.
#[derive(Debug, Args)]
pub(super) struct OneDatabase {
    /// The Northbound database: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several remotes,
    /// separated by commas.
    #[arg(long, value_name = "REMOTE", group = "database")]
    nb: Option<String>,
    /// A database file of a standalone database, of a member of a clustered database, or the text of
    /// `ovsdb-client dump`, as it is or packed with gzip or xz. It is only read.
    #[arg(long, value_name = "FILE", group = "database")]
    file: Option<PathBuf>,
    /// The moment in the history of the file: the number of a record, or a time such as
    /// 2026-11-29T03:00:00Z. Default: its end.
    #[arg(long, value_name = "MOMENT", requires = "file")]
    at: Option<Moment>,
    #[command(flatten)]
    limit: TimeLimit,
    #[command(flatten)]
    keys: Keys,
}

impl OneDatabase {
    /// Reads the database. Returns its place, for messages, and its content.
    pub(super) async fn read(
        &self,
        console: &mut Console<'_>,
    ) -> Result<(String, Snapshot), Failure> {
        match (&self.file, &self.nb) {
            (Some(file), _) => Ok((file.display().to_string(), read_file(file, self.at, console)?)),
            (None, Some(remote)) => {
                let opened = open_remote(remote, &self.keys, self.limit, console).await?;
                console.note_source(SourceAge::live(remote))?;
                Ok((remote.clone(), opened.snapshot()))
            }
            (None, None) => {
                Err(Failure::Arguments("one of --nb and --file is required".to_owned()))
            }
        }
    }
}
