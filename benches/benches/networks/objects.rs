//! `patchbay plan` on growing numbers of objects of one kind, on an embedded database.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, ensure};
use patchbay_benches::process::{run_measured, workspace_program};
use patchbay_benches::text::format_duration;
use patchbay_benches::text::growth_exponent;
use patchbay_ovn_programs::testing::ScratchDir;

/// Numbers of objects.
const COUNTS: [usize; 3] = [2_500, 5_000, 10_000];

/// Name of a cluster, and its manifests by number of objects.
type Cluster = (&'static str, fn(usize) -> String);

const CLUSTERS: [Cluster; 5] = [
    ("one network over N namespaces", wide_network),
    ("N networks, each in one of N namespaces", networks),
    ("N connects that select nothing", idle_connects),
    ("N connects of the same two networks", shared_connects),
    ("N unknown fields of an object", unknown_fields),
];

/// Prints CPU time for each number of objects, and the exponent with which it grows.
pub(crate) fn report() -> Result<()> {
    let program = workspace_program("patchbay")?;
    print!("\n{:<56}", "plan, embedded database; CPU of the process");
    for count in COUNTS {
        print!("{count:>12}");
    }
    println!("  exponent");
    for (name, manifests) in CLUSTERS {
        print!("{name:<56}");
        let mut points = Vec::new();
        for count in COUNTS {
            let time = measure(&program, &manifests(count))?;
            print!("{:>12}", format_duration(time));
            points.push((count as f64, time.as_secs_f64()));
        }
        match growth_exponent(&points) {
            Some(exponent) => println!("  {exponent:>8.2}"),
            None => println!("  {:>8}", "-"),
        }
    }
    Ok(())
}

fn measure(program: &Path, manifests: &str) -> Result<Duration> {
    let folder = ScratchDir::new();
    let file = folder.path().join("manifests.yaml");
    fs::write(&file, manifests)?;
    let mut process = Command::new(program);
    process
        .args(["plan", "--zone", "node1", "--filename"])
        .arg(&file)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let (status, usage) = run_measured(&mut process)?;
    ensure!(status.code().is_some(), "{process:?}: {status}");
    Ok(usage.cpu)
}

const NODE: &str = "apiVersion: v1\nkind: Node\nmetadata: {name: node1}\n";

fn namespaces(count: usize) -> String {
    let mut yaml = NODE.to_owned();
    for number in 0..count {
        let _ = write!(
            yaml,
            "---\napiVersion: v1\nkind: Namespace\nmetadata: {{name: s{number}, labels: {{team: t{number}, k8s.ovn.org/primary-user-defined-network: ''}}}}\n"
        );
    }
    yaml
}

fn push_network(yaml: &mut String, number: usize, selector: &str) {
    let (second, third) = (number / 256, number % 256);
    let _ = write!(
        yaml,
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterUserDefinedNetwork\nmetadata: {{name: w{number}, labels: {{net: w{number}}}}}\nspec:\n  namespaceSelector: {selector}\n  network: {{topology: Layer2, layer2: {{role: Primary, subnets: [10.{second}.{third}.0/24]}}}}\n"
    );
}

fn push_connect(yaml: &mut String, number: usize, values: &str) {
    let (second, third) = (number / 256, number % 256);
    let _ = write!(
        yaml,
        "---\napiVersion: k8s.ovn.org/v1\nkind: ClusterNetworkConnect\nmetadata: {{name: c{number}}}\nspec:\n  networkSelectors:\n  - networkSelectionType: ClusterUserDefinedNetworks\n    clusterUserDefinedNetworkSelector: {{networkSelector: {{matchExpressions: [{{key: net, operator: In, values: [{values}]}}]}}}}\n  connectSubnets: [{{cidr: 11.{second}.{third}.0/24, networkPrefix: 27}}]\n  connectivity: [PodNetwork]\n"
    );
}

fn wide_network(count: usize) -> String {
    let mut yaml = namespaces(count);
    push_network(&mut yaml, 0, "{}");
    yaml
}

fn networks(count: usize) -> String {
    // Network ids end at 4,095.
    let count = count / 4;
    let mut yaml = namespaces(count);
    for number in 0..count {
        push_network(&mut yaml, number, &format!("{{matchLabels: {{team: t{number}}}}}"));
    }
    yaml
}

fn idle_connects(count: usize) -> String {
    let mut yaml = namespaces(1_000);
    for number in 0..1_000 {
        push_network(&mut yaml, number, &format!("{{matchLabels: {{team: t{number}}}}}"));
    }
    for number in 0..count {
        push_connect(&mut yaml, number, "nothing");
    }
    yaml
}

fn shared_connects(count: usize) -> String {
    let mut yaml = namespaces(2);
    for number in 0..2 {
        push_network(&mut yaml, number, &format!("{{matchLabels: {{team: t{number}}}}}"));
    }
    for number in 0..count {
        push_connect(&mut yaml, number, "w0, w1");
    }
    yaml
}

fn unknown_fields(count: usize) -> String {
    let mut yaml = namespaces(1);
    push_network(&mut yaml, 0, "{}");
    for number in 0..count {
        let _ = writeln!(yaml, "  field{number}: 1");
    }
    yaml
}
