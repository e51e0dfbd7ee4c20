//! `patchbay diff`: what differs between two sources.

use std::fs;
use std::path::{Path, PathBuf};

use patchbay_ovn_programs::testing::{RealServer, nbctl};
use serde_json::Value;

use crate::command::{Run, nb_schema, run};

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

fn diff(before: &Path, after: &Path, flags: &str) -> Run {
    run(&format!("diff {} {} {flags}", before.display(), after.display()), &[])
}

/// The shop with another policy and without the partner's client.
fn changed(folder: &Path) {
    for file in fs::read_dir(shop()).unwrap() {
        let file = file.unwrap().path();
        let text = fs::read_to_string(&file).unwrap();
        let documents = text.split("---\n").filter(|text| !text.contains("name: client"));
        let documents: Vec<_> = documents.collect();
        let text = documents.join("---\n").replace("app: web\n", "app: other\n");
        fs::write(folder.join(file.file_name().unwrap()), text).unwrap();
    }
}

#[test]
fn folders_of_manifests_differ_by_object() {
    let folder = tempfile::tempdir().unwrap();
    changed(folder.path());
    let found = diff(&shop(), folder.path(), "");
    assert_eq!((found.code, &*found.stderr), (Some(2), ""));
    let (sources, objects) = found.stdout.split_once("\n\n").unwrap();
    assert!(sources.contains(" ->"), "{sources}");
    assert!(objects.lines().all(|line| line.chars().count() <= 80), "{objects}");
    insta::assert_snapshot!(objects);
    let rows = diff(&shop(), folder.path(), "--table logical_switch_port").stdout;
    assert!(rows.contains("# zone node-1: rows added: 0, changed: 0, deleted: 1\n"), "{rows}");
    let markdown = diff(&shop(), folder.path(), "-o markdown").stdout;
    let row = "\n| `-` | pod partner/client (10.20.0.3) | 2 ports on 2 zones |\n";
    assert!(markdown.contains(row), "{markdown}");
    let document: Value =
        serde_json::from_str(&diff(&shop(), folder.path(), "-o json").stdout).unwrap();
    assert_eq!(
        (&document["kind"], &document["apiVersion"]),
        (&"Difference".into(), &"patchbay.io/v1alpha1".into())
    );
    let same = diff(&shop(), &shop(), "");
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    assert!(same.stdout.ends_with("\n\nDifference: none on 2 zones\n"), "{}", same.stdout);
}

#[test]
fn a_server_differs_from_an_earlier_moment_of_its_file() {
    let server = RealServer::start([nb_schema()]);
    let set = |arguments: &[&str]| {
        let done = nbctl(&server.remote()).args(arguments).output().unwrap();
        assert!(done.status.success(), "{done:?}");
    };
    set(&["ls-add", "sw0"]);
    set(&["lsp-add", "sw0", "p0"]);
    set(&["lsp-add", "sw0", "p1"]);
    let file = &server.databases()[0];
    let remote = server.remote();
    let earlier = format!("{}@2", file.display());
    let found = run(&format!("diff {earlier} {remote}"), &[]);
    assert_eq!((found.code, &*found.stderr), (Some(2), ""));
    assert!(
        found.stdout.ends_with("\nDifference: 1 added, 1 changed, 0 deleted on 1 zone\n"),
        "{}",
        found.stdout
    );
    let rows = run(&format!("diff {earlier} {remote} --rows"), &[]).stdout;
    assert!(rows.contains("\n+ Logical_Switch_Port p1\n"), "{rows}");
    assert!(rows.contains("\n~ Logical_Switch sw0\n    + ports: p1\n"), "{rows}");
    let missing = run(&format!("diff /missing/file {remote}"), &[]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.stderr.starts_with("error: /missing/file: "), "{}", missing.stderr);
}
