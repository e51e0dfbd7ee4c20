//! Answers of `patchbay reach` as text.

use std::borrow::Cow;
use std::io::{self, Write};
use std::net::IpAddr;

use patchbay_model::printable::printable;
use patchbay_reach::{Answer, Matrix, Verdict};

use super::reach::NumberedAnswer;

/// Maximum length in bytes of a name or decision from the database in one line.
const MAX_TEXT_BYTES: usize = 4_096;

/// Text of the database, as one line of a terminal.
fn line(text: &str) -> Cow<'_, str> {
    printable(text, MAX_TEXT_BYTES)
}

/// Writes the path hop by hop, the choices that OVN leaves open, and the verdict.
pub(super) fn write_answer(output: &mut dyn Write, answer: &Answer) -> io::Result<()> {
    let mut last = None;
    let width = answer.hops.iter().map(|hop| hop.stage.len()).max();
    let width = width.unwrap_or_default();
    for hop in &answer.hops {
        let datapath = (hop.kind, &hop.name);
        if last != Some(datapath) {
            writeln!(output, "{} {}", hop.kind, line(&hop.name))?;
            last = Some(datapath);
        }
        write!(output, "    {:width$}  {}", hop.stage, line(&hop.decision))?;
        match &hop.row {
            Some(row) => writeln!(output, "  [{} {}]", row.table, row.uuid)?,
            None => writeln!(output)?,
        }
    }
    if !answer.hops.is_empty() {
        writeln!(output)?;
    }
    for choice in &answer.open {
        writeln!(output, "open: {}", line(choice))?;
    }
    writeln!(output, "{}", describe(answer))
}

/// The verdict in a line.
fn describe(answer: &Answer) -> String {
    let end = match (answer.verdict, &answer.out) {
        (Verdict::Reaches | Verdict::Leaves, Some(out)) => out,
        _ => &answer.at,
    };
    let translated = |name, address: Option<IpAddr>| {
        address.map_or_else(String::new, |address| format!(", {name} {address}"))
    };
    let source = translated("source", answer.source);
    let destination = translated("destination", answer.dest);
    let port = answer
        .dest_port
        .map_or_else(String::new, |port| format!(", port {port}"));
    format!(
        "{}: {}{source}{destination}{port}",
        answer.verdict,
        line(end)
    )
}

/// Writes one line for each answer. A question without an id is named by its place in the file.
pub(super) fn write_answers(output: &mut dyn Write, answers: &[NumberedAnswer]) -> io::Result<()> {
    for (numbered, place) in answers.iter().zip(1..) {
        let id = match &numbered.id {
            serde_json::Value::Null => format!("question {place}"),
            serde_json::Value::String(id) => line(id).into_owned(),
            other => line(&other.to_string()).into_owned(),
        };
        match (&numbered.answer, &numbered.error) {
            (Some(answer), _) => {
                let open = if answer.open.is_empty() {
                    ""
                } else {
                    " (open)"
                };
                writeln!(output, "{id}: {}{open}", describe(answer))?;
            }
            (None, error) => {
                writeln!(
                    output,
                    "{id}: error: {}",
                    line(error.as_deref().unwrap_or_default())
                )?;
            }
        }
    }
    Ok(())
}

/// Writes a table with one row for each sender, and the reasons of pairs that are not connected.
pub(super) fn write_matrix(output: &mut dyn Write, matrix: &Matrix) -> io::Result<()> {
    writeln!(output, "from \\ to, {}\n", matrix.protocol)?;
    let cell_text = |row: usize, column: usize| match &matrix.rows[row][column] {
        None => "-",
        Some(cell) if cell.connected => "connected",
        Some(cell) if cell.other_chassis => "other node",
        Some(cell) if cell.verdict == Verdict::Reaches => "elsewhere",
        Some(cell) => cell.verdict.as_str(),
    };
    let names: Vec<_> = matrix.names.iter().map(|name| line(name)).collect();
    let first = names.iter().map(|name| name.len()).max();
    let first = first.unwrap_or_default();
    let widths: Vec<_> = names
        .iter()
        .map(|name| name.len().max("unanswered".len()))
        .collect();
    let cells = |cells: &mut dyn Iterator<Item = &str>| {
        let padded = cells
            .zip(&widths)
            .map(|(cell, width)| format!("  {cell:width$}"));
        padded.collect::<String>()
    };
    let header = cells(&mut names.iter().map(|name| &**name));
    writeln!(output, "{:first$}{}", "", header.trim_end())?;
    for (row, name) in names.iter().enumerate() {
        let verdicts = cells(&mut (0..names.len()).map(|column| cell_text(row, column)));
        writeln!(output, "{name:first$}{}", verdicts.trim_end())?;
    }
    let stopped = matrix
        .rows
        .iter()
        .flatten()
        .flatten()
        .filter(|cell| !cell.connected && !cell.other_chassis);
    for (number, cell) in stopped.enumerate() {
        if number == 0 {
            writeln!(output)?;
        }
        writeln!(
            output,
            "{} -> {}: {}: {}",
            line(&cell.from),
            line(&cell.to),
            cell.verdict,
            line(&cell.at)
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_of_names_are_escaped() {
        let answers = [NumberedAnswer {
            id: "\u{1b}[31mred".into(),
            answer: None,
            error: Some("the database has no pod a\u{7}\nb".to_owned()),
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
        };
        let mut output = Vec::new();
        write_matrix(&mut output, &matrix).unwrap();
        let text = String::from_utf8(output).unwrap();
        assert!(
            text.contains("port\\u001b") && !text.contains('\u{1b}'),
            "{text}"
        );
    }
}
