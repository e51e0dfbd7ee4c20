//! `patchbay explain` for networks, pods, services, policies and EgressIPs.

use patchbay_changes::{
    ChangeKind, ChangedRow, Changes, Object, Snapshots, differing_rows, rows_text,
};
use patchbay_engine::db::Snapshot;
use patchbay_explain::{ObjectKind, ObjectRow, ObjectView, RowState, explain_object};
use patchbay_model::Databases;
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{DryRun, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_resources::conversion::network_of_resource;
use patchbay_resources::manifests::ObjectKey;
use patchbay_schemas::nb;
use patchbay_schemas::uuids::UuidSource;

use super::args::{Explain, Explained};
use super::select_zones;
use super::subject::{Subject, cluster_of, zone_databases};
use crate::args::Format;
use crate::console::Console;
use crate::databases::ZoneDatabase;
use crate::failure::Failure;
use crate::unreadable::unreadable;
use crate::zones::report_objects;

/// The kind of an object. `None`: it has an explanation of its own.
pub(super) fn kind(explained: Explained) -> Option<ObjectKind> {
    Some(match explained {
        Explained::Udn => ObjectKind::Udn,
        Explained::Cudn => ObjectKind::Cudn,
        Explained::Pod => ObjectKind::Pod,
        Explained::Service => ObjectKind::Service,
        Explained::Networkpolicy => ObjectKind::NetworkPolicy,
        Explained::Egressip => ObjectKind::EgressIp,
        _ => return None,
    })
}

/// Prints the explanation of an object. Returns `true` if everything that it specifies is in effect.
pub(super) async fn explain(
    kind: ObjectKind,
    arguments: &Explain,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    let Subject { source, inventory, settings, databases } =
        Subject::read(arguments, console).await?;
    let cluster = cluster_of(inventory, (&source, settings), console)?.with_every_kind();
    report_objects(&cluster, console)?;
    let key = find(kind, &arguments.name, &cluster)?;
    let databases = zone_databases((arguments, databases), &cluster, console).await?;
    let planned = plan((kind, &key), (arguments, databases), &cluster, console).await?;
    let networks = cluster.networks();
    let view = ObjectView {
        networks: &networks,
        problems: &planned.problems,
        skipped: &planned.skipped,
        wanted: &rows_text(&planned.wanted, &planned.object),
        rows: &planned.rows,
    };
    let Some(explanation) = explain_object(kind, &key, &cluster.inventory, view) else {
        return Err(not_found(kind, &arguments.name, &cluster));
    };
    match arguments.output {
        Format::Text => console.write_sentences(&explanation)?,
        format => console.document(&explanation, format)?,
    }
    Ok(explanation.is_ready())
}

/// The object that a name means.
fn find(kind: ObjectKind, name: &str, cluster: &Cluster) -> Result<ObjectKey, Failure> {
    if let Some(failure) = unreadable(cluster, &[kind.as_str()], name) {
        return Err(failure);
    }
    match &kind.find(name, &cluster.inventory)[..] {
        [] => Err(not_found(kind, name, cluster)),
        [only] => Ok(only.clone()),
        [first, second, ..] => Err(Failure::Arguments(format!(
            "several objects of kind {} are named {name}, such as {first} and {second}",
            kind.as_str()
        ))),
    }
}

fn not_found(kind: ObjectKind, name: &str, cluster: &Cluster) -> Failure {
    let known = kind.names(&cluster.inventory);
    Failure::NoSuchObject { kind: kind.as_str(), name: name.to_owned(), known }
}

/// Results of dry runs in zones about an object.
struct Planned {
    object: Object,
    /// The rows of all objects.
    wanted: Changes,
    /// Rows of the object that are not as wanted.
    rows: Vec<ObjectRow>,
    problems: Vec<patchbay_model::ObjectProblem>,
    skipped: Vec<(String, patchbay_networks::SkippedNetwork)>,
}

/// Plans the rows of zones, and compares them with those of their databases if there are any.
async fn plan(
    (kind, key): (ObjectKind, &ObjectKey),
    (arguments, databases): (&Explain, Vec<ZoneDatabase>),
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<Planned, Failure> {
    let empty = Snapshot::empty(nb::schema());
    let is_real = !databases.is_empty();
    let mut zones = databases;
    if !is_real {
        let names = select_zones(arguments, cluster)?.into_iter();
        zones = names.map(|zone| ZoneDatabase { zone, snapshot: empty.clone() }).collect();
    }
    if let Some(node) = node_of(kind, key, cluster).filter(|_| arguments.zone.is_none()) {
        // Without databases, the zone of a pod need not be among the first ones.
        if !is_real {
            zones = vec![ZoneDatabase { zone: node.clone(), snapshot: empty.clone() }];
        }
        zones.retain(|database| database.zone == node);
    }
    let mut planned = Planned {
        object: object_of(kind, key),
        wanted: Changes::default(),
        rows: Vec::new(),
        problems: Vec::new(),
        skipped: Vec::new(),
    };
    console.begin("comparing the rows of", "zone", zones.len());
    for ZoneDatabase { zone: name, snapshot: before } in zones {
        let dry_run = DryRun::new(before.clone());
        let uuids = if is_real { UuidSource::random() } else { UuidSource::seeded(0) };
        let mut zone = ZoneReconciler::new(&*name, dry_run, uuids);
        match zone.reconcile(cluster).await {
            Ok(outcome) => {
                planned.problems.extend(outcome.problems);
                let skipped = outcome.skipped_networks.into_iter();
                planned.skipped.extend(skipped.map(|skipped| (name.clone(), skipped)));
            }
            Err(error) => console.warn("rows", &error.to_string())?,
        }
        let after = zone.northbound().snapshot();
        let all = Snapshots { before: &empty, after: &after };
        planned.wanted.add_zone(&name, all, &differing_rows(all));
        if is_real {
            let work = Snapshots { before: &before, after: &after };
            let rows = work.rows_of(&planned.object, &differing_rows(work));
            let is_central = cluster.settings().databases == Databases::Central;
            let zone = (!is_central).then_some(name);
            planned.rows.extend(rows.iter().map(|row| object_row(row, zone.as_ref())));
        }
        console.step()?;
    }
    console.end()?;
    Ok(planned)
}

/// The node of a pod, if it is a zone.
fn node_of(kind: ObjectKind, key: &ObjectKey, cluster: &Cluster) -> Option<String> {
    let pod = cluster.inventory.pods.get(key).filter(|_| kind == ObjectKind::Pod)?;
    let node = pod.object.spec.as_ref()?.node_name.clone();
    node.filter(|node| cluster.zones().contains(node))
}

/// The object as its rows name it.
fn object_of(kind: ObjectKind, key: &ObjectKey) -> Object {
    match kind {
        ObjectKind::Udn | ObjectKind::Cudn => {
            Object::network(&network_of_resource(kind.as_str(), key).unwrap_or_default())
        }
        ObjectKind::Pod => Object::new("pod", key.to_string()),
        _ => Object::new(kind.as_str(), key.to_string()),
    }
}

fn object_row(row: &ChangedRow, zone: Option<&String>) -> ObjectRow {
    ObjectRow {
        zone: zone.cloned(),
        table: row.table.clone(),
        row: row.row.clone(),
        state: match row.change {
            ChangeKind::Insert => RowState::Missing,
            ChangeKind::Change => RowState::Different(row.columns().map(str::to_owned).collect()),
            ChangeKind::Delete => RowState::LeftOver,
        },
    }
}
