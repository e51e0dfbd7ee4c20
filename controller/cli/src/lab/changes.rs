//! Changes of reachability by a saved file, with the time until each.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use patchbay_lab::{
    Lab, Pod, PodName, ProbeReport, ProbeStream, Promises, Protocol, common_families,
};
use patchbay_reconcile::Cluster;

/// Number of pairs of networks whose probes are watched at most.
const MAX_WATCHED: usize = 8;
/// Time for the answer to a probe that shows the new state.
const ANSWER_TIME: Duration = Duration::from_millis(200);
/// Time within which packets have to show the new state.
const CHANGE_LIMIT: Duration = Duration::from_secs(5);

/// Pairs of pods of two networks that manifests open or close for each other.
#[derive(Clone)]
struct Change {
    is_opened: bool,
    pairs: usize,
    /// One of the pairs, on nodes that can answer if there is such a pair.
    from: PodName,
    to: PodName,
    /// `true` if a program of the pair's nodes was killed.
    is_deaf: bool,
}

/// Probes that watch what an apply changes.
pub(super) struct ChangeWatch {
    changes: Vec<(String, Change, Option<ProbeStream>)>,
}

impl ChangeWatch {
    /// Starts probes between pods that the new manifests open or close for each other. Pods that
    /// are new or gone are not among them.
    pub(super) async fn start(lab: &Lab, old: &Cluster, new: &Cluster) -> Self {
        let mut changes = Vec::new();
        for (networks, change) in find_changes(lab, old, new) {
            let is_watched = changes.len() < MAX_WATCHED && !change.is_deaf;
            let stream = if is_watched {
                // Without a next hop the pod has no neighbor to resolve yet.
                lab.start_probes(&change.from, &change.to).await.ok()
            } else {
                None
            };
            changes.push((networks, change, stream));
        }
        Self { changes }
    }

    /// Stops the probes. Returns a line for each pair of networks.
    pub(super) async fn finish(self) -> Vec<String> {
        let mut lines = Vec::new();
        for (networks, change, stream) in self.changes {
            let report = match stream {
                Some(stream) => stream.stop_when(change.is_opened, CHANGE_LIMIT, ANSWER_TIME).await,
                None => None,
            };
            let Change { is_opened, pairs, from, to, is_deaf } = &change;
            let verb = if *is_opened { "opened" } else { "closed" };
            let time = match report {
                Some(report) => format_time(*is_opened, &report),
                None if *is_deaf => ", not before its nodes run all programs".to_owned(),
                None => String::new(),
            };
            lines.push(format!("{verb}: {networks}: {pairs} pairs, such as {from} -> {to}{time}"));
        }
        lines
    }
}

fn find_changes(lab: &Lab, old: &Cluster, new: &Cluster) -> BTreeMap<String, Change> {
    let (old, new) = (Promises::of(old), Promises::of(new));
    let reaches = |promises: &Promises, from: &Pod, to: &Pod| {
        let mut families = common_families(from, to);
        families.any(|family| promises.reaches(from, to, Protocol::Icmp, family))
    };
    let deaf: BTreeSet<&str> = lab.stopped_programs().map(|(node, _)| node).collect();
    let mut changes = BTreeMap::<String, Change>::new();
    for (from, to) in lab.pairs() {
        let is_opened = reaches(&new, from, to);
        if is_opened == reaches(&old, from, to) {
            continue;
        }
        let networks = format!("{} -> {}", from.network, to.network);
        let is_deaf = [from, to].iter().any(|pod| deaf.contains(&*pod.node));
        let found =
            Change { is_opened, pairs: 0, from: from.name.clone(), to: to.name.clone(), is_deaf };
        let change = changes.entry(networks).or_insert_with(|| found.clone());
        if change.is_deaf && !is_deaf {
            *change = Change { pairs: change.pairs, ..found };
        }
        change.pairs += 1;
    }
    changes
}

/// Time until the last probe of the former state.
fn format_time(is_opened: bool, report: &ProbeReport) -> String {
    let (now, before) = if is_opened {
        (&report.answered, &report.unanswered)
    } else {
        (&report.unanswered, &report.answered)
    };
    let last_before = before.last().copied().unwrap_or_default();
    match now.iter().find(|time| **time >= last_before) {
        Some(first) => format!(", after {} ms", first.as_millis()),
        None if is_opened => ", but no packet gets through".to_owned(),
        None => ", but packets get through".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_change_is_that_of_the_first_probe_of_the_new_state() {
        let times = |times: &[u64]| times.iter().copied().map(Duration::from_millis).collect();
        let report = ProbeReport {
            sent: 5,
            answered: times(&[40, 80, 100]),
            unanswered: times(&[0, 20, 60]),
            arrived: Vec::new(),
        };
        assert_eq!(format_time(true, &report), ", after 80 ms");
        assert_eq!(format_time(false, &report), ", but packets get through");
        let report = ProbeReport { answered: times(&[0]), unanswered: times(&[20]), ..report };
        assert_eq!(format_time(false, &report), ", after 20 ms");
        assert_eq!(format_time(true, &report), ", but no packet gets through");
    }
}
