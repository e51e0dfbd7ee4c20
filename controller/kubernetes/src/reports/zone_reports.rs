//! The zones' reports: one `ConfigMap` per zone, from which the leader computes the condition
//! `Connected`.
//!
//! A condition per zone would be thousands on each ClusterNetworkConnect, and everyone who watches
//! those would see each change. A zone writes its `ConfigMap` only when its report changes, and
//! only the leader watches them.
//!
//! A report is about one version of the ClusterNetworkConnect, and about the nodes and networks
//! that the zone has seen ([`InputDigest`]). It counts only while the zone renews its lease
//! ([`ZoneState`](crate::reports::zone_liveness::ZoneState)).

mod collection;

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_connects::{ConnectReport, ZoneSummary};
use patchbay_resources::object::Object;
use patchbay_resources::object::{ConfigMap, Node, ObjectMeta};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::reports::connect_revision::ConnectRevision;
use crate::watch::input_digest::InputDigest;

pub(crate) use collection::{CollectedReports, ZoneNode, reports_about};

/// Label selector of all zones' `ConfigMap`s.
pub(crate) const SELECTOR: &str = "app.kubernetes.io/component=patchbay-zone";
pub(crate) const LABEL_KEY: &str = "app.kubernetes.io/component";
pub(crate) const LABEL_VALUE: &str = "patchbay-zone";
/// Prefix of the `ConfigMap`s' names; the node's name follows.
const NAME_PREFIX: &str = "patchbay-zone-";
/// Longest name of an object, in bytes.
const MAX_NAME_BYTES: usize = 253;
/// The obstacle that a zone reports while its database is unreachable.
const UNREACHABLE_OBSTACLE: &str = "the Northbound database cannot be reached";
/// Obstacles per ClusterNetworkConnect in a report, and notices likewise.
const MAX_SENTENCES: usize = 5;

/// A zone's report about one ClusterNetworkConnect, as JSON in the `ConfigMap`.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct ConnectSummary {
    /// UID, which distinguishes the object from a later one of the same name.
    uid: Option<String>,
    /// The version that the report is about. `None`: written by an earlier version of the zone
    /// controller.
    #[serde(default)]
    revision: Option<ConnectRevision>,
    /// Digest of the nodes and networks that the report is about. `None`: written by an earlier
    /// version of the zone controller.
    #[serde(default)]
    inputs: Option<InputDigest>,
    /// `true` if the zone's database is unreachable, whatever the version of the object.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    is_unreachable: bool,
    #[serde(flatten)]
    summary: ZoneSummary,
}

impl ConnectSummary {
    pub(crate) fn new(seen: &ObjectMeta, inputs: &InputDigest, report: &ConnectReport) -> Self {
        Self {
            uid: seen.uid.clone(),
            revision: Some(ConnectRevision::of(seen)),
            inputs: Some(inputs.clone()),
            is_unreachable: false,
            summary: ZoneSummary::short(report, MAX_SENTENCES),
        }
    }

    /// The report of a zone whose database is unreachable. The counts are the last known ones,
    /// because rows stay as they were.
    pub(crate) fn unreachable(seen: &ObjectMeta, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.uid == seen.uid);
        Self {
            uid: seen.uid.clone(),
            revision: None,
            inputs: None,
            is_unreachable: true,
            summary: ZoneSummary {
                networks: before.map_or(0, |before| before.summary.networks),
                ports: before.map_or(0, |before| before.summary.ports),
                obstacles: vec![UNREACHABLE_OBSTACLE.to_owned()],
                ..ZoneSummary::default()
            },
        }
    }

    /// `true` if the report is about the present version of the object.
    pub(crate) fn is_about(&self, connect: &ObjectMeta) -> bool {
        self.uid == connect.uid && self.revision == Some(ConnectRevision::of(connect))
    }

    /// Declares that the report also holds for the current version, and for these inputs.
    pub(crate) fn renew(&mut self, seen: &ObjectMeta, inputs: &InputDigest) {
        self.uid.clone_from(&seen.uid);
        self.revision = Some(ConnectRevision::of(seen));
        self.inputs = Some(inputs.clone());
    }
}

/// A zone's report.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct ZoneReport {
    /// UID of the node, which owns the `ConfigMap`. `None`: not known yet, so nothing can be
    /// written.
    pub(crate) node_uid: Option<String>,
    /// Reports about `ClusterNetworkConnect`s, by name.
    pub(crate) connects: BTreeMap<String, ConnectSummary>,
}

impl ZoneReport {
    /// `true` if everything is connected.
    pub(crate) fn is_complete(&self) -> bool {
        let mut summaries = self.connects.values();
        summaries.all(|connect| connect.summary.is_complete())
    }
}

/// A zone's report as a watch has delivered it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WatchedZoneReport {
    pub(crate) zone: String,
    pub(crate) connects: BTreeMap<String, ConnectSummary>,
}

/// Projects a zone's `ConfigMap` to its report. Entries that cannot be decoded are logged and
/// ignored.
#[expect(
    clippy::needless_pass_by_value,
    reason = "projections consume the objects that they reduce"
)]
pub(crate) fn project_report(object: ConfigMap) -> Option<Arc<WatchedZoneReport>> {
    let name = object.name_any();
    let mut owners = object.metadata.owner_references.iter().flatten();
    let Some(owner) = owners.find(|owner| owner.kind == Node::KIND) else {
        tracing::warn!("ignoring ConfigMap {name}: no node owns it");
        return None;
    };
    let zone = owner.name.clone();
    // Only the `ConfigMap` with the zone's own name counts, so that a copy does not.
    if name != zone_object_name(&zone) {
        tracing::warn!(zone, "ignoring ConfigMap {name}: it does not have the name of its zone");
        return None;
    }
    let entries = object.data.iter().flatten();
    let connects = entries.filter_map(|(connect, text)| {
        match serde_json::from_str::<ConnectSummary>(text) {
            Ok(mut summary) => {
                summary.summary.limit(MAX_SENTENCES);
                Some((connect.clone(), summary))
            }
            Err(error) => {
                tracing::warn!(zone, connect, %error, "ignoring an entry of ConfigMap {name} that cannot be decoded");
                None
            }
        }
    }).collect();
    Some(Arc::new(WatchedZoneReport { zone, connects }))
}

/// The `ConfigMap` with a zone's report.
pub(crate) fn report_config_map(zone: &str, namespace: &str, report: &ZoneReport) -> Value {
    let data: BTreeMap<&String, String> = report
        .connects
        .iter()
        .map(|(connect, summary)| (connect, json!(summary).to_string()))
        .collect();
    json!({
        "apiVersion": ConfigMap::api_version(),
        "kind": ConfigMap::KIND,
        "metadata": {
            "name": zone_object_name(zone),
            "namespace": namespace,
            "labels": {LABEL_KEY: LABEL_VALUE},
            "ownerReferences": [{
                "apiVersion": Node::api_version(),
                "kind": Node::KIND,
                "name": zone,
                "uid": report.node_uid,
            }],
        },
        "data": data,
    })
}

/// Name of a zone's `ConfigMap` and of its lease. If it would be too long, a digest replaces the
/// node's name.
pub(crate) fn zone_object_name(zone: &str) -> String {
    if NAME_PREFIX.len() + zone.len() <= MAX_NAME_BYTES {
        return format!("{NAME_PREFIX}{zone}");
    }
    let digest = Sha256::digest(zone);
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    format!("{NAME_PREFIX}{:032x}", u128::from_be_bytes(first))
}

#[cfg(test)]
mod tests {
    use super::*;
    use patchbay_connects::{NetworkSkip, SkippedNetwork};

    pub(crate) fn connect(uid: &str, generation: i64) -> ObjectMeta {
        ObjectMeta {
            name: Some("c".to_owned()),
            uid: Some(uid.to_owned()),
            generation: Some(generation),
            ..ObjectMeta::default()
        }
    }

    pub(crate) fn written(connects: &[(&str, ConnectSummary)]) -> ConfigMap {
        let connects = connects.iter().cloned();
        let report = ZoneReport {
            node_uid: Some("n".to_owned()),
            connects: connects.map(|(name, summary)| (name.to_owned(), summary)).collect(),
        };
        serde_json::from_value(report_config_map("n1", "default", &report)).unwrap()
    }

    #[test]
    fn a_written_report_is_read_back() {
        let skipped = (1..8).map(|number| SkippedNetwork {
            owner: format!("layer3_{number}").parse().unwrap(),
            network: None,
            reason: NetworkSkip::Unknown,
        });
        let report =
            ConnectReport { skipped_networks: skipped.collect(), ..ConnectReport::default() };
        let summary = ConnectSummary::new(&connect("u", 1), &InputDigest::default(), &report);
        assert_eq!((summary.summary.obstacles.len(), summary.summary.more), (5, 2));
        let object = written(&[("c", summary.clone())]);
        assert_eq!(object.name_any(), "patchbay-zone-n1");
        let mut broken = object.clone();
        let data = broken.data.get_or_insert_default();
        data.insert("d".to_owned(), "{".to_owned());
        let expected = [("c".to_owned(), summary)].into();
        for object in [object, broken] {
            let seen = project_report(object).unwrap();
            assert_eq!((&*seen.zone, &seen.connects), ("n1", &expected));
        }
    }

    #[test]
    fn a_node_cannot_write_more_than_a_zone_controller_does() {
        let mut object = written(&[]);
        let obstacles = vec![format!("a\n2026 WARN forged {}", "x".repeat(400_000)); 9];
        let text = json!({"uid": "u", "networks": u64::MAX, "ports": u64::MAX, "more": u64::MAX,
            "obstacles": obstacles, "notices": obstacles, "more_notices": 1});
        object.data = Some([("c".to_owned(), text.to_string())].into());
        let seen = seen_report(object);
        let summary = &seen.connects["c"].summary;
        assert_eq!(summary.obstacles.len(), MAX_SENTENCES);
        assert!(summary.obstacles.iter().all(|one| one.len() < 500));
        assert!(!summary.obstacles[0].contains('\n'), "{}", summary.obstacles[0]);
        assert_eq!((summary.notices.len(), summary.more_notices), (5, 5));
        // The sums over thousands of zones have no overflow.
        assert!(summary.ports.checked_mul(1_000_000).is_some());
        assert!(summary.networks.checked_mul(1_000_000).is_some());
        assert!(summary.more.checked_mul(1_000_000).is_some());
    }

    #[test]
    fn only_a_config_map_with_the_name_of_its_zone_counts() {
        let object = written(&[]);
        let mut copied = object.clone();
        copied.metadata.name = Some("patchbay-zone-n2".to_owned());
        assert_eq!(project_report(copied), None);
        let mut owned = object.clone();
        let owners = owned.metadata.owner_references.as_mut().unwrap();
        let mut other = owners[0].clone();
        other.kind = "DaemonSet".to_owned();
        other.name = "n2".to_owned();
        owners.insert(0, other);
        assert_eq!(project_report(owned).unwrap().zone, "n1");
        let mut orphan = object;
        orphan.metadata.owner_references = None;
        assert_eq!(project_report(orphan), None);
    }

    pub(crate) fn seen_report(object: ConfigMap) -> Arc<WatchedZoneReport> {
        project_report(object).unwrap()
    }

    #[test]
    fn a_zone_without_its_database_reports_about_every_version() {
        let (inputs, report) = (InputDigest::default(), ConnectReport::default());
        let mut before = ConnectSummary::new(&connect("u", 1), &inputs, &report);
        before.summary.networks = 2;
        let now = connect("u", 2);
        let lost = ConnectSummary::unreachable(&now, Some(&before));
        assert!(lost.is_unreachable);
        assert_eq!(
            (lost.summary.networks, &*lost.summary.obstacles),
            (2, &[UNREACHABLE_OBSTACLE.to_owned()][..])
        );
        let lost = ConnectSummary::unreachable(&connect("v", 1), Some(&before));
        assert_eq!(lost.summary.networks, 0);
    }

    #[test]
    fn names_of_config_maps_are_never_too_long() {
        assert_eq!(zone_object_name("n1"), "patchbay-zone-n1");
        assert_eq!(zone_object_name(&"n".repeat(250)).len(), NAME_PREFIX.len() + 32);
    }
}
