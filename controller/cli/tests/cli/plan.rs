//! `patchbay plan` by object, and the last line of `apply`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use ovsdb_sim::{Listener, Sim};
use patchbay_ovn_programs::testing::ScratchDir;
use serde_json::Value;

use crate::command::{Run, example, run, run_on};
use crate::watching::{Watching, copy_example};

/// The example with a policy, a service and pods.
fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

#[track_caller]
fn assert_fits(run: &Run) {
    let mut lines = run.stdout.lines();
    let long = lines.find(|line| line.chars().count() > 80);
    assert_eq!(long, None);
}

/// A server with the shop on the second node, and its manifests to edit.
struct Bed {
    folder: ScratchDir,
    _sim: Sim,
    listener: Listener,
}

impl Bed {
    async fn new() -> Self {
        let folder = ScratchDir::new();
        fs::create_dir(folder.path().join("m")).unwrap();
        for file in fs::read_dir(shop()).unwrap() {
            let file = file.unwrap();
            fs::copy(file.path(), folder.path().join("m").join(file.file_name())).unwrap();
        }
        let sim = Sim::builder().build().unwrap();
        let target = format!("punix:{}", folder.path().join("nb.sock").display());
        let listener = sim.listen(&target).await.unwrap();
        Self { folder, _sim: sim, listener }
    }

    fn run(&self, command: &str) -> Run {
        let state = self.folder.path().join("state");
        let (remote, state) = (self.listener.remote(), state.display());
        let arguments = format!("{command} --zone node-2 --nb {remote} --state {state}");
        run(&arguments, &[&self.folder.path().join("m")])
    }

    fn edit(&self, file: &str, edit: impl FnOnce(String) -> String) {
        let path = self.folder.path().join("m").join(file);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, edit(text)).unwrap();
    }
}

#[test]
fn a_plan_names_the_objects_that_come() {
    let planned = run("plan", &[&shop()]);
    assert_eq!((planned.code, &*planned.stderr), (Some(2), ""));
    assert_fits(&planned);
    insta::assert_snapshot!(planned.stdout);
    // The README's two networks are a page.
    let networks = run("plan", &[&example()]);
    assert_fits(&networks);
    assert!(networks.stdout.lines().count() < 24, "{}", networks.stdout);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_shows_columns_of_what_changes_and_objects_that_go() {
    let bed = Bed::new().await;
    let applied = bed.run("apply").succeeded();
    assert!(applied.contains("\n\n114 added, 0 changed, 0 deleted on 1 zone, "), "{applied}");
    let nothing = bed.run("plan").succeeded();
    assert!(nothing.ends_with("\n\nPlan: no changes on 1 zone\n"), "{nothing}");
    bed.edit("4-policy.yaml", |text| text.replace("app: web\n", "app: other\n"));
    bed.edit("3-pods.yaml", |text| {
        let pods = text.split("---\n").filter(|text| !text.contains("name: client"));
        let pods: Vec<_> = pods.collect();
        pods.join("---\n").replace("10.96.0.10", "10.96.0.11")
    });
    let planned = bed.run("plan");
    assert_eq!((planned.code, &*planned.stderr), (Some(2), ""));
    assert_fits(&planned);
    insta::assert_snapshot!(planned.stdout);
    let applied = bed.run("apply").succeeded();
    assert!(applied.contains("\n\n1 added, 3 changed, 2 deleted on 1 zone, "), "{applied}");
    let document: Value = serde_json::from_str(&bed.run("plan -o json").succeeded()).unwrap();
    assert_eq!(document["counts"], serde_json::json!({ "add": 0, "change": 0, "delete": 0 }));
}

#[test]
fn a_document_has_the_objects_with_their_numbers() {
    let planned = run("plan -o json", &[&shop()]);
    let document: Value = serde_json::from_str(&planned.stdout).unwrap();
    assert_eq!(document["apiVersion"], "patchbay.io/v1alpha1");
    assert_eq!(document["kind"], "Plan");
    assert_eq!(document["counts"], serde_json::json!({ "add": 228, "change": 0, "delete": 0 }));
    let objects = document["objects"].as_array().unwrap();
    let rows = |object: &Value| object["counts"]["add"].as_u64().unwrap();
    assert_eq!(objects.iter().map(rows).sum::<u64>(), 228);
    let web = objects.iter().find(|object| object["name"] == "shop/web").unwrap();
    let expected = serde_json::json!({
        "kind": "pod",
        "name": "shop/web",
        "change": "insert",
        "description": "10.10.0.3",
        "counts": { "add": 1, "change": 0, "delete": 0 },
        "tables": { "Logical_Switch_Port": { "add": 1, "change": 0, "delete": 0 } },
        "zones": 1,
    });
    assert_eq!(*web, expected);
}

#[test]
fn rows_of_one_table_are_printed_alone() {
    let planned = run("plan --table nat --zone node-1", &[&shop()]);
    let mut rows = planned.stdout.lines().filter(|line| line.starts_with('+'));
    assert!(rows.all(|line| line.starts_with("+ NAT ")), "{}", planned.stdout);
    assert!(planned.stdout.contains("# zone node-1: rows to insert: 6, "), "{}", planned.stdout);
    let unknown = run("plan --table nats", &[&shop()]);
    assert_eq!(unknown.code, Some(1));
    assert!(unknown.stderr.starts_with("error: no table nats; the tables are "), "{unknown:?}");
}

/// Nodes, and a network with pods.
fn many(nodes: usize, pods: usize) -> String {
    let mut text = fs::read_to_string(shop().join("1-cluster.yaml")).unwrap()
        + "---\n"
        + &fs::read_to_string(shop().join("2-networks.yaml")).unwrap();
    for node in 3..=nodes {
        let _ = write!(text, "---\napiVersion: v1\nkind: Node\nmetadata: {{name: node-{node}}}\n");
    }
    for pod in 0..pods {
        let _ = write!(
            text,
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: p{pod}, namespace: shop}}\n\
             spec: {{nodeName: node-1, containers: [{{name: c, image: i}}]}}\n"
        );
    }
    text
}

#[test]
fn a_plan_of_many_objects_is_short() {
    let planned = run_on("plan", &many(12, 200));
    assert_eq!(planned.code, Some(2), "{}", planned.stderr);
    assert_fits(&planned);
    assert!(planned.stdout.contains("\n+ 190 more of kind pod: 190 rows\n"), "{}", planned.stdout);
    assert!(planned.stdout.contains(" on 12 zones\n"), "{}", planned.stdout);
    assert!(planned.stdout.lines().count() < 40, "{}", planned.stdout);
}

#[test]
fn rows_of_more_than_ten_zones_are_asked_for() {
    let manifests = many(11, 0);
    for command in ["apply", "plan --rows", "plan --table ACL"] {
        let refused = run_on(command, &manifests);
        assert_eq!((refused.code, &*refused.stdout), (Some(1), ""), "{command}");
        let error = "error: the text would have the rows of 11 zones: --zone NODE, which may be \
                     repeated, selects zones; --all-zones prints all; -o json needs neither\n";
        assert_eq!(refused.stderr, error, "{command}");
    }
    let all = run_on("apply --all-zones", &manifests);
    assert!(all.stdout.contains("# zone node-11\n"), "{}", all.stderr);
    let two = run_on("apply --zone node-3 --zone node-1 --zone node-3", &manifests);
    let zones: Vec<&str> = two.stdout.lines().filter(|line| line.starts_with("# zone ")).collect();
    assert_eq!(zones, ["# zone node-3", "# zone node-1"]);
    assert!(two.stdout.contains(" deleted on 2 zones, "), "{}", two.stdout);
    let document = run_on("apply -o json", &manifests).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["zones"].as_array().unwrap().len(), 11);
}

#[test]
fn apply_says_that_no_database_keeps_the_rows() {
    let kept = "No database keeps the rows: --nb names the one of a zone.\n";
    assert!(run("apply --zone node-1", &[&shop()]).succeeded().ends_with(kept));
    let one_of_several = run("plan --zone node-1 --zone node-2 --nb unix:/none", &[&shop()]);
    let error = "error: --nb is the database of one zone, and --zone names several\n";
    assert_eq!(one_of_several.stderr, error);
}

#[test]
fn a_watch_prints_what_each_save_changes() {
    let folder = tempfile::tempdir().unwrap();
    copy_example(folder.path());
    let watching = Watching::start(folder.path(), "");
    let next = || {
        let mut text = String::new();
        while !text.contains(" deleted on 1 zone, ") {
            text += &watching.line();
        }
        assert!(watching.line().starts_with("No database keeps the rows"));
        text
    };
    let first = next();
    assert!(first.starts_with("+ network blue-network (layer3, primary, 103.103.0.0/16)\n"));
    assert!(!first.contains("ovn-nbctl"), "{first}");
    fs::remove_file(folder.path().join("3-connect.yaml")).unwrap();
    let second = next();
    assert!(second.contains("\n- ClusterNetworkConnect blue-green-connect"), "{second}");
    assert!(!second.contains("\n+ "), "{second}");
    watching.stop();
}
