//! `patchbay ui`: the page of `report`, which follows its source.

mod server;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{ArgGroup, Args};
use futures_util::FutureExt as _;
use futures_util::future::{pending, select_all};
use patchbay_engine::client::SnapshotChanges;
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_reconcile::northbound::Remote;
use patchbay_resources::manifests::Inventory;
use patchbay_sources::own_zone;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::console::Console;
use super::databases::ZoneDatabase;
use super::failure::Failure;
use super::file_watcher::FileWatcher;
use super::files::split_zone;
use super::reach::args::SourceFlags;
use super::reach::source::Source;
use super::report::{PacketFlags, no_page, page_of};
use super::stop::Stop;
use super::zones::open_remote;
use server::{Access, Shown, serve};

/// Delay from a change to the page, in which further changes are expected.
const SETTLE_TIME: Duration = Duration::from_millis(500);
/// Interval at which connections are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(2);
/// Least number of bytes of a token.
const MIN_TOKEN_BYTES: usize = 16;

/// Flags of `patchbay ui`.
#[derive(Debug, Args)]
#[command(
    override_usage = "patchbay ui <--nb|--file|--must-gather|-f> [OPTIONS]",
    group = ArgGroup::new("database").args(["nb", "file", "must_gather", "paths"]).required(true).multiple(true)
)]
pub(super) struct Ui {
    /// Address and port of the page. Other addresses than those of the loopback interface need
    /// --token-file.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:7380")]
    listen: SocketAddr,
    /// File with the token that readers need, of at least 16 characters.
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    #[command(flatten)]
    packets: PacketFlags,
    #[command(flatten)]
    source: SourceFlags,
}

/// A source that is followed.
enum Followed {
    /// Servers of `--nb`.
    Remotes(Vec<FollowedRemote>),
    /// Files of databases and manifests.
    Files(FileWatcher),
}

/// Server that is followed.
struct FollowedRemote {
    /// Zone of the flag. `None`: that of the database.
    zone: Option<String>,
    place: String,
    remote: Remote,
    changes: SnapshotChanges,
}

/// Serves the page until Ctrl-C.
pub(super) async fn ui(arguments: &Ui, console: &mut Console<'_>) -> Result<(), Failure> {
    let mut stop = Stop::new()?;
    let token = arguments.token_file.as_deref().map(read_token).transpose()?;
    if token.is_none() && !arguments.listen.ip().is_loopback() {
        let message = format!("--listen {} needs --token-file", arguments.listen);
        return Err(Failure::Arguments(message));
    }
    let mut followed = Followed::open(arguments, console).await?;
    let page = followed.page(arguments, 0, console).await?;
    let listener = TcpListener::bind(arguments.listen).await.map_err(|error| {
        Failure::Arguments(format!("cannot listen on {}: {error}", arguments.listen))
    })?;
    let address = listener.local_addr()?;
    let secret = if token.is_some() { "?token=TOKEN" } else { "" };
    let title = arguments.source.title();
    writeln!(console.output, "http://{address}/{secret} shows {title}; Ctrl-C ends")?;
    console.output.flush()?;
    let (sender, shown) = watch::channel(Shown { version: 0, page: page.into(), failure: None });
    let serving = serve(listener, Access::new(address, token), shown);
    let following = async {
        loop {
            let is_shown = sender.borrow().failure.is_none();
            followed.changed(is_shown).await;
            let version = sender.borrow().version + 1;
            let made = followed.page(arguments, version, console).await;
            sender.send_modify(|shown| {
                shown.version = version;
                match made {
                    Ok(page) => (shown.page, shown.failure) = (page.into(), None),
                    Err(failure) => shown.failure = Some(failure.to_string()),
                }
            });
        }
    };
    tokio::select! {
        () = serving => {}
        () = following => {}
        () = stop.asked() => {}
    }
    Ok(())
}

impl Followed {
    async fn open(arguments: &Ui, console: &mut Console<'_>) -> Result<Self, Failure> {
        let flags = &arguments.source;
        let databases = &flags.databases;
        if databases.nb.is_empty() {
            let files = databases.file.iter().map(|named| PathBuf::from(split_zone(named).1));
            let archive = databases.must_gather.iter().cloned();
            let paths: Vec<PathBuf> =
                files.chain(archive).chain(flags.paths.iter().cloned()).collect();
            return Ok(Self::Files(FileWatcher::new(&paths)));
        }
        if !databases.file.is_empty() || databases.must_gather.is_some() {
            let message = "--nb is followed alone, without --file and --must-gather";
            return Err(Failure::Arguments(message.to_owned()));
        }
        let mut remotes = Vec::new();
        for named in &databases.nb {
            let (zone, remote) = split_zone(named);
            let (keys, limit) = (&flags.input.keys, flags.input.limit);
            let opened = open_remote(remote, keys, limit, console).await?;
            remotes.push(FollowedRemote {
                zone: zone.map(str::to_owned),
                place: remote.to_owned(),
                changes: opened.changes(),
                remote: opened,
            });
        }
        Ok(Self::Remotes(remotes))
    }

    /// The page of the present state.
    async fn page(
        &self,
        arguments: &Ui,
        version: u64,
        console: &mut Console<'_>,
    ) -> Result<String, Failure> {
        let flags = &arguments.source;
        let source = match self {
            Self::Remotes(remotes) => {
                let lost = remotes.iter().find(|one| !one.remote.is_live());
                if let Some(FollowedRemote { place, .. }) = lost {
                    let message = format!("{place}: the connection is lost");
                    return Err(Failure::Arguments(message));
                }
                let databases = remotes.iter().map(|one| {
                    let snapshot = one.remote.snapshot();
                    let zone = one.zone.clone().or_else(|| own_zone(&snapshot));
                    ZoneDatabase { zone: zone.unwrap_or_else(|| one.place.clone()), snapshot }
                });
                let objects = Inventory::default();
                Source::of_databases(flags, (databases.collect(), objects), console)?
            }
            Self::Files(_) => Source::open(flags, console).await?,
        };
        let mut report = page_of(&source, &flags.title(), arguments.packets.protocol()?);
        // What servers have is followed, and has no age.
        if let Self::Files(_) = self {
            report.set_sources(console.source_times());
        }
        report.live_page(version).map_err(|error| no_page(&error))
    }

    /// Waits for a change, and the end of a series of changes. `is_shown`: the page is that of the
    /// last state that was read.
    async fn changed(&mut self, is_shown: bool) {
        match self {
            Self::Files(watcher) => {
                watcher.wait_for_change(!is_shown).await;
            }
            Self::Remotes(remotes) => {
                let is_live = |remotes: &[FollowedRemote]| {
                    remotes.iter().all(|followed| followed.remote.is_live())
                };
                while timeout(CHECK_INTERVAL, any_change(remotes)).await.is_err() {
                    if is_live(remotes) != is_shown {
                        break;
                    }
                }
                sleep(SETTLE_TIME).await;
            }
        }
    }
}

/// Waits for a change of one of the databases.
async fn any_change(remotes: &mut [FollowedRemote]) {
    let changes = remotes.iter_mut().map(|followed| {
        let next = followed.changes.next();
        async move {
            // A client that is closed sends nothing more.
            if next.await.is_err() {
                pending::<()>().await;
            }
        }
        .boxed()
    });
    select_all(changes).await;
}

fn read_token(file: &Path) -> Result<String, Failure> {
    let failure = |reason: String| {
        Failure::Arguments(format!("cannot use the token of {}: {reason}", file.display()))
    };
    let text = fs::read_to_string(file).map_err(|error| failure(error.to_string()))?;
    let token = text.trim();
    if token.len() < MIN_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        let reason = format!("at least {MIN_TOKEN_BYTES} letters and digits are expected");
        return Err(failure(reason));
    }
    Ok(token.to_owned())
}
