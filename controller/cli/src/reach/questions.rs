//! `patchbay reach --questions`: the questions of a file, and their answers.

use std::fs;
use std::net::IpAddr;
use std::path::Path;

use patchbay_reach::{Course, Question};
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::source::Source;
use super::text::write_answers;
use crate::args::Format;
use crate::console::Console;
use crate::failure::Failure;

/// Answer to a question of a file.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NumberedAnswer {
    pub(super) id: Value,
    /// `None`: the question cannot be asked.
    #[serde(flatten)]
    pub(super) course: Option<Course>,
    /// Reason why the question cannot be asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// Whether the destination has to be reached. `None`: the question has no such field.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) expected: Option<bool>,
}

impl NumberedAnswer {
    /// `true` if the answer is not the expected one.
    pub(super) fn is_unexpected(&self) -> bool {
        let outcome = self.course.as_ref().map(|course| course.outcome.is_arrival());
        self.expected.zip(outcome).is_some_and(|(expected, is_reached)| expected != is_reached)
    }
}

/// Reads the questions of a file.
pub(super) fn read(file: &Path, console: &mut Console<'_>) -> Result<Vec<Value>, Failure> {
    let text = if file == Path::new("-") {
        let mut text = Vec::new();
        console.input.read_to_end(&mut text)?;
        text
    } else {
        let read = fs::read(file);
        read.map_err(|error| Failure::Arguments(format!("{}: {error}", file.display())))?
    };
    serde_json::from_slice(&text).map_err(|error| {
        let file =
            if file == Path::new("-") { "standard input".into() } else { file.to_string_lossy() };
        Failure::Arguments(format!("{file}: expected a JSON list of questions: {error}"))
    })
}

/// The pod that sends the packet of a question. `None`: it is named by another name, or not at all.
pub(super) fn sending_pod(question: &Value) -> Option<&str> {
    let from = question.get("from")?;
    let pod = from.as_str().filter(|name| name.contains('/'));
    pod.or_else(|| from.get("pod")?.as_str())
}

/// Answers questions in their order. Returns `true` if all answers are the expected ones.
pub(super) async fn answer(
    source: &mut Source,
    questions: &[Value],
    format: Format,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let mut answers = Vec::with_capacity(questions.len());
    console.begin("answering", "question", questions.len());
    for value in questions {
        let id = value.get("id").cloned().unwrap_or_default();
        let expected = value.get("reached").and_then(Value::as_bool);
        let answer = match question(value, source) {
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
        answers.push(NumberedAnswer { id, course, error, expected });
        console.step()?;
    }
    console.end()?;
    match format {
        Format::Text => console.write_long(|output| write_answers(output, &answers))?,
        format => console.document(&answers, format)?,
    }
    let unanswered = answers.iter().filter(|answer| answer.error.is_some());
    match unanswered.count() {
        0 => Ok(!answers.iter().any(NumberedAnswer::is_unexpected)),
        unanswered => Err(Failure::Unanswered { unanswered, count: answers.len() }),
    }
}

/// Reads a question: with objects in `from` and `to`, or in the short form of `lab`, with names.
fn question(value: &Value, source: &Source) -> Result<Question, String> {
    let mut question = value.clone();
    if let Some(members) = question.as_object_mut() {
        expand(members, source)?;
    }
    serde_json::from_value(question).map_err(|error| error.to_string())
}

/// Replaces names by the objects that they mean.
fn expand(members: &mut Map<String, Value>, source: &Source) -> Result<(), String> {
    let is_short = ["from", "to"].map(|member| members.get(member).is_some_and(Value::is_string));
    if members.contains_key("family") && is_short.contains(&true) {
        return Err("`family` is not asked for: name an address in `to`".to_owned());
    }
    for member in ["from", "to"] {
        if !members.contains_key(member) {
            return Err(format!("`{member}` is missing"));
        }
        if let Some(Value::String(name)) = members.get(member) {
            let end = if member == "to" { destination(name, source)? } else { pod(name, source)? };
            members.insert(member.to_owned(), end);
        }
    }
    // The lab writes `tcp/80`, too.
    if let Some(Value::String(protocol)) = members.get_mut("protocol") {
        *protocol = protocol.replacen('/', " ", 1);
    }
    members.remove("reached");
    Ok(())
}

fn destination(name: &str, source: &Source) -> Result<Value, String> {
    if name.parse::<IpAddr>().is_ok() {
        return Ok(json!({ "ip": name }));
    }
    match name.strip_prefix("svc/").or(name.strip_prefix("service/")) {
        Some(service) => Ok(json!({ "service": service })),
        None => pod(name, source),
    }
}

/// A pod by its name, with its namespace or without one, or else a switch port.
fn pod(name: &str, source: &Source) -> Result<Value, String> {
    if name.contains('/') {
        return Ok(json!({ "pod": name }));
    }
    match &source.pods_named(name)[..] {
        [] => Ok(json!({ "port": name })),
        [only] => Ok(json!({ "pod": only })),
        [first, second, ..] => {
            Err(format!("several pods are named {name}, such as {first} and {second}"))
        }
    }
}
