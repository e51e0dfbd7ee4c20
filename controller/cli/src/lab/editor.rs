//! Prompt of a lab on a terminal: a line editor with history and completion.
//!
//! ```text
//! lab     turn ->     reader: shows the prompt, edits    -> line
//! apply   message ->  printer: above the line that is edited
//! ```

use std::borrow::Cow;
use std::io::{self, LineWriter, Write};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use nix::sys::signal::{Signal, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::Validator;
use rustyline::{ColorMode, CompletionType, Config, Context, Editor, ExternalPrinter as _, Helper};
use tokio::sync::mpsc;

use super::completion::{Names, complete};
use super::history;
use crate::colours::{Colour, Colours};

const PROMPT: &str = "> ";
/// Number of commands that the history keeps.
const MAX_HISTORY: usize = 1000;

/// Prompt on a terminal.
pub(super) struct Prompt {
    lines: mpsc::UnboundedReceiver<String>,
    /// Each value lets the reader show the prompt once. In between a command is executed and
    /// prints.
    turns: Sender<()>,
    is_reading: bool,
    names: Arc<Mutex<Names>>,
    messages: Sender<String>,
}

impl Prompt {
    /// Starts the threads of a prompt.
    ///
    /// # Errors
    /// Standard input or output is no terminal, or a dumb one.
    pub(super) fn start(colours: Colours) -> rustyline::Result<Self> {
        let names = Arc::<Mutex<Names>>::default();
        let helper = PromptHelper {
            names: names.clone(),
            colours,
        };
        let config = Config::builder()
            .max_history_size(MAX_HISTORY)?
            .history_ignore_space(true)
            .completion_type(CompletionType::List)
            .color_mode(if colours.are_on() {
                ColorMode::Enabled
            } else {
                ColorMode::Disabled
            })
            // Pasted lines are commands, one after the other.
            .bracketed_paste(false)
            .build();
        let mut editor = Editor::<PromptHelper, FileHistory>::with_config(config)?;
        editor.set_helper(Some(helper));
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
        Ok(Self {
            lines,
            turns,
            is_reading: false,
            names,
            messages,
        })
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

    /// Sets the names that are completed.
    pub(super) fn set_names(&self, names: Names) {
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// A writer of lines above the one that is edited.
    pub(super) fn messages(&self) -> impl Write + use<> {
        LineWriter::new(PromptMessages(self.messages.clone()))
    }
}

/// Reads a line in each turn, until the input ends.
fn read_lines(
    editor: &mut Editor<PromptHelper, FileHistory>,
    turns: &Receiver<()>,
    lines: &mpsc::UnboundedSender<String>,
) {
    let history = open_history(editor);
    for () in turns {
        match editor.readline(PROMPT) {
            Ok(line) => {
                let is_new = editor.add_history_entry(line.as_str()).unwrap_or_default();
                if let (true, Some(path)) = (is_new, &history)
                    && let Err(error) = editor.append_history(path)
                {
                    tracing::debug!(path = %path.display(), %error, "cannot write the history");
                }
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

/// Reads the history of earlier labs. `None`: it is not kept.
fn open_history(editor: &mut Editor<PromptHelper, FileHistory>) -> Option<PathBuf> {
    let path = history::path()?;
    if let Err(error) = history::create_folder(&path) {
        tracing::debug!(path = %path.display(), %error, "cannot keep the history");
        return None;
    }
    match editor.load_history(&path) {
        Ok(()) => {}
        Err(ReadlineError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => {
            tracing::debug!(path = %path.display(), %error, "cannot read the history");
        }
    }
    Some(path)
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

/// Completion and colour of a prompt.
struct PromptHelper {
    names: Arc<Mutex<Names>>,
    colours: Colours,
}

impl Completer for PromptHelper {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _context: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let (start, found) = complete(line.get(..position).unwrap_or(line), &names);
        let pairs = found.into_iter().map(|completion| Pair {
            replacement: completion.word.clone() + if completion.has_next { " " } else { "" },
            display: completion.word,
        });
        Ok((start, pairs.collect()))
    }
}

impl Highlighter for PromptHelper {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        Cow::Owned(self.colours.paint(Colour::Bold, prompt))
    }
}

impl Hinter for PromptHelper {
    type Hint = String;
}

impl Validator for PromptHelper {}

impl Helper for PromptHelper {}

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
