//! Commands of the examples' READMEs, with the lines that the READMEs show of their outputs.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::command::Run;

/// Command with which the READMEs start the program.
const PROGRAM: &str = "cargo patchbay ";
/// Beginning of the commands with packets.
const LAB: &str = "cargo patchbay lab ";

/// Commands of a README, each with the lines of its output that the README shows.
fn shown(readme: &str) -> Vec<(&str, Vec<&str>)> {
    let mut blocks = readme.split("\n```").skip(1).step_by(2).peekable();
    let mut commands = Vec::new();
    while let Some(block) = blocks.next() {
        let Some(lines) = block.strip_prefix("sh\n") else {
            continue;
        };
        let output = blocks
            .peek()
            .and_then(|next| next.strip_prefix("text\n"))
            .into_iter()
            .flat_map(str::lines)
            .collect();
        // The lab needs OVN, and has tests of its own.
        if lines.contains(PROGRAM) && !lines.contains(LAB) {
            commands.push((lines.trim(), output));
        }
    }
    commands
}

/// READMEs of the examples with manifests, by folder.
fn readmes(root: &Path) -> Vec<(String, String)> {
    let mut folders: Vec<_> =
        fs::read_dir(root.join("examples")).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    let readmes = folders.iter().filter_map(|folder| {
        let text = fs::read_to_string(folder.join("README.md")).ok()?;
        Some((folder.file_name()?.to_str()?.to_owned(), text))
    });
    readmes.collect()
}

#[test]
fn commands_of_readmes_print_what_the_readmes_show() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let readmes = readmes(&root);
    assert!(readmes.len() >= 12, "{} READMEs", readmes.len());
    for (example, readme) in readmes {
        let commands = shown(&readme);
        assert!(commands.len() >= 2, "{example}");
        for (command, lines) in commands {
            assert!(!lines.is_empty(), "{command}");
            let command = command.replace(PROGRAM, "\"$PATCHBAY\" ");
            let mut shell = Command::new("sh");
            shell.args(["-c", &command]).current_dir(&root).env_remove("RUST_LOG");
            let shell = shell.env("PATCHBAY", env!("CARGO_BIN_EXE_patchbay"));
            let run = Run::from(shell.output().unwrap());
            assert_ne!(run.code, Some(1), "{command}\n{}", run.stderr);
            let output = [run.stdout, run.stderr].concat();
            for line in lines {
                assert!(output.contains(line), "{command}\n{line}\n{output}");
            }
        }
    }
}

#[test]
fn containers_of_the_examples_have_the_images_that_api_servers_require() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut containers = 0;
    for example in fs::read_dir(root).unwrap() {
        for file in fs::read_dir(example.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            if file.extension().is_some_and(|extension| extension == "yaml") {
                let text = fs::read_to_string(&file).unwrap();
                let count = |field| text.matches(field).count();
                assert_eq!(count("containers:"), count("image:"), "{}", file.display());
                containers += count("containers:");
            }
        }
    }
    assert!(containers >= 30, "{containers} pods");
}
