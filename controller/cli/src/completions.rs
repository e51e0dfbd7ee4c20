//! `patchbay completions`: completions of shells and pages of man, made from the flags.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::Shell;

use super::args::CommandLine;
use super::console::Console;
use super::failure::Failure;

/// Names of sources in bash, behind the completions of flags.
const NAMES_BASH: &str = include_str!("completions/names.bash");
/// Likewise in zsh.
const NAMES_ZSH: &str = include_str!("completions/names.zsh");
/// Likewise in fish.
const NAMES_FISH: &str = include_str!("completions/names.fish");

#[derive(Debug, Args)]
pub(super) struct Completions {
    /// The shell, or `man`.
    #[arg(value_enum, value_name = "SHELL")]
    target: Target,
    /// Folder for the pages of man, one for each command. It must exist.
    #[arg(long, value_name = "DIR", required_if_eq("target", "man"))]
    into: Option<PathBuf>,
}

/// What is made from the flags.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Target {
    /// Completions: `source <(patchbay completions bash)`.
    Bash,
    /// Completions: a file `_patchbay` in a folder of `fpath`.
    Zsh,
    /// Completions: a file in `~/.config/fish/completions`.
    Fish,
    /// Pages of man.
    Man,
}

/// Prints completions, or writes pages of man.
pub(super) fn completions(
    arguments: &Completions,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    let mut command = CommandLine::command();
    let (shell, names) = match (arguments.target, &arguments.into) {
        (Target::Bash | Target::Zsh | Target::Fish, Some(_)) => {
            return Err(Failure::Arguments("--into is for man only".to_owned()));
        }
        (Target::Bash, None) => (Shell::Bash, NAMES_BASH),
        (Target::Zsh, None) => (Shell::Zsh, NAMES_ZSH),
        (Target::Fish, None) => (Shell::Fish, NAMES_FISH),
        (Target::Man, None) => {
            return Err(Failure::Arguments("man needs --into".to_owned()));
        }
        (Target::Man, Some(folder)) => {
            let failed = |error| Failure::Arguments(format!("{}: {error}", folder.display()));
            fs::metadata(folder).map_err(failed)?;
            return clap_mangen::generate_to(command, folder).map_err(failed);
        }
    };
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, "patchbay", &mut text);
    text.extend_from_slice(names.as_bytes());
    Ok(console.output.write_all(&text)?)
}
