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

use super::args::{Explain, Explained};
use super::{read_manifests, require_zone, select_zones};
use crate::args::{Database, Format};
use crate::console::Console;
use crate::failure::Failure;
use crate::unreadable::unreadable;
use crate::zones::{now, open_zone, report_objects, row_uuids};

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
    if arguments.paths.is_empty() {
        let message = format!("a {} is read from manifests only: use --filename", kind.as_str());
        return Err(Failure::Arguments(message));
    }
    let (inventory, settings) = read_manifests(arguments, console).await?;
    let cluster = Cluster::from_inventory(inventory, settings, now())?.with_every_kind();
    require_zone(arguments, &cluster)?;
    report_objects(&cluster, console)?;
    let key = find(kind, &arguments.name, &cluster)?;
    let planned = plan(kind, &key, arguments, &cluster, console).await?;
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

/// Plans the rows of zones, and compares them with those of a database if it is named.
async fn plan(
    kind: ObjectKind,
    key: &ObjectKey,
    arguments: &Explain,
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<Planned, Failure> {
    let database = match &arguments.nb {
        Some(remote) => Database::Remote(remote.clone()),
        None => Database::Embedded,
    };
    let mut zones = select_zones(arguments, cluster)?;
    let node = cluster.inventory.pods.get(key).filter(|_| kind == ObjectKind::Pod);
    let node = node.and_then(|pod| pod.object.spec.as_ref()?.node_name.clone());
    if let Some(node) =
        node.filter(|node| arguments.zone.is_none() && cluster.zones().contains(node))
    {
        zones = vec![node];
    }
    let mut planned = Planned {
        object: object_of(kind, key),
        wanted: Changes::default(),
        rows: Vec::new(),
        problems: Vec::new(),
        skipped: Vec::new(),
    };
    let empty = Snapshot::empty(nb::schema());
    for name in zones {
        let (keys, limit) = (&arguments.input.keys, arguments.input.limit);
        let zone = open_zone(&name, 0, &database, (keys, limit), console).await?;
        let before = zone.northbound().snapshot();
        let dry_run = DryRun::new(before.clone());
        let mut zone = ZoneReconciler::new(&*name, dry_run, row_uuids(&database, 0));
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
        if arguments.nb.is_some() {
            let work = Snapshots { before: &before, after: &after };
            let rows = work.rows_of(&planned.object, &differing_rows(work));
            let is_central = cluster.settings().databases == Databases::Central;
            let zone = (!is_central).then_some(name);
            planned.rows.extend(rows.iter().map(|row| object_row(row, zone.as_ref())));
        }
    }
    Ok(planned)
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
