//! `patchbay reach --diff`: ways that open or close from one source to another.

use std::fmt::Write as _;
use std::io::{self, Write};

use patchbay_reach::{Change, Changed, Course, Difference, Ports, Protocol};
use serde::Serialize;

use super::End;
use super::args::{Reach, ReachFormat};
use super::document::{Case, cell, write_junit, write_sarif};
use super::expectation;
use super::source::{Source, read_databases};
use super::text::{describe, line};
use crate::args::Format;
use crate::changes::API_VERSION;
use crate::console::Console;
use crate::failure::Failure;

/// Maximum number of machines that are named in a line.
const MAX_NAMES: usize = 3;
/// Maximum number of ranges of ports that are named in a line.
const MAX_PORTS: usize = 6;
/// Text for a packet without a course, such as for want of a common address family.
const CANNOT_BE_SENT: &str = "cannot be sent";

/// Document of a difference.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Document<'a> {
    api_version: &'static str,
    kind: &'static str,
    before: &'a str,
    after: &'a str,
    opens: usize,
    closes: usize,
    #[serde(flatten)]
    difference: &'a Difference,
}

/// Two sources, and the difference between them.
struct Compared<'a> {
    before: (&'a str, &'a Source),
    after: (&'a str, &'a Source),
    difference: &'a Difference,
}

/// Prints the ways that open or close, and checks the expectations about the later source.
pub(super) async fn compare(
    arguments: &Reach,
    (before, after): (&str, &str),
    protocol: Option<Protocol>,
    console: &mut Console<'_>,
) -> Result<End, Failure> {
    let earlier = open(arguments, before, console).await?;
    let later = open(arguments, after, console).await?;
    let asked = protocol.filter(|_| arguments.proto.is_some() || arguments.port.is_some());
    let asked = asked.map(|protocol| [Ports::one(protocol)]);
    let protocols = asked.as_ref().map(|ports| &ports[..]);
    let difference = earlier.scene().difference(&later.scene(), protocols);
    let compared =
        Compared { before: (before, &earlier), after: (after, &later), difference: &difference };
    if difference.unknown > 0 {
        let zones = format!(
            "{} questions are not answered: their packets go into zones without databases",
            difference.unknown
        );
        console.warn("zones", &zones)?;
    }
    if let Some(file) = &arguments.expect {
        if arguments.output == ReachFormat::Text {
            console.write_long(|output| write_text(output, &compared))?;
        }
        return expectation::check(&later, file, arguments.output, console);
    }
    let document = || Document {
        api_version: API_VERSION,
        kind: "ReachDifference",
        before,
        after,
        opens: compared.count(Changed::Opens),
        closes: compared.count(Changed::Closes),
        difference: &difference,
    };
    match arguments.output {
        ReachFormat::Text => console.write_long(|output| write_text(output, &compared))?,
        ReachFormat::Markdown => console.write_long(|output| write_markdown(output, &compared))?,
        ReachFormat::Json => console.document(&document(), Format::Json)?,
        ReachFormat::Yaml => console.document(&document(), Format::Yaml)?,
        ReachFormat::Junit => {
            let cases = compared.cases(true);
            console.write_long(|output| write_junit(output, "patchbay reach --diff", &cases))?;
        }
        ReachFormat::Sarif => {
            let cases = compared.cases(false);
            console.write_long(|output| write_sarif(output, &cases))?;
        }
    }
    Ok(match (difference.is_empty(), difference.unknown) {
        (false, _) => End::Bad,
        (true, 0) => End::Good,
        (true, _) => End::NotAsked,
    })
}

/// Opens all zones of a source.
async fn open(arguments: &Reach, word: &str, console: &mut Console<'_>) -> Result<Source, Failure> {
    let flags = arguments.databases.of_word(word)?;
    let mut source = Box::pin(read_databases(&flags, &[], console)).await?;
    source.open_all(console).await?;
    Ok(source)
}

impl Compared<'_> {
    /// Number of pairs that open, or close.
    fn count(&self, changed: Changed) -> usize {
        let changes = self.difference.changes.iter().filter(|change| change.change == changed);
        changes.map(Change::pairs).sum()
    }

    /// The object that stops the packets, or the row. `None`: no row does.
    fn decided_by(&self, change: &Change) -> Option<(Option<String>, String)> {
        let stop = change.stopping_row()?;
        let (_, source) = match change.change {
            Changed::Opens => self.before,
            Changed::Closes => self.after,
        };
        Some((source.owner(stop), stop.1.to_string()))
    }

    /// Numbers of what differs, in a line.
    fn summary(&self) -> String {
        let Difference { added, removed, .. } = self.difference;
        let (opens, closes) = (self.count(Changed::Opens), self.count(Changed::Closes));
        let mut text = format!("{opens} {} open, {closes} close", ways(opens));
        for (names, verb) in [(added, "come"), (removed, "go")] {
            if !names.is_empty() {
                let _ = write!(text, ", {} {verb}", numbered(names.len(), "machine"));
            }
        }
        text
    }

    /// Test cases: a failure for each change. `needs_case`: there is one that passes if nothing
    /// differs.
    fn cases(&self, needs_case: bool) -> Vec<Case> {
        let changes = self.difference.changes.iter().map(|change| {
            let by = self.decided_by(change).map(|(owner, row)| owner.unwrap_or(row));
            let by = by.map(|by| format!("; by {by}")).unwrap_or_default();
            Case {
                rule: match change.change {
                    Changed::Opens => "way-opens",
                    Changed::Closes => "way-closes",
                },
                name: title(change),
                failure: Some(format!(
                    "{}: before: {}; after: {}{by}",
                    change.change.as_str(),
                    packet(change.before.as_ref()),
                    packet(change.after.as_ref())
                )),
                skipped: None,
                location: None,
            }
        });
        let machines = [
            (&self.difference.added, "machine-comes", "only the later source has it"),
            (&self.difference.removed, "machine-goes", "only the earlier source has it"),
        ];
        let machines = machines.into_iter().flat_map(|(names, rule, reason)| {
            names.iter().map(move |name| Case {
                rule,
                name: name.clone(),
                failure: Some(reason.to_owned()),
                skipped: None,
                location: None,
            })
        });
        let mut cases: Vec<Case> = changes.chain(machines).collect();
        if cases.is_empty() && needs_case {
            cases.push(Case {
                rule: "same-ways",
                name: format!("{} and {} have the same ways", self.before.0, self.after.0),
                failure: None,
                skipped: None,
                location: None,
            });
        }
        cases
    }
}

/// What happens to a packet, in a line.
pub(super) fn packet(course: Option<&Course>) -> String {
    course.map_or_else(|| CANNOT_BE_SENT.to_owned(), describe)
}

/// Senders, destinations and protocols of a change.
fn title(change: &Change) -> String {
    let ports: Vec<String> = change.protocols.iter().map(Ports::to_string).collect();
    format!("{} -> {}: {}", names(&change.from), names(&change.to), listed(&ports, MAX_PORTS))
}

fn write_text(output: &mut dyn Write, compared: &Compared<'_>) -> io::Result<()> {
    let difference = compared.difference;
    let (before, after) = (compared.before.0, compared.after.0);
    writeln!(output, "{}: {} -> {}", compared.summary(), line(before), line(after))?;
    writeln!(
        output,
        "  {} in both, {}, {} asked of each",
        numbered(difference.machines, "machine"),
        numbered_classes(difference.classes),
        numbered(difference.questions, "question")
    )?;
    for (sign, list) in [("+", &difference.added), ("-", &difference.removed)] {
        if !list.is_empty() {
            let verb = if sign == "+" { "comes" } else { "goes" };
            writeln!(output, "\n{sign} {} {verb}", line(&names(list)))?;
        }
    }
    for change in &difference.changes {
        let sign = match change.change {
            Changed::Opens => '+',
            Changed::Closes => '-',
        };
        writeln!(output, "\n{sign} {}", line(&title(change)))?;
        writeln!(output, "    before: {}", packet(change.before.as_ref()))?;
        writeln!(output, "    after:  {}", packet(change.after.as_ref()))?;
        match compared.decided_by(change) {
            Some((Some(owner), row)) => {
                writeln!(output, "    by:     {}\n            {row}", line(&owner))?;
            }
            Some((None, row)) => writeln!(output, "    by:     {row}")?,
            None => {}
        }
    }
    Ok(())
}

fn write_markdown(output: &mut dyn Write, compared: &Compared<'_>) -> io::Result<()> {
    let difference = compared.difference;
    writeln!(output, "**{}**\n", compared.summary())?;
    let (before, after) = (cell(compared.before.0), cell(compared.after.0));
    writeln!(
        output,
        "From `{before}` to `{after}`: {} in both.",
        numbered(difference.machines, "machine")
    )?;
    for (verb, list) in [("Comes", &difference.added), ("Goes", &difference.removed)] {
        if !list.is_empty() {
            writeln!(output, "\n{verb}: {}", cell(&names(list)))?;
        }
    }
    if difference.changes.is_empty() {
        return Ok(());
    }
    writeln!(output, "\n| | from | to | packets | by |\n|---|---|---|---|---|")?;
    for change in &difference.changes {
        let ports: Vec<String> = change.protocols.iter().map(Ports::to_string).collect();
        let by = compared.decided_by(change).map(|(owner, row)| owner.unwrap_or(row));
        let by = by.unwrap_or_else(|| match change.closed() {
            Some(course) => course.last().at.clone(),
            None => CANNOT_BE_SENT.to_owned(),
        });
        writeln!(
            output,
            "| {} | {} | {} | {} | {} |",
            change.change.as_str(),
            cell(&names(&change.from)),
            cell(&names(&change.to)),
            listed(&ports, MAX_PORTS),
            cell(&by)
        )?;
    }
    Ok(())
}

/// The first names of a list, and the number of all others.
fn names(names: &[String]) -> String {
    listed(names, MAX_NAMES)
}

/// The first texts of a list, and the number of all others.
fn listed(texts: &[String], count: usize) -> String {
    let shown = texts[..texts.len().min(count)].join(", ");
    match texts.len().checked_sub(count) {
        Some(more @ 1..) => format!("{shown} and {more} more"),
        _ => shown,
    }
}

fn numbered(count: usize, thing: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {thing}{plural}")
}

fn numbered_classes(count: usize) -> String {
    if count == 1 { "1 class".to_owned() } else { format!("{count} classes") }
}

fn ways(count: usize) -> &'static str {
    if count == 1 { "way" } else { "ways" }
}
