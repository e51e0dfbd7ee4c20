//! Ends of labs, and of their programs.

use std::path::PathBuf;
use std::time::Duration;

use patchbay_lab::{Lab, Protocol};
use tokio::time::sleep;

use crate::support::{ask_connected, cluster, manifests, release};

/// `true` if the process runs. A process that nobody has waited for yet does not.
fn runs(id: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_lab_leaves_no_program_and_no_folder() {
    let Some(release) = release() else { return };
    let cluster = cluster(&manifests(&[("blue", "Layer2", "10.1.0.0/16")]));
    let mut lab = Lab::start(release, &cluster).await.unwrap();
    let folder = PathBuf::from(lab.folder());
    let programs: Vec<(&str, u32)> =
        ["n1", "n2", "n3"].into_iter().flat_map(|node| lab.programs(node).unwrap()).collect();
    assert_eq!(programs.len(), 9);
    assert!(programs.iter().all(|(_, id)| runs(*id)), "{programs:?}");

    assert!(lab.kill("n1", "ovn-northd").await.unwrap());
    assert!(!lab.kill("n1", "ovn-northd").await.unwrap());
    // The switch forwards packets without ovn-northd.
    let verdict = ask_connected(&lab, "blue-1", "blue-2", Protocol::Icmp).await;
    assert_eq!(verdict, "reached through 0 routers");

    drop(lab);
    assert!(!folder.exists());
    while programs.iter().any(|(_, id)| runs(*id)) {
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_a_foreign_signal_ends_is_reported_with_its_log() {
    let Some(release) = release() else { return };
    let cluster = cluster(&manifests(&[("blue", "Layer2", "10.1.0.0/16")]));
    let mut lab = Lab::start(release, &cluster).await.unwrap();
    lab.check_programs().unwrap();
    let programs = lab.programs("n2").unwrap();
    let (_, id) = programs.iter().find(|(name, _)| *name == "ovn-controller").unwrap();
    let killed = std::process::Command::new("kill").args(["-KILL", &id.to_string()]).status();
    assert!(killed.unwrap().success());
    let error = loop {
        match lab.check_programs() {
            Ok(()) => sleep(Duration::from_millis(5)).await,
            Err(error) => break error.to_string(),
        }
    };
    assert!(error.starts_with("n2: ovn-controller ended: signal: 9 (SIGKILL)\n  "), "{error}");
}
