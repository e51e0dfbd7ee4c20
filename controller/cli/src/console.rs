//! Standard input, output and error of a command.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::io::{self, BufWriter, Read, Write};
use std::time::SystemTime;

use patchbay_model::printable::printable;
use patchbay_report::ReportSource;
use serde::Serialize;

use super::args::Format;
use super::colours::{Colour, Colours};
use super::failure::Failure;
use super::lines::wrapped_behind;
use super::progress::Progress;
use super::source_age::{SourceAge, SourcedDocument};

/// Maximum number of warnings about one subject; the rest is a count, so that the end of the output
/// stays on a screen.
const MAX_WARNINGS: usize = 10;
/// Maximum number of lines for a failure.
const MAX_REASONS: usize = 20;
/// Maximum length of a line on standard error, in bytes.
const MAX_LINE_BYTES: usize = 2_000;
/// Length in bytes of the pieces in which long texts are written to standard output, which
/// otherwise writes each line by itself.
const PIECE_BYTES: usize = 1 << 16;
/// Beginnings of lines that have a colour.
const LABELS: [(&str, Colour); 2] = [("error:", Colour::Red), ("warning:", Colour::Yellow)];

/// The streams of a command.
pub(super) struct Console<'a> {
    pub(super) input: &'a mut dyn Read,
    pub(super) output: &'a mut dyn Write,
    pub(super) errors: &'a mut dyn Write,
    /// Lines that were written to `errors` since the last success of a command that retries, and
    /// are not repeated. `None`: every line is written.
    pub(super) reported: Option<BTreeSet<String>>,
    /// Number of warnings by subject since
    /// [`report_omitted_warnings`](Self::report_omitted_warnings).
    warnings: BTreeMap<String, usize>,
    /// `true` if `output` is a terminal.
    pub(super) is_terminal: bool,
    /// Colours of `output`.
    pub(super) output_colours: Colours,
    /// Colours of `errors`.
    pub(super) error_colours: Colours,
    /// Sources of the answer, in the order in which they were read.
    sources: Vec<SourceAge>,
    /// `true` if sources that are read as they change have a line.
    pub(super) shows_live_sources: bool,
    /// Number of YAML documents written to `output`.
    pub(super) documents: u64,
    /// Line about long work on `errors`.
    pub(super) progress: Progress,
}

impl<'a> Console<'a> {
    pub(super) fn new(
        input: &'a mut dyn Read,
        output: &'a mut dyn Write,
        errors: &'a mut dyn Write,
    ) -> Self {
        Self {
            input,
            output,
            errors,
            reported: None,
            warnings: BTreeMap::new(),
            is_terminal: false,
            output_colours: Colours::Off,
            error_colours: Colours::Off,
            sources: Vec::new(),
            shows_live_sources: false,
            documents: 0,
            progress: Progress::default(),
        }
    }
}

impl Console<'_> {
    /// The console with other standard error.
    #[cfg(feature = "lab")]
    pub(super) fn with_errors<'a>(&'a mut self, errors: &'a mut dyn Write) -> Console<'a> {
        let mut console = Console::new(&mut *self.input, &mut *self.output, errors);
        console.output_colours = self.output_colours;
        console.error_colours = self.error_colours;
        console
    }

    /// Writes a warning to standard error, or only counts it if there were many about the subject.
    pub(super) fn warn(&mut self, subject: &str, warning: &str) -> io::Result<()> {
        let count = self.warnings.entry(subject.to_owned()).or_default();
        *count += 1;
        if *count > MAX_WARNINGS {
            return Ok(());
        }
        self.report(&format!("warning: {warning}"))
    }

    /// Notes a source of the answer, with a line on standard error the first time. Documents name all
    /// sources.
    pub(super) fn note_source(&mut self, source: SourceAge) -> io::Result<()> {
        if let Some(known) = self.sources.iter_mut().find(|known| known.name == source.name) {
            // A command that follows a source reads it again.
            *known = source;
            return Ok(());
        }
        if !source.is_live() || self.shows_live_sources {
            self.report(&source.line(SystemTime::now()))?;
        }
        self.sources.push(source);
        Ok(())
    }

    /// Sources of the answer with their times, for a page.
    pub(super) fn source_times(&self) -> Vec<ReportSource> {
        let now = SystemTime::now();
        self.sources.iter().map(|source| source.document(now).into_report()).collect()
    }

    /// Writes how many warnings were only counted, by subject, and begins to count again.
    pub(super) fn report_omitted_warnings(&mut self) -> io::Result<()> {
        for (subject, count) in std::mem::take(&mut self.warnings) {
            if let Some(more @ 1..) = count.checked_sub(MAX_WARNINGS) {
                let warnings = if more == 1 { "warning" } else { "warnings" };
                self.report(&format!("warning: {more} more {warnings} about {subject}"))?;
            }
        }
        Ok(())
    }

    /// Writes the failure of a command to standard error, one line per reason.
    pub(super) fn report_failure(&mut self, failure: &Failure) {
        // An error here cannot be reported anywhere.
        self.report_errors(&failure.reasons()).unwrap_or_default();
        for line in failure.log() {
            self.report(line).unwrap_or_default();
        }
    }

    /// Writes errors to standard error, one line each.
    pub(super) fn report_errors(&mut self, errors: &[String]) -> io::Result<()> {
        for error in errors.iter().take(MAX_REASONS) {
            self.report(&format!("error: {error}"))?;
        }
        match errors.len().checked_sub(MAX_REASONS) {
            Some(more @ 1..) => self.report(&format!("error: {more} more errors")),
            _ => Ok(()),
        }
    }

    /// Begins work of several steps. After a second, a line on a terminal shows how far it is.
    pub(super) fn begin(&mut self, verb: &'static str, noun: &'static str, steps: usize) {
        self.progress.begin(verb, noun, steps);
    }

    /// Counts a step of the work.
    pub(super) fn step(&mut self) -> io::Result<()> {
        self.progress.step(self.errors)
    }

    /// Ends the work, and clears its line.
    pub(super) fn end(&mut self) -> io::Result<()> {
        self.progress.end(self.errors)
    }

    /// Writes a line to standard error, unless it is in `reported`.
    pub(super) fn report(&mut self, text: &str) -> io::Result<()> {
        self.progress.clear(self.errors)?;
        let line = printable(text, MAX_LINE_BYTES);
        if self.reported.as_ref().is_some_and(|lines| lines.contains(&*line)) {
            return Ok(());
        }
        let label = LABELS.into_iter().find_map(|(label, colour)| {
            let rest = line.strip_prefix(label)?;
            Some((self.error_colours.paint(colour, label), rest))
        });
        match label {
            Some((label, rest)) => writeln!(self.errors, "{label}{rest}")?,
            None => writeln!(self.errors, "{line}")?,
        }
        if let Some(lines) = &mut self.reported {
            lines.insert(line.into_owned());
        }
        Ok(())
    }

    /// Writes a text of many lines to standard output.
    pub(super) fn write_long(
        &mut self,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut pieces = BufWriter::with_capacity(PIECE_BYTES, &mut *self.output);
        write(&mut pieces)?;
        pieces.flush()
    }

    /// Writes a text of lines to standard output. On a terminal, long lines are broken between words;
    /// what other programs read has a line for each sentence.
    pub(super) fn write_sentences(&mut self, text: &impl fmt::Display) -> io::Result<()> {
        let text = text.to_string();
        if !self.is_terminal {
            return self.write_long(|output| output.write_all(text.as_bytes()));
        }
        self.write_long(|output| {
            text.lines().try_for_each(|line| {
                let indent = line.len() - line.trim_start().len();
                let (margin, rest) = line.split_at(indent);
                let lines = wrapped_behind(margin, rest, &format!("{margin}    "));
                writeln!(output, "{lines}")
            })
        })
    }

    /// Prints a JSON or YAML document. An object gets the member `sources`, unless none was noted.
    pub(super) fn document(
        &mut self,
        document: &impl Serialize,
        format: Format,
    ) -> Result<(), Failure> {
        if self.sources.is_empty() || !is_object(document) {
            return self.plain_document(document, format);
        }
        let now = SystemTime::now();
        let sources = self.sources.iter().map(|source| source.document(now)).collect();
        self.plain_document(&SourcedDocument { document, sources }, format)
    }

    /// Prints a JSON or YAML document as it is.
    fn plain_document(&mut self, document: &impl Serialize, format: Format) -> Result<(), Failure> {
        if format == Format::Json {
            let text = serde_json::to_string_pretty(document).map_err(io::Error::other)?;
            return Ok(writeln!(self.output, "{text}")?);
        }
        if self.documents > 0 {
            writeln!(self.output, "---")?;
        }
        self.documents += 1;
        self.yaml(document)
    }

    /// Prints an object as YAML.
    pub(super) fn yaml(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let text = serde_saphyr::to_string(object).map_err(io::Error::other)?;
        Ok(self.output.write_all(text.as_bytes())?)
    }
}

/// `true` if a document is an object, and not a list.
fn is_object(document: &impl Serialize) -> bool {
    let mut first = FirstByte(None);
    // The writer ends the work at the first byte.
    let _ = serde_json::to_writer(&mut first, document);
    first.0 == Some(b'{')
}

/// Writer that keeps the first byte, and refuses the rest.
struct FirstByte(Option<u8>);

impl Write for FirstByte {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 = self.0.or(bytes.first().copied());
        Err(io::ErrorKind::WriteZero.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
