//! Source of the commands of a lab.

use std::future::pending;
use std::io::{self, IsTerminal as _, Write};

use tokio::sync::mpsc;

use super::editor::Prompt;

/// Source of commands.
pub(super) enum CommandSource {
    /// None, because the manifests came from standard input.
    Nothing,
    /// Lines of standard input.
    Lines(mpsc::UnboundedReceiver<String>),
    /// A prompt on the terminal.
    Prompt(Prompt),
}

impl CommandSource {
    /// A prompt if standard input and output are a terminal on which lines can be edited, otherwise
    /// the lines of standard input.
    pub(super) fn open() -> Self {
        let is_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
        let prompt = is_terminal.then(Prompt::start);
        match prompt {
            Some(Ok(prompt)) => Self::Prompt(prompt),
            Some(Err(error)) => {
                tracing::debug!(%error, "no line editor");
                Self::Lines(read_lines())
            }
            None => Self::Lines(read_lines()),
        }
    }

    /// The next command. `None`: there are no more. Never returns without a source.
    ///
    /// # Cancel safety
    /// The future may be dropped at any time.
    pub(super) async fn next(&mut self) -> Option<String> {
        match self {
            Self::Nothing => pending().await,
            Self::Lines(lines) => lines.recv().await,
            Self::Prompt(prompt) => prompt.next().await,
        }
    }

    /// Writer of messages that leave the line intact which is edited meanwhile. `None`: no line is
    /// edited where standard error goes.
    pub(super) fn messages(&self) -> Option<impl Write + use<>> {
        match self {
            Self::Prompt(prompt) if io::stderr().is_terminal() => Some(prompt.messages()),
            _ => None,
        }
    }
}

/// Lines of standard input, read by a thread that ends with the process.
fn read_lines() -> mpsc::UnboundedReceiver<String> {
    let (sender, receiver) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
