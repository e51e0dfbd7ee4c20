//! Colours of texts on a terminal.

use std::env;
use std::ffi::OsStr;
use std::io::IsTerminal;

/// Colour of a text.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Colour {
    Green,
    Red,
    Yellow,
}

impl Colour {
    /// Parameters of the sequence "select graphic rendition" (ECMA-48, section 8.3.117).
    fn parameters(self) -> &'static str {
        match self {
            Self::Green => "32",
            Self::Red => "31",
            Self::Yellow => "33",
        }
    }
}

/// Colouring of the texts of a stream.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(super) enum Colours {
    #[default]
    Off,
    On,
}

impl Colours {
    /// On for a terminal, unless `NO_COLOR` is set (<https://no-color.org>) or the terminal is a
    /// dumb one.
    pub(super) fn of(stream: &impl IsTerminal) -> Self {
        let (no_color, term) = (env::var_os("NO_COLOR"), env::var_os("TERM"));
        Self::new(stream.is_terminal(), no_color.as_deref(), term.as_deref())
    }

    fn new(is_terminal: bool, no_color: Option<&OsStr>, term: Option<&OsStr>) -> Self {
        let is_unwanted = no_color.is_some_and(|value| !value.is_empty());
        let is_dumb = term.is_some_and(|term| term == "dumb");
        if is_terminal && !is_unwanted && !is_dumb { Self::On } else { Self::Off }
    }

    pub(super) fn are_on(self) -> bool {
        self == Self::On
    }

    /// Returns the text in a colour.
    pub(super) fn paint(self, colour: Colour, text: &str) -> String {
        match self {
            Self::Off => text.to_owned(),
            Self::On => format!("\u{1b}[{}m{text}\u{1b}[0m", colour.parameters()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_has_colours_unless_it_is_dumb_or_the_user_wants_none() {
        let colours = |is_terminal, no_color: &str, term: &str| {
            let texts = [no_color, term].map(OsStr::new);
            Colours::new(is_terminal, Some(texts[0]), Some(texts[1])).are_on()
        };
        assert!(Colours::new(true, None, None).are_on());
        assert!(colours(true, "", "xterm"));
        assert!(!colours(true, "1", "xterm"));
        assert!(!colours(true, "", "dumb"));
        assert!(!colours(false, "", "xterm"));
    }

    #[test]
    fn a_painted_text_ends_with_the_default_colour() {
        let text = Colours::On.paint(Colour::Red, "lost");
        assert_eq!(text, "\u{1b}[31mlost\u{1b}[0m");
        assert_eq!(Colours::Off.paint(Colour::Red, "lost"), "lost");
    }
}
