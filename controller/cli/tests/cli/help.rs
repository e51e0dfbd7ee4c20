//! Help texts, versions, completions and pages of man.

use patchbay_ovn_programs::testing::ScratchDir;

use crate::command::run;

/// Names of the commands, from the list of the help.
fn commands() -> Vec<String> {
    let help = run("--help", &[]).succeeded();
    let (_, list) = help.split_once("Commands:\n").unwrap();
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter(|line| !line.starts_with("   "));
    names.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

#[test]
fn the_plugin_of_kubectl_is_named_as_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let plugin = folder.path().join("kubectl-patchbay");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_patchbay"), &plugin).unwrap();
    let output = std::process::Command::new(&plugin).arg("--help").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("Usage: kubectl patchbay <COMMAND>"), "{text}");
    let output =
        std::process::Command::new(&plugin).args(["version", "-o", "json"]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn help_texts_have_80_columns() {
    let commands = commands();
    assert!(commands.len() > 10, "{commands:?}");
    let with_help = commands.iter().map(String::as_str).filter(|command| *command != "help");
    for command in with_help.chain([""]) {
        for flag in ["-h", "--help"] {
            let help = run(&format!("{command} {flag}"), &[]).succeeded();
            // A default of one long word cannot be wrapped.
            let mut texts = help.lines().filter(|line| line.split_whitespace().count() > 1);
            let long = texts.find(|line| line.chars().count() > 80);
            assert_eq!(long, None, "{command} {flag}");
        }
    }
}

#[test]
fn a_version_is_text_or_a_document() {
    let text = run("version", &[]).succeeded();
    let document = run("version -o json", &[]).succeeded();
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    let version = document["version"].as_str().unwrap();
    assert!(text.starts_with(&format!("patchbay {version}\n")), "{text}");
    assert_eq!(run("--version", &[]).succeeded(), format!("patchbay {version}\n"));
}

#[test]
fn shells_and_man_know_all_commands() {
    for shell in ["bash", "zsh", "fish"] {
        let text = run(&format!("completions {shell}"), &[]).succeeded();
        for command in commands() {
            assert!(text.contains(&command), "{shell}: {command}");
        }
    }
    let dir = ScratchDir::new();
    let into = dir.path().display();
    assert_eq!(run(&format!("completions man --into {into}"), &[]).succeeded(), "");
    for command in commands().iter().filter(|command| *command != "help") {
        assert!(dir.path().join(format!("patchbay-{command}.1")).exists(), "{command}");
    }
    let missing = run("completions man --into /missing/folder", &[]);
    assert!(missing.stderr.starts_with("error: /missing/folder: No such file"), "{missing:?}");
    assert!(run("completions man", &[]).stderr.contains("--into"));
    let useless = run(&format!("completions bash --into {into}"), &[]);
    assert_eq!((useless.code, &*useless.stderr), (Some(1), "error: --into is for man only\n"));
}
