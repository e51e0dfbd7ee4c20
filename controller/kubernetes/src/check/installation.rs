//! The objects of an installation, and their pods.

use crate::check::CheckConfig;
use crate::check::facts::Facts;
use crate::check::objects::Controller;
use crate::check::reader::{Answer, NoAnswer};
use crate::check::result::{Check, CheckGroup, listed};

pub(crate) fn check(facts: &Facts, config: &CheckConfig) -> CheckGroup {
    let namespace = &config.namespace;
    let cluster =
        controller("cluster", ("Deployment", "patchbay-cluster"), namespace, &facts.cluster);
    let zone = controller("zone", ("DaemonSet", "patchbay-zone"), namespace, &facts.zone);
    CheckGroup {
        name: "installation",
        checks: vec![cluster, zone, pods(facts), policies(facts, config)],
    }
}

fn controller(
    name: &str,
    (kind, object): (&str, &str),
    namespace: &str,
    answer: &Answer<Controller>,
) -> Check {
    if matches!(answer, Err(NoAnswer::Missing)) {
        return Check::failed(
            name,
            format!("there is no {kind} {namespace}/{object}"),
            "Apply the output of `patchbay deploy`, or name the namespace with --namespace.",
        );
    }
    Check::of(name, &format!("{kind} {namespace}/{object}"), answer, |found| {
        let Controller { wanted, ready, updated, .. } = found;
        let finding = format!("{kind} {object}: {ready} of {wanted} pods are ready");
        if *wanted == 0 {
            let remedy = "Scale it up, or see the selectors and taints of the nodes.";
            return Check::failed(name, format!("{kind} {object} wants no pod"), remedy);
        }
        if ready < wanted {
            let remedy = "See the check of the pods, and `kubectl describe` of these.";
            return Check::failed(name, finding, remedy);
        }
        if updated < wanted {
            let finding = format!("{kind} {object}: {updated} of {wanted} pods are up to date");
            return Check::warning(name, finding, "Wait for the end of the rollout.");
        }
        Check::ok(name, finding)
    })
}

fn pods(facts: &Facts) -> Check {
    let name = "pods";
    Check::of(name, "pods of the controllers", &facts.pods, |pods| {
        let waiting: Vec<String> = pods
            .iter()
            .filter(|pod| !pod.is_ready)
            .map(|pod| format!("{} on {} ({})", pod.name, pod.node, pod.reason))
            .collect();
        match (pods.len(), waiting.len()) {
            (0, _) => Check::failed(
                name,
                "no controller has a pod",
                "See the events of the Deployment and of the DaemonSet.",
            ),
            (count, 0) => Check::ok(name, format!("pods that are ready: {count}")),
            _ => Check::failed(
                name,
                format!("not ready: {}", listed(&waiting)),
                "See `kubectl logs` of them, and /readyz?verbose at their admin port.",
            ),
        }
    })
}

fn policies(facts: &Facts, config: &CheckConfig) -> Check {
    let name = "policies";
    Check::of(name, "admission policies", &facts.policies, |found| {
        let mut wanted = config.policies.iter();
        let missing: Vec<&String> = wanted.by_ref().filter(|one| !found.contains(*one)).collect();
        if missing.is_empty() {
            return Check::ok(name, "the admission policies are there");
        }
        Check::warning(
            name,
            format!("missing admission policies: {}", listed(&missing)),
            "Apply the output of `patchbay deploy` again: nothing limits the accounts without them.",
        )
    })
}
