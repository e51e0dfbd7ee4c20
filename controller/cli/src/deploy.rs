//! `patchbay deploy`: manifests of both controllers for one namespace.
//!
//! They are the files in `controller/deploy`, in which the namespace, the image and the service
//! ranges are replaced.

use patchbay_crds as crd;

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
/// Line of the manifests with a service range.
const SERVICE_CIDR: &str = "        - --service-cidr=10.96.0.0/16\n";

/// Prints the definition of ClusterNetworkConnects, the admission policies, and the manifests.
pub(super) fn deploy(arguments: &Deploy, console: &mut Console<'_>) -> Result<(), Failure> {
    let Deploy {
        namespace,
        image,
        service_cidrs,
        networks,
    } = arguments;
    let policies = crd::policies(&crd::cluster_manager_in(namespace), namespace);
    let definitions = crd::manifests(&["cnc".to_owned()], &policies)?;
    console.output.write_all(definitions.as_bytes())?;
    let namespace = format!("namespace: {namespace}\n");
    let image = format!("image: {image}\n");
    let flag_lines = networks.then(|| "        - --networks\n".to_owned());
    let range_lines = service_cidrs.iter();
    let range_lines = range_lines.map(|range| format!("        - --service-cidr={range}\n"));
    let flags: String = range_lines.chain(flag_lines).collect();
    let roles = networks.then_some(NETWORKS);
    for manifest in MANIFESTS.into_iter().chain(roles) {
        let text = manifest
            .replace(&format!("namespace: {}\n", crd::NAMESPACE), &namespace)
            .replace(IMAGE, &image)
            .replace(SERVICE_CIDR, &flags);
        console.output.write_all(b"---\n")?;
        console.output.write_all(text.as_bytes())?;
    }
    Ok(())
}
