//! Standard input, output and error of a command.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use serde::Serialize;

use super::args::Format;
use super::failure::Failure;

/// The streams of a command.
pub(super) struct Console<'a> {
    pub(super) input: &'a mut dyn Read,
    pub(super) output: &'a mut dyn Write,
    pub(super) errors: &'a mut dyn Write,
    /// Lines that were written to `errors` since the last success of a command that retries, and
    /// are not repeated. `None`: every line is written.
    pub(super) reported: Option<BTreeSet<String>>,
    /// Number of YAML documents written to `output`.
    pub(super) documents: u64,
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
            documents: 0,
        }
    }
}

impl Console<'_> {
    /// Writes a warning to standard error.
    pub(super) fn warn(&mut self, warning: &str) -> io::Result<()> {
        self.report(format!("warning: {warning}"))
    }

    /// Writes the failure of a command to standard error, one line per reason.
    pub(super) fn report_failure(&mut self, failure: &Failure) {
        for line in failure.to_string().lines() {
            // An error here cannot be reported anywhere.
            self.report(format!("error: {line}")).unwrap_or_default();
        }
    }

    /// Writes a line to standard error, unless it is in `reported`.
    pub(super) fn report(&mut self, line: String) -> io::Result<()> {
        if self
            .reported
            .as_ref()
            .is_some_and(|lines| lines.contains(&line))
        {
            return Ok(());
        }
        writeln!(self.errors, "{line}")?;
        if let Some(lines) = &mut self.reported {
            lines.insert(line);
        }
        Ok(())
    }

    /// Prints a JSON or YAML document.
    pub(super) fn document(
        &mut self,
        document: &impl Serialize,
        format: Format,
    ) -> Result<(), Failure> {
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
