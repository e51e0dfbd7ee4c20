//! IPAMClaims of manifests: addresses that outlive the pods that use them.

use std::fs;
use std::path::Path;

use patchbay_model::{ClusterSettings, IpFamily, PodNetworks};
use patchbay_reconcile::{Cluster, load};
use patchbay_resources::object::{Object as _, Time};
use patchbay_resources::state::StateFolder;

const CLUSTER: &str = "
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: green, labels: {k8s.ovn.org/primary-user-defined-network: ''}}}
- {apiVersion: v1, kind: Node, metadata: {name: n1}}
- {apiVersion: v1, kind: Node, metadata: {name: n2}}
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l2, namespace: green}
  spec: {topology: Layer2, layer2: {role: Primary, subnets: [10.20.0.0/16], ipam: {lifecycle: Persistent}}}
";

const CLAIM: &str = "
- apiVersion: k8s.cni.cncf.io/v1alpha1
  kind: IPAMClaim
  metadata: {name: vm, namespace: green}
  spec: {network: green_l2, interface: ovn-udn1}
";

fn pod(name: &str, node: &str, claim: Option<&str>) -> String {
    let annotation = claim.map(|claim| format!("k8s.ovn.org/primary-udn-ipamclaim: {claim}"));
    format!(
        "- apiVersion: v1\n  kind: Pod\n  metadata: {{name: {name}, namespace: green, annotations: \
         {{{}}}}}\n  spec: {{nodeName: {node}, containers: [{{name: c, image: i}}]}}\n",
        annotation.unwrap_or_default()
    )
}

/// Completes the manifests with the state of the run before, and saves the new one.
fn run(folder: &Path, manifests: &str) -> Cluster {
    let file = folder.join("manifests.yaml");
    fs::write(&file, manifests).unwrap();
    let state = StateFolder::new(folder.join("state"));
    let inventory = load(&[file], &mut std::io::empty(), Some(&state), 1 << 20).unwrap();
    let settings = ClusterSettings { families: vec![IpFamily::V4], ..ClusterSettings::default() };
    let now = Time(jiff::Timestamp::from_second(0).unwrap());
    let cluster = Cluster::from_inventory(inventory, settings, now).unwrap();
    state.save(&cluster.inventory).unwrap();
    cluster
}

fn address(cluster: &Cluster, pod: &str) -> Option<String> {
    let mut pods = cluster.inventory.pods.iter();
    let (_, pod) = pods.find(|(key, _)| key.name == pod)?;
    let text = pod.object.annotations().get("k8s.ovn.org/pod-networks")?;
    let networks = PodNetworks::parse(text).unwrap();
    let network = networks.get("green/l2")?;
    Some(network.addresses[0].to_string())
}

fn claimed(cluster: &Cluster) -> Vec<String> {
    let claims =
        cluster.inventory.ipam_claims.iter().filter_map(|(_, claim)| claim.object.status.clone());
    claims.flat_map(|status| status.ips).collect()
}

#[test]
fn a_claim_keeps_the_addresses_of_its_pods_from_run_to_run() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let vm = |name: &str, node: &str| pod(name, node, Some("vm"));
    let first = run(folder, &format!("{CLUSTER}{CLAIM}{}", vm("vm-1", "n1")));
    assert_eq!(first.warnings, [""; 0]);
    assert_eq!(address(&first, "vm-1").as_deref(), Some("10.20.0.3/16"));
    assert_eq!(claimed(&first), ["10.20.0.3/16"]);

    // Without its pod the address is still taken.
    let other = pod("other", "n1", None);
    let second = run(folder, &format!("{CLUSTER}{CLAIM}{other}"));
    assert_eq!(claimed(&second), ["10.20.0.3/16"]);
    assert_eq!(address(&second, "other").as_deref(), Some("10.20.0.4/16"));

    let third = run(folder, &format!("{CLUSTER}{CLAIM}{other}{}", vm("vm-2", "n2")));
    assert_eq!(address(&third, "vm-2").as_deref(), Some("10.20.0.3/16"));
    assert_eq!(address(&third, "other").as_deref(), Some("10.20.0.4/16"));

    // The address is free without the claim.
    let fourth = run(folder, &format!("{CLUSTER}{other}{}", pod("next", "n1", None)));
    assert_eq!(address(&fourth, "next").as_deref(), Some("10.20.0.3/16"));
}

#[test]
fn a_pod_whose_claim_is_missing_or_of_another_network_gets_no_address() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let other = CLAIM.replace("network: green_l2", "network: green_other");
    let of_other = pod("a", "n1", Some("vm"));
    let missing = pod("b", "n1", Some("none"));
    let cluster = run(folder, &format!("{CLUSTER}{other}{of_other}{missing}"));
    assert_eq!((address(&cluster, "a"), address(&cluster, "b")), (None, None));
    let reasons = [
        "failed to update pod green/a: IPAMClaim \"vm\" is of network \"green_other\"",
        "failed to update pod green/b: error retrieving IPAMClaim for pod green/b: failed to get \
         IPAMClaim \"none\": ipamclaim.k8s.cni.cncf.io \"none\" not found",
    ];
    assert_eq!(cluster.warnings.len(), 2, "{:?}", cluster.warnings);
    for (warning, reason) in cluster.warnings.iter().zip(reasons) {
        assert!(warning.ends_with(reason), "{warning}");
    }
}

#[test]
fn without_claims_in_the_manifests_a_pod_that_names_one_gets_an_address() {
    let folder = tempfile::tempdir().unwrap();
    let pods = pod("a", "n1", Some("vm"));
    let cluster = run(folder.path(), &format!("{CLUSTER}{pods}"));
    assert_eq!(address(&cluster, "a").as_deref(), Some("10.20.0.3/16"));
    let reason = "IPAMClaim vm is not known, so the addresses in green/l2 are not kept";
    let [warning] = &cluster.warnings[..] else {
        panic!("{:?}", cluster.warnings);
    };
    assert!(warning.contains("Pod green/a: ") && warning.ends_with(reason), "{warning}");
    // The state of the run before has the address.
    let again = run(folder.path(), &format!("{CLUSTER}{pods}"));
    assert_eq!(address(&again, "a").as_deref(), Some("10.20.0.3/16"));
}
