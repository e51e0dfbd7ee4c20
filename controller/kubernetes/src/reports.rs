//! What zones report, from the zones to the leader: a `ConfigMap` of each zone, which the leader makes one condition of.
//!
//! Conditions of their own would be thousands on each connect, and everybody who watches connects would see all of them
//! change. A zone's object is written when something else is to be said, and not often; only the leader watches them.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_resources::object::Object;
use patchbay_resources::object::{ConfigMap, Node};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::objects::SeenConnect;
use super::revision::Revision;
use patchbay_connects::{ConnectReport, ZoneReports, ZoneSummary};

/// On all objects of zones.
pub(super) const LABEL: &str = "app.kubernetes.io/component=patchbay-zone";
const LABEL_KEY: &str = "app.kubernetes.io/component";
const LABEL_VALUE: &str = "patchbay-zone";
/// Start of the objects' names, which the names of nodes follow.
const PREFIX: &str = "patchbay-zone-";
/// The longest name of an object.
const NAME: usize = 253;
/// What a zone says while it cannot look.
const OUT_OF_REACH: &str = "the Northbound database cannot be reached";
/// How many obstacles, and how many notices, a zone tells of each connect.
const SENTENCES: usize = 5;

/// What a zone says about one connect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct ConnectSummary {
    /// Tells the object from a later one of the same name.
    uid: Option<String>,
    /// The version of the object that this is about; none in what earlier versions of the zone half have written.
    #[serde(default)]
    revision: Option<Revision>,
    #[serde(flatten)]
    summary: ZoneSummary,
}

impl ConnectSummary {
    pub(super) fn new(seen: &SeenConnect, report: &ConnectReport) -> Self {
        Self {
            uid: seen.object.metadata.uid.clone(),
            revision: Some(seen.revision.clone()),
            summary: ZoneSummary::short(report, SENTENCES),
        }
    }

    /// Nothing was, or could be, done about the connect as it is now. What was connected before most likely still is.
    pub(super) fn out_of_reach(seen: &SeenConnect, before: Option<&Self>) -> Self {
        let before = before.filter(|before| before.uid == seen.object.metadata.uid);
        Self {
            uid: seen.object.metadata.uid.clone(),
            revision: Some(seen.revision.clone()),
            summary: ZoneSummary {
                networks: before.map_or(0, |before| before.summary.networks),
                ports: before.map_or(0, |before| before.summary.ports),
                obstacles: vec![OUT_OF_REACH.to_owned()],
                ..ZoneSummary::default()
            },
        }
    }

    /// The same is true of the connect as it is now.
    pub(super) fn renew(&mut self, seen: &SeenConnect) {
        self.uid.clone_from(&seen.object.metadata.uid);
        self.revision = Some(seen.revision.clone());
    }
}

/// What a zone says.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(super) struct ZoneReport {
    /// The node's UID: the object goes with the node.
    pub(super) node: Option<String>,
    /// The connects, by name.
    pub(super) connects: BTreeMap<String, ConnectSummary>,
}

/// What is kept of a zone's object: its name and what it says.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenReport {
    pub(super) zone: String,
    pub(super) connects: BTreeMap<String, ConnectSummary>,
}

/// Reads a zone's object. What cannot be understood is logged, and as if it had not been said.
#[expect(
    clippy::needless_pass_by_value,
    reason = "what is kept is all that is left of an object"
)]
pub(super) fn seen(object: ConfigMap) -> Option<Arc<SeenReport>> {
    let name = object.name_any();
    let mut owners = object.metadata.owner_references.iter().flatten();
    let Some(owner) = owners.find(|owner| owner.kind == Node::KIND) else {
        tracing::warn!("ConfigMap {name} is owned by no node, and so it is of no zone");
        return None;
    };
    let zone = owner.name.clone();
    // One object of each zone counts, whatever was copied from it.
    if name != object_name(&zone) {
        tracing::warn!(zone, "ConfigMap {name} has not the name of the zone's");
        return None;
    }
    let said = object.data.iter().flatten();
    let connects = said.filter_map(|(connect, text)| match serde_json::from_str(text) {
        Ok(summary) => Some((connect.clone(), summary)),
        Err(error) => {
            tracing::warn!(zone, connect, %error, "cannot read what ConfigMap {name} says");
            None
        }
    });
    let connects = connects.collect();
    Some(Arc::new(SeenReport { zone, connects }))
}

/// The object of a zone that says this.
pub(super) fn object(zone: &str, namespace: &str, report: &ZoneReport) -> Value {
    let data: BTreeMap<&String, String> = report
        .connects
        .iter()
        .map(|(connect, summary)| (connect, json!(summary).to_string()))
        .collect();
    json!({
        "apiVersion": ConfigMap::api_version(),
        "kind": ConfigMap::KIND,
        "metadata": {
            "name": object_name(zone),
            "namespace": namespace,
            "labels": {LABEL_KEY: LABEL_VALUE},
            "ownerReferences": [{
                "apiVersion": Node::api_version(),
                "kind": Node::KIND,
                "name": zone,
                "uid": report.node,
            }],
        },
        "data": data,
    })
}

/// Name of a zone's object. A name that would be too long gets a digest in its place.
pub(super) fn object_name(zone: &str) -> String {
    if PREFIX.len() + zone.len() <= NAME {
        return format!("{PREFIX}{zone}");
    }
    let digest = Sha256::digest(zone);
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    format!("{PREFIX}{:032x}", u128::from_be_bytes(first))
}

/// What the zones of these nodes say about one connect. A report without a revision may be about any, so it does not count
/// as one about the connect as it is now.
pub(super) fn about<'a>(
    connect: &SeenConnect,
    nodes: impl Iterator<Item = &'a str>,
    reports: &'a BTreeMap<&'a str, &'a SeenReport>,
) -> ZoneReports<'a> {
    let meta = &connect.object.metadata;
    let name = meta.name.as_deref().unwrap_or_default();
    let mut about = ZoneReports::default();
    for zone in nodes {
        let said = reports
            .get(zone)
            .and_then(|report| report.connects.get(name));
        match said.filter(|said| said.uid == meta.uid) {
            Some(said) if said.revision.as_ref() == Some(&connect.revision) => {
                about.current.push((zone, &said.summary));
            }
            Some(_) => about.outdated.push(zone),
            None => about.silent.push(zone),
        }
    }
    about
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::objects;
    use patchbay_connects::{NetworkSkip, SkippedNetwork};

    fn connect(uid: &str, generation: i64) -> Arc<SeenConnect> {
        let object = json!({
            "metadata": {"name": "c", "uid": uid, "generation": generation},
            "spec": {"networkSelectors": [], "connectSubnets": [], "connectivity": []},
        });
        objects::connect(serde_json::from_value(object).unwrap())
    }

    fn written(connects: &[(&str, ConnectSummary)]) -> ConfigMap {
        let connects = connects.iter().cloned();
        let report = ZoneReport {
            node: Some("n".to_owned()),
            connects: connects
                .map(|(name, said)| (name.to_owned(), said))
                .collect(),
        };
        serde_json::from_value(object("n1", "default", &report)).unwrap()
    }

    #[test]
    fn what_is_written_is_read_again() {
        let skipped = (1..8).map(|number| SkippedNetwork {
            owner: format!("layer3_{number}").parse().unwrap(),
            network: None,
            reason: NetworkSkip::Unknown,
        });
        let report = ConnectReport {
            skipped_networks: skipped.collect(),
            ..ConnectReport::default()
        };
        let summary = ConnectSummary::new(&connect("u", 1), &report);
        assert_eq!(
            (summary.summary.obstacles.len(), summary.summary.more),
            (5, 2)
        );
        let object = written(&[("c", summary.clone())]);
        assert_eq!(object.name_any(), "patchbay-zone-n1");
        let mut broken = object.clone();
        let data = broken.data.get_or_insert_default();
        data.insert("d".to_owned(), "{".to_owned());
        let expected = [("c".to_owned(), summary)].into();
        for object in [object, broken] {
            let seen = seen(object).unwrap();
            assert_eq!((&*seen.zone, &seen.connects), ("n1", &expected));
        }
    }

    #[test]
    fn an_object_counts_under_the_name_of_its_zone_only() {
        let object = written(&[]);
        let mut copied = object.clone();
        copied.metadata.name = Some("patchbay-zone-n2".to_owned());
        assert_eq!(seen(copied), None);
        let mut owned = object.clone();
        let owners = owned.metadata.owner_references.as_mut().unwrap();
        let mut other = owners[0].clone();
        other.kind = "DaemonSet".to_owned();
        other.name = "n2".to_owned();
        owners.insert(0, other);
        assert_eq!(seen(owned).unwrap().zone, "n1");
        let mut orphan = object;
        orphan.metadata.owner_references = None;
        assert_eq!(seen(orphan), None);
    }

    #[test]
    fn reports_count_for_the_revision_that_they_are_about() {
        let report = ConnectReport::default();
        let said = |seen: &SeenConnect| {
            let object = written(&[("c", ConnectSummary::new(seen, &report))]);
            seen_report(object)
        };
        let seen = connect("u", 2);
        let (current, former) = (said(&seen), said(&connect("u", 1)));
        let another = said(&connect("v", 2));
        // Of a version that knows nothing of revisions, but of something else.
        let mut old = written(&[]);
        let text = r#"{"uid":"u","networks":2,"ports":6,"more":0,"else":[]}"#;
        old.data = Some([("c".to_owned(), text.to_owned())].into());
        let old = seen_report(old);
        let reports = [
            ("n1", &*current),
            ("n2", &*former),
            ("n3", &*another),
            ("n4", &*old),
        ];
        let reports = reports.into();
        let about = about(&seen, ["n1", "n2", "n3", "n4", "n5"].into_iter(), &reports);
        let current: Vec<&str> = about.current.iter().map(|(zone, _)| *zone).collect();
        assert_eq!(current, ["n1"]);
        assert_eq!(about.outdated, ["n2", "n4"]);
        assert_eq!(about.silent, ["n3", "n5"]);
    }

    fn seen_report(object: ConfigMap) -> Arc<SeenReport> {
        seen(object).unwrap()
    }

    #[test]
    fn a_zone_without_its_database_says_so_of_connects_as_they_are() {
        let mut before = ConnectSummary::new(&connect("u", 1), &ConnectReport::default());
        before.summary.networks = 2;
        let now = connect("u", 2);
        let lost = ConnectSummary::out_of_reach(&now, Some(&before));
        assert_eq!(lost.revision.as_ref(), Some(&now.revision));
        assert_eq!(
            (lost.summary.networks, &*lost.summary.obstacles),
            (2, &[OUT_OF_REACH.to_owned()][..])
        );
        let lost = ConnectSummary::out_of_reach(&connect("v", 1), Some(&before));
        assert_eq!(lost.summary.networks, 0);
    }

    #[test]
    fn names_are_never_too_long() {
        assert_eq!(object_name("n1"), "patchbay-zone-n1");
        assert_eq!(object_name(&"n".repeat(250)).len(), PREFIX.len() + 32);
    }
}
