//! `patchbay reach`: where a packet goes, and what stops it.

pub(crate) mod args;
mod difference;
pub(crate) mod document;
mod expectation;
mod facts;
mod owners;
mod path;
mod questions;
mod routes;
pub(crate) mod source;
pub(crate) mod text;

use patchbay_reach::{Outcome, Protocol, Question, Sender};

use super::args::Format;
use super::console::Console;
use super::failure::Failure;
use args::{Reach, parse_destination};
use source::{Source, read_databases};
use text::{write_course, write_matrix};

/// End of the command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum End {
    /// The packet and its reply arrive, both sources have the same ways, or expectations hold. Of
    /// several questions each has its own verdict.
    Good,
    /// Something does not arrive, differs, or is not as expected.
    Bad,
    /// A zone that was not asked decides.
    NotAsked,
}

impl End {
    fn of(outcome: &Outcome) -> Self {
        match outcome {
            Outcome::Unasked { .. } => Self::NotAsked,
            outcome if outcome.is_arrival() => Self::Good,
            _ => Self::Bad,
        }
    }
}

/// Answers what the flags ask.
///
/// # Errors
/// A question cannot be asked. All others of a file are answered before.
pub(super) async fn reach(arguments: &Reach, console: &mut Console<'_>) -> Result<End, Failure> {
    let protocol = arguments.protocol().map_err(Failure::Arguments)?;
    if let [before, after] = &arguments.diff[..] {
        return Box::pin(difference::compare(arguments, (before, after), protocol, console)).await;
    }
    if let Some(file) = &arguments.expect {
        let mut source = read_databases(&arguments.databases, &[], console).await?;
        source.open_all(console).await?;
        return expectation::check(&source, file, arguments.output, console);
    }
    let format = arguments.output.of_answers().map_err(Failure::Arguments)?;
    if let Some(file) = &arguments.questions {
        let questions = questions::read(file, console)?;
        let senders: Vec<_> = questions.iter().filter_map(questions::sending_pod).collect();
        let mut source = read_databases(&arguments.databases, &senders, console).await?;
        let is_expected = questions::answer(&mut source, &questions, format, console).await?;
        return Ok(if is_expected { End::Good } else { End::Bad });
    }
    let senders: Vec<_> = arguments.from.as_deref().into_iter().collect();
    let mut source = read_databases(&arguments.databases, &senders, console).await?;
    if let Some(kind) = arguments.matrix {
        let matrix = source.matrix(kind, protocol.unwrap_or_default(), console).await?;
        match format {
            Format::Text => console.write_long(|output| write_matrix(output, &matrix))?,
            format => console.document(&matrix, format)?,
        }
        return Ok(End::Good);
    }
    let outcome = answer_one(&mut source, (arguments, format), protocol, console).await?;
    Ok(End::of(&outcome))
}

/// Answers the question of `--from` and `--to`.
async fn answer_one(
    source: &mut Source,
    (arguments, format): (&Reach, Format),
    protocol: Option<Protocol>,
    console: &mut Console<'_>,
) -> Result<Outcome, Failure> {
    let (Some(from), Some(to)) = (&arguments.from, &arguments.to) else {
        return Err(Failure::Arguments("--from and --to are required".to_owned()));
    };
    let sender = arguments.sender(from);
    let protocol = match protocol {
        Some(protocol) => protocol,
        None => service_protocol(source, &sender, arguments)?,
    };
    let question = Question { sender, destination: parse_destination(to), protocol };
    let course = source.ask(&question, console).await?.map_err(|error| {
        let unreadable = source.unreadable(&question);
        unreadable.unwrap_or_else(|| Failure::Arguments(error.to_string()))
    })?;
    match format {
        Format::Text => {
            let ends = (from.as_str(), to.as_str(), protocol);
            let owner = course.stopping_row().and_then(|row| source.owner(row));
            write_course(console.output, ends, (&course, owner), arguments.detail())?;
        }
        format => console.document(&course, format)?,
    }
    Ok(course.outcome)
}

/// The only protocol and port of the service that is the destination.
fn service_protocol(
    source: &Source,
    sender: &Sender,
    arguments: &Reach,
) -> Result<Protocol, Failure> {
    let Some(service) = arguments.service() else {
        return Ok(Protocol::default());
    };
    let protocols = source.database_of(sender).service_protocols(&service).map_err(|error| {
        let unreadable = source.unreadable_service(&service);
        unreadable.unwrap_or_else(|| Failure::Arguments(error.to_string()))
    })?;
    let mut allowed = protocols.iter().filter(|one| arguments.allows(**one));
    match (allowed.next(), allowed.next()) {
        (Some(only), None) => Ok(*only),
        _ => Err(Failure::ServicePort {
            service,
            protocols: protocols.iter().map(ToString::to_string).collect(),
        }),
    }
}
