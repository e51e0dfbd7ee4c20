//! `patchbay deploy`: manifests of both controllers for one namespace.
//!
//! They are the files in `controller/deploy`, in which the namespace, the image and the arguments
//! of both controllers are replaced.

use patchbay_crds as crd;
use patchbay_resources::manifests::Inventory;

use super::args::Deploy;
use super::console::Console;
use super::failure::Failure;
use super::run::warn_of_dynamic_udn;

/// Accounts and roles, the cluster manager's Deployment, the zone controllers' `DaemonSet`.
const MANIFESTS: [&str; 3] = [
    include_str!("../../deploy/rbac.yaml"),
    include_str!("../../deploy/cluster.yaml"),
    include_str!("../../deploy/zone.yaml"),
];
/// Roles that both accounts need for `run --networks`.
const NETWORKS: &str = include_str!("../../deploy/networks.yaml");
/// The namespace. Its pods use the network of their host, and folders of the host.
const NAMESPACE: &str = include_str!("../../deploy/namespace.yaml");
/// Definition that every cluster needs, and those of other projects that a cluster may lack.
const CONNECTS: &str = "cnc";
const OTHER_DEFINITIONS: [&str; 3] = ["udn", "cudn", "net-attach-def"];
/// Line of the manifests with the image.
const IMAGE: &str = "image: patchbay:latest\n";
/// Line of the manifests with the settings of the cluster.
const SETTINGS: &str = "        - --service-cidr=10.96.0.0/16\n";

/// Prints the definitions, the admission policies and the manifests, after the namespace.
pub(super) fn deploy(arguments: &Deploy, console: &mut Console<'_>) -> Result<(), Failure> {
    let Deploy { namespace, create_namespace, definitions, image, cluster, dynamic_udn, networks } =
        arguments;
    warn_of_dynamic_udn(*dynamic_udn, console)?;
    let cluster = cluster.with_dynamic_udn(*dynamic_udn);
    // Settings that the controllers would refuse are refused here.
    cluster.zone_settings(&Inventory::default())?;
    let policies = crd::policies(&crd::cluster_manager_in(namespace), namespace);
    let others = OTHER_DEFINITIONS.into_iter().filter(|_| *definitions);
    let names: Vec<String> = [CONNECTS].into_iter().chain(others).map(str::to_owned).collect();
    if *create_namespace {
        let name = |namespace| format!("  name: {namespace}\n");
        let text = NAMESPACE.replace(&name(crd::NAMESPACE), &name(namespace));
        console.output.write_all(text.as_bytes())?;
    }
    let definitions = crd::manifests(&names, &policies)?;
    console.output.write_all(definitions.as_bytes())?;
    let namespace = format!("namespace: {namespace}\n");
    let image = format!("image: {image}\n");
    let flags: Vec<String> = (cluster.arguments().into_iter())
        .chain(networks.then(|| "--networks".to_owned()))
        .map(|flag| format!("        - {flag}\n"))
        .collect();
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
