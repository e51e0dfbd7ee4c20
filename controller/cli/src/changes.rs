//! Changes by object, as `plan`, `apply --watch` and `diff` print and document them.

use std::collections::BTreeMap;
use std::io::{self, Write};

use patchbay_changes::{
    ChangeKind, Changes, Counts, Layout, Object, Summary, grouped, write_objects,
};
use patchbay_connects::ConnectReport;
use patchbay_model::abbreviation::abbreviate_list;
use patchbay_model::{Network, Role};
use patchbay_reconcile::Cluster;
use serde::Serialize;

use super::colours::{Colour, Colours};

/// Version of the documents.
pub(super) const API_VERSION: &str = "patchbay.io/v1alpha1";
/// Maximum number of networks that the description of a connect names.
const MAX_NETWORKS: usize = 4;

/// Object of a document.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ObjectDocument<'a> {
    kind: &'a str,
    name: &'a str,
    change: ChangeKind,
    #[serde(skip_serializing_if = "String::is_empty")]
    description: String,
    counts: Counts,
    tables: &'a BTreeMap<String, Counts>,
    /// Number of zones in which its rows change.
    zones: usize,
}

/// The objects of a document.
pub(super) fn documents<'a>(
    changes: &'a Changes,
    known: &BTreeMap<Object, String>,
) -> Vec<ObjectDocument<'a>> {
    let objects = changes.objects().map(|(object, change)| ObjectDocument {
        kind: &object.kind,
        name: &object.name,
        change: change.kind(),
        description: known.get(object).cloned().unwrap_or_else(|| change.facts()),
        counts: change.counts(),
        tables: &change.tables,
        zones: change.zone_count(),
    });
    objects.collect()
}

/// Writes the objects, in colours where they are on.
pub(super) fn write_changes(
    output: &mut dyn Write,
    changes: &Changes,
    known: &BTreeMap<Object, String>,
    colours: Colours,
) -> io::Result<()> {
    let paint = |kind, text: &str| {
        let colour = match kind {
            ChangeKind::Insert => Colour::Green,
            ChangeKind::Change => Colour::Yellow,
            ChangeKind::Delete => Colour::Red,
        };
        colours.paint(colour, text)
    };
    write_objects(output, changes, &Layout { known, paint: &paint })
}

/// A line for each object, without colours.
pub(super) fn summaries(changes: &Changes, known: &BTreeMap<Object, String>) -> Vec<Summary> {
    patchbay_changes::summaries(changes, &Layout { known, paint: &|_, text| text.to_owned() })
}

/// Facts about networks from the objects of a cluster.
pub(super) fn network_descriptions(cluster: &Cluster) -> BTreeMap<Object, String> {
    let networks = cluster.networks();
    let described = networks.iter().map(|network| {
        let Network { name, topology, role, pod_subnets, .. } = network;
        let role = match role {
            Role::Primary => "primary",
            Role::Secondary => "secondary",
        };
        let subnets = pod_subnets.iter().map(|subnet| format!(", {}", subnet.cidr));
        let subnets: String = subnets.collect();
        (Object::network(name), format!("{topology}, {role}{subnets}"))
    });
    described.collect()
}

/// The networks that a connect connects, in words. `None`: there is none.
pub(super) fn connect_description(name: &str, report: &ConnectReport) -> Option<(Object, String)> {
    let networks = report.connected.iter().map(|network| Object::network(&network.network).name);
    let networks: Vec<String> = networks.collect();
    let text = abbreviate_list(&networks, MAX_NETWORKS);
    let object = Object::new("ClusterNetworkConnect", name);
    (!networks.is_empty()).then_some((object, text))
}

/// A number of zones with its noun.
pub(super) fn zone_count(count: usize) -> String {
    if count == 1 { "1 zone".to_owned() } else { format!("{} zones", grouped(count)) }
}

/// Numbers of rows in a sentence, such as `115 to add, 3 to change, 0 to delete`.
pub(super) fn counts_text(counts: Counts, verbs: [&str; 3]) -> String {
    let Counts { add, change, delete } = counts;
    let parts = [add, change, delete].into_iter().zip(verbs);
    let parts: Vec<String> =
        parts.map(|(count, verb)| format!("{} {verb}", grouped(count))).collect();
    parts.join(", ")
}
