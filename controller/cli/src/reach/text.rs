//! Answers of `patchbay reach` as text.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::io::{self, Write};
use std::net::IpAddr;

use patchbay_model::printable::printable;
use patchbay_reach::{Answer, Course, Matrix, Outcome, Protocol, Verdict, ZoneAnswer};

use super::path;
use super::questions::NumberedAnswer;

/// Maximum length in bytes of a name or decision from the database in one line.
const MAX_TEXT_BYTES: usize = 4_096;

/// Length of a line of a path, in bytes.
const LINE_BYTES: usize = 80;

/// Text of the database, as one line of a terminal.
pub(super) fn line(text: &str) -> Cow<'_, str> {
    printable(text, MAX_TEXT_BYTES)
}

/// What is printed of the hops.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Detail {
    /// The networks on the way.
    Path,
    /// The decisions on the way, too.
    Hops,
    /// The rows of these decisions, too.
    Rows,
}

/// Writes the outcome, the question, the path, the row that stops the packet or its reply, and the
/// choices that OVN leaves open. `from` and `to`: the ends of the question, as it was asked. `owner`:
/// the object of the row.
pub(super) fn write_course(
    output: &mut dyn Write,
    (from, to, protocol): (&str, &str, Protocol),
    (course, owner): (&Course, Option<String>),
    detail: Detail,
) -> io::Result<()> {
    writeln!(output, "{}", describe(course))?;
    writeln!(output, "  {from} -> {to}, {protocol}")?;
    let end = course.outcome.is_arrival().then_some(to);
    write_path(output, &path::nodes(from, end, course))?;
    if let Some(row) = course.stopped_by() {
        match owner {
            Some(owner) => writeln!(output, "  by: {}\n      {row}", line(&owner))?,
            None => writeln!(output, "  by: {row}")?,
        }
    }
    let choices: BTreeSet<_> = course.open().collect();
    for choice in choices {
        writeln!(output, "  open: {}", line(choice))?;
    }
    if detail == Detail::Path {
        return Ok(());
    }
    let has_rows = detail == Detail::Rows;
    writeln!(output)?;
    write_hops(output, &course.answer, has_rows)?;
    for behind in course.behind() {
        write_zone(output, "zone", behind, has_rows)?;
    }
    if !course.outcome.is_arrival() {
        for reply in course.replies() {
            write_zone(output, "reply in zone", reply, has_rows)?;
        }
    }
    Ok(())
}

/// Writes the places of a path, on several lines if they are long.
fn write_path(output: &mut dyn Write, nodes: &[String]) -> io::Result<()> {
    let mut text = "  ".to_owned();
    for (place, node) in nodes.iter().enumerate() {
        let node = line(node);
        let piece = if place == 0 { node.into_owned() } else { format!(" - {node}") };
        if place > 0 && text.len() + piece.len() > LINE_BYTES {
            writeln!(output, "{text}")?;
            text = String::from("   ");
        }
        text.push_str(&piece);
    }
    writeln!(output, "{text}")
}

/// Writes the path of a packet in a zone.
fn write_zone(
    output: &mut dyn Write,
    title: &str,
    own: &ZoneAnswer,
    has_rows: bool,
) -> io::Result<()> {
    let ZoneAnswer { zone, answer } = own;
    let zone = line(zone);
    if answer.hops.is_empty() {
        let end = describe_end(&[answer]);
        return writeln!(output, "{title} {zone}\n    {}: {end}\n", answer.verdict);
    }
    writeln!(output, "{title} {zone}")?;
    write_hops(output, answer, has_rows)
}

/// Writes the path of a packet in one database, the choices that OVN leaves open, and the verdict.
#[cfg(feature = "lab")]
pub(crate) fn write_answer(output: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    write_hops(output, answer, true)?;
    for choice in &answer.open {
        writeln!(output, "open: {}", line(choice))?;
    }
    writeln!(output, "{}: {}", answer.verdict, describe_end(&[answer]))
}

/// Writes the hops of a packet in one database, with the rows that decide or without.
fn write_hops(output: &mut dyn Write, answer: &Answer, has_rows: bool) -> io::Result<()> {
    let mut last = None;
    let width = answer.hops.iter().map(|hop| hop.stage.len()).max().unwrap_or_default();
    for hop in &answer.hops {
        let datapath = (hop.kind, &hop.name);
        if last != Some(datapath) {
            writeln!(output, "{} {}", hop.kind, line(&hop.name))?;
            last = Some(datapath);
        }
        write!(output, "    {:width$}  {}", hop.stage, line(&hop.decision))?;
        match hop.row.as_ref().filter(|_| has_rows) {
            Some(row) => writeln!(output, "  [{} {}]", row.table, row.uuid)?,
            None => writeln!(output)?,
        }
    }
    if !answer.hops.is_empty() {
        writeln!(output)?;
    }
    Ok(())
}

/// The end of a way through databases: the port and what is translated, or the place.
fn describe_end(way: &[&Answer]) -> String {
    let end = way.last().map_or("", |last| match (last.verdict, &last.out) {
        (Verdict::Reaches | Verdict::Leaves, Some(out)) => out,
        _ => &last.at,
    });
    let translated = |name, address: Option<IpAddr>| {
        address.map_or_else(String::new, |address| format!(", {name} {address}"))
    };
    let source = way.iter().rev().find_map(|answer| answer.source);
    let destination = way.iter().rev().find_map(|answer| answer.dest);
    let port = way.iter().rev().find_map(|answer| answer.dest_port);
    let tag = way.last().and_then(|last| last.tag);
    format!(
        "{}{}{}{}{}",
        line(end),
        tag.map_or_else(String::new, |tag| format!(", tag {tag}")),
        translated("source", source),
        translated("destination", destination),
        port.map_or_else(String::new, |port| format!(", port {port}"))
    )
}

/// The outcome in a line.
pub(crate) fn describe(course: &Course) -> String {
    let last = course.last();
    let behind = course.behind().map(|behind| &behind.answer);
    let way: Vec<_> = [&course.answer].into_iter().chain(behind).collect();
    let end = describe_end(&way);
    match &course.outcome {
        Outcome::Unasked { zone, other } => format!(
            "reaches, as far as {}'s database tells; {} was not asked: {end}",
            line(zone),
            line(other)
        ),
        Outcome::Isolated => format!("isolated: leaves by the gateway: {end}"),
        Outcome::NoReply => {
            let reply = course.reply.as_ref().map(|reply| &reply.answer);
            let reply = reply
                .map(|reply| format!("{}: {}", reply.verdict, line(&reply.at)))
                .unwrap_or_default();
            format!("no reply: {} {end}, the reply is {reply}", last.verdict)
        }
        Outcome::Reaches | Outcome::Leaves | Outcome::Answered | Outcome::Stopped => {
            format!("{}: {end}", last.verdict)
        }
    }
}

/// Writes one line for each answer. A question without an id is named by its place in the file.
pub(super) fn write_answers(output: &mut dyn Write, answers: &[NumberedAnswer]) -> io::Result<()> {
    for (numbered, place) in answers.iter().zip(1..) {
        let id = match &numbered.id {
            serde_json::Value::Null => format!("question {place}"),
            serde_json::Value::String(id) => line(id).into_owned(),
            other => line(&other.to_string()).into_owned(),
        };
        match (&numbered.course, &numbered.error) {
            (Some(course), _) => {
                let open = course.open().next().map_or("", |_| " (open)");
                let expected = match numbered.expected.filter(|_| numbered.is_unexpected()) {
                    Some(true) => " (NOT as expected: it has to be reached)",
                    Some(false) => " (NOT as expected: it must not be reached)",
                    None => "",
                };
                writeln!(output, "{id}: {}{open}{expected}", describe(course))?;
            }
            (None, error) => {
                writeln!(output, "{id}: error: {}", line(error.as_deref().unwrap_or_default()))?;
            }
        }
    }
    Ok(())
}

/// Writes a table with one row for each sender, the pairs whose packets leave the cluster, and the
/// reasons of other pairs that are not connected.
pub(super) fn write_matrix(output: &mut dyn Write, matrix: &Matrix) -> io::Result<()> {
    if matrix.names.is_empty() {
        return writeln!(
            output,
            "no pods: there is nothing to ask, as no switch has a port of one"
        );
    }
    let legend = if matrix.not_asked.is_empty() {
        "+ connected, . not"
    } else {
        "+ connected, . not, ? another zone was not asked"
    };
    writeln!(output, "from \\ to, {}: {legend}\n", matrix.protocol)?;
    let cell_text = |row: usize, column: usize| match &matrix.rows[row][column] {
        None => "-",
        Some(cell) if cell.connected => "+",
        Some(cell) if cell.other_chassis => "?",
        Some(_) => ".",
    };
    let names: Vec<_> = short_names(&matrix.names).into_iter().map(line).collect();
    let first = names.iter().map(|name| name.len()).max().unwrap_or_default();
    let cells = |cells: &mut dyn Iterator<Item = &str>| {
        let widths = names.iter().map(|name| name.len());
        let padded = cells.zip(widths).map(|(cell, width)| format!("  {cell:width$}"));
        padded.collect::<String>()
    };
    let header = cells(&mut names.iter().map(|name| &**name));
    writeln!(output, "{:first$}{}", "", header.trim_end())?;
    for (row, name) in names.iter().enumerate() {
        let verdicts = cells(&mut (0..names.len()).map(|column| cell_text(row, column)));
        writeln!(output, "{name:first$}{}", verdicts.trim_end())?;
    }
    let cells = matrix.rows.iter().flatten().flatten();
    let stopped = cells.filter(|cell| !cell.connected && !cell.other_chassis);
    let (leaving, others): (Vec<_>, Vec<_>) =
        stopped.partition(|cell| cell.verdict == Verdict::Leaves);
    for (title, cells) in [
        ("packets that leave the cluster", leaving),
        ("packets or replies that are stopped", others),
    ] {
        if !cells.is_empty() {
            writeln!(output, "\n{title}:")?;
        }
        for cell in cells {
            let (from, to, at) = (line(&cell.from), line(&cell.to), line(&cell.at));
            writeln!(output, "  {from} -> {to}: {}: {at}", cell.verdict)?;
        }
    }
    Ok(())
}

/// Names without the prefix of cluster-wide networks, unless two would be equal.
fn short_names(names: &[String]) -> Vec<&str> {
    let short: Vec<&str> = names.iter().map(|name| path::short(name)).collect();
    let distinct: BTreeSet<_> = short.iter().collect();
    if distinct.len() == names.len() { short } else { names.iter().map(String::as_str).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_names_are_escaped() {
        let answers = [NumberedAnswer {
            id: "\u{1b}[31mred".into(),
            course: None,
            error: Some("the database has no pod a\u{7}\nb".to_owned()),
            expected: None,
        }];
        let mut output = Vec::new();
        write_answers(&mut output, &answers).unwrap();
        assert_eq!(
            String::from_utf8(output).unwrap(),
            "\\u001b[31mred: error: the database has no pod a\\u0007\\nb\n"
        );
        let matrix = Matrix {
            protocol: patchbay_reach::Protocol::default(),
            names: vec!["port\u{1b}".to_owned()],
            rows: vec![vec![None]],
            not_asked: BTreeSet::new(),
        };
        let mut output = Vec::new();
        write_matrix(&mut output, &matrix).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(text.contains("port\\u001b") && !text.contains('\u{1b}'), "{text}");
    }
}
