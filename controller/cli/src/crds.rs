//! `patchbay crds`: custom resource definitions and admission policies.

use patchbay_crds as crd;

use super::cluster_args::Crds;
use super::console::Console;
use super::failure::Failure;

/// Prints the definitions and, with `--policies`, the admission policies.
pub(super) fn crds(arguments: &Crds, console: &mut Console<'_>) -> Result<(), Failure> {
    let policies =
        arguments.policies.then(|| crd::policies(&arguments.manager, &arguments.namespace));
    let text = crd::manifests(&arguments.names, policies.as_ref().map_or(&[], |all| all))?;
    Ok(console.output.write_all(text.as_bytes())?)
}
