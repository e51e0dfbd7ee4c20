//! The leading cluster manager.

use crate::check::CheckConfig;
use crate::check::facts::Facts;
use crate::check::reader::NoAnswer;
use crate::check::result::{Check, CheckGroup};

pub(crate) fn check(facts: &Facts, config: &CheckConfig) -> CheckGroup {
    CheckGroup { name: "leader", checks: vec![lease(facts, config), holder(facts)] }
}

fn lease(facts: &Facts, config: &CheckConfig) -> Check {
    let name = "lease";
    let remedy = "See the log of the cluster managers: it says why they cannot get or renew it.";
    if matches!(facts.lease, Err(NoAnswer::Missing)) {
        let namespace = &config.namespace;
        let finding = format!("no cluster manager has led in namespace {namespace} yet");
        return Check::failed(name, finding, remedy);
    }
    Check::of(name, "the lease of the cluster managers", &facts.lease, |lease| {
        let Some(age) = lease.age(facts.now()) else {
            return Check::failed(name, "nobody holds the lease patchbay-cluster", remedy);
        };
        let finding = format!("{} renewed the lease {} s ago", lease.holder, age.as_secs());
        if age > lease.duration {
            return Check::failed(name, finding, remedy);
        }
        Check::ok(name, finding)
    })
}

fn holder(facts: &Facts) -> Check {
    let name = "holder";
    let Ok(lease) = &facts.lease else {
        return Check::skipped(name, "there is no lease");
    };
    if !lease.is_held(facts.now()) {
        return Check::skipped(name, "nobody holds the lease");
    }
    Check::of(name, "pods of the controllers", &facts.pods, |pods| {
        // The identity is the name of the pod and a UUID.
        let pod = lease.holder.rsplit_once('_').map_or(&*lease.holder, |(pod, _)| pod);
        if pods.iter().any(|one| one.name == pod) {
            return Check::ok(name, format!("pod {pod} leads"));
        }
        Check::warning(
            name,
            format!("the leader {} is no pod of this installation", lease.holder),
            "End the process that runs beside the installation.",
        )
    })
}
