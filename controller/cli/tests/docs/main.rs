//! Paths, links and commands that the documents name, and the lengths of their sentences.
//!
//! The documents are `README.md`, `CONTRIBUTING.md`, everything in `docs`, and the Markdown files
//! of the packages. Sentences are counted in every Markdown file.
//!
//! | checked | against |
//! |---|---|
//! | links, and paths in code font | the files of the repository, and the headings of the linked document |
//! | `patchbay` and `ovsdb-sim` with their subcommands and flags | the help texts of the programs |
//! | names of items and tables in the glossary | the words of the sources |
//! | private terms of the glossary | a limit |
//! | `cargo` with its packages, targets, features and profiles | the manifests of the workspace |
//! | words of each sentence | a limit |

mod cargo;
mod commands;
mod markdown;
mod programs;
mod reference;
mod repository;
mod sentences;

use cargo::Workspace;
use commands::{Command, inline_commands, shell_commands};
use markdown::{Document, is_shell};
use programs::{Program, is_foreign_flag};
use repository::Repository;
use sentences::sentences;

/// Beginning of commands of `ovs-appctl` that look like paths of the repository.
const APPCTL_PREFIX: &str = "vlog/";

/// The document that explains terms.
const GLOSSARY: &str = "GLOSSARY.md";

/// Mark of the glossary's terms that no source defines.
const PRIVATE_TERM: &str = "defined here";

/// Terms of the glossary that a reader has to learn here.
const MAX_PRIVATE_TERMS: usize = 50;

/// Words of the longest sentence of a document; the aim is 25.
const MAX_SENTENCE_WORDS: usize = 35;

#[test]
fn every_link_leads_somewhere() {
    let repository = Repository::find();
    let mut broken = Vec::new();
    for document in repository.documents() {
        for link in &document.links {
            if !repository.has_target(&document, link) {
                broken.push(format!("{document}: [..]({link})"));
            }
        }
    }
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

#[test]
fn every_path_exists() {
    let repository = Repository::find();
    let mut missing = Vec::new();
    for document in repository.documents() {
        let code = document.spans.iter().map(String::as_str);
        let shell = document
            .blocks
            .iter()
            .filter(|block| is_shell(&block.language))
            .flat_map(|block| block.text.split_whitespace())
            .filter(|word| repository.is_rooted(word));
        for text in code.chain(shell) {
            let is_exempt = text.starts_with(APPCTL_PREFIX);
            if repository.is_path(text) && !is_exempt && !repository.has_path(text) {
                missing.push(format!("{document}: {text}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

#[test]
fn every_command_exists() {
    let repository = Repository::find();
    let workspace = Workspace::read(repository.root());
    let programs = [Program::patchbay(), Program::ovsdb_sim(repository.root())];
    let mut wrong = Vec::new();
    for document in repository.documents() {
        for command in commands_of(&document) {
            let problem = check_command(&command, &programs, &workspace);
            wrong.extend(problem.map(|problem| format!("{document}: {command}: {problem}")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_flag_in_the_text_is_one_of_a_program() {
    let repository = Repository::find();
    let programs = [Program::patchbay(), Program::ovsdb_sim(repository.root())];
    let mut unknown = Vec::new();
    for document in repository.documents() {
        for span in &document.spans {
            let Some(flag) = span.split([' ', '=']).next() else {
                continue;
            };
            let is_known = is_foreign_flag(flag)
                || cargo::TARGET_FLAGS.contains(&flag)
                || programs.iter().any(|program| program.has_flag(flag));
            if is_flag(flag) && !is_known {
                unknown.push(format!("{document}: {span}"));
            }
        }
    }
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn every_name_of_the_glossary_exists() {
    let repository = Repository::find();
    let words = repository.source_words();
    let documents = repository.documents();
    let glossary = documents.iter().find(|one| one.path.ends_with(GLOSSARY));
    let spans = &glossary.expect("there is a glossary").spans;
    let missing: Vec<&String> = spans
        .iter()
        .filter(|span| is_name(span) && !span.split("::").all(|part| words.contains(part)))
        .collect();
    assert!(missing.is_empty(), "{missing:?}");
    assert!(spans.iter().filter(|span| is_name(span)).count() > 20);
}

#[test]
fn the_glossary_has_few_private_terms() {
    let repository = Repository::find();
    let glossary = repository.markdown().find(|(path, _)| path.ends_with(GLOSSARY));
    let (_, text) = glossary.expect("there is a glossary");
    let terms = text.lines().filter(|line| line.contains(PRIVATE_TERM)).count();
    assert!((1..=MAX_PRIVATE_TERMS).contains(&terms), "{terms}");
}

#[test]
fn every_sentence_is_short() {
    let mut long = Vec::new();
    for (path, text) in Repository::find().markdown() {
        for sentence in sentences(&text) {
            if sentence.words > MAX_SENTENCE_WORDS {
                long.push(format!("{path}: {} words: {}", sentence.words, sentence.text));
            }
        }
    }
    assert!(long.is_empty(), "{}\n{}", long.join("\n"), long.len());
}

/// Returns `true` for names of Rust items and of tables: paths with `::`, and words in capitals
/// with small letters.
fn is_name(span: &str) -> bool {
    let is_identifier = |part: &str| {
        let mut letters = part.chars();
        !part.is_empty() && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
    };
    let is_capitalised = span.starts_with(|letter: char| letter.is_ascii_uppercase())
        && span.contains(|letter: char| letter.is_ascii_lowercase());
    span.split("::").all(is_identifier) && (span.contains("::") || is_capitalised)
}

/// Returns `true` for `--word`.
fn is_flag(word: &str) -> bool {
    let name = word.strip_prefix("--").unwrap_or_default();
    name.starts_with(|letter: char| letter.is_ascii_lowercase())
}

fn commands_of(document: &Document) -> Vec<Command> {
    let mut commands = inline_commands(&document.spans);
    for block in &document.blocks {
        if is_shell(&block.language) {
            commands.extend(shell_commands(&block.text));
        }
    }
    commands
}

/// Returns what is wrong with a command; `None`: nothing, or it is a command of another program.
fn check_command(command: &Command, programs: &[Program], workspace: &Workspace) -> Option<String> {
    let check_program = |name: &str, arguments: &[String]| {
        let program = programs.iter().find(|program| program.name == name);
        program.and_then(|program| program.check(arguments))
    };
    if command.program != "cargo" {
        return check_program(&command.program, &command.arguments);
    }
    match workspace.check(&command.arguments) {
        Ok(None) => None,
        Ok(Some((binary, arguments))) => check_program(&binary, &arguments),
        Err(problem) => Some(problem),
    }
}
