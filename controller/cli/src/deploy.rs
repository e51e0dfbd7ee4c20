//! `patchbay deploy`: manifests of both controllers for one namespace.
//!
//! They are the files in `controller/deploy`, in which the values that a cluster chooses are replaced.

use std::path::Path;
use std::{fs, io};

use patchbay_crds as crd;
use patchbay_resources::manifests::Inventory;

use super::cluster_args::Deploy;
use super::console::Console;
use super::deploy_slots::{CHART_NAMESPACE, CLUSTER, NETWORKS, RBAC, Slots, ZONE};
use super::failure::Failure;
use super::run::warn_of_dynamic_udn;

/// The namespace. Its pods use the network of their host, and folders of the host.
const NAMESPACE: &str = include_str!("../../deploy/namespace.yaml");
/// Definition that every cluster needs, and those of other projects that a cluster may lack.
const CONNECTS: &str = "cnc";
const OTHER_DEFINITIONS: [&str; 3] = ["udn", "cudn", "net-attach-def"];
/// Namespace in the policies that that of the release replaces in the chart.
const ANY_NAMESPACE: &str = "release-namespace";
/// First line of the files that are made for the chart.
const MADE: &str = "# Made by \"patchbay deploy --chart\", of controller/deploy.\n";

/// Prints the definitions, the admission policies and the manifests, after the namespace.
pub(super) fn deploy(arguments: &Deploy, console: &mut Console<'_>) -> Result<(), Failure> {
    if let Some(folder) = &arguments.chart {
        return Ok(write_chart(folder)?);
    }
    let text = manifests(arguments, console)?;
    Ok(console.output.write_all(text.as_bytes())?)
}

/// The definitions, the admission policies and the manifests, after the namespace.
///
/// # Errors
/// The controllers would refuse the settings.
pub(super) fn manifests(arguments: &Deploy, console: &mut Console<'_>) -> Result<String, Failure> {
    let Deploy { namespace, create_namespace, definitions, networks, dynamic_udn, .. } = arguments;
    warn_of_dynamic_udn(*dynamic_udn, console)?;
    let cluster = arguments.cluster.with_dynamic_udn(*dynamic_udn);
    // Settings that the controllers would refuse are refused here.
    cluster.zone_settings(&Inventory::default())?;
    let policies = crd::policies(&crd::cluster_manager_in(namespace), namespace);
    let others = OTHER_DEFINITIONS.into_iter().filter(|_| *definitions);
    let names: Vec<String> = [CONNECTS].into_iter().chain(others).map(str::to_owned).collect();
    let mut text = String::new();
    if *create_namespace {
        let name = |namespace| format!("  name: {namespace}\n");
        text.push_str(&NAMESPACE.replace(&name(crd::NAMESPACE), &name(namespace)));
    }
    text.push_str(&crd::manifests(&names, &policies)?);
    let slots = Slots::of(arguments, &cluster);
    let roles = networks.then_some(NETWORKS);
    for manifest in [RBAC, CLUSTER, ZONE].into_iter().chain(roles) {
        text.push_str("---\n");
        text.push_str(&slots.fill(manifest));
    }
    Ok(text)
}

/// Writes what the Helm chart has in common with the manifests: definition, policies, roles and pods.
fn write_chart(folder: &Path) -> io::Result<()> {
    let slots = Slots::of_chart();
    let policies = crd::policies(&crd::cluster_manager_in(ANY_NAMESPACE), ANY_NAMESPACE);
    let printed = |policies| {
        crd::manifests(&[CONNECTS.to_owned()], policies)
            .map_err(|error| io::Error::other(error.to_string()))
    };
    let definition = printed(&[])?;
    let all = printed(&policies)?;
    let policies = all.strip_prefix(&definition).unwrap_or(&all);
    let policies = policies.replace(ANY_NAMESPACE, CHART_NAMESPACE);
    let networks = slots.fill(NETWORKS);
    for (file, text) in [
        ("crds/clusternetworkconnects.yaml", definition),
        ("templates/policies.yaml", policies),
        ("templates/rbac.yaml", slots.fill(RBAC)),
        ("templates/cluster.yaml", slots.fill(CLUSTER)),
        ("templates/zone.yaml", slots.fill(ZONE)),
        (
            "templates/networks.yaml",
            format!("{{{{- if .Values.networks }}}}\n{networks}{{{{- end }}}}\n"),
        ),
    ] {
        let path = folder.join(file);
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(path, MADE.to_owned() + &text)?;
    }
    Ok(())
}
