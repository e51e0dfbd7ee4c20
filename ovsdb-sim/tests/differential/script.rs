//! Lists of requests: `cases/*.case`.
//!
//! A file begins with a schema, the lines from `schema {` to `}`. The cases follow, each a line
//! `case NAME` with requests. `not VERSION` behind `case` skips a case for versions of ovsdb-server
//! that begin so, because it differs there. A request begins with the name of a connection, a
//! capital letter. Lines that begin with a space continue it.
//!
//! | line | sends |
//! |---|---|
//! | `A METHOD PARAMS` | a request |
//! | `A notify METHOD PARAMS` | a notification |
//! | `A ops OPERATION...` | a `transact` request with these operations, one JSON object after the other |
//! | `A raw TEXT` | the text; `\xNN` is a byte, `\(TEXT*N)` a repetition |
//! | `A part TEXT` | the text; nothing is read after it |
//! | `A close` | nothing: closes the connection |
//! | `sleep MILLISECONDS` | nothing for a while, then reads |
//!
//! In clusters `<txn N>` is the id of the last transaction after N steps of the case.
//!
//! The id of a request is the number of its line.

use std::time::Duration;

use patchbay_schemas::json::{Framer, Json};

/// A file of cases.
pub(crate) struct Script {
    pub(crate) schema: String,
    pub(crate) cases: Vec<Case>,
}

/// Case: requests that belong together.
pub(crate) struct Case {
    pub(crate) name: String,
    /// Version of ovsdb-server for which the case is skipped.
    not: Option<String>,
    pub(crate) steps: Vec<Step>,
}

/// One line.
pub(crate) struct Step {
    pub(crate) connection: char,
    pub(crate) text: String,
    pub(crate) action: Action,
}

pub(crate) enum Action {
    Request(String),
    Bytes(Vec<u8>),
    Part(Vec<u8>),
    Close,
    Sleep(Duration),
}

impl Script {
    /// The cases for a version of ovsdb-server.
    pub(crate) fn cases_of(&self, version: &str) -> impl Iterator<Item = &Case> {
        let is_for = move |case: &&Case| match &case.not {
            Some(not) => !version.starts_with(not.as_str()),
            None => true,
        };
        self.cases.iter().filter(is_for)
    }

    pub(crate) fn parse(text: &str) -> Self {
        let mut script = Self { schema: String::new(), cases: Vec::new() };
        let mut lines: Vec<(usize, String)> = Vec::new();
        let mut in_schema = false;
        for (number, line) in text.lines().enumerate() {
            if in_schema || line.starts_with("schema {") {
                in_schema = line != "}";
                script.schema += line.strip_prefix("schema ").unwrap_or(line);
            } else if let (true, Some((_, last))) = (line.starts_with(' '), lines.last_mut()) {
                last.push_str(line);
            } else if !line.is_empty() && !line.starts_with('#') {
                lines.push((number + 1, line.to_owned()));
            }
        }
        for (number, line) in lines {
            if let Some(name) = line.strip_prefix("case ") {
                let version =
                    |text: &str| Some(text.strip_prefix("not ")?.split_once(' ')?.0.to_owned());
                script.cases.push(Case {
                    name: name.to_owned(),
                    not: version(name),
                    steps: Vec::new(),
                });
            } else {
                let case = script.cases.last_mut().expect("a case before its requests");
                case.steps.push(step(number, line));
            }
        }
        script
    }
}

fn step(number: usize, line: String) -> Step {
    let mut words = line.splitn(3, ' ');
    let (first, second) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let rest = words.next().unwrap_or("");
    if first == "sleep" {
        let pause = Duration::from_millis(second.parse().expect("milliseconds"));
        return Step { connection: 'A', action: Action::Sleep(pause), text: line };
    }
    let request = |method: &str, params: &str| {
        Action::Request(format!("{{\"id\":{number},\"method\":\"{method}\",\"params\":{params}}}"))
    };
    let action = match second {
        "ops" => request("transact", &format!("[\"D\"{}]", operations(rest))),
        "raw" => Action::Bytes(bytes(rest)),
        "part" => Action::Part(bytes(rest)),
        "close" => Action::Close,
        "notify" => {
            let (method, params) = rest.split_once(' ').expect("a method and parameters");
            let text = format!("{{\"id\":null,\"method\":\"{method}\",\"params\":{params}}}");
            Action::Bytes(text.into_bytes())
        }
        method => request(method, rest),
    };
    Step { connection: first.chars().next().expect("the name of a connection"), action, text: line }
}

/// Concatenated objects as further elements of an array.
fn operations(texts: &str) -> String {
    let mut framer = Framer::new(usize::MAX);
    framer.push(texts.as_bytes());
    let mut out = String::new();
    while let Some(text) = framer.next_text().expect("operations are JSON objects") {
        out.push(',');
        out += &String::from_utf8_lossy(text.as_text().bytes());
    }
    out
}

fn bytes(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        out.extend_from_slice(before.as_bytes());
        if let Some(hex) = after.strip_prefix('x') {
            out.push(u8::from_str_radix(&hex[..2], 16).expect("two hexadecimal digits"));
            rest = &hex[2..];
        } else if let Some((repetition, after)) =
            after.strip_prefix('(').and_then(|text| text.split_once(')'))
        {
            let (text, times) = repetition.rsplit_once('*').expect("a text and a number");
            out.extend(text.repeat(times.parse().expect("a number")).into_bytes());
            rest = after;
        } else {
            out.push(b'\\');
            rest = after;
        }
    }
    out.extend_from_slice(rest.as_bytes());
    out
}

impl Step {
    /// The request that the step sends, if it is one.
    pub(crate) fn request(&self) -> Option<Json> {
        match &self.action {
            Action::Request(text) => Json::parse(text.as_bytes()).ok(),
            _ => None,
        }
    }
}
