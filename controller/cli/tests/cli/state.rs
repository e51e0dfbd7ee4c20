//! State that a run keeps for the next one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Stdio};

use patchbay_ovn_programs::testing::ScratchDir;

use crate::command::{example, example_text, patchbay, run, run_on};
use crate::watching::{PATIENCE, copy_example, lines};

/// One more network, whose name comes before the others'.
const AZURE: &str = r#"---
apiVersion: v1
kind: Namespace
metadata:
  name: azure
  labels:
    network: azure
    k8s.ovn.org/primary-user-defined-network: ""
---
apiVersion: k8s.ovn.org/v1
kind: ClusterUserDefinedNetwork
metadata:
  name: azure-network
  labels:
    app: colored-enterprise
spec:
  namespaceSelector:
    matchLabels:
      network: azure
  network:
    topology: Layer3
    layer3:
      role: Primary
      subnets:
      - cidr: 102.102.0.0/16
        hostSubnet: 24
"#;

fn apply(state: &Path, manifests: &str) -> String {
    let arguments = format!("apply --zone ovn-worker2 --state {}", state.display());
    run_on(&arguments, manifests).succeeded()
}

/// All files below a folder.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            let text = fs::read_to_string(&path).unwrap();
            found.insert(path.display().to_string(), text);
        }
    }
    found
}

#[test]
fn allocated_values_stay() {
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    apply(&state, &example_text());
    let first = files(&state);
    apply(&state, &example_text());
    assert_eq!(files(&state), first);

    // Given first and named first, the new network gets what comes next, and the other networks
    // keep theirs.
    let stdout = apply(&state, &format!("{AZURE}---\n{}", example_text()));
    let subnets = r#"{\"layer3_1\":{\"ipv4\":\"192.168.0.0/24\"},\"layer3_2\":{\"ipv4\":\"192.168.1.0/24\"},\"layer3_3\":{\"ipv4\":\"192.168.2.0/24\"}}"#;
    assert!(stdout.contains(subnets), "{stdout}");
    let mut without = BTreeMap::new();
    for (file, text) in files(&state) {
        let is_new = file.contains("azure");
        if !is_new && !file.contains("nodes") && !file.contains("networkconnects") {
            without.insert(file, text);
        }
    }
    let kept = first.into_iter().filter(|(file, _)| without.contains_key(file));
    assert_eq!(without, kept.collect());

    // Without state everything is handed out anew, in the order of the manifests.
    let manifests = format!("{AZURE}---\n{}", example_text());
    let stdout = run_on("apply --zone ovn-worker2", &manifests).succeeded();
    assert!(stdout.contains("crtor-blue-green-connect_cluster_udn_azure-network"));
}

#[test]
fn a_plan_keeps_nothing() {
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    let arguments = format!("plan --state {}", state.display());
    assert_eq!(run_on(&arguments, &example_text()).code, Some(2));
    assert!(!state.exists());
}

#[test]
fn changes_that_an_api_server_refuses_are_refused() {
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    apply(&state, &example_text());
    let manifests = example_text().replace("192.168.0.0/16", "192.169.0.0/16");
    let arguments = format!("apply --state {}", state.display());
    let refused = run_on(&arguments, &manifests);
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("connectSubnets is immutable"), "{}", refused.stderr);
}

#[test]
fn runs_on_one_folder_wait_for_each_other() {
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    for _ in 0..5 {
        let runs: Vec<_> = (0..4)
            .map(|_| {
                let mut command = patchbay();
                command.args(["apply", "--state"]).arg(&state);
                command.arg("-f").arg(example());
                command.stdout(Stdio::null()).stderr(Stdio::piped());
                command.spawn().unwrap()
            })
            .collect();
        for child in runs {
            let output = patchbay_ovn_programs::testing::output_of(child);
            assert!(output.status.success(), "{output:?}");
        }
        fs::remove_dir_all(&state).unwrap();
    }
}

#[test]
fn a_run_that_fails_leaves_no_folder_but_those_with_something_in_them() {
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    let arguments = format!("apply --state {}", state.display());
    assert_eq!(run_on(&arguments, "a: [").code, Some(1));
    assert!(!state.exists());
    fs::create_dir(&state).unwrap();
    fs::write(state.join("notes"), "").unwrap();
    assert_eq!(run_on(&arguments, "a: [").code, Some(1));
    assert!(state.join("notes").exists());
}

#[test]
fn those_that_read_say_for_whom_they_wait() {
    let folder = ScratchDir::new();
    let lock = File::create(folder.path().join(".lock")).unwrap();
    lock.lock().unwrap();
    for command in ["plan", "explain cnc blue-green-connect"] {
        let mut waiting = patchbay()
            .args(command.split(' '))
            .arg("--state")
            .arg(folder.path())
            .arg("-f")
            .arg(example())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let line = lines(waiting.stderr.take().unwrap()).recv_timeout(PATIENCE);
        waiting.kill().unwrap();
        patchbay_ovn_programs::testing::wait(&mut waiting);
        let name = folder.path().display();
        let waits = format!("waiting for another run that uses the state folder {name}\n");
        assert_eq!(line, Ok(waits));
    }
}

#[test]
fn state_among_the_manifests_is_refused() {
    let folder = ScratchDir::new();
    let (manifests, link) = (folder.path().join("m"), folder.path().join("link"));
    fs::create_dir_all(manifests.join("state")).unwrap();
    copy_example(&manifests);
    symlink(&manifests, &link).unwrap();
    let refused = |command: &str, manifests: &Path, state: &Path| {
        let arguments = format!("{command} --state {}", state.display());
        let run = run(&arguments, &[manifests]);
        let expected =
            format!("error: --state {} is inside -f {}: ", state.display(), manifests.display());
        assert_eq!((run.code, &*run.stdout), (Some(1), ""), "{}", run.stderr);
        assert!(run.stderr.starts_with(&expected), "{expected}\n{}", run.stderr);
    };
    for command in ["apply", "apply --watch", "plan", "explain cnc blue-green-connect"] {
        refused(command, &manifests, &manifests.join("state"));
    }
    refused("apply", &manifests, &manifests);
    refused("apply", &manifests, &manifests.join("not/there/yet"));
    refused("apply", &manifests, &link.join("state"));
    refused("apply", &link, &manifests.join("new"));
    assert!(!manifests.join("not").exists() && !manifests.join("new").exists());

    // What is not read as manifests may be there, and folders around them may be the state's.
    let beside = folder.path().join("state");
    symlink(&beside, manifests.join("linked")).unwrap();
    fs::create_dir(&beside).unwrap();
    for state in [".state", "linked", ".."] {
        let arguments = format!("apply --state {}", manifests.join(state).display());
        for _ in 0..2 {
            run(&arguments, &[&manifests]).succeeded();
        }
    }
}

#[test]
fn links_in_the_state_folder_are_not_written_through() {
    let folder = tempfile::tempdir().unwrap();
    let (state, victim) = (folder.path().join("state"), folder.path().join("victim"));
    let apply = format!("apply --state {}", state.display());
    run(&apply, &[&example()]).succeeded();
    fs::write(&victim, "precious").unwrap();
    let nodes = state.join("nodes");
    fs::remove_file(nodes.join("ovn-worker.yaml")).unwrap();
    symlink(&victim, nodes.join(".ovn-worker.yaml.new")).unwrap();
    run(&apply, &[&example()]).succeeded();
    let written = fs::symlink_metadata(nodes.join("ovn-worker.yaml")).unwrap();
    assert!(written.is_file());
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");

    fs::remove_file(state.join(".lock")).unwrap();
    symlink(&victim, state.join(".lock")).unwrap();
    let refused = run(&apply, &[&example()]);
    assert_eq!(refused.code, Some(1));
    let error = format!("{}: it is a symbolic link\n", state.join(".lock").display());
    assert!(refused.stderr.ends_with(&error), "{}", refused.stderr);
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    fs::remove_file(state.join(".lock")).unwrap();

    let outside = folder.path().join("outside");
    fs::rename(&nodes, &outside).unwrap();
    symlink(&outside, &nodes).unwrap();
    let refused = run(&apply, &[&example()]);
    let error = format!("{}: it is a symbolic link\n", nodes.display());
    assert!(refused.stderr.ends_with(&error), "{}", refused.stderr);
}

#[test]
fn pipes_are_neither_state_nor_manifests() {
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let apply = format!("apply --state {}", state.display());
    run(&apply, &[&example()]).succeeded();
    let pipe = state.join("nodes/pipe.yaml");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let refused = run(&apply, &[&example()]);
    let error = format!("cannot read {}: not a regular file\n", pipe.display());
    assert!(refused.stderr.ends_with(&error), "{}", refused.stderr);
    fs::rename(&pipe, state.join(".lock")).unwrap();
    let refused = run(&apply, &[&example()]);
    assert!(refused.stderr.ends_with(": not a regular file\n"), "{}", refused.stderr);

    let manifests = folder.path().join("manifests");
    fs::create_dir(&manifests).unwrap();
    fs::write(manifests.join("all.yaml"), example_text()).unwrap();
    symlink(state.join(".lock"), manifests.join("link.yaml")).unwrap();
    run("apply", &[&manifests]).succeeded();
}

/// A virtual machine's network and claim. Its pod has this name and node.
fn machine(pod: &str) -> String {
    let claim = r#"v1.multus-cni.io/default-network: '[{"namespace":"ovn-kubernetes","name":"default","ipam-claim-reference":"db.ovn"}]'"#;
    let pod = match pod.split_once('@') {
        Some((name, node)) => format!(
            "- apiVersion: v1\n  kind: Pod\n  metadata:\n    name: {name}\n    namespace: vms\n    \
             labels: {{kubevirt.io: virt-launcher}}\n    annotations:\n      kubevirt.io/domain: db\n\
             \x20     {claim}\n  spec: {{nodeName: {node}, containers: [{{name: c}}]}}\n"
        ),
        None => String::new(),
    };
    format!(
        "apiVersion: v1
kind: List
items:
- {{apiVersion: v1, kind: Node, metadata: {{name: n1}}}}
- {{apiVersion: v1, kind: Node, metadata: {{name: n2}}}}
- apiVersion: v1
  kind: Namespace
  metadata: {{name: vms, labels: {{k8s.ovn.org/primary-user-defined-network: ''}}}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {{name: l2, namespace: vms}}
  spec: {{topology: Layer2, layer2: {{role: Primary, subnets: [10.20.0.0/16], ipam: {{lifecycle: Persistent}}}}}}
- apiVersion: k8s.cni.cncf.io/v1alpha1
  kind: IPAMClaim
  metadata: {{name: db.ovn, namespace: vms}}
  spec: {{network: vms_l2, interface: ovn-udn1}}
- apiVersion: v1
  kind: Pod
  metadata: {{name: other, namespace: vms}}
  spec: {{nodeName: n1, containers: [{{name: c}}]}}
{pod}"
    )
}

#[test]
fn a_claim_keeps_the_address_of_a_machine_that_is_down() {
    let folder = ScratchDir::new();
    let state = folder.path().join("state");
    let arguments = format!("apply --service-cidr 10.96.0.0/16 --state {}", state.display());
    let apply = |pod: &str| run_on(&arguments, &machine(pod)).succeeded();
    let address_of = |pod: &str| {
        let file = state.join("pods").join(format!("vms_{pod}.yaml"));
        let text = fs::read_to_string(file).unwrap();
        let (_, rest) = text.split_once("ip_addresses").unwrap();
        rest.split('"').find(|word| word.contains("10.20.")).map(str::to_owned)
    };
    apply("db-first@n1");
    let address = address_of("db-first");
    assert!(address.is_some());
    // The machine is down; its address is not given to others.
    apply("");
    apply("db-second@n2");
    assert_eq!(address_of("db-second"), address);
    assert_ne!(address_of("other"), address);
}
