//! States that tests wait for, and readers of a ClusterNetworkConnect.

use std::collections::BTreeMap;
use std::time::Duration;

use futures_util::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::Testbed;
use crate::stored::ClusterNetworkConnect;

const SUBNETS: &str = "k8s.ovn.org/network-connect-subnet";
const TUNNEL_KEY: &str = "k8s.ovn.org/connect-router-tunnel-key";

/// Waits until `found` returns a value, for at most two minutes, because a busy machine is slow.
pub(crate) async fn eventually<T>(what: &str, mut found: impl AsyncFnMut() -> Option<T>) -> T {
    let attempts = async {
        loop {
            if let Some(found) = found().await {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(120), attempts).await;
    found.unwrap_or_else(|_| panic!("timed out waiting: {what}"))
}

/// Waits until the condition has this status, contains `text`, and is about the current generation.
pub(crate) async fn until_connected(bed: &Testbed, status: &str, text: &str) {
    let what = format!("Connected is {status}: {text}");
    let attempts = async {
        let mut last = None;
        loop {
            let connect = bed.connected().await;
            let condition = condition(&connect, "Connected");
            if let Some((found, message)) = &condition
                && *found == status
                && message.contains(text)
                && observes(&connect)
            {
                return;
            }
            if condition != last {
                println!("Connected: {condition:?}");
                last = condition;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let found = tokio::time::timeout(Duration::from_secs(120), attempts).await;
    found.unwrap_or_else(|_| panic!("timed out waiting: {what}"));
}

/// `true` if the condition is about the current generation.
fn observes(connect: &ClusterNetworkConnect) -> bool {
    let conditions = &connect.status.as_ref().unwrap().conditions;
    let condition = conditions.iter().find(|one| one.type_ == "Connected");
    condition.unwrap().observed_generation == connect.metadata.generation
}

/// Records the statuses of the condition `Connected`.
pub(crate) struct ConditionWatch {
    /// The resource version at which the record ends.
    end: oneshot::Sender<u64>,
    task: JoinHandle<Vec<String>>,
}

impl ConditionWatch {
    pub(crate) async fn begin(bed: &Testbed) -> Self {
        let first = bed.connected().await;
        let connects = bed.connects();
        let (end, ended) = oneshot::channel();
        let task = tokio::spawn(record(connects, first, ended));
        Self { end, task }
    }

    /// The statuses until now that differ from the one before.
    pub(crate) async fn end(self, bed: &Testbed) -> Vec<String> {
        let last = resource_version(&bed.connected().await);
        self.end.send(last).unwrap();
        let seen = tokio::time::timeout(Duration::from_secs(120), self.task).await;
        seen.expect("timed out waiting: the last event").unwrap()
    }
}

/// Records statuses until an object has the resource version from `ended`. Events arrive later than
/// replies.
async fn record(
    connects: Api<ClusterNetworkConnect>,
    first: ClusterNetworkConnect,
    mut ended: oneshot::Receiver<u64>,
) -> Vec<String> {
    let status =
        |connect: &ClusterNetworkConnect| condition(connect, "Connected").map(|(status, _)| status);
    let params = WatchParams::default();
    let version = first.resource_version().unwrap();
    let mut events = std::pin::pin!(connects.watch(&params, &version).await.unwrap());
    let mut seen: Vec<String> = status(&first).into_iter().collect();
    let (mut version, mut last) = (resource_version(&first), None);
    while last.is_none_or(|last| version < last) {
        let event = tokio::select! {
            event = events.next() => event.expect("the watch has ended"),
            end = &mut ended, if last.is_none() => {
                last = Some(end.unwrap());
                continue;
            }
        };
        if let WatchEvent::Modified(connect) = event.unwrap() {
            version = resource_version(&connect);
            let status = status(&connect);
            if status.as_ref() != seen.last() {
                seen.extend(status);
            }
        }
    }
    seen
}

fn resource_version(connect: &ClusterNetworkConnect) -> u64 {
    connect.resource_version().unwrap().parse().unwrap()
}

/// The connect subnets by owner.
pub(crate) fn subnets(connect: &ClusterNetworkConnect) -> BTreeMap<String, Value> {
    let text = connect.annotations().get(SUBNETS);
    text.map_or_else(BTreeMap::new, |text| serde_json::from_str(text).unwrap())
}

/// The tunnel key of the connect router.
pub(crate) fn tunnel_key(connect: &ClusterNetworkConnect) -> Option<&str> {
    connect.annotations().get(TUNNEL_KEY).map(String::as_str)
}

/// Status and message of the condition `Accepted`.
pub(crate) fn accepted(connect: &ClusterNetworkConnect) -> Option<(String, String)> {
    condition(connect, "Accepted")
}

/// Status and message of a condition.
pub(crate) fn condition(connect: &ClusterNetworkConnect, type_: &str) -> Option<(String, String)> {
    let conditions = &connect.status.as_ref()?.conditions;
    let condition = conditions.iter().find(|condition| condition.type_ == type_)?;
    Some((condition.status.clone(), condition.message.clone()))
}
