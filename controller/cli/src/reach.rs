//! `patchbay reach`: where a packet goes, and what stops it.

use std::fs;
use std::path::Path;

use patchbay_reach::{Answer, Northbound, Protocol, Question, Verdict};
use serde::Serialize;
use serde_json::Value;

use super::args::Format;
use super::console::Console;
use super::failure::Failure;
use super::reach_args::{MatrixKind, Reach, parse_destination};
use super::reach_source::{Source, read_databases};
use super::reach_text::{write_answer, write_answers, write_matrix};

/// Answers what the flags ask. Returns `true` if the packet arrives, or if there are several.
///
/// # Errors
/// A question cannot be asked. All others of a file are answered before.
pub(super) async fn reach(arguments: &Reach, console: &mut Console<'_>) -> Result<bool, Failure> {
    let protocol = arguments.protocol().map_err(Failure::Arguments)?;
    if let Some(file) = &arguments.questions {
        let questions = read_questions(file, console)?;
        let asked = questions
            .iter()
            .filter_map(|one| one.question.as_ref().ok());
        let senders = asked.filter_map(|question| question.sender.pod.as_deref());
        let senders: Vec<_> = senders.collect();
        let source = read_databases(arguments, Some(&senders), console).await?;
        warn_of_ignored_rows(&source, console)?;
        return answer_file(&source, questions, arguments.output, console);
    }
    let senders: Vec<_> = arguments.from.as_deref().into_iter().collect();
    let is_of_all = arguments.matrix == Some(MatrixKind::Pods);
    let senders = (!is_of_all).then_some(&senders[..]);
    let source = read_databases(arguments, senders, console).await?;
    warn_of_ignored_rows(&source, console)?;
    if let Some(kind) = arguments.matrix {
        let northbound = source.default_database();
        let protocol = protocol.unwrap_or_default();
        let matrix = match kind {
            MatrixKind::Networks => northbound.network_matrix(protocol),
            MatrixKind::Pods => source
                .pod_matrix(protocol)
                .unwrap_or_else(|| northbound.machine_matrix(protocol)),
        };
        match arguments.output {
            Format::Text => console.write_long(|output| write_matrix(output, &matrix))?,
            format => console.document(&matrix, format)?,
        }
        return Ok(true);
    }
    answer_one(&source, arguments, protocol, console)
}

/// Answers the question of `--from` and `--to`.
fn answer_one(
    source: &Source,
    arguments: &Reach,
    protocol: Option<Protocol>,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let (Some(from), Some(to)) = (&arguments.from, &arguments.to) else {
        return Err(Failure::Arguments(
            "--from and --to are required".to_owned(),
        ));
    };
    let sender = arguments.sender(from);
    let protocol = match protocol {
        Some(protocol) => protocol,
        None => service_protocol(source.database_of(&sender), arguments)?,
    };
    let question = Question {
        sender,
        destination: parse_destination(to),
        protocol,
    };
    let answer = source
        .answer(&question)
        .map_err(|error| Failure::Arguments(error.to_string()))?;
    match arguments.output {
        Format::Text => {
            writeln!(console.output, "{from} -> {to}, {protocol}\n")?;
            write_answer(console.output, &answer)?;
        }
        format => console.document(&answer, format)?,
    }
    Ok(is_arrival(answer.verdict))
}

/// The only protocol and port of the service that is the destination.
fn service_protocol(northbound: &Northbound, arguments: &Reach) -> Result<Protocol, Failure> {
    let Some(service) = arguments.service() else {
        return Ok(Protocol::default());
    };
    let protocols = northbound.service_protocols(&service);
    let protocols = protocols.map_err(|error| Failure::Arguments(error.to_string()))?;
    let mut allowed = protocols.iter().filter(|one| arguments.allows(**one));
    match (allowed.next(), allowed.next()) {
        (Some(only), None) => Ok(*only),
        _ => Err(Failure::ServicePort {
            service,
            protocols: protocols.iter().map(ToString::to_string).collect(),
        }),
    }
}

/// `true` if a packet with this verdict arrives somewhere.
fn is_arrival(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Dropped | Verdict::Unanswered)
}

/// Warns of rows that OVN ignores. The console names the first ones, and counts the others.
fn warn_of_ignored_rows(source: &Source, console: &mut Console<'_>) -> Result<(), Failure> {
    for note in source.databases().flat_map(Northbound::notes) {
        console.warn("rows that OVN ignores", &format!("OVN ignores {note}"))?;
    }
    Ok(())
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
        Self {
            id,
            question: question.map_err(|error| error.to_string()),
        }
    }
}

/// Answer to a question of a file.
#[derive(Serialize)]
pub(super) struct NumberedAnswer {
    pub(super) id: Value,
    /// `None`: the question cannot be asked.
    #[serde(flatten)]
    pub(super) answer: Option<Answer>,
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
        let file = if file == Path::new("-") {
            "standard input".into()
        } else {
            file.to_string_lossy()
        };
        Failure::Arguments(format!(
            "{file}: expected a JSON list of questions: {error}"
        ))
    })?;
    Ok(questions.into_iter().map(NumberedQuestion::read).collect())
}

/// Answers questions in their order.
fn answer_file(
    source: &Source,
    questions: Vec<NumberedQuestion>,
    format: Format,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let answers: Vec<_> = questions
        .into_iter()
        .map(|numbered| {
            let answer = numbered
                .question
                .and_then(|question| source.answer(&question).map_err(|error| error.to_string()));
            let (answer, error) = match answer {
                Ok(answer) => (Some(answer), None),
                Err(error) => (None, Some(error)),
            };
            NumberedAnswer {
                id: numbered.id,
                answer,
                error,
            }
        })
        .collect();
    match format {
        Format::Text => console.write_long(|output| write_answers(output, &answers))?,
        format => console.document(&answers, format)?,
    }
    let count = answers.len();
    match answers
        .iter()
        .filter(|answer| answer.error.is_some())
        .count()
    {
        0 => Ok(true),
        unanswered => Err(Failure::Unanswered { unanswered, count }),
    }
}
