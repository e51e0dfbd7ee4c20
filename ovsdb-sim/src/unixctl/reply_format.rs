//! Format of the replies on a connection (`set-options`, ovs-appctl(8)).

use std::collections::BTreeMap;

use patchbay_engine::db::ServerRelease;
use patchbay_schemas::json::Json;

use super::commands::CommandResult;
use super::usage::{list_commands, usage_texts};

/// Name of the only option.
const OPTION: &str = "format";

/// Format of successful replies. Errors are texts in both.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ReplyFormat {
    /// A text for the user.
    #[default]
    Text,
    /// An object: with the text, or with the members that the command has.
    Json,
}

impl ReplyFormat {
    /// Parses the options of `set-options`, as `getopt_long` does. `None`: the format stays.
    ///
    /// # Errors
    /// An option or its value is unknown. The text is ovsdb-server's.
    pub(super) fn from_options(arguments: &[&str]) -> Result<Option<Self>, String> {
        let mut format = None;
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let value = match argument.strip_prefix("--") {
                Some("") => break,
                Some(long) => {
                    let (name, value) = match long.split_once('=') {
                        Some((name, value)) => (name, Some(value)),
                        None => (long, None),
                    };
                    if name.is_empty() || !OPTION.starts_with(name) {
                        return Err(format!("unrecognized option '{argument}'"));
                    }
                    value
                }
                None => match argument.strip_prefix('-') {
                    // Options end at the first other argument.
                    None | Some("") => break,
                    Some(short) => match short.strip_prefix('f') {
                        Some("") => None,
                        Some(value) => Some(value),
                        None => {
                            let option: String = short.chars().take(1).collect();
                            return Err(format!("unrecognized option '{option}'"));
                        }
                    },
                },
            };
            let value = value
                .or_else(|| arguments.next().copied())
                .ok_or_else(|| format!("option '{argument}' requires an argument"))?;
            format = Some(match value.to_ascii_lowercase().as_str() {
                "text" => Self::Text,
                "json" => Self::Json,
                _ => return Err(format!("option format has invalid value {value}")),
            });
        }
        Ok(format)
    }

    /// The result of a successful reply.
    pub(super) fn result(self, result: CommandResult, release: ServerRelease) -> Json {
        let text = match (self, result) {
            (Self::Json, CommandResult::Commands(commands)) => {
                let members = usage_texts(&commands)
                    .map(|(name, usage)| (name.as_bytes().to_vec(), Json::string(usage)));
                return Json::Object(members.collect());
            }
            (Self::Text, CommandResult::Commands(commands)) => list_commands(&commands),
            (_, CommandResult::Text(text)) => text,
            (_, CommandResult::Options(_) | CommandResult::Exit) => String::new(),
        };
        match self {
            Self::Text => super::end_line(text, release),
            Self::Json => Json::Object(BTreeMap::from([
                (b"reply".to_vec(), Json::string(text)),
                (b"reply-format".to_vec(), Json::string("plain")),
            ])),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_parsed_as_by_getopt() {
        use ReplyFormat::{Json, Text};
        for (arguments, format) in [
            (&["--format", "json"][..], Some(Json)),
            (&["--format=JSON"], Some(Json)),
            (&["--f", "json"], Some(Json)),
            (&["-fjson"], Some(Json)),
            (&["--format=json", "--format=text"], Some(Text)),
            (&["--format=json", "a"], Some(Json)),
            (&["a", "--format=json"], None),
            (&["--", "--format"], None),
            (&["-"], None),
        ] {
            assert_eq!(ReplyFormat::from_options(arguments), Ok(format), "{arguments:?}");
        }
        for (arguments, error) in [
            (&["--format"][..], "option '--format' requires an argument"),
            (&["--format=xml"], "option format has invalid value xml"),
            (&["--format=", "x"], "option format has invalid value "),
            (&["--pretty"], "unrecognized option '--pretty'"),
            (&["-x"], "unrecognized option 'x'"),
        ] {
            let parsed = ReplyFormat::from_options(arguments);
            assert_eq!(parsed, Err(error.to_owned()), "{arguments:?}");
        }
    }
}
