//! Runs one after the other on one folder.

#![expect(clippy::unwrap_used, reason = "a test's helpers fail the test")]

use std::fs;
use std::path::Path;

use patchbay_resources::object::Time;
use tempfile::TempDir;

use patchbay_allocate::networks::resolve;
use patchbay_model::ClusterSettings;
use patchbay_resources::manifests::{Inventory, LoadError, ObjectKey, read_manifests};
use patchbay_resources::state::{StateFolder, restore};

const EXAMPLE: &str = "
apiVersion: v1
kind: Namespace
metadata: {name: blue, labels: {k8s.ovn.org/primary-user-defined-network: ''}}
---
apiVersion: v1
kind: Node
metadata: {name: a}
---
apiVersion: v1
kind: Node
metadata: {name: b}
";

fn network(name: &str, role: &str, cidr: &str) -> String {
    format!(
        "---\napiVersion: k8s.ovn.org/v1\nkind: UserDefinedNetwork\nmetadata: {{name: {name}, namespace: blue}}\n\
         spec: {{topology: Layer3, layer3: {{role: {role}, subnets: [{{cidr: {cidr}}}]}}}}\n"
    )
}

/// One run: manifests and state in, state out.
fn run(folder: &Path, yaml: &str) -> Result<Inventory, LoadError> {
    let state = StateFolder::new(folder);
    let mut inventory = read_manifests(&["-".into()], &mut yaml.as_bytes())?;
    restore(&mut inventory, &state.load()?)?;
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    resolve(&mut inventory, &ClusterSettings::default(), &now)?;
    state.save(&inventory).unwrap();
    Ok(inventory)
}

/// Every file of the folder, with its text.
fn files(folder: &Path) -> Vec<(String, String)> {
    let mut files = Vec::new();
    for kind in fs::read_dir(folder).unwrap() {
        for file in fs::read_dir(kind.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.strip_prefix(folder).unwrap().display().to_string();
            files.push((name, fs::read_to_string(path).unwrap()));
        }
    }
    files.sort();
    files
}

fn names(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|(name, _)| name).collect()
}

fn annotation(inventory: &Inventory, node: &str, key: &str) -> String {
    inventory.nodes.named(node).unwrap().metadata.annotations.as_ref().unwrap()[key].clone()
}

fn new_folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

#[test]
fn allocated_values_stay_with_their_owner() {
    let folder = new_folder();
    let first =
        run(folder.path(), &(EXAMPLE.to_owned() + &network("net", "Primary", "10.0.0.0/16")))
            .unwrap();
    assert_eq!(
        names(folder.path()),
        [
            "network-attachment-definitions/blue_net.yaml",
            "nodes/a.yaml",
            "nodes/b.yaml",
            "userdefinednetworks/blue_net.yaml",
        ]
    );
    // Without state the new node and the new network would be the first ones.
    let yaml = "apiVersion: v1\nkind: Node\nmetadata: {name: c}\n".to_owned()
        + &network("m", "Secondary", "10.1.0.0/16")
        + "---"
        + EXAMPLE
        + &network("net", "Primary", "10.0.0.0/16");
    let second = run(folder.path(), &yaml).unwrap();
    for node in ["a", "b"] {
        assert_eq!(
            annotation(&second, node, "k8s.ovn.org/node-id"),
            annotation(&first, node, "k8s.ovn.org/node-id")
        );
    }
    assert_eq!(annotation(&second, "c", "k8s.ovn.org/node-id"), "4");
    assert_eq!(
        annotation(&second, "a", "k8s.ovn.org/node-subnets"),
        r#"{"blue_m":["10.1.1.0/24"],"blue_net":["10.0.0.0/24"]}"#
    );
    let nad =
        second.network_attachment_definitions.get(&ObjectKey::namespaced("blue", "m")).unwrap();
    assert_eq!(nad.object.metadata.annotations.as_ref().unwrap()["k8s.ovn.org/network-id"], "2");
    // Conditions keep their time as well.
    let before = files(folder.path());
    run(folder.path(), &yaml).unwrap();
    assert_eq!(files(folder.path()), before);
}

#[test]
fn the_manifest_has_the_last_word() {
    let folder = new_folder();
    let yaml = EXAMPLE.to_owned()
        + &network("net", "Primary", "10.0.0.0/16")
        + &network("m", "Secondary", "10.1.0.0/16");
    run(folder.path(), &yaml).unwrap();
    let yaml = yaml.replace(
        "{name: b}",
        "{name: b, annotations: {k8s.ovn.org/node-id: '9', k8s.ovn.org/node-subnets: '{\"blue_net\":[\"10.0.7.0/24\"]}'}}",
    );
    let inventory = run(folder.path(), &yaml).unwrap();
    assert_eq!(annotation(&inventory, "b", "k8s.ovn.org/node-id"), "9");
    assert_eq!(
        annotation(&inventory, "b", "k8s.ovn.org/node-subnets"),
        r#"{"blue_m":["10.1.1.0/24"],"blue_net":["10.0.7.0/24"]}"#
    );
}

#[test]
fn state_is_removed_with_its_object() {
    let folder = new_folder();
    run(folder.path(), &(EXAMPLE.to_owned() + &network("net", "Primary", "10.0.0.0/16"))).unwrap();
    let own = folder.path().join("nodes/own.yaml");
    fs::write(&own, "apiVersion: v1\nkind: Node\nmetadata: {name: own}\n").unwrap();
    let inventory =
        run(folder.path(), "apiVersion: v1\nkind: Node\nmetadata: {name: b}\n").unwrap();
    assert_eq!(annotation(&inventory, "b", "k8s.ovn.org/node-id"), "3");
    assert!(inventory.network_attachment_definitions.is_empty());
    assert_eq!(names(folder.path()), ["nodes/b.yaml", "nodes/own.yaml"]);
}

#[test]
fn immutable_fields_are_refused_while_there_is_state() {
    let folder = new_folder();
    run(folder.path(), &(EXAMPLE.to_owned() + &network("net", "Primary", "10.0.0.0/16"))).unwrap();
    let changed = EXAMPLE.to_owned() + &network("net", "Primary", "10.9.0.0/16");
    let error = run(folder.path(), &changed).unwrap_err().to_string();
    assert_eq!(
        error.replace(&folder.path().display().to_string(), "DIR"),
        "standard input:14 (document 4): UserDefinedNetwork blue/net: spec.layer3.subnets: Removing existing subnets is \
         not allowed (remove DIR/userdefinednetworks/blue_net.yaml to recreate the object)"
    );
    fs::remove_file(folder.path().join("userdefinednetworks/blue_net.yaml")).unwrap();
    run(folder.path(), &changed).unwrap();
}

#[test]
fn a_broken_file_is_named() {
    let folder = new_folder();
    run(folder.path(), EXAMPLE).unwrap();
    fs::write(folder.path().join("nodes/a.yaml"), "{").unwrap();
    let error = run(folder.path(), EXAMPLE).unwrap_err().to_string();
    assert!(
        error.ends_with("nodes/a.yaml:1 (document 1): malformed YAML: unclosed bracket '{'"),
        "{error}"
    );
}

#[test]
fn an_empty_file_is_no_state() {
    let folder = new_folder();
    run(folder.path(), EXAMPLE).unwrap();
    for text in ["", "# nothing\n"] {
        fs::write(folder.path().join("nodes/a.yaml"), text).unwrap();
        let error = run(folder.path(), EXAMPLE).unwrap_err().to_string();
        assert!(
            error.starts_with("no object in state file ")
                && error
                    .ends_with("nodes/a.yaml: restore the file, or remove it to discard the state"),
            "{error}"
        );
    }
}

#[test]
fn unreadable_annotations_are_reported_with_their_file() {
    let folder = new_folder();
    run(folder.path(), EXAMPLE).unwrap();
    let path = folder.path().join("nodes/a.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(
        &path,
        text.replace("node-id: \"2\"", "node-id: two").replace("node-id: '2'", "node-id: two"),
    )
    .unwrap();
    let error = run(folder.path(), EXAMPLE).unwrap_err().to_string();
    assert!(
        error.contains("nodes/a.yaml:")
            && error.ends_with(
                "Node a: metadata.annotations[k8s.ovn.org/node-id]: node id \"two\" is not a number \
                 (correct the file, or remove it to discard the state)"
            ),
        "{error}"
    );
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let folder = new_folder();
    fs::write(folder.path().join("nodes"), "").unwrap();
    let inventory = read_manifests(&["-".into()], &mut EXAMPLE.as_bytes()).unwrap();
    let error = StateFolder::new(folder.path()).save(&inventory).unwrap_err().to_string();
    assert!(error.starts_with("cannot create ") && error.contains("nodes: "), "{error}");
    let error = StateFolder::new(folder.path()).load().unwrap_err().to_string();
    assert!(error.starts_with("cannot list ") && error.contains("nodes: "), "{error}");
}

#[test]
fn any_text_survives() {
    let folder = new_folder();
    let texts = "{a: 'yes', b: '2', c: 'n', d: '~', e: \"x\\ny: z\\n\", f: '# x', g: '{}', h: '', i: ' a ', j: '0x1', k: '1e3'}";
    let yaml = EXAMPLE.to_owned()
        + &network("net", "Primary", "10.0.0.0/16")
            .replace("{name: net,", &format!("{{name: net, annotations: {texts},"));
    let first = run(folder.path(), &yaml).unwrap();
    let state = StateFolder::new(folder.path()).load().unwrap();
    let key = ObjectKey::namespaced("blue", "net");
    assert_eq!(
        state.user_defined_networks.get(&key).unwrap().object,
        first.user_defined_networks.get(&key).unwrap().object
    );
}
