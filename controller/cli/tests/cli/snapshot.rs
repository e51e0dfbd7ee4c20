//! `patchbay snapshot`: the text of all rows, compared with a file.

use std::fs;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir, nbctl};

use crate::command::{Run, nb_schema, patchbay};

fn add(server: &RealServer, commands: &str) {
    let status = nbctl(&server.remote()).args(commands.split_whitespace()).status();
    assert!(status.unwrap().success(), "{commands}");
}

fn snapshot(server: &RealServer, arguments: &[&str]) -> Run {
    let mut command = patchbay();
    command.args(["snapshot", "--nb", &server.remote()]).args(arguments);
    command.output().unwrap().into()
}

#[test]
fn the_text_is_compared_with_a_file_that_an_update_writes() {
    let folder = ScratchDir::new();
    let file = folder.path().join("rows.txt");
    let check = ["--check", file.to_str().unwrap()];
    let server = RealServer::start([nb_schema()]);
    add(&server, "ls-add sw0 -- lsp-add sw0 sw0-p1 -- lsp-set-addresses sw0-p1 dynamic");
    let text = snapshot(&server, &[]).succeeded();
    let rows = "Logical_Switch sw0\n    name: sw0\n    ports: [sw0-p1]\nLogical_Switch_Port sw0-p1\n    addresses: [dynamic]\n    name: sw0-p1\n";
    assert!(text.starts_with(rows), "{text}");

    let missing = snapshot(&server, &check);
    assert_eq!((missing.code, &*missing.stderr), (Some(2), ""));
    let head = format!("{} differs; --update writes it\n+ Logical_Switch sw0\n", file.display());
    assert!(missing.stdout.starts_with(&head), "{}", missing.stdout);
    assert_eq!(snapshot(&server, &[check[0], check[1], "--update"]).succeeded(), "");
    assert_eq!(fs::read_to_string(&file).unwrap(), text);
    assert_eq!(snapshot(&server, &check).succeeded(), "");

    add(&server, "lsp-set-addresses sw0-p1 unknown");
    let differs = snapshot(&server, &check);
    let lines = "-     addresses: [dynamic]\n+     addresses: [unknown]\n";
    assert_eq!(differs.code, Some(2));
    assert!(differs.stdout.ends_with(lines), "{}", differs.stdout);
    // Another server with the same rows, in another order and with other UUIDs, has the same text.
    let other = RealServer::start([nb_schema()]);
    add(&other, "ls-add sw0");
    add(&other, "lsp-add sw0 sw0-p1 -- lsp-set-addresses sw0-p1 dynamic");
    assert_eq!(snapshot(&other, &check).succeeded(), "");
}

#[test]
fn what_cannot_be_read_or_written_is_an_error() {
    let server = RealServer::start([nb_schema()]);
    for (arguments, code) in [
        (&["--check", "/"][..], 1),
        (&["--check", "/nowhere/rows.txt", "--update"], 1),
        (&["--update"], 1),
    ] {
        let run = snapshot(&server, arguments);
        assert_eq!((run.code, run.stdout.is_empty()), (Some(code), true), "{arguments:?}");
        assert!(run.stderr.starts_with("error: "), "{}", run.stderr);
    }
}
