//! Settings of the installed controllers, from their arguments.

use clap::{Args as _, Command, FromArgMatches as _};
use patchbay_kubernetes::{Check, ClusterChecks};

use crate::cluster_args::Run;

/// Name of the check.
const NAME: &str = "settings";
/// Name of the object whose settings the rows of a zone follow.
const ZONE: &str = "patchbay-zone";

/// Settings of an installed controller, as this version reads its arguments.
pub(super) struct Installed {
    name: &'static str,
    run: Result<Run, String>,
}

/// The installed controllers.
pub(super) fn installed(checks: &ClusterChecks) -> Vec<Installed> {
    let controllers = checks.arguments.iter();
    controllers.map(|(name, arguments)| Installed { name, run: parse(arguments) }).collect()
}

/// The zone controllers' settings. `None`: they are not known.
pub(super) fn zone_settings(installed: &[Installed]) -> Option<&Run> {
    let zone = installed.iter().find(|one| one.name == ZONE)?;
    zone.run.as_ref().ok().filter(|run| run.config.is_none())
}

fn parse(arguments: &[String]) -> Result<Run, String> {
    let own = arguments.iter().skip_while(|one| *one == "run").map(|argument| {
        // The kubelet sets variables, such as the name of the node.
        match argument.split_once('=') {
            Some((flag, value)) if value.starts_with("$(") => format!("{flag}=node"),
            _ => argument.clone(),
        }
    });
    let command = Run::augment_args(Command::new("run").no_binary_name(true));
    let parsed = command.try_get_matches_from(own);
    let parsed = parsed.and_then(|matches| Run::from_arg_matches(&matches));
    parsed.map_err(|error| {
        let text = error.to_string();
        let first = text.lines().next().unwrap_or_default();
        first.trim_start_matches("error: ").to_owned()
    })
}

/// Whether this version knows the arguments, and both controllers have the same settings.
pub(super) fn check(installed: &[Installed]) -> Check {
    let unknown = installed.iter().find_map(|one| Some((one.name, one.run.as_ref().err()?)));
    if let Some((name, error)) = unknown {
        return Check::failed(
            NAME,
            format!("this version does not know the arguments of {name}: {error}"),
            "Apply the manifests of this version, or check with the version that is installed.",
        );
    }
    let known: Vec<&Run> = installed.iter().filter_map(|one| one.run.as_ref().ok()).collect();
    let [cluster, zone] = known[..] else {
        return Check::skipped(NAME, "there are not two controllers");
    };
    if cluster.config.is_some() || zone.config.is_some() {
        return Check::skipped(NAME, "the settings are in a file, which is not read");
    }
    let settings = |run: &Run| {
        let cluster = run.cluster.with_dynamic_udn(run.dynamic_udn);
        let networks = run.networks.then(|| "--networks".to_owned());
        cluster.arguments().into_iter().chain(networks).collect::<Vec<String>>()
    };
    let (cluster, zone) = (settings(cluster), settings(zone));
    if cluster == zone {
        return Check::ok(NAME, "both controllers have the same settings");
    }
    let finding = format!(
        "patchbay-cluster runs with {}, and patchbay-zone with {}",
        cluster.join(" "),
        zone.join(" ")
    );
    Check::failed(NAME, finding, "Give both the same settings, as `patchbay deploy` does.")
}
