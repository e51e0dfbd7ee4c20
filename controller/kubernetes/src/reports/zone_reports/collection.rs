//! Reports of all zones about one `ClusterNetworkConnect`, and which of them count.

use std::collections::BTreeMap;

use patchbay_connects::ZoneReports;
use patchbay_resources::object::ObjectMeta;

use crate::reports::connect_revision::ConnectRevision;
use crate::reports::zone_liveness::ZoneState;
use crate::reports::zone_reports::WatchedZoneReport;
use crate::watch::input_digest::InputDigest;

/// A node of the cluster, and the state of its zone.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ZoneNode<'a> {
    /// Name of the node, and of the zone.
    pub(crate) name: &'a str,
    /// `true` if OVN does not manage the node, so that there is no zone.
    pub(crate) is_unmanaged: bool,
    pub(crate) state: ZoneState,
}

/// Reports of all zones about one ClusterNetworkConnect.
#[derive(Debug, Default)]
pub(crate) struct CollectedReports<'a> {
    pub(crate) reports: ZoneReports<'a>,
    /// `true` if it is not known yet of some zone whether it runs.
    pub(crate) is_unobserved: bool,
}

/// Selects the reports of the given nodes' zones about one ClusterNetworkConnect. `inputs` is the
/// digest of the present nodes and networks. A report without a revision counts as outdated.
pub(crate) fn reports_about<'a>(
    connect: &ObjectMeta,
    inputs: &InputDigest,
    nodes: impl Iterator<Item = ZoneNode<'a>>,
    reports: &'a BTreeMap<&'a str, &'a WatchedZoneReport>,
) -> CollectedReports<'a> {
    let name = connect.name.as_deref().unwrap_or_default();
    let revision = ConnectRevision::of(connect);
    let mut collected = CollectedReports::default();
    let about = &mut collected.reports;
    for ZoneNode { name: zone, is_unmanaged, state } in nodes {
        if is_unmanaged {
            about.unmanaged.push(zone);
            continue;
        }
        let report = reports.get(zone);
        if report.is_none() {
            about.joining.insert(zone);
        }
        let connect_summary = report
            .and_then(|report| report.connects.get(name))
            .filter(|summary| summary.uid == connect.uid);
        let Some(summary) = connect_summary else {
            about.silent.push(zone);
            continue;
        };
        let is_current = summary.revision.as_ref() == Some(&revision);
        let is_up_to_date = is_current && summary.inputs.as_ref() == Some(inputs);
        if state == ZoneState::NotRunning {
            about.expired.push(zone);
        } else if is_up_to_date || summary.is_unreachable {
            collected.is_unobserved |= state == ZoneState::Unobserved;
            about.current.push((zone, &summary.summary));
            continue;
        } else {
            about.outdated.push(zone);
        }
        if is_current || summary.is_unreachable {
            about.former.push((zone, &summary.summary));
        }
    }
    collected
}

#[cfg(test)]
mod tests {
    use patchbay_connects::{ConnectReport, ZoneSummary};
    use serde_json::json;

    use super::*;
    use crate::reports::zone_reports::ConnectSummary;
    use crate::reports::zone_reports::tests::{connect, seen_report, written};

    #[test]
    fn a_report_counts_for_its_own_revision_only() {
        let report = ConnectReport::default();
        let report_about = |seen: &ObjectMeta| {
            let summary = ConnectSummary::new(seen, &InputDigest::default(), &report);
            let object = written(&[("c", summary)]);
            seen_report(object)
        };
        let seen = connect("u", 2);
        let (current, former) = (report_about(&seen), report_about(&connect("u", 1)));
        let another = report_about(&connect("v", 2));
        // Written by a version without revisions, and with a field that is unknown here.
        let mut old = written(&[]);
        let text = r#"{"uid":"u","networks":2,"ports":6,"more":0,"else":[]}"#;
        old.data = Some([("c".to_owned(), text.to_owned())].into());
        let old = seen_report(old);
        let reports =
            [("n1", &*current), ("n2", &*former), ("n3", &*another), ("n4", &*old)].into();
        let nodes = ["n1", "n2", "n3", "n4", "n5"].map(running);
        let inputs = InputDigest::default();
        let about = reports_about(&seen, &inputs, nodes.into_iter(), &reports).reports;
        assert_eq!(names(&about.current), ["n1"]);
        assert_eq!(about.outdated, ["n2", "n4"]);
        assert_eq!(about.silent, ["n3", "n5"]);
        assert_eq!(about.joining, ["n5"].into());
    }

    #[test]
    fn a_report_counts_for_the_present_inputs_of_a_running_zone_only() {
        let seen = connect("u", 1);
        let [present, other]: [InputDigest; 2] =
            ["1", "2"].map(|digest| serde_json::from_value(json!(digest)).unwrap());
        let report = ConnectReport::default();
        let report_about = |inputs| {
            let summary = ConnectSummary::new(&seen, inputs, &report);
            seen_report(written(&[("c", summary)]))
        };
        let (current, former) = (report_about(&present), report_about(&other));
        let lost = ConnectSummary::unreachable(&seen, None);
        let lost = seen_report(written(&[("c", lost)]));
        let reports =
            [("n1", &*current), ("n2", &*former), ("n3", &*current), ("n4", &*lost)].into();
        let mut nodes = ["n1", "n2", "n3", "n4", "n5"].map(running);
        nodes[2].state = ZoneState::NotRunning;
        nodes[4].is_unmanaged = true;
        let collected = reports_about(&seen, &present, nodes.into_iter(), &reports);
        assert!(!collected.is_unobserved);
        let about = collected.reports;
        assert_eq!(names(&about.current), ["n1", "n4"]);
        assert_eq!(about.outdated, ["n2"]);
        assert_eq!(about.expired, ["n3"]);
        assert_eq!(names(&about.former), ["n2", "n3"]);
        assert_eq!(about.unmanaged, ["n5"]);
        assert!(about.silent.is_empty() && about.joining.is_empty());
        nodes[0].state = ZoneState::Unobserved;
        let collected = reports_about(&seen, &present, nodes.into_iter(), &reports);
        assert!(collected.is_unobserved);
    }

    fn running(name: &str) -> ZoneNode<'_> {
        ZoneNode { name, is_unmanaged: false, state: ZoneState::Running }
    }

    fn names<'a>(summaries: &[(&'a str, &ZoneSummary)]) -> Vec<&'a str> {
        summaries.iter().map(|(zone, _)| *zone).collect()
    }
}
