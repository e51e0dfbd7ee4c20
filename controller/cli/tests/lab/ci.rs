//! The CI job of `examples/ci`, step by step.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde::Deserialize;

use super::{EXAMPLE, ovn};

const JOB: &str = include_str!("../../../../examples/ci/connectivity.yaml");

#[derive(Deserialize)]
struct Workflow {
    jobs: Jobs,
}

#[derive(Deserialize)]
struct Jobs {
    connectivity: Job,
}

#[derive(Deserialize)]
struct Job {
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    name: String,
    run: Option<String>,
}

/// Runs the steps of the job with `patchbay lab` in a folder with manifests. Steps before it, which
/// install programs, are not run.
fn run_job(folder: &Path) -> (Option<i32>, String) {
    let workflow: Workflow = serde_saphyr::from_str(JOB).unwrap();
    let steps = workflow.jobs.connectivity.steps;
    let program = Path::new(env!("CARGO_BIN_EXE_patchbay")).parent().unwrap();
    let path = format!("{}:{}", program.display(), env::var("PATH").unwrap());
    let mut checks = steps
        .iter()
        .filter(|step| step.name.starts_with("Check"))
        .filter_map(|step| step.run.as_deref());
    let check = checks.next().unwrap();
    assert!(checks.next().is_none());
    let run = Command::new("bash")
        .args(["-eo", "pipefail", "-c", check])
        .current_dir(folder)
        .env("PATH", path)
        .output()
        .unwrap();
    (run.status.code(), String::from_utf8_lossy(&run.stderr).into_owned())
}

#[test]
fn the_job_fails_if_packets_do_not_do_what_the_manifests_and_questions_say() {
    let Some(ovn) = ovn() else { return };
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    std::os::unix::fs::symlink(&ovn, folder.path().join("ovn-sid")).unwrap();
    for file in fs::read_dir(EXAMPLE).unwrap() {
        let file = file.unwrap();
        fs::copy(file.path(), manifests.join(file.file_name())).unwrap();
    }
    let questions = folder.path().join("questions.json");
    let write = |reached: bool| {
        let question = format!(r#"[{{"from": "blue-1", "to": "green-3", "reached": {reached}}}]"#);
        fs::write(&questions, question).unwrap();
    };
    write(true);
    let (code, errors) = run_job(folder.path());
    assert_eq!(code, Some(0), "{errors}");
    let report = folder.path().join("connectivity.xml");
    let text = fs::read_to_string(&report).unwrap();
    assert!(text.contains("tests=\"30\" failures=\"0\""), "{text}");
    write(false);
    let (code, errors) = run_job(folder.path());
    assert_eq!(code, Some(2), "{errors}");
}
