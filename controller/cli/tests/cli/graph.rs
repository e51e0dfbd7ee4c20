//! `patchbay graph`: pictures of an example, and the way of a packet in them.

use std::path::{Path, PathBuf};

use crate::command::{Run, patchbay};

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

fn graph(arguments: &str) -> Run {
    let mut command = patchbay();
    command.arg("graph").arg("-f").arg(shop()).args(["--service-cidr", "10.96.0.0/16"]);
    command.args(arguments.split_whitespace()).output().unwrap().into()
}

#[test]
fn networks_and_their_connect_are_drawn() {
    let picture = graph("--level networks -o mermaid").succeeded();
    for line in ["[\"shop", "[\"partner", "[[\"connect shop-and-partner\"]]"] {
        assert!(picture.contains(line), "{line} in\n{picture}");
    }
    let svg = graph("-o svg").succeeded();
    assert!(svg.starts_with("<svg ") && svg.contains(">shop/web</text>"), "{svg}");
    assert_eq!(svg, graph("").succeeded());
    let html = graph("-o html").succeeded();
    assert!(html.starts_with("<!DOCTYPE html>"), "{html}");
    // A page that loads nothing.
    assert!(!html.contains("src=") && !html.contains("href="), "{html}");
}

#[test]
fn the_object_that_stops_a_packet_is_in_the_picture() {
    let stopped = graph("--path partner/client shop/db --port 5432 -o mermaid").succeeded();
    let stop = "stop[\"NetworkPolicies of namespace shop\"]";
    assert!(stopped.contains(stop) && stopped.contains(" === "), "{stopped}");
    let arrives = graph("--path partner/client service/shop/web --port 80 -o dot").succeeded();
    assert!(!arrives.contains("stop") && arrives.contains("penwidth=3"), "{arrives}");
    let unknown = graph("--path partner/nobody shop/db");
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.contains("no pod partner/nobody"), "{}", unknown.stderr);
}

#[test]
fn the_pictures_of_the_documents_are_those_of_the_examples() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = tempfile::tempdir().unwrap();
    let mut script = std::process::Command::new(root.join("scripts/pictures"));
    script.arg(env!("CARGO_BIN_EXE_patchbay")).arg(folder.path());
    let run = Run::from(script.output().unwrap());
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let mut count = 0;
    let kept = std::fs::read_dir(root.join("docs/pictures")).unwrap();
    let kept = kept.map(|entry| entry.unwrap().path());
    for path in kept.filter(|path| path.extension().is_some_and(|it| it == "svg")) {
        let made = std::fs::read_to_string(folder.path().join(path.file_name().unwrap())).unwrap();
        assert_eq!(
            made,
            std::fs::read_to_string(&path).unwrap(),
            "scripts/pictures makes {path:?}"
        );
        count += 1;
    }
    assert_eq!(count, 3);
}
