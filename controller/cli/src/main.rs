//! The `patchbay` command.
//!
//! ```text
//! manifests, state of the last run -> cluster -> one pass per zone -> text or a document, new state
//! ```

#[cfg(feature = "kubernetes")]
mod api_server;
mod applied;
mod apply;
mod apply_report;
mod args;
mod bisect;
mod changes;
#[cfg(feature = "kubernetes")]
mod check;
#[cfg(feature = "kubernetes")]
mod cluster_args;
mod cluster_flags;
mod colours;
mod completions;
mod console;
#[cfg(feature = "kubernetes")]
mod crds;
mod databases;
mod demo;
#[cfg(feature = "kubernetes")]
mod deploy;
#[cfg(feature = "kubernetes")]
mod deploy_slots;
mod diff;
mod document;
mod explain;
mod failure;
mod file_watcher;
mod files;
mod graph;
mod history;
mod input_flags;
mod kept;
mod keys;
#[cfg(feature = "lab")]
mod lab;
mod lines;
mod lint;
mod log;
mod log_writer;
mod manifest_limit;
mod moment;
#[cfg(feature = "kubernetes")]
mod names;
mod one_database;
mod output;
mod plan;
mod progress;
mod prune;
mod reach;
mod report;
mod routers;
#[cfg(feature = "kubernetes")]
mod run;
#[cfg(feature = "kubernetes")]
mod settings;
mod show;
mod snapshot;
mod source_age;
mod source_names;
mod source_word;
mod state;
mod stop;
mod text;
mod time_limit;
#[cfg(feature = "ui")]
mod ui;
mod unreadable;
mod version;
mod views;
mod watch;
mod zone_changes;
mod zones;

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{CommandFactory as _, FromArgMatches as _};
use mimalloc::MiMalloc;
use reach::End;

use args::{Command, CommandLine};
use colours::Colours;
use console::Console;
use failure::Failure;
use log::{LogControl, start_log};
use output::Output;
use views::{Kind, view};

/// mimalloc, because planning allocates and frees millions of short strings.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// Exit status of `plan` if rows would change, and of `diff` if they differ.
const EXIT_CHANGES: u8 = 2;

/// Exit status of `explain` if something is not connected.
const EXIT_NOT_CONNECTED: u8 = 2;

/// Exit status of `lint` if there are errors.
const EXIT_FINDINGS: u8 = 2;

/// Exit status of `check` if a check has failed.
#[cfg(feature = "kubernetes")]
const EXIT_FAILED_CHECK: u8 = 2;

/// Exit status of `reach` if the packet or the reply does not arrive.
const EXIT_STOPPED: u8 = 2;

/// Exit status of `reach` if a zone that was not asked decides.
const EXIT_NOT_ASKED: u8 = 3;

/// Exit status of `bisect` if no transaction changes the answer.
const EXIT_NOT_FOUND: u8 = 2;

/// Idle time after which a thread ends. The threads that decoded the rows of a lab's nodes keep
/// memory.
const THREAD_KEEP_ALIVE: Duration = Duration::from_secs(1);

/// Name of the program as a plugin of kubectl, which finds it by this name.
const PLUGIN: &str = "kubectl-patchbay";

/// Reads the command line. Help texts of the plugin name it as its users call it.
fn read_command_line() -> Result<CommandLine, clap::Error> {
    let program = std::env::args_os().next().map(PathBuf::from);
    let is_plugin = program.is_some_and(|path| path.file_name() == Some(PLUGIN.as_ref()));
    let command = CommandLine::command();
    let command = if is_plugin { command.bin_name("kubectl patchbay") } else { command };
    #[cfg(feature = "kubernetes")]
    let matches = settings::Layers::of_process()?.parse(command)?;
    #[cfg(not(feature = "kubernetes"))]
    let matches = command.try_get_matches()?;
    CommandLine::from_arg_matches(&matches)
}

fn main() -> ExitCode {
    let line = read_command_line();
    let log = start_log(line.as_ref().ok().map(|line| &line.command));
    let command = match line {
        Ok(line) => line.command,
        Err(error) => {
            // An error here cannot be reported anywhere.
            error.print().unwrap_or_default();
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let (mut input, mut output) =
        (io::stdin(), Output::new("standard output", io::stdout().lock()));
    // Not locked, because other threads log to standard error while the command runs.
    let mut errors = Output::new("standard error", io::stderr());
    let mut console = Console::new(&mut input, &mut output, &mut errors);
    console.is_terminal = io::stdout().is_terminal();
    console.output_colours = Colours::of(&io::stdout());
    console.error_colours = Colours::of(&io::stderr());
    console.shows_live_sources = io::stderr().is_terminal();
    console.progress.is_shown = console.shows_live_sources;
    let done = execute(command, log, &mut console).and_then(|code| {
        console.report_omitted_warnings()?;
        console.output.flush()?;
        Ok(code)
    });
    match done {
        Ok(code) => code,
        Err(failure) => {
            console.report_failure(&failure);
            ExitCode::FAILURE
        }
    }
}

#[cfg_attr(
    not(feature = "kubernetes"),
    expect(unused_variables, reason = "only `run` changes the log")
)]
fn execute(
    command: Command,
    log: LogControl,
    console: &mut Console<'_>,
) -> Result<ExitCode, Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_keep_alive(THREAD_KEEP_ALIVE)
        .build()?;
    let done = runtime.block_on(async {
        match command {
            Command::Demo(arguments) => Box::pin(demo::demo(&arguments, console)).await,
            Command::Apply(arguments) => Box::pin(apply::apply(&arguments, console)).await,
            Command::Explain(arguments) => {
                let is_connected = Box::pin(explain::explain(&arguments, console)).await?;
                return Ok(ExitCode::from(if is_connected { 0 } else { EXIT_NOT_CONNECTED }));
            }
            #[cfg(feature = "kubernetes")]
            Command::Check(arguments) => {
                let is_fine = Box::pin(check::check(&arguments, console)).await?;
                return Ok(ExitCode::from(if is_fine { 0 } else { EXIT_FAILED_CHECK }));
            }
            #[cfg(feature = "kubernetes")]
            Command::Run(arguments) => run::run(&arguments, log, console).await,
            #[cfg(feature = "kubernetes")]
            Command::Config(arguments) => settings::config(&arguments, console),
            #[cfg(feature = "kubernetes")]
            Command::Crds(arguments) => crds::crds(&arguments, console),
            #[cfg(feature = "kubernetes")]
            Command::Deploy(arguments) => deploy::deploy(&arguments, console),
            Command::Reach(arguments) => {
                let end = Box::pin(reach::reach(&arguments, console)).await?;
                return Ok(ExitCode::from(match end {
                    End::Good => 0,
                    End::Bad => EXIT_STOPPED,
                    End::NotAsked => EXIT_NOT_ASKED,
                }));
            }
            Command::Completions(arguments) => completions::completions(&arguments, console),
            Command::CompleteNames(arguments) => source_names::complete_names(arguments, console),
            Command::Version(arguments) => version::version(&arguments, console),
            Command::Show(arguments) => show::show(&arguments, console).await,
            Command::Routes(arguments) => view(Kind::Routes, &arguments, console).await,
            Command::Policies(arguments) => view(Kind::Policies, &arguments, console).await,
            Command::Acls(arguments) => view(Kind::Acls, &arguments, console).await,
            Command::Nat(arguments) => view(Kind::Nat, &arguments, console).await,
            Command::Lbs(arguments) => view(Kind::LoadBalancers, &arguments, console).await,
            Command::Ports(arguments) => view(Kind::Ports, &arguments, console).await,
            Command::Get(arguments) => views::get(&arguments, console).await,
            Command::Watch(arguments) => views::watch::watch(&arguments, console).await,
            Command::Snapshot(arguments) => {
                let is_equal = snapshot::snapshot(&arguments, console).await?;
                return Ok(ExitCode::from(if is_equal { 0 } else { EXIT_CHANGES }));
            }
            Command::Diff(arguments) => {
                let is_same = Box::pin(diff::diff(&arguments, console)).await?;
                return Ok(ExitCode::from(if is_same { 0 } else { EXIT_CHANGES }));
            }
            Command::Graph(arguments) => Box::pin(graph::graph(&arguments, console)).await,
            #[cfg(feature = "ui")]
            Command::Ui(arguments) => Box::pin(ui::ui(&arguments, console)).await,
            Command::Report(arguments) => Box::pin(report::report(&arguments, console)).await,
            Command::History(arguments) => history::history(&arguments, console),
            Command::Bisect(arguments) => {
                let is_found = bisect::bisect(&arguments, console)?;
                return Ok(ExitCode::from(if is_found { 0 } else { EXIT_NOT_FOUND }));
            }
            Command::Lint(arguments) => {
                let is_clean = Box::pin(lint::lint(&arguments, console)).await?;
                return Ok(ExitCode::from(if is_clean { 0 } else { EXIT_FINDINGS }));
            }
            #[cfg(feature = "lab")]
            Command::Lab(arguments) => {
                let agrees = Box::pin(lab::lab(&arguments, console)).await?;
                return Ok(ExitCode::from(if agrees { 0 } else { lab::EXIT_DIFFERS }));
            }
            Command::Plan(arguments) => {
                let is_unchanged = Box::pin(plan::plan(&arguments, console)).await?;
                return Ok(ExitCode::from(if is_unchanged { 0 } else { EXIT_CHANGES }));
            }
        }?;
        Ok(ExitCode::SUCCESS)
    });
    // A signal may have ended the command while a thread plans; nothing follows from its plan.
    runtime.shutdown_background();
    done
}
