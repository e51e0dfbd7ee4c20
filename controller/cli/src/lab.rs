//! `patchbay lab`: the nodes of manifests on real OVN, and packets between their pods.

pub(crate) mod args;
mod changes;
mod editor;
mod fetch;
mod input;
mod prompt;
mod questions;
mod reasons;
mod stopped;
mod target;

use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use patchbay_lab::{
    CheckReport, CheckedQuestion, DatabaseServer, Lab, LabError, ProgramError, Promises, Release,
    with_default_pods,
};
use patchbay_model::ClusterSettings;
use patchbay_model::condition::{ConditionReport, ConditionStatus};
use patchbay_reconcile::Cluster;
use patchbay_resources::manifests::read_manifests;
use patchbay_resources::state::restore;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::{sleep, timeout};

use super::cluster_flags::ClusterFlags;
use super::console::Console;
use super::failure::Failure;
use super::file_watcher::FileWatcher;
use super::stop::Stop;
use super::zones::now;
use args::{CheckFormat, Lab as Arguments, LabCommand};
use changes::ChangeWatch;
use editor::TerminalMode;
use input::CommandSource;
use prompt::Next;
use stopped::stopped_programs;

/// Exit status of `lab --check` if packets do not do what the manifests promise.
pub(super) const EXIT_DIFFERS: u8 = 2;
/// Maximum number of lost packets of a check whose reasons are sought.
const MAX_DIAGNOSES: usize = 5;
/// Interval between two looks at the programs of all nodes.
const PROGRAM_INTERVAL: Duration = Duration::from_millis(500);
/// Time after a failure in which a signal is its reason.
const SIGNAL_DELAY: Duration = Duration::from_millis(20);

impl From<LabError> for Failure {
    fn from(error: LabError) -> Self {
        Self::Lab(error.to_string())
    }
}

impl From<ProgramError> for Failure {
    fn from(error: ProgramError) -> Self {
        Self::Lab(error.to_string())
    }
}

/// Runs a lab until Ctrl-C, or checks all questions, or fetches a release of OVN. Returns `false`
/// if an answer differs.
pub(super) async fn lab(arguments: &Arguments, console: &mut Console<'_>) -> Result<bool, Failure> {
    if let Some(LabCommand::Fetch(arguments)) = &arguments.command {
        fetch::fetch(arguments, console)?;
        return Ok(true);
    }
    // Dropped after the lab, because the thread that reads commands may still edit a line.
    let _mode = TerminalMode::read();
    let release =
        Release::find(arguments.ovn.as_deref()).map_err(|error| Failure::Lab(error.to_string()))?;
    writeln!(
        console.errors,
        "OVN {}, Open vSwitch {}",
        release.ovn_version(),
        release.ovs_version()
    )?;
    let inputs = Inputs {
        paths: arguments.paths.clone(),
        cluster: arguments.cluster.clone(),
        is_northd_stock: arguments.stock_northd,
    };
    let cluster = inputs.read(None, console.input)?;
    console.report_errors(&cluster.errors)?;
    let server =
        if arguments.ovsdb_server { DatabaseServer::OvsdbServer } else { DatabaseServer::Sim };
    // Before, a signal ends the process at once, also while manifests are read from a terminal.
    let mut stop = Stop::with_hang_up()?;
    let started = async { Ok(Lab::start_with(server, release, &cluster).await?) };
    let mut lab = Box::pin(unless_stopped(&mut stop, started)).await?;
    report_warnings(&lab, &cluster, console)?;
    if !arguments.commands.is_empty() {
        let executed = execute_commands(&arguments.commands, &mut lab, &cluster, console);
        return unless_stopped(&mut stop, executed).await;
    }
    if arguments.check {
        let checked = check(arguments, &mut lab, &cluster, console);
        return unless_stopped(&mut stop, checked).await;
    }
    let run = run(&inputs, &mut lab, cluster, &mut stop, console);
    match Box::pin(run).await {
        Ok(()) | Err(Failure::Stopped) => Ok(true),
        Err(failure) => Err(failure),
    }
}

/// Completes the work unless a signal stops it.
async fn unless_stopped<T>(
    stop: &mut Stop,
    work: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let done = tokio::select! {
        biased;
        () = stop.asked() => return Err(Failure::Stopped),
        done = work => done,
    };
    // Ctrl-C reaches a program that is just being started, too, and its end is seen first.
    if done.is_err() && timeout(SIGNAL_DELAY, stop.asked()).await.is_ok() {
        return Err(Failure::Stopped);
    }
    done
}

/// Manifests and settings from which a cluster is made.
#[derive(Clone)]
struct Inputs {
    paths: Vec<PathBuf>,
    cluster: ClusterFlags,
    is_northd_stock: bool,
}

impl Inputs {
    /// Reads and completes the manifests. `earlier`: the cluster before, whose ids are kept.
    fn read(&self, earlier: Option<&Cluster>, input: &mut dyn Read) -> Result<Cluster, Failure> {
        let mut inventory = read_manifests(&self.paths, input)?;
        if let Some(earlier) = earlier {
            restore(&mut inventory, &earlier.inventory)?;
        }
        let settings = ClusterSettings {
            is_northd_stock: self.is_northd_stock,
            ..self.cluster.settings(&inventory)?
        };
        let cluster = Cluster::from_inventory(inventory, settings, now())?;
        Ok(with_default_pods(cluster)?)
    }

    /// Reads the manifests again, on a thread of its own, so that a signal ends the wait.
    async fn read_again(&self, earlier: &Arc<Cluster>) -> Result<Cluster, Failure> {
        let (inputs, earlier) = (self.clone(), earlier.clone());
        let read = spawn_blocking(move || inputs.read(Some(&earlier), &mut io::stdin()));
        read.await.map_err(|error| Failure::Lab(error.to_string()))?
    }
}

fn report_warnings(lab: &Lab, cluster: &Cluster, console: &mut Console<'_>) -> Result<(), Failure> {
    for warning in lab.broken_promises(cluster).iter().chain(lab.warnings()) {
        console.warn("objects", warning)?;
    }
    Ok(())
}

async fn check(
    arguments: &Arguments,
    lab: &mut Lab,
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let promises = Promises::of(cluster);
    let questions = match &arguments.questions {
        None => lab.all_questions(&promises),
        Some(path) => {
            let error = |error: String| Failure::Lab(format!("{}: {error}", path.display()));
            let text = fs::read(path).map_err(|e| error(e.to_string()))?;
            lab.read_questions(&text, &promises).map_err(|e| error(e.to_string()))?
        }
    };
    if questions.is_empty() {
        return Err(Failure::Lab("there is nothing to ask: fewer than two pods".to_owned()));
    }
    let checked = lab.check(questions).await.map_err(|error| Failure::Lab(error.to_string()))?;
    // Without a program answers are no evidence of the manifests.
    lab.check_programs()?;
    let report = CheckReport::new(&checked);
    match arguments.output {
        CheckFormat::Text => {
            write!(console.output, "{}{}", report.to_matrix(), report.to_text())?;
            write_lost(&checked, lab, cluster, console).await?;
        }
        CheckFormat::Json => {
            let text = report.to_json().map_err(std::io::Error::other)?;
            writeln!(console.output, "{text}")?;
        }
        CheckFormat::Junit => write!(console.output, "{}", report.to_junit())?,
    }
    let shortfalls = if arguments.strict { shortfalls(lab, cluster) } else { Vec::new() };
    if !shortfalls.is_empty() {
        return Err(Failure::Strict(shortfalls));
    }
    Ok(report.differences() == 0)
}

/// Reasons why answers as promised are no evidence that the manifests work: objects that cannot be
/// read or are not accepted, and connects that select no network or are not connected everywhere.
fn shortfalls(lab: &Lab, cluster: &Cluster) -> Vec<String> {
    let refusals = cluster.refusals();
    let refusals = refusals.iter().map(ToString::to_string);
    let mut shortfalls: Vec<String> = cluster.errors.iter().cloned().chain(refusals).collect();
    let reports = lab.nodes().filter_map(|node| {
        let outcome = lab.outcome(node).ok()?;
        Some((node.to_owned(), outcome.reports.clone()))
    });
    let conditions = cluster
        .connected_conditions(&reports.collect())
        .into_iter()
        .filter(|(_, one)| one.status != ConditionStatus::True);
    shortfalls.extend(conditions.map(|(name, condition)| {
        let ConditionReport { type_, status, message, .. } = condition;
        let status = status.as_str();
        format!("ClusterNetworkConnect {name}: {type_} is {status}: {message}")
    }));
    shortfalls
}

/// Writes the reasons of the first packets that were promised and lost.
async fn write_lost(
    checked: &[CheckedQuestion],
    lab: &Lab,
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let lost = checked
        .iter()
        .filter(|checked| checked.question.is_promised && !checked.answer.verdict.is_reached());
    for checked in lost.take(MAX_DIAGNOSES) {
        let question = &checked.question;
        let (from, to) = (&question.from, &question.to);
        let reasons = questions::diagnose(lab, cluster, from, to, question.protocol)
            .await
            .map_err(Failure::Lab)?;
        write!(console.output, "{from} {to} {}:\n{reasons}", question.protocol)?;
    }
    Ok(())
}

/// Executes commands one after the other. Returns `false` if one of them has failed or a packet was
/// lost.
async fn execute_commands(
    commands: &[String],
    lab: &mut Lab,
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let mut is_done = true;
    for command in commands {
        if commands.len() > 1 {
            writeln!(console.output, "> {command}")?;
        }
        match prompt::execute(command, lab, cluster, console).await? {
            Next::Command => {}
            Next::Failed => {
                lab.check_programs()?;
                is_done = false;
            }
            Next::Quit => break,
        }
    }
    Ok(is_done)
}

/// Applies saved files and executes commands until Ctrl-C, SIGTERM, `quit` or the end of standard
/// input.
async fn run(
    inputs: &Inputs,
    lab: &mut Lab,
    cluster: Cluster,
    stop: &mut Stop,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let reads_manifests = inputs.paths.iter().any(|path| path.as_os_str() == "-");
    let mut cluster = Arc::new(cluster);
    let mut changes = watch_files(&inputs.paths);
    let mut commands = if reads_manifests { CommandSource::Nothing } else { CommandSource::open() };
    let pods = lab.pods().count();
    writeln!(
        console.errors,
        "{pods} pods on {} nodes; `help` lists the commands",
        lab.nodes().count()
    )?;
    loop {
        tokio::select! {
            line = commands.next() => {
                let Some(line) = line else { return Ok(()) };
                let executed = prompt::execute(&line, lab, &cluster, console);
                let done = unless_stopped(stop, executed).await?;
                console.output.flush()?;
                if done == Next::Quit {
                    return Ok(());
                }
            }
            Some(()) = changes.recv() => {
                if let Some(mut messages) = commands.messages() {
                    let console = &mut console.with_errors(&mut messages);
                    report_apply(inputs, lab, &mut cluster, stop, console).await?;
                } else {
                    report_apply(inputs, lab, &mut cluster, stop, console).await?;
                }
            }
            () = sleep(PROGRAM_INTERVAL) => {
                lab.check_programs()?;
            }
            () = stop.asked() => return Err(Failure::Stopped),
        }
    }
}

/// Applies the manifests again, and reports the result.
///
/// # Errors
/// A signal or the end of a program, after which there is nothing to go on with.
async fn report_apply(
    inputs: &Inputs,
    lab: &mut Lab,
    cluster: &mut Arc<Cluster>,
    stop: &mut Stop,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let applied = Box::pin(apply(inputs, lab, cluster, console));
    match unless_stopped(stop, applied).await {
        Ok(()) => {
            writeln!(console.errors, "applied")?;
            for line in stopped_programs(lab, |_| true) {
                console.warn("programs", &line)?;
            }
        }
        Err(Failure::Stopped) => return Err(Failure::Stopped),
        Err(failure) => {
            lab.check_programs()?;
            console.report_failure(&failure);
        }
    }
    Ok(console.report_omitted_warnings()?)
}

/// Applies the manifests again. While they are invalid, the rows of the last apply stay.
async fn apply(
    inputs: &Inputs,
    lab: &mut Lab,
    cluster: &mut Arc<Cluster>,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let read = inputs.read_again(cluster).await?;
    console.report_errors(&read.errors)?;
    let watch = ChangeWatch::start(lab, cluster, &read).await;
    lab.apply(&read).await?;
    *cluster = Arc::new(read);
    for line in watch.finish().await {
        writeln!(console.errors, "{line}")?;
    }
    report_warnings(lab, cluster, console)
}

/// A message after each change of the manifests. A task of its own watches them, because a wait
/// that is dropped loses a change.
fn watch_files(paths: &[PathBuf]) -> mpsc::UnboundedReceiver<()> {
    let (sender, receiver) = mpsc::unbounded_channel();
    let mut watcher = FileWatcher::new(paths);
    tokio::spawn(async move {
        while watcher.wait_for_change(false).await && sender.send(()).is_ok() {}
    });
    receiver
}
