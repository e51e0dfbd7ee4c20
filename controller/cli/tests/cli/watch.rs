//! `patchbay apply --watch`: files are applied as they are saved.

use std::fs::{self, File};
use std::num::NonZeroU32;
use std::os::unix::net::UnixListener;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use ovsdb_sim::{Fault, FaultRule, Listener, Loss, Sim};
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::error::OvsdbError;

use crate::command::{example, example_text, run, run_on};
use crate::watching::{Watching, copy_example};

fn ports(document: &serde_json::Value) -> usize {
    let ports = &document["zones"][0]["connects"][0]["router"]["ports"];
    ports.as_array().unwrap().len()
}

#[test]
fn saved_files_are_applied_and_invalid_ones_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, example_text()).unwrap();
    let watching = Watching::start(folder.path(), "-o json");
    let first = watching.document();
    assert_eq!(ports(&first), 6);

    fs::write(&file, "a: [").unwrap();
    let error = watching.error();
    assert!(error.starts_with("error: ") && error.contains("all.yaml"), "{error}");
    assert_eq!(
        watching.error(),
        "the applied rows stay; retrying on changes of files and every 5 s\n"
    );

    // A node more, and first among the nodes: the others keep their ids, and only its rows are new.
    let more =
        format!("apiVersion: v1\nkind: Node\nmetadata: {{name: new}}\n---\n{}", example_text());
    let other = folder.path().join("other.tmp");
    fs::write(&other, more).unwrap();
    fs::rename(&other, &file).unwrap();
    let second = watching.document();
    assert_eq!(ports(&second), 8);
    let connect = &second["zones"][0]["connects"][0];
    assert_eq!(connect["inserted"], 4, "{connect}");
    assert_eq!(connect["deleted"], 0);
    let annotations =
        |document: &serde_json::Value| document["connects"][0]["metadata"]["annotations"].clone();
    assert_eq!(annotations(&second), annotations(&first));
    watching.stop();
}

/// Rows that an apply has made for the connect of this name.
fn inserted(document: &serde_json::Value, connect: &str) -> Option<u64> {
    let connects = document["zones"][0]["connects"].as_array().unwrap();
    let found = connects.iter().find(|one| one["name"] == connect);
    found?["inserted"].as_u64()
}

/// A server in a folder, with the manifests of the example beside it.
struct Bed {
    folder: ScratchDir,
    sim: Sim,
    listener: Listener,
}

impl Bed {
    async fn new() -> Self {
        let folder = ScratchDir::new();
        fs::create_dir(folder.path().join("m")).unwrap();
        copy_example(&folder.path().join("m"));
        let (sim, listener) = serve(&folder).await;
        Self { folder, sim, listener }
    }

    fn manifest(&self, name: &str) -> PathBuf {
        self.folder.path().join("m").join(name)
    }

    fn watch(&self, arguments: &str) -> Watching {
        let arguments = format!("-o json --nb {} {arguments}", self.listener.remote());
        Watching::start(&self.folder.path().join("m"), &arguments)
    }
}

async fn serve(folder: &ScratchDir) -> (Sim, Listener) {
    let sim = Sim::builder().build().unwrap();
    let target = format!("punix:{}", folder.path().join("nb.sock").display());
    let listener = sim.listen(&target).await.unwrap();
    (sim, listener)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_undone_during_an_apply_is_applied() {
    let bed = Bed::new().await;
    let connect = fs::read_to_string(bed.manifest("3-connect.yaml")).unwrap();
    let other =
        connect.replace("blue-green-connect", "other").replace("192.168.0.0/16", "192.169.0.0/16");
    fs::write(bed.manifest("3-connect.yaml"), format!("{connect}---\n{other}")).unwrap();
    let watching = bed.watch("");
    let first = watching.document();
    let of_both = |document| ["blue-green-connect", "other"].map(|name| inserted(document, name));
    let [of_example, of_other] = of_both(&first);
    assert!(of_example > Some(0) && of_other > Some(0));

    // Four attempts on both: the last transaction of the last attempt gets through.
    let full = Fault::FailCommit(OvsdbError::new("I/O error", "No space left on device"));
    let seven = NonZeroU32::new(7).unwrap();
    bed.sim.set_fault(FaultRule::from(full).times(seven)).unwrap();
    let both = fs::read_to_string(bed.manifest("3-connect.yaml")).unwrap();
    fs::remove_file(bed.manifest("3-connect.yaml")).unwrap();
    let mut error = watching.error();
    while error.starts_with("warning: ") {
        error = watching.error();
    }
    assert!(
        error.starts_with("error: zone ovn-worker2: ClusterNetworkConnect blue-green-connect: ")
            && error.ends_with("No space left on device\n"),
        "{error}"
    );
    assert_eq!(watching.error(), "retrying on changes of files and every 5 s\n");
    fs::write(bed.manifest("3-connect.yaml"), both).unwrap();
    let mut second = watching.document();
    let mut is_kept = true;
    while inserted(&second, "other").is_none() {
        // On a slow machine it was tried again before the file was there, and both went.
        second = watching.document();
        is_kept = false;
    }
    let of_example = if is_kept { Some(0) } else { of_example };
    assert_eq!(of_both(&second), [of_example, of_other]);
    watching.stop();
}

#[test]
fn a_failed_apply_is_retried_and_logged_once() {
    let folder = ScratchDir::new();
    let obstacle = folder.path().join("file");
    fs::write(&obstacle, "").unwrap();
    let state = obstacle.join("state");
    let arguments = format!("-o json --state {}", state.display());
    let watching = Watching::start(&example(), &arguments);
    let error = watching.error();
    assert!(error.starts_with("error: cannot create "), "{error}");
    assert_eq!(watching.error(), "retrying on changes of files and every 5 s\n");
    watching.is_silent(Duration::from_secs(6));
    fs::remove_file(&obstacle).unwrap();
    assert_eq!(ports(&watching.document()), 6);
    watching.stop();
}

/// Flag that is set when the value is dropped, also when a test fails.
struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn a_file_that_changes_all_the_time_does_not_hold_up_the_others() {
    let folder = tempfile::tempdir().unwrap();
    copy_example(folder.path());
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut text = String::new();
            while !is_done.load(Ordering::Relaxed) {
                text.push('#');
                fs::write(folder.path().join("restless.yaml"), &text).unwrap();
                thread::sleep(Duration::from_millis(50));
            }
        });
        let _done = Done(&is_done);
        let watching = Watching::start(folder.path(), "-o json");
        assert_eq!(ports(&watching.document()), 6);
        fs::remove_file(folder.path().join("3-connect.yaml")).unwrap();
        assert_eq!(watching.document()["connects"], serde_json::json!([]));
        watching.stop();
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_comes_back_without_its_rows_is_filled_again() {
    let bed = Bed::new().await;
    let watching = bed.watch("");
    let first = watching.document();
    bed.sim.go_down().await;
    let _other = serve(&bed.folder).await;
    let second = watching.document();
    assert_eq!(inserted(&second, "blue-green-connect"), inserted(&first, "blue-green-connect"));
    watching.stop();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_save_repairs_rows_that_others_have_changed() {
    let bed = Bed::new().await;
    let watching = bed.watch("");
    let first = watching.document();
    let save = || copy_example(&bed.folder.path().join("m"));
    save();
    watching.is_silent(Duration::from_secs(2));

    let others = ["1-cluster.yaml", "2-networks.yaml"].map(|file| bed.manifest(file));
    let remote = bed.listener.remote();
    let without = format!("apply --prune --yes --zone ovn-worker2 --nb {remote}");
    let pruned = run(&without, &[&*others[0], &*others[1]]);
    assert_eq!(pruned.code, Some(0), "{}", pruned.stderr);
    save();
    let second = watching.document();
    assert_eq!(inserted(&second, "blue-green-connect"), inserted(&first, "blue-green-connect"));
    watching.stop();
}

#[test]
fn yaml_output_is_one_stream() {
    let folder = tempfile::tempdir().unwrap();
    copy_example(folder.path());
    let watching = Watching::start(folder.path(), "-o yaml");
    // A document's end is not known before the next one starts.
    let mut text = watching.line();
    fs::remove_file(folder.path().join("3-connect.yaml")).unwrap();
    while !text.ends_with("---\n") {
        text += &watching.line();
    }
    text += &watching.rest();
    let documents: Vec<serde_json::Value> = serde_saphyr::from_multiple(&text).unwrap();
    let connects = |at: usize| documents[at]["connects"].as_array().unwrap().len();
    assert_eq!((documents.len(), connects(0), connects(1)), (2, 1, 0));
}

#[test]
fn standard_input_cannot_be_watched() {
    let run = run_on("apply --watch", "");
    assert_eq!(run.code, Some(1));
    assert_eq!(
        run.stderr,
        "error: --watch requires files or folders: standard input cannot be watched\n"
    );
}

/// Message after a signal during an apply.
const STOPPED: &str = "stopped during an apply; the next apply completes it\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_an_apply_that_is_under_way() {
    let bed = Bed::new().await;
    let state = format!("--state {}", bed.folder.path().join("state").display());
    for signal in ["INT", "TERM"] {
        copy_example(&bed.folder.path().join("m"));
        let watching = bed.watch(&state);
        assert_eq!(ports(&watching.document()), 6);
        let never = bed.sim.set_fault(FaultRule::from(Fault::LoseReply(Loss::Swallowed))).unwrap();
        fs::remove_file(bed.manifest("3-connect.yaml")).unwrap();
        while bed.sim.faults()[0].struck == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(watching.stop_by(signal), STOPPED);
        assert!(bed.sim.clear_fault(never));
    }
}

#[test]
fn signals_end_a_watch_that_waits_for_a_silent_server() {
    let folder = ScratchDir::new();
    let socket = folder.path().join("nb.sock");
    let silent = UnixListener::bind(&socket).unwrap();
    for signal in ["INT", "TERM"] {
        let watching = Watching::start(&example(), &format!("--nb unix:{}", socket.display()));
        let _connection = silent.accept().unwrap();
        assert_eq!(watching.stop_by(signal), STOPPED);
    }
}

#[test]
fn signals_end_a_watch_that_waits_for_the_state() {
    let folder = ScratchDir::new();
    let name = folder.path().display();
    let lock = File::create(folder.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    let arguments = format!("-o json --state {name}");
    let waits = format!("waiting for another run that uses the state folder {name}\n");
    for signal in ["INT", "TERM"] {
        let watching = Watching::start(&example(), &arguments);
        assert_eq!(watching.error(), waits);
        assert_eq!(watching.stop_by(signal), STOPPED);
    }
    let watching = Watching::start(&example(), &arguments);
    assert_eq!(watching.error(), waits);
    lock.unlock().unwrap();
    assert_eq!(ports(&watching.document()), 6);
    watching.stop();
}
