//! `patchbay apply --watch`: files are applied as they are saved.

use std::fs::{self, File};
use std::os::unix::net::UnixListener;
use std::time::Duration;

use ovsdb_sim::testing::ScratchDir;
use ovsdb_sim::{Fault, FaultRule, Loss, Sim};

use crate::command::{example, example_text, run_on};
use crate::watching::{Watching, copy_example};

fn ports(document: &serde_json::Value) -> usize {
    let ports = &document["zones"][0]["connects"][0]["router"]["ports"];
    ports.as_array().unwrap().len()
}

#[test]
fn what_is_saved_is_applied_and_mistakes_leave_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("all.yaml");
    fs::write(&file, example_text()).unwrap();
    let watching = Watching::start(folder.path(), "-o json");
    let first = watching.document();
    assert_eq!(ports(&first), 6);

    fs::write(&file, "a: [").unwrap();
    let error = watching.error();
    assert!(
        error.starts_with("error: ") && error.contains("all.yaml"),
        "{error}"
    );
    assert_eq!(
        watching.error(),
        "what was applied stays; waiting for the files to change\n"
    );

    // A node more, and first among the nodes: the others keep their ids, and only its rows are new.
    let more = format!(
        "apiVersion: v1\nkind: Node\nmetadata: {{name: new}}\n---\n{}",
        example_text()
    );
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

#[test]
fn standard_input_cannot_be_watched() {
    let run = run_on("apply --watch", "");
    assert_eq!(run.code, Some(1));
    assert_eq!(
        run.stderr,
        "error: --watch is for files and folders: standard input does not change\n"
    );
}

/// What is said when a signal ends an apply that is under way.
const STOPPED: &str =
    "stopped in the middle of an apply: what is not done yet is left to the next one\n";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn signals_end_an_apply_that_is_under_way() {
    let folder = ScratchDir::new();
    let (manifests, state) = (folder.path().join("m"), folder.path().join("state"));
    fs::create_dir(&manifests).unwrap();
    copy_example(&manifests);
    let sim = Sim::builder().build().unwrap();
    let target = format!("punix:{}", folder.path().join("nb.sock").display());
    let listener = sim.listen(&target).await.unwrap();
    for signal in ["INT", "TERM"] {
        copy_example(&manifests);
        let arguments = format!(
            "-o json --nb {} --state {}",
            listener.remote(),
            state.display()
        );
        let watching = Watching::start(&manifests, &arguments);
        assert_eq!(ports(&watching.document()), 6);
        let never = FaultRule::from(Fault::LoseReply(Loss::Swallowed));
        let never = sim.set_fault(never).unwrap();
        fs::remove_file(manifests.join("3-connect.yaml")).unwrap();
        while sim.faults()[0].struck == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert_eq!(watching.stop_by(signal), STOPPED);
        assert!(sim.clear_fault(never));
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
    let waits = format!("waiting for another run, which uses the state folder {name}\n");
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
