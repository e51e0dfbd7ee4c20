//! The packages for Python and Go, by their own tests, with the program that cargo has built.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use patchbay_ovn_programs::testing::ScratchDir;

/// Packages that the tests in Python need.
const PYTHON_PACKAGES: [&str; 3] = ["pytest", "ovs", "ovsdbapp"];

fn packages() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packages")
}

/// Runs a command, which must succeed. Returns `false` if there is no such program.
fn run(command: &mut Command) -> bool {
    let output = match command.env("PATCHBAY_OVSDB_SIM", env!("CARGO_BIN_EXE_ovsdb-sim")).output() {
        Ok(output) => output,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return false,
        Err(error) => panic!("{command:?}: {error}"),
    };
    let [out, errors] = [output.stdout, output.stderr].map(|text| {
        let text = String::from_utf8_lossy(&text);
        text.into_owned()
    });
    assert!(output.status.success(), "{command:?}\n{out}{errors}");
    true
}

/// The examples of the guide in one language.
fn examples(language: &str) -> Vec<String> {
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/testing.md");
    let text = std::fs::read_to_string(guide).expect("the guide is text");
    let mut examples = Vec::new();
    for block in text.split(&format!("```{language}\n")).skip(1) {
        let (example, _) = block.split_once("```").expect("a block has an end");
        examples.push(example.to_owned());
    }
    assert!(!examples.is_empty(), "{language}");
    examples
}

/// Says what is not judged. Not by a macro, whose output appears only if a test fails.
fn is_missing(text: &str) {
    writeln!(io::stderr(), "not run: {text}").expect("standard error is open");
}

#[test]
#[ignore = "it installs ovsdbapp, which takes a minute"]
fn the_python_package_with_the_idl_and_ovsdbapp() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("python");
    let python = folder.join("bin/python");
    if !folder.join("installed").exists() {
        let mut venv = Command::new("python3");
        if !run(venv.args(["-m", "venv", "--clear"]).arg(&folder)) {
            is_missing("python3 is missing, which the Python package is for");
            return;
        }
        let mut install = Command::new(&python);
        assert!(run(install.args(["-m", "pip", "install", "--quiet"]).args(PYTHON_PACKAGES)));
        std::fs::write(folder.join("installed"), "").expect("the folder is writable");
    }
    let package = packages().join("python");
    let mut pytest = Command::new(&python);
    pytest
        .args(["-m", "pytest", "-q", "-p", "ovsdb_sim.pytest_plugin", "-p", "no:cacheprovider"])
        .current_dir(&package)
        .env("PYTHONPATH", package.join("python"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    assert!(run(&mut pytest));

    let guide = ScratchDir::new();
    for (number, example) in examples("python").iter().enumerate() {
        let file = guide.path().join(format!("test_{number}.py"));
        std::fs::write(file, example).expect("the folder is writable");
    }
    assert!(run(pytest.current_dir(guide.path())));
}

#[test]
#[ignore = "it compiles libovsdb, which takes a minute"]
fn the_go_module_with_libovsdb() {
    for module in ["ovsdbsim", "libovsdb"] {
        let mut go = Command::new("go");
        go.current_dir(packages().join("go").join(module)).args(["test", "-count=1", "./..."]);
        if !run(&mut go) {
            is_missing("go is missing, which the Go module is for");
            return;
        }
    }
    let guide = ScratchDir::new();
    let module = packages().join("go/ovsdbsim").canonicalize().expect("the folder exists");
    let manifest = format!(
        "module guide.example/guide\n\ngo 1.22\n\nrequire patchbay.example/ovsdbsim v0.0.0\n\n\
         replace patchbay.example/ovsdbsim => {}\n",
        module.display()
    );
    std::fs::write(guide.path().join("go.mod"), manifest).expect("the folder is writable");
    for (number, example) in examples("go").iter().enumerate() {
        let file = guide.path().join(format!("guide{number}_test.go"));
        std::fs::write(file, example).expect("the folder is writable");
    }
    let mut go = Command::new("go");
    assert!(run(go.current_dir(guide.path()).args(["test", "-count=1", "./..."])));
}

/// The examples for a shell, with the programs in `PATH`.
#[test]
fn the_guides_commands_of_exec() {
    let sim = Path::new(env!("CARGO_BIN_EXE_ovsdb-sim"));
    let nbctl = patchbay_ovn_programs::testing::program("ovn-nbctl");
    let folders = [sim, &nbctl].map(|program| program.parent().expect("a file is in a folder"));
    let path = std::env::var("PATH").unwrap_or_default();
    let path = format!("{}:{}:{path}", folders[0].display(), folders[1].display());
    for command in examples("sh").iter().flat_map(|example| example.lines()) {
        assert!(run(Command::new("sh").args(["-c", command]).env("PATH", &path)), "{command}");
    }
}
