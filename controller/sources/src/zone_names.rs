//! Names of the zones of databases.

use std::collections::BTreeMap;
use std::io;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::NbGlobal;
use serde::Deserialize;

/// Nodes of pods, which name the files of their databases.
#[derive(Debug, Default)]
pub(crate) struct PodNodes(BTreeMap<String, String>);

impl PodNodes {
    /// Reads the nodes in a file with a pod or a list of pods.
    ///
    /// # Errors
    /// The content is no YAML of pods.
    pub(crate) fn read(&mut self, content: &[u8]) -> io::Result<()> {
        let text = str::from_utf8(content).map_err(io::Error::other)?;
        let pods: Pods = serde_saphyr::from_str(text).map_err(io::Error::other)?;
        let single = Pod { metadata: pods.metadata, spec: pods.spec };
        let named = pods.items.into_iter().chain([single]);
        self.0.extend(named.filter_map(|pod| Some((pod.metadata.name?, pod.spec.node_name?))));
        Ok(())
    }

    /// The zone of a database.
    pub(crate) fn zone_of(&self, member: &str, snapshot: &Snapshot) -> String {
        let file = member.rsplit('/').next().unwrap_or(member);
        // Names of pods have no underscore: POD_nbdb, POD_nbdb.gz.
        let pod = file.split('_').next().unwrap_or(file);
        let named = own_zone(snapshot).or_else(|| self.0.get(pod).cloned());
        named.unwrap_or_else(|| member.to_owned())
    }
}

/// A pod, or a list of pods.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pods {
    items: Vec<Pod>,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Pod {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Metadata {
    name: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

/// The zone that a database names itself: `NB_Global.name`, where OVN-Kubernetes writes its node.
pub fn own_zone(snapshot: &Snapshot) -> Option<String> {
    let globals = snapshot.typed::<NbGlobal>();
    let mut names = globals.iter().filter_map(|row| Some(row.ok()?.1.name));
    names.find(|name| !name.is_empty())
}
