//! `patchbay reach`: where a packet goes, and what stops it.

use std::fs;
use std::path::Path;

use patchbay_reach::{Answer, Northbound, Protocol, Question, Verdict};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::args::Format;
use super::console::Console;
use super::failure::Failure;
use super::reach_args::{MatrixKind, Reach, parse_destination};
use super::reach_source::{Source, read_database};
use super::reach_text::{write_answer, write_answers, write_matrix};

/// Number of ignored rows that are named; the others are counted.
const MAX_LISTED_NOTES: usize = 10;

/// Answers what the flags ask. Returns `true` if the packet arrives, or if there are several.
pub(super) async fn reach(arguments: &Reach, console: &mut Console<'_>) -> Result<bool, Failure> {
    let protocol = arguments.protocol().map_err(Failure::Arguments)?;
    let source = read_database(arguments, console).await?;
    let northbound = Northbound::new(&source.snapshot, arguments.chassis.as_deref());
    warn_of_ignored_rows(&northbound, console)?;
    if let Some(file) = &arguments.questions {
        answer_file(&source, &northbound, file, arguments.output, console)?;
        return Ok(true);
    }
    if let Some(kind) = arguments.matrix {
        let matrix = match kind {
            MatrixKind::Networks => northbound.network_matrix(protocol),
            MatrixKind::Pods => northbound.machine_matrix(protocol),
        };
        match arguments.output {
            Format::Text => write_matrix(console.output, &matrix)?,
            format => console.document(&matrix, format)?,
        }
        return Ok(true);
    }
    answer_one(&source, &northbound, arguments, protocol, console)
}

/// Answers the question of `--from` and `--to`.
fn answer_one(
    source: &Source,
    northbound: &Northbound,
    arguments: &Reach,
    protocol: Protocol,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let (Some(from), Some(to)) = (&arguments.from, &arguments.to) else {
        return Err(Failure::Arguments(
            "--from and --to are required".to_owned(),
        ));
    };
    let question = Question {
        sender: arguments.sender(from),
        destination: parse_destination(to),
        protocol,
    };
    let answer = source
        .answer(northbound, &question)
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

/// `true` if a packet with this verdict arrives somewhere.
fn is_arrival(verdict: Verdict) -> bool {
    !matches!(verdict, Verdict::Dropped | Verdict::Unanswered)
}

/// Warns of rows that OVN ignores.
fn warn_of_ignored_rows(northbound: &Northbound, console: &mut Console<'_>) -> Result<(), Failure> {
    let notes = northbound.notes();
    for note in notes.iter().take(MAX_LISTED_NOTES) {
        console.warn("rows", &format!("OVN ignores {note}"))?;
    }
    if notes.len() > MAX_LISTED_NOTES {
        let others = notes.len() - MAX_LISTED_NOTES;
        console.warn("rows", &format!("OVN ignores {others} more rows"))?;
    }
    Ok(())
}

/// Question of a file.
#[derive(Deserialize)]
struct NumberedQuestion {
    #[serde(default)]
    id: Value,
    #[serde(flatten)]
    question: Question,
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

/// Answers the questions of a file, in its order.
fn answer_file(
    source: &Source,
    northbound: &Northbound,
    file: &Path,
    format: Format,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let text = if file == Path::new("-") {
        let mut text = Vec::new();
        console.input.read_to_end(&mut text)?;
        text
    } else {
        let read = fs::read(file);
        read.map_err(|error| Failure::Arguments(format!("{}: {error}", file.display())))?
    };
    let questions: Vec<NumberedQuestion> = serde_json::from_slice(&text)
        .map_err(|error| Failure::Arguments(format!("{}: {error}", file.display())))?;
    let answers: Vec<_> = questions
        .into_iter()
        .map(|numbered| {
            let (answer, error) = match source.answer(northbound, &numbered.question) {
                Ok(answer) => (Some(answer), None),
                Err(error) => (None, Some(error.to_string())),
            };
            NumberedAnswer {
                id: numbered.id,
                answer,
                error,
            }
        })
        .collect();
    match format {
        Format::Text => write_answers(console.output, &answers)?,
        format => console.document(&answers, format)?,
    }
    Ok(())
}
