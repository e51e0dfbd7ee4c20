//! Definitions of the resources that the controllers read.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use crate::check::facts::Facts;
use crate::check::reader::NoAnswer;
use crate::check::result::{Check, CheckGroup};
use crate::check::{CheckConfig, Definition};

pub(crate) fn check(facts: &Facts, config: &CheckConfig) -> CheckGroup {
    let checks = config.definitions.iter().map(|definition| {
        let unreachable = Err(NoAnswer::Unreachable);
        let answer = facts.definitions.get(&definition.name).unwrap_or(&unreachable);
        if *answer == Err(NoAnswer::Missing) {
            return missing(definition, config);
        }
        let what = format!("the definition {}", definition.name);
        Check::of(&definition.name, &what, answer, |found| judge(definition, found))
    });
    CheckGroup { name: "definitions", checks: checks.collect() }
}

fn missing(definition: &Definition, config: &CheckConfig) -> Check {
    let name = &definition.name;
    match (definition.is_installed, config.is_before) {
        (true, true) => {
            Check::ok(name, format!("{name} is not there yet; the installation brings it"))
        }
        (true, false) => Check::failed(
            name,
            format!("the cluster has no definition {name}"),
            "Apply the output of `patchbay crds`.",
        ),
        (false, _) => Check::failed(
            name,
            format!("the cluster has no definition {name}"),
            "Install OVN-Kubernetes and Multus, or add --definitions to `patchbay deploy`.",
        ),
    }
}

fn judge(definition: &Definition, found: &CustomResourceDefinition) -> Check {
    let name = &definition.name;
    let conditions = found.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let is_established =
        conditions.clone().any(|one| one.type_ == "Established" && one.status == "True");
    if found.metadata.deletion_timestamp.is_some() {
        return Check::failed(
            name,
            format!("{name} is being deleted, with all its objects"),
            "Wait for its end, then install the definition again.",
        );
    }
    if !is_established {
        let refused = conditions.clone().find(|one| one.status == "False");
        let reason = refused.and_then(|one| one.message.clone()).unwrap_or_default();
        return Check::failed(
            name,
            format!("{name} is not established: {reason}"),
            "Remove the definition that has the same names, or wait a moment.",
        );
    }
    let mut versions = found.spec.versions.iter();
    let Some(version) = versions.find(|one| one.name == definition.version && one.served) else {
        let served = found.spec.versions.iter().filter(|one| one.served);
        let served: Vec<&str> = served.map(|one| &*one.name).collect();
        return Check::failed(
            name,
            format!("{name} has no version {}, but {}", definition.version, served.join(", ")),
            "Install a version of the project that brings it, which serves this version.",
        );
    };
    let schema = version.schema.as_ref().and_then(|schema| schema.open_api_v3_schema.as_ref());
    if definition.schema.is_some() && schema != definition.schema.as_ref() {
        return Check::warning(
            name,
            format!("{name} has other rules than this version of Patchbay"),
            "After an upgrade, apply the output of `patchbay crds` of the new version.",
        );
    }
    Check::ok(name, format!("{name} is established with version {}", definition.version))
}
