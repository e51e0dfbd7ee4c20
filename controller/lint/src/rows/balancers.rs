//! VIPs of load balancers.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use patchbay_reach::RowRef;
use patchbay_schemas::nb::{LoadBalancer, LoadBalancerGroup};
use patchbay_schemas::typed::Ref;
use uuid::Uuid;

use super::index::{Index, reference};
use super::report::RowReport;

fn is_set(options: &BTreeMap<String, String>, key: &str) -> bool {
    options.get(key).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}

/// Calls a function with each VIP without backends, and `true` if its packets are answered.
fn each_empty(index: &Index<'_>, mut found: impl FnMut(RowRef, &str, bool)) {
    let has_event = index.globals.iter().any(|(_, row)| is_set(&row.options, "controller_event"));
    for (row, balancer) in index.load_balancers.iter() {
        let is_answered =
            has_event || is_set(&balancer.options, "reject") || is_set(&balancer.options, "event");
        for (vip, backends) in &balancer.vips {
            if backends.split(',').all(|backend| backend.trim().is_empty()) {
                found(row, vip, is_answered);
            }
        }
    }
}

pub(super) fn empty(index: &Index<'_>, report: &mut RowReport<'_>) {
    each_empty(index, |row, vip, is_answered| {
        if !is_answered {
            report.found(
                row,
                &[],
                format!("The VIP {vip} has no backends: OVN drops its packets without an answer."),
                "Add backends, delete the VIP, or set options:reject so that clients get an answer.",
            );
        }
    });
}

pub(super) fn rejecting(index: &Index<'_>, report: &mut RowReport<'_>) {
    each_empty(index, |row, vip, is_answered| {
        if is_answered {
            report.found(
                row,
                &[],
                format!("The VIP {vip} has no backends: connections to it are refused."),
                "Look at the endpoints of the service: no pod of it is ready.",
            );
        }
    });
}

/// VIPs with protocol, and the load balancers that have them.
type Vips<'a> = HashMap<(&'a str, &'static str), (Uuid, &'a str)>;

/// Search for VIPs of two load balancers.
struct Search<'a, 'i, 'r, 'p> {
    index: &'a Index<'i>,
    report: &'r mut RowReport<'p>,
    /// Pairs that were reported.
    seen: HashSet<(Uuid, Uuid)>,
}

impl<'a> Search<'a, '_, '_, '_> {
    /// Adds the VIPs of load balancers, and reports those that are there.
    fn add(&mut self, vips: &mut Vips<'a>, balancers: &'a BTreeSet<Ref<LoadBalancer>>) {
        for (row, balancer) in self.index.load_balancers.of(balancers) {
            let protocol = balancer.protocol.as_ref().map_or("tcp", |protocol| protocol.as_str());
            for (vip, backends) in &balancer.vips {
                let own = (row.uuid, backends.as_str());
                let first = *vips.entry((vip, protocol)).or_insert(own);
                self.compare(first, own, vip);
            }
        }
    }

    fn compare(&mut self, first: (Uuid, &str), second: (Uuid, &str), vip: &str) {
        let is_same = first.0 == second.0 || first.1 == second.1;
        let pair = (first.0.min(second.0), first.0.max(second.0));
        if !is_same && self.seen.insert(pair) {
            self.report.found(
                reference::<LoadBalancer>(second.0),
                &[reference::<LoadBalancer>(first.0)],
                format!(
                    "Both load balancers have the VIP {vip} on one switch or router: OVN leaves \
                     open whose backends get a connection."
                ),
                "Take the VIP from one of the two.",
            );
        }
    }

    /// Compares the VIPs of two sets, the smaller one with the larger one.
    fn compare_all(&mut self, one: &Vips<'a>, other: &Vips<'a>) {
        let (small, large) = if one.len() < other.len() { (one, other) } else { (other, one) };
        for (key, own) in small {
            if let Some(found) = large.get(key) {
                self.compare(*found, *own, key.0);
            }
        }
    }
}

pub(super) fn repeated(index: &Index<'_>, report: &mut RowReport<'_>) {
    let mut search = Search { index, report, seen: HashSet::new() };
    let mut of_groups: HashMap<Uuid, Vips<'_>> = HashMap::new();
    for (row, group) in index.load_balancer_groups.iter() {
        let mut vips = Vips::new();
        search.add(&mut vips, &group.load_balancer);
        of_groups.insert(row.uuid, vips);
    }
    let switches = index.switches.iter();
    let switches = switches.map(|(_, row)| (&row.load_balancer, &row.load_balancer_group));
    let routers = index.routers.iter();
    let routers = routers.map(|(_, row)| (&row.load_balancer, &row.load_balancer_group));
    let mut compared: HashSet<Vec<Uuid>> = HashSet::new();
    for (own, groups) in switches.chain(routers) {
        // Most switches have the same groups and load balancers as others.
        let all = own.iter().map(|row| row.uuid).chain(groups.iter().map(|row| row.uuid));
        if !compared.insert(all.collect()) {
            continue;
        }
        let mut vips = Vips::new();
        search.add(&mut vips, own);
        let groups: Vec<&Vips<'_>> = groups
            .iter()
            .filter_map(|group: &Ref<LoadBalancerGroup>| of_groups.get(&group.uuid))
            .collect();
        for (place, group) in groups.iter().enumerate() {
            search.compare_all(&vips, group);
            for other in &groups[place + 1..] {
                search.compare_all(group, other);
            }
        }
    }
}

pub(super) fn unused(index: &Index<'_>, report: &mut RowReport<'_>) {
    let mut used: HashSet<Uuid> = HashSet::new();
    for (_, row) in index.switches.iter() {
        used.extend(row.load_balancer.iter().map(|one| one.uuid));
    }
    for (_, row) in index.routers.iter() {
        used.extend(row.load_balancer.iter().map(|one| one.uuid));
    }
    for (_, row) in index.load_balancer_groups.iter() {
        used.extend(row.load_balancer.iter().map(|one| one.uuid));
    }
    for (row, balancer) in index.load_balancers.iter() {
        if !used.contains(&row.uuid) && !balancer.vips.is_empty() {
            report.found(
                row,
                &[],
                "No switch, router or group has the load balancer: OVN has no flows of it.",
                "Add it to a switch, router or group, or delete it.",
            );
        }
    }
}
