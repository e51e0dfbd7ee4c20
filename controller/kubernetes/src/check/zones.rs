//! Signs of life of the zone controllers.

use std::collections::BTreeMap;

use crate::check::facts::Facts;
use crate::check::objects::LeaseFacts;
use crate::check::result::{Check, CheckGroup, counted, listed};
use crate::reports::zone_reports::zone_object_name;

pub(crate) fn check(facts: &Facts) -> CheckGroup {
    let name = "renewals";
    let check = Check::of(name, "nodes", &facts.nodes, |nodes| {
        Check::of(name, "leases of the zones", &facts.zone_leases, |leases| {
            let now = facts.now();
            let by_name: BTreeMap<&str, &LeaseFacts> =
                leases.iter().map(|lease| (&*lease.name, lease)).collect();
            let managed: Vec<&str> =
                nodes.iter().filter(|node| node.is_managed()).map(|node| &*node.name).collect();
            let silent: Vec<String> = managed
                .iter()
                .filter_map(|node| {
                    let lease = by_name.get(&*zone_object_name(node));
                    match lease.and_then(|lease| Some((lease, lease.age(now)?))) {
                        Some((lease, age)) if age <= lease.duration => None,
                        Some((_, age)) => Some(format!("{node} (for {} s)", age.as_secs())),
                        None => Some(format!("{node} (never)")),
                    }
                })
                .collect();
            if silent.is_empty() {
                let zones = counted(managed.len(), "zone");
                return Check::ok(name, format!("all leases are renewed: {zones}"));
            }
            Check::failed(
                name,
                format!("no sign of life from zones: {}", listed(&silent)),
                "See the pods of patchbay-zone on these nodes. Their rows stay as they are.",
            )
        })
    });
    CheckGroup { name: "zones", checks: vec![check] }
}
