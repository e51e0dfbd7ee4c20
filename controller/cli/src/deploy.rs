//! `patchbay deploy`: manifests of both controllers for one namespace.
//!
//! They are the files in `controller/deploy`, in which the namespace, the image and the arguments
//! of both controllers are replaced.

use patchbay_crds as crd;
use patchbay_resources::manifests::Inventory;

use super::args::Deploy;
use super::console::Console;
use super::failure::Failure;

/// Accounts and roles, the cluster manager's Deployment, the zone controllers' `DaemonSet`.
const MANIFESTS: [&str; 3] = [
    include_str!("../../deploy/rbac.yaml"),
    include_str!("../../deploy/cluster.yaml"),
    include_str!("../../deploy/zone.yaml"),
];
/// Roles that both accounts need for `run --networks`.
const NETWORKS: &str = include_str!("../../deploy/networks.yaml");
/// Line of the manifests with the image.
const IMAGE: &str = "image: patchbay:latest\n";
/// Line of the manifests with the settings of the cluster.
const SETTINGS: &str = "        - --service-cidr=10.96.0.0/16\n";

/// Prints the definition of ClusterNetworkConnects, the admission policies, and the manifests.
pub(super) fn deploy(arguments: &Deploy, console: &mut Console<'_>) -> Result<(), Failure> {
    let Deploy {
        namespace,
        image,
        cluster,
        dynamic_udn,
        networks,
    } = arguments;
    // Settings that the controllers would refuse are refused here.
    cluster.settings(&Inventory::default())?;
    let policies = crd::policies(&crd::cluster_manager_in(namespace), namespace);
    let definitions = crd::manifests(&["cnc".to_owned()], &policies)?;
    console.output.write_all(definitions.as_bytes())?;
    let namespace = format!("namespace: {namespace}\n");
    let image = format!("image: {image}\n");
    let switches = [(dynamic_udn, "--dynamic-udn"), (networks, "--networks")];
    let switches = switches.into_iter().filter(|(is_on, _)| **is_on);
    let flags = cluster.arguments().into_iter();
    let flags = flags.chain(switches.map(|(_, flag)| flag.to_owned()));
    let flags: Vec<String> = flags.map(|flag| format!("        - {flag}\n")).collect();
    let flags = flags.concat();
    let roles = networks.then_some(NETWORKS);
    for manifest in MANIFESTS.into_iter().chain(roles) {
        let text = manifest
            .replace(&format!("namespace: {}\n", crd::NAMESPACE), &namespace)
            .replace(IMAGE, &image)
            .replace(SETTINGS, &flags);
        console.output.write_all(b"---\n")?;
        console.output.write_all(text.as_bytes())?;
    }
    Ok(())
}
