//! Input and output of a command.

use std::collections::BTreeSet;
use std::io::{self, Read, Write};

use serde::Serialize;

use super::args::Format;
use super::failure::Failure;

/// Where a command reads and writes.
pub(super) struct Console<'a> {
    pub(super) input: &'a mut dyn Read,
    pub(super) output: &'a mut dyn Write,
    pub(super) errors: &'a mut dyn Write,
    /// What those who try again have told, and need not tell again; none if everything is told.
    pub(super) told: Option<BTreeSet<String>>,
    /// How many YAML documents there are already on the output.
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
            told: None,
            documents: 0,
        }
    }
}

impl Console<'_> {
    pub(super) fn warn(&mut self, warning: &str) -> io::Result<()> {
        self.tell(format!("warning: {warning}"))
    }

    /// Says why a command failed: a line for each reason.
    pub(super) fn fail(&mut self, failure: &Failure) {
        for line in failure.to_string().lines() {
            // Nobody is left to tell if this fails.
            self.tell(format!("error: {line}")).unwrap_or_default();
        }
    }

    /// Writes a line to the standard error, unless it has been told.
    pub(super) fn tell(&mut self, line: String) -> io::Result<()> {
        if self.told.as_ref().is_some_and(|told| told.contains(&line)) {
            return Ok(());
        }
        writeln!(self.errors, "{line}")?;
        if let Some(told) = &mut self.told {
            told.insert(line);
        }
        Ok(())
    }

    /// Prints a document for programs.
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

    /// Prints an object as a part of what people read.
    pub(super) fn yaml(&mut self, object: &impl Serialize) -> Result<(), Failure> {
        let text = serde_saphyr::to_string(object).map_err(io::Error::other)?;
        Ok(self.output.write_all(text.as_bytes())?)
    }
}
