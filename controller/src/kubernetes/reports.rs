//! What zones report, from the zones to the leader: a `ConfigMap` of each zone, which the leader makes one condition of.
//!
//! Conditions of their own would be thousands on each connect, and everybody who watches connects would see all of them
//! change. A zone's object is written when something else is to be said, and not often; only the leader watches them.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, Resource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use tokio::sync::watch;

use super::config::Timing;
use super::failure;
use super::pace::Backoff;
use crate::zone::{ConnectReport, ZoneSummary};

/// On all objects of zones.
pub(super) const LABEL: &str = "app.kubernetes.io/component=patchbay-zone";
const LABEL_KEY: &str = "app.kubernetes.io/component";
const LABEL_VALUE: &str = "patchbay-zone";
/// Start of the objects' names, which the names of nodes follow.
const PREFIX: &str = "patchbay-zone-";
/// The longest name of an object.
const NAME: usize = 253;
const MANAGER: &str = "patchbay-zone";
/// How many obstacles a zone tells of each connect.
const OBSTACLES: usize = 5;

/// What a zone says about one connect.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(super) struct ConnectSummary {
    /// Tells the object from a later one of the same name.
    pub(super) uid: Option<String>,
    #[serde(flatten)]
    pub(super) summary: ZoneSummary,
}

impl ConnectSummary {
    pub(super) fn new(uid: Option<String>, report: &ConnectReport) -> Self {
        let summary = ZoneSummary::short(report, OBSTACLES);
        Self { uid, summary }
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
    let owner = object.metadata.owner_references.as_ref()?.first()?;
    let said = object.data.iter().flatten();
    let connects = said.filter_map(|(connect, text)| match serde_json::from_str(text) {
        Ok(summary) => Some((connect.clone(), summary)),
        Err(error) => {
            let (zone, name) = (&owner.name, object.name_any());
            tracing::warn!(zone, connect, %error, "cannot read what ConfigMap {name} says");
            None
        }
    });
    Some(Arc::new(SeenReport {
        zone: owner.name.clone(),
        connects: connects.collect(),
    }))
}

/// Writes what a zone says, whenever it is something new, and now and then all the same: somebody may have deleted the
/// object, and zones do not watch it.
pub(super) struct Publisher {
    pub(super) client: Client,
    pub(super) namespace: String,
    pub(super) zone: String,
    pub(super) says: watch::Receiver<ZoneReport>,
    pub(super) timing: Timing,
}

impl Publisher {
    /// Works until nobody says anything any more.
    pub(super) async fn run(mut self) {
        let api = Api::<ConfigMap>::namespaced(self.client.clone(), &self.namespace);
        let mut written = ZoneReport::default();
        let mut backoff = Backoff::new(&self.timing);
        loop {
            match tokio::time::timeout(self.timing.repeat, self.says.changed()).await {
                Ok(Ok(())) => {}
                Ok(Err(_)) => return,
                Err(_) => written = ZoneReport::default(),
            }
            // More will be said in a moment, and all zones have something to say at once.
            tokio::time::sleep(self.pause()).await;
            loop {
                let report = self.says.borrow_and_update().clone();
                if report == written || report.node.is_none() {
                    break;
                }
                match self.write(&api, &report).await {
                    Ok(()) => {
                        backoff.reset();
                        written = report;
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(error, "cannot write what the zone reports");
                        tokio::time::sleep(backoff.failed()).await;
                    }
                }
            }
        }
    }

    /// Between half the interval and all of it, a time of the zone's own.
    fn pause(&self) -> Duration {
        let mut hasher = DefaultHasher::new();
        self.zone.hash(&mut hasher);
        let part = f64::from((hasher.finish() & 0xffff) as u16) / f64::from(u16::MAX);
        self.timing.report.mul_f64(0.5 + part / 2.0)
    }

    async fn write(&self, api: &Api<ConfigMap>, report: &ZoneReport) -> Result<(), String> {
        let object = object(&self.zone, &self.namespace, report);
        let (name, params) = (object_name(&self.zone), PatchParams::apply(MANAGER).force());
        let patch = Patch::Apply(&object);
        let written = tokio::time::timeout(self.timing.request, api.patch(&name, &params, &patch));
        match written.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(failure::told(&error)),
            Err(_) => Err("the API server does not answer".to_owned()),
        }
    }
}

fn object(zone: &str, namespace: &str, report: &ZoneReport) -> Value {
    let data: BTreeMap<&String, String> = report
        .connects
        .iter()
        .map(|(connect, summary)| (connect, json!(summary).to_string()))
        .collect();
    json!({
        "apiVersion": ConfigMap::api_version(&()),
        "kind": ConfigMap::kind(&()),
        "metadata": {
            "name": object_name(zone),
            "namespace": namespace,
            "labels": {LABEL_KEY: LABEL_VALUE},
            "ownerReferences": [{
                "apiVersion": Node::api_version(&()),
                "kind": Node::kind(&()),
                "name": zone,
                "uid": report.node,
            }],
        },
        "data": data,
    })
}

/// Name of a zone's object. A name that would be too long gets a digest in its place.
fn object_name(zone: &str) -> String {
    if PREFIX.len() + zone.len() <= NAME {
        return format!("{PREFIX}{zone}");
    }
    let digest = Sha256::digest(zone);
    let mut first = [0; 16];
    first.copy_from_slice(&digest[..16]);
    format!("{PREFIX}{:032x}", u128::from_be_bytes(first))
}

/// The reports about one connect, by zone, and the zones that have none.
pub(super) fn about<'a>(
    connect: &kube::core::ObjectMeta,
    nodes: impl Iterator<Item = &'a str>,
    reports: &'a BTreeMap<&'a str, &'a SeenReport>,
) -> (Vec<(&'a str, &'a ZoneSummary)>, Vec<&'a str>) {
    let name = connect.name.as_deref().unwrap_or_default();
    let (mut told, mut silent) = (Vec::new(), Vec::new());
    for zone in nodes {
        let summary = reports
            .get(zone)
            .and_then(|report| report.connects.get(name));
        match summary.filter(|summary| summary.uid == connect.uid) {
            Some(summary) => told.push((zone, &summary.summary)),
            None => silent.push(zone),
        }
    }
    (told, silent)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::zone::{NetworkSkip, SkippedNetwork};

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
        let summary = ConnectSummary::new(Some("u".to_owned()), &report);
        assert_eq!(
            (summary.summary.obstacles.len(), summary.summary.more),
            (5, 2)
        );
        let report = ZoneReport {
            node: Some("n".to_owned()),
            connects: [("c".to_owned(), summary)].into(),
        };
        let object = object("n1", "default", &report);
        let object: ConfigMap = serde_json::from_value(object).unwrap();
        assert_eq!(object.name_any(), "patchbay-zone-n1");
        let mut broken = object.clone();
        let data = broken.data.get_or_insert_default();
        data.insert("d".to_owned(), "{".to_owned());
        for object in [object, broken] {
            let seen = seen(object).unwrap();
            assert_eq!((&*seen.zone, &seen.connects), ("n1", &report.connects));
        }
    }

    #[test]
    fn names_are_never_too_long() {
        assert_eq!(object_name("n1"), "patchbay-zone-n1");
        assert_eq!(object_name(&"n".repeat(250)).len(), PREFIX.len() + 32);
    }
}
