//! `patchbay deploy`: manifests of both controllers for one namespace.
//!
//! They are the files in `controller/deploy`, in which the values that a cluster chooses are replaced.

use patchbay_crds as crd;
use patchbay_resources::manifests::Inventory;

use super::args::Deploy;
use super::console::Console;
use super::deploy_slots::{CLUSTER, NETWORKS, RBAC, Slots, ZONE};
use super::failure::Failure;
use super::run::warn_of_dynamic_udn;

/// The namespace. Its pods use the network of their host, and folders of the host.
const NAMESPACE: &str = include_str!("../../deploy/namespace.yaml");
/// Definition that every cluster needs, and those of other projects that a cluster may lack.
const CONNECTS: &str = "cnc";
const OTHER_DEFINITIONS: [&str; 3] = ["udn", "cudn", "net-attach-def"];

/// Prints the definitions, the admission policies and the manifests, after the namespace.
pub(super) fn deploy(arguments: &Deploy, console: &mut Console<'_>) -> Result<(), Failure> {
    let Deploy { namespace, create_namespace, definitions, networks, dynamic_udn, .. } = arguments;
    warn_of_dynamic_udn(*dynamic_udn, console)?;
    let cluster = arguments.cluster.with_dynamic_udn(*dynamic_udn);
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
    let slots = Slots::of(arguments, &cluster);
    let roles = networks.then_some(NETWORKS);
    for manifest in [RBAC, CLUSTER, ZONE].into_iter().chain(roles) {
        console.output.write_all(b"---\n")?;
        console.output.write_all(slots.fill(manifest).as_bytes())?;
    }
    Ok(())
}
