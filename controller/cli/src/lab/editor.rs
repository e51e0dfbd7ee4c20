//! Prompt of a lab on a terminal: a line editor with the commands of this lab.
//!
//! ```text
//! lab     turn ->     reader: shows the prompt, edits    -> line
//! apply   message ->  printer: above the line that is edited
//! ```

use std::io::{self, LineWriter, Write};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

use nix::sys::signal::{Signal, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::error::ReadlineError;
use rustyline::{Config, DefaultEditor, ExternalPrinter as _};
use tokio::sync::mpsc;

const PROMPT: &str = "> ";

/// Prompt on a terminal.
pub(super) struct Prompt {
    lines: mpsc::UnboundedReceiver<String>,
    /// Each value lets the reader show the prompt once. In between a command is executed and
    /// prints.
    turns: Sender<()>,
    is_reading: bool,
    messages: Sender<String>,
}

impl Prompt {
    /// Starts the threads of a prompt.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or a dumb one.
    pub(super) fn start() -> rustyline::Result<Self> {
        let config = Config::builder()
            .auto_add_history(true)
            // Pasted lines are commands, one after the other.
            .bracketed_paste(false)
            .build();
        let mut editor = DefaultEditor::with_config(config)?;
        let mut printer = editor.create_external_printer()?;
        let (messages, printed) = channel::<String>();
        // A thread of its own, because printing waits while a line has ended and the next one has
        // not begun.
        thread::spawn(move || {
            for message in printed {
                if let Err(error) = printer.print(message) {
                    tracing::debug!(%error, "cannot print above the prompt");
                }
            }
        });
        let (turns, turn) = channel();
        let (sender, lines) = mpsc::unbounded_channel();
        thread::spawn(move || read_lines(&mut editor, &turn, &sender));
        Ok(Self { lines, turns, is_reading: false, messages })
    }

    /// Shows the prompt and returns the line that is entered. `None`: the user has ended the input.
    ///
    /// # Cancel safety
    /// The future may be dropped; the line stays on the screen, and the next call returns it.
    pub(super) async fn next(&mut self) -> Option<String> {
        if !self.is_reading {
            self.turns.send(()).ok()?;
            self.is_reading = true;
        }
        let line = self.lines.recv().await;
        self.is_reading = false;
        line
    }

    /// A writer of lines above the one that is edited.
    pub(super) fn messages(&self) -> impl Write + use<> {
        LineWriter::new(PromptMessages(self.messages.clone()))
    }
}

/// Reads a line in each turn, until the input ends.
fn read_lines(
    editor: &mut DefaultEditor,
    turns: &Receiver<()>,
    lines: &mpsc::UnboundedSender<String>,
) {
    for () in turns {
        match editor.readline(PROMPT) {
            Ok(line) => {
                if lines.send(line).is_err() {
                    return;
                }
            }
            Err(ReadlineError::Interrupted) => {
                // While a line is edited Ctrl-C is a key. It ends the lab as the signal does, also
                // while files are applied. If that fails, the end of the lines ends it.
                raise(Signal::SIGINT).unwrap_or_default();
                return;
            }
            Err(ReadlineError::Eof) => return,
            Err(error) => {
                tracing::warn!(%error, "cannot read commands");
                return;
            }
        }
    }
}

/// Writer of messages above the line that is edited.
struct PromptMessages(Sender<String>);

impl Write for PromptMessages {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        let message = String::from_utf8_lossy(text).into_owned();
        let sent = self.0.send(message);
        sent.map_err(|_| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Mode of the terminal at the start. Dropping it restores the mode, which the editor of a line
/// changes, and ends that line.
pub(super) struct TerminalMode(Option<Termios>);

impl TerminalMode {
    /// Reads the mode of standard input, which may be no terminal.
    pub(super) fn read() -> Self {
        Self(tcgetattr(io::stdin()).ok())
    }
}

impl Drop for TerminalMode {
    fn drop(&mut self) {
        let Some(mode) = &self.0 else { return };
        if tcgetattr(io::stdin()).is_ok_and(|now| now == *mode) {
            return;
        }
        // Errors here cannot be reported anywhere.
        tcsetattr(io::stdin(), SetArg::TCSADRAIN, mode).unwrap_or_default();
        io::stdout().write_all(b"\n").unwrap_or_default();
    }
}
