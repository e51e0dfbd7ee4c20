//! `patchbay bisect`: the transaction that opened or cut the way of a packet.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::SystemTime;

use clap::Args;
use ovsdb_sim::LoggedTransaction;
use patchbay_engine::db::Snapshot;
use patchbay_model::printable::printable;
use patchbay_reach::{Destination, Northbound, Outcome, Question, Sender, Zones};
use patchbay_sources::{Moment, OpenedFile, own_zone};
use serde::Serialize;

use super::args::Format;
use super::console::Console;
use super::failure::Failure;
use super::files::{note_file, open_northbound, warn_of_damage, warn_of_lost};
use super::history::write_counted;
use super::moment::time_text;
use super::reach::args::{ProtocolName, named_sender, parse_destination, protocol_of};
use super::reach::text::describe;
use patchbay_changes::{ChangedRow, Snapshots};

/// Maximum number of states of the database that are kept at once. They share the rows that did not
/// change between them.
const MAX_STATES: usize = 4_096;
/// Maximum number of states that are asked until the answer differs from that at the end. An answer
/// that changed and changed back between two of them is not found.
const MAX_SAMPLES: usize = 256;
/// Name of a zone in answers, if its database has none.
const UNNAMED_ZONE: &str = "this zone";
/// Maximum length of a comment in a line, in bytes.
const MAX_COMMENT_BYTES: usize = 200;

#[derive(Debug, Args)]
#[command(override_usage = "patchbay bisect --file <FILE> --from <SENDER> --to <DESTINATION>\n\
                      \x20                      [OPTIONS]")]
pub(super) struct Bisect {
    /// A database file of a standalone database or of a member of a clustered database, as it is or
    /// packed with gzip or xz. It is only read, and may be in use.
    #[arg(long, value_name = "FILE")]
    file: PathBuf,
    /// Sender: a pod (NAMESPACE/NAME) or the name of a switch port.
    #[arg(long, value_name = "SENDER")]
    from: String,
    /// Destination: an IP address, a pod (NAMESPACE/NAME), a service (service/NAMESPACE/NAME) or
    /// the name of a switch port.
    #[arg(long, value_name = "DESTINATION")]
    to: String,
    /// Source address of the packet, for a sender behind a localnet port.
    #[arg(long, value_name = "ADDRESS")]
    source: Option<IpAddr>,
    /// Protocol of the packet. Default: tcp with --port, otherwise icmp.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    proto: Option<ProtocolName>,
    /// Destination port of the packet.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// Search the history up to this moment only: the number of a record, or a time such as
    /// 2026-11-29T03:00:00Z.
    #[arg(long, value_name = "MOMENT")]
    at: Option<Moment>,
    /// Output format.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = Format::Text)]
    output: Format,
}

/// State of the database after a transaction.
struct State {
    /// Number of transactions before it.
    place: usize,
    record: u64,
    time: Option<SystemTime>,
    snapshot: Snapshot,
}

/// End of a packet, in the order from closed to open.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum End {
    /// It does not arrive, or gets no reply, or a port does not exist.
    Stopped,
    /// It leaves by a gateway.
    Leaves,
    /// It reaches a machine, also behind a tunnel to a zone that is not asked.
    Reaches,
}

/// Answer to the question at a moment.
struct Asked {
    end: End,
    text: String,
}

/// Result of a search.
#[derive(Serialize)]
struct Found {
    /// `opened` or `cut`. `None`: the answer is the same at all moments that were asked.
    change: Option<&'static str>,
    /// Number of moments that were asked, and of all moments. `None`: there is a change.
    #[serde(skip_serializing_if = "Option::is_none")]
    asked: Option<(usize, usize)>,
    /// Record of the transaction, or the first record of the history.
    record: u64,
    time: String,
    comment: String,
    before: String,
    after: String,
    rows: Vec<ChangedRow>,
}

/// Prints the transaction that changed the answer to a question. Returns `true` if there is one.
pub(super) fn bisect(arguments: &Bisect, console: &mut Console<'_>) -> Result<bool, Failure> {
    let question = arguments.question()?;
    let mut states = arguments.states((0, usize::MAX), Some(&mut *console))?;
    let (Some(first), Some(last)) = (states.first(), states.last()) else {
        let path = arguments.file.display();
        let message = format!("{path}: no transaction in the history that is searched");
        return Err(Failure::Arguments(message));
    };
    let newest = ask(&question, &last.snapshot);
    let differs = |state: &State| ask(&question, &state.snapshot).end != newest.end;
    let Some(mut window) = last_change(&states, differs) else {
        let found = Found {
            change: None,
            asked: Some((samples(states.len()).count(), last.place + 1)),
            record: first.record,
            time: time_text(first.time),
            comment: String::new(),
            before: ask(&question, &first.snapshot).text,
            after: newest.text,
            rows: Vec::new(),
        };
        arguments.print(&found, console)?;
        return Ok(false);
    };
    loop {
        let place = place_of_change(&states[window.0..=window.1], differs) + window.0;
        let (before, after) = (states[place - 1].place, states[place].place);
        if after - before == 1 {
            return arguments.report(&question, after, console);
        }
        states = arguments.states((before, after), None)?;
        window = (0, states.len() - 1);
    }
}

/// Places of states that are asked, from the last to the first, evenly spread.
fn samples(count: usize) -> impl Iterator<Item = usize> {
    let last = count - 1;
    let step = last.div_ceil(MAX_SAMPLES).max(1);
    let places = (0..=last).rev().step_by(step);
    places.chain((!last.is_multiple_of(step)).then_some(0))
}

/// The newest sample that `differs` from the last state, and the sample behind it.
fn last_change(states: &[State], differs: impl Fn(&State) -> bool) -> Option<(usize, usize)> {
    let pairs = samples(states.len()).skip(1).zip(samples(states.len()));
    pairs.into_iter().find(|(place, _)| differs(&states[*place]))
}

/// Place of a state that is not `is_before` behind a state that is: the first is, the last is not.
fn place_of_change(states: &[State], is_before: impl Fn(&State) -> bool) -> usize {
    let (mut before, mut after) = (0, states.len() - 1);
    while after - before > 1 {
        let middle = usize::midpoint(before, after);
        if is_before(&states[middle]) {
            before = middle;
        } else {
            after = middle;
        }
    }
    after
}

/// The answer to a question. A question about a port that does not exist has no arrival.
fn ask(question: &Question, snapshot: &Snapshot) -> Asked {
    let zone = own_zone(snapshot).unwrap_or_else(|| UNNAMED_ZONE.to_owned());
    let zones = Zones::new(zone, Northbound::new(snapshot, None));
    match zones.ask(question) {
        Ok(course) => {
            let end = match course.outcome {
                Outcome::Reaches | Outcome::Answered | Outcome::Unasked { .. } => End::Reaches,
                Outcome::Leaves => End::Leaves,
                Outcome::Isolated | Outcome::NoReply | Outcome::Stopped => End::Stopped,
            };
            Asked { end, text: describe(&course) }
        }
        Err(error) => Asked { end: End::Stopped, text: error.to_string() },
    }
}

impl Bisect {
    fn question(&self) -> Result<Question, Failure> {
        let destination = parse_destination(&self.to);
        let is_service = matches!(destination, Destination::Service(_));
        let protocol = protocol_of((self.proto, self.port), is_service)
            .map_err(Failure::Arguments)?
            .ok_or_else(|| Failure::Arguments("a service needs --port".to_owned()))?;
        let sender = Sender { ip: self.source, ..named_sender(&self.from) };
        Ok(Question { sender, destination, protocol })
    }

    /// States at places from the first to the last one, both included, of all states as many as
    /// may be kept. Warns of a damaged end.
    fn states(
        &self,
        (first, last): (usize, usize),
        console: Option<&mut Console<'_>>,
    ) -> Result<Vec<State>, Failure> {
        let OpenedFile { mut log, dumped, lost } = open_northbound(&self.file)?;
        let (mut states, mut stride, mut newest): (Vec<State>, _, Option<State>) =
            (Vec::new(), 1, None);
        for place in 0..=last {
            let Some(transaction) = log.next()? else { break };
            let LoggedTransaction { record, time, .. } = transaction;
            if self.at.is_some_and(|at| !at.includes(record, time)) {
                break;
            }
            if place < first {
                continue;
            }
            newest = Some(State { place, record, time, snapshot: log.snapshot() });
            if (place - first).is_multiple_of(stride) {
                states.extend(newest.take());
            }
            if states.len() > MAX_STATES {
                stride *= 2;
                states.retain(|state| (state.place - first).is_multiple_of(stride));
            }
        }
        states.extend(newest);
        if let Some(console) = console {
            warn_of_damage(&self.file, log.end(), console)?;
            let times = states.iter().map(|state| state.time);
            let last = states.last().and_then(|state| state.time).or(dumped);
            warn_of_lost(&self.file, &lost, console)?;
            note_file(&self.file, (last, times.max().flatten()), console)?;
        }
        Ok(states)
    }

    /// Prints the transaction at a place.
    fn report(
        &self,
        question: &Question,
        place: usize,
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        let OpenedFile { mut log, .. } = open_northbound(&self.file)?;
        for _ in 0..place {
            log.next()?;
        }
        let before = log.snapshot();
        let transaction = log.next()?;
        let Some(transaction) = transaction else {
            let path = self.file.display();
            return Err(Failure::Arguments(format!("{path}: the file has changed")));
        };
        let after = log.snapshot();
        let snapshots = Snapshots { before: &before, after: &after };
        let (former, later) = (ask(question, &before), ask(question, &after));
        let found = Found {
            change: Some(if later.end > former.end { "opened" } else { "cut" }),
            asked: None,
            record: transaction.record,
            time: time_text(transaction.time),
            comment: transaction.comment,
            before: former.text,
            after: later.text,
            rows: snapshots.changed_rows(&transaction.changes.rows),
        };
        self.print(&found, console)?;
        Ok(true)
    }

    fn print(&self, found: &Found, console: &mut Console<'_>) -> Result<(), Failure> {
        if self.output != Format::Text {
            return console.document(found, self.output);
        }
        let Found { change, asked, record, time, comment, before, after, rows } = found;
        let Some(change) = change else {
            let scope = match asked {
                Some((asked, all)) if asked < all => {
                    format!("at {asked} of {all} moments that were asked")
                }
                _ => "in all of the history".to_owned(),
            };
            writeln!(console.output, "the same {scope}: {after}")?;
            if before != after {
                writeln!(console.output, "at the first record: {before}")?;
            }
            let line = format!("nothing before record {record} of {time} is in the file");
            return Ok(writeln!(console.output, "{line}")?);
        };
        let comment = printable(comment, MAX_COMMENT_BYTES);
        let line = format!("{change} by record {record} of {time}  {comment}");
        writeln!(console.output, "{}", line.trim_end())?;
        writeln!(console.output, "    before: {before}")?;
        writeln!(console.output, "    after: {after}")?;
        Ok(console.write_long(|output| write_counted(output, rows))?)
    }
}
