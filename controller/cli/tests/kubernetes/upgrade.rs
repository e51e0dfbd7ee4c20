//! Commands of `docs/upgrade.md`, on a real database and on an API server.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use patchbay_ovn_programs::testing::{RealServer, installed_nb_schema};

use crate::check::Checked;

/// Shell blocks of the page, without what other programs do.
fn blocks() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/upgrade.md");
    let text = fs::read_to_string(page).unwrap();
    let blocks = text.split("\n```").skip(1).step_by(2);
    let blocks = blocks.filter_map(|block| block.strip_prefix("sh\n"));
    let lines = |block: &str| {
        let lines = block.lines().map(|line| line.split(" | kubectl").next().unwrap());
        lines.filter(|line| !line.starts_with("NB=")).map(str::to_owned).collect::<Vec<_>>()
    };
    blocks.flat_map(lines).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_commands_of_the_page_do_what_it_says() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let checked = Checked::new().await;
    let server = RealServer::start([installed_nb_schema()]);
    let folder = tempfile::tempdir().unwrap();
    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    for file in fs::read_dir(root.join("examples/shop")).unwrap() {
        let file = file.unwrap().path();
        if file.extension().is_some_and(|extension| extension == "yaml") {
            fs::copy(&file, manifests.join(file.file_name().unwrap())).unwrap();
        }
    }
    let settings = "apiVersion: patchbay.io/v1alpha1\nkind: RunConfiguration\nmtu: 1400\n";
    fs::write(folder.path().join("run.yaml"), settings).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_patchbay"));
    let run = |line: &str| -> Output {
        let path = format!("{}:/usr/bin:/bin", program.parent().unwrap().display());
        let mut shell = Command::new("sh");
        shell.args(["-c", line]).current_dir(folder.path()).env("PATH", path);
        shell.env("NB", server.remote()).env("DATABASE", &server.databases()[0]);
        shell.env("KUBECONFIG", checked.config()).output().unwrap()
    };
    // The former version has made its rows.
    let flags = format!("--zone node-1 --nb {} --state state/", server.remote());
    let applied = run(&format!("patchbay apply -f manifests/ {flags}"));
    assert!(applied.status.success(), "{applied:?}");
    let lines = blocks();
    assert!(lines.len() >= 12, "{lines:?}");
    for line in &lines {
        // No controller runs, so a check of the installation fails with status 2.
        let is_check = line.starts_with("patchbay check");
        let line = line.replace("--wait 300", "--wait 1");
        let output = run(&line);
        let errors = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap();
        assert!(code == 0 || is_check && code == 2, "{line}: {code}\n{errors}");
        if line.starts_with("patchbay diff") || line.starts_with("patchbay snapshot --nb $NB --ch")
        {
            assert_eq!(
                String::from_utf8_lossy(&output.stdout).lines().count(),
                usize::from(line.contains("diff")),
                "{output:?}"
            );
        }
    }
}
