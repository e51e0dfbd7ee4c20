//! `patchbay reach`: where a packet goes, and what stops it.

pub(crate) mod args;
mod difference;
pub(crate) mod document;
mod expectation;
mod facts;
mod path;
mod routes;
pub(crate) mod source;
pub(crate) mod text;

use std::fs;
use std::path::Path;

use patchbay_reach::{Course, Outcome, Protocol, Question, Sender};
use serde::Serialize;
use serde_json::Value;

use super::args::Format;
use super::console::Console;
use super::failure::Failure;
use args::{Reach, parse_destination};
use source::{Source, read_databases};
use text::{write_answers, write_course, write_matrix};

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
        let questions = read_questions(file, console)?;
        let asked = questions.iter().filter_map(|one| one.question.as_ref().ok());
        let senders: Vec<_> = asked.filter_map(|question| question.sender.pod.as_deref()).collect();
        let mut source = read_databases(&arguments.databases, &senders, console).await?;
        answer_file(&mut source, questions, format, console).await?;
        return Ok(End::Good);
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
            let owner = course.stopped_by().and_then(|row| source.owner(row));
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

/// Question of a file.
struct NumberedQuestion {
    id: Value,
    /// The error is the reason why it cannot be read.
    question: Result<Question, String>,
}

impl NumberedQuestion {
    fn read(value: Value) -> Self {
        let id = value.get("id").cloned().unwrap_or_default();
        let question = serde_json::from_value(value);
        Self { id, question: question.map_err(|error| error.to_string()) }
    }
}

/// Answer to a question of a file.
#[derive(Serialize)]
pub(super) struct NumberedAnswer {
    pub(super) id: Value,
    /// `None`: the question cannot be asked.
    #[serde(flatten)]
    pub(super) course: Option<Course>,
    /// Reason why the question cannot be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
}

/// Reads the questions of a file.
fn read_questions(
    file: &Path,
    console: &mut Console<'_>,
) -> Result<Vec<NumberedQuestion>, Failure> {
    let text = if file == Path::new("-") {
        let mut text = Vec::new();
        console.input.read_to_end(&mut text)?;
        text
    } else {
        let read = fs::read(file);
        read.map_err(|error| Failure::Arguments(format!("{}: {error}", file.display())))?
    };
    let questions: Vec<Value> = serde_json::from_slice(&text).map_err(|error| {
        let file =
            if file == Path::new("-") { "standard input".into() } else { file.to_string_lossy() };
        Failure::Arguments(format!("{file}: expected a JSON list of questions: {error}"))
    })?;
    Ok(questions.into_iter().map(NumberedQuestion::read).collect())
}

/// Answers questions in their order.
async fn answer_file(
    source: &mut Source,
    questions: Vec<NumberedQuestion>,
    format: Format,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut answers = Vec::with_capacity(questions.len());
    for numbered in questions {
        let answer = match numbered.question {
            Ok(question) => {
                let course = source.ask(&question, console).await?;
                course.map_err(|error| {
                    let unreadable = source.unreadable(&question);
                    unreadable.map_or_else(|| error.to_string(), |failure| failure.to_string())
                })
            }
            Err(error) => Err(error),
        };
        let (course, error) = match answer {
            Ok(course) => (Some(course), None),
            Err(error) => (None, Some(error)),
        };
        answers.push(NumberedAnswer { id: numbered.id, course, error });
    }
    match format {
        Format::Text => console.write_long(|output| write_answers(output, &answers))?,
        format => console.document(&answers, format)?,
    }
    let unanswered = answers.iter().filter(|answer| answer.error.is_some());
    match unanswered.count() {
        0 => Ok(()),
        unanswered => Err(Failure::Unanswered { unanswered, count: answers.len() }),
    }
}
