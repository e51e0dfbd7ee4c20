//! `patchbay show`: the switches and routers of a Northbound database, as `ovn-nbctl show` prints
//! them.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use patchbay_nbctl_text::{Release, RenderError, show as show_all, show_named};
use patchbay_reconcile::northbound::Northbound as _;

use super::console::Console;
use super::failure::Failure;
use super::files::read_file;
use super::keys::Keys;
use super::moment::Moment;
use super::time_limit::TimeLimit;
use super::zones::open_remote;

#[derive(Debug, Args)]
#[command(group = ArgGroup::new("database").args(["nb", "file"]).required(true))]
pub(super) struct Show {
    /// Name or UUID of a switch or router. Default: all.
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The Northbound database: unix:PATH, tcp:HOST:PORT or ssl:HOST:PORT, or several remotes,
    /// separated by commas.
    #[arg(long, value_name = "REMOTE")]
    nb: Option<String>,
    /// A database file of a standalone database or of a member of a clustered database, as it is or
    /// packed with gzip or xz. It is only read.
    #[arg(long, value_name = "FILE")]
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

/// Prints the switches and routers.
pub(super) async fn show(arguments: &Show, console: &mut Console<'_>) -> Result<(), Failure> {
    let (place, snapshot) = match (&arguments.file, &arguments.nb) {
        (Some(file), _) => (file.display().to_string(), read_file(file, arguments.at, console)?),
        (None, Some(remote)) => {
            let opened = open_remote(remote, &arguments.keys, arguments.limit, console).await?;
            (remote.clone(), opened.snapshot())
        }
        (None, None) => {
            return Err(Failure::Arguments("one of --nb and --file is required".to_owned()));
        }
    };
    let release = Release::of_schema(snapshot.schema());
    let text = match &arguments.name {
        Some(name) => show_named(&snapshot, name, release),
        None => show_all(&snapshot, release),
    };
    let shown = text.map_err(|error: RenderError| Failure::Print {
        zone: place.clone(),
        message: error.to_string(),
    })?;
    if let Some(name) = arguments.name.as_ref().filter(|_| shown.is_empty()) {
        return Err(Failure::Arguments(format!("{place} has no switch and no router {name}")));
    }
    Ok(console.write_long(|output| output.write_all(shown.as_bytes()))?)
}
