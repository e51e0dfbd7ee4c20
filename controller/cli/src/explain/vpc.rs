//! `patchbay explain` for objects of VPCs: what stops them, and their rows.

use patchbay_explain::{VpcKind, VpcView, explain_vpc};
use patchbay_lint::{Facts, lint};
use patchbay_model::vpc::NatKind;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::northbound::{DryRun, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_reconcile::{Cluster, load};
use patchbay_schemas::uuids::UuidSource;

use super::super::args::{self, Database, Explained, Format};
use super::super::console::Console;
use super::super::failure::Failure;
use super::super::state::{folder, lock_to_read};
use super::super::unreadable::unreadable;
use super::super::zones::{now, open_zone, report_objects};

/// The kind of an object of VPCs. `None`: it is no such object.
pub(super) fn kind(explained: Explained) -> Option<VpcKind> {
    Some(match explained {
        Explained::Cnc
        | Explained::Udn
        | Explained::Cudn
        | Explained::Pod
        | Explained::Service
        | Explained::Networkpolicy
        | Explained::Egressip => return None,
        Explained::Vpc => VpcKind::Vpc,
        Explained::Subnet => VpcKind::Subnet,
        Explained::Eip => VpcKind::Eip,
        Explained::Snat => VpcKind::Nat(NatKind::Snat),
        Explained::Dnat => VpcKind::Nat(NatKind::Dnat),
        Explained::Fip => VpcKind::Nat(NatKind::Fip),
        Explained::Switchlbrule => VpcKind::SwitchRule,
        Explained::Routerlbrule => VpcKind::RouterRule,
        Explained::Securitygroup => VpcKind::Group,
        Explained::Vip => VpcKind::VirtualIp,
        Explained::Ippool => VpcKind::IpPool,
        Explained::Ip => VpcKind::Ip,
    })
}

/// Prints the explanation of an object. Returns `true` if everything that it specifies is in effect.
pub(super) async fn explain(
    kind: VpcKind,
    arguments: &args::Explain,
    console: &mut Console<'_>,
) -> Result<bool, Failure> {
    if arguments.paths.is_empty() {
        let message = "objects of VPCs are read from manifests only: use --filename";
        return Err(Failure::Arguments(message.to_owned()));
    }
    if let Some(zone) = &arguments.zone {
        let message = format!("--zone {zone}: all nodes have one database for VPCs");
        return Err(Failure::Topology(message));
    }
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let max_bytes = arguments.input.manifest_limit.bytes();
    let inventory = load(&arguments.paths, console.input, state.as_ref(), max_bytes)?;
    let settings = arguments.input.cluster.settings(&inventory)?;
    // The objects that are made for others are not judged.
    let manifests = inventory.clone();
    let settings = ClusterSettings {
        databases: Databases::Central,
        is_northd_stock: arguments.stock_northd,
        ..settings
    };
    let cluster = Cluster::from_inventory(inventory, settings, now())?.with_every_kind();
    report_objects(&cluster, console)?;
    let name = &*arguments.name;
    if let Some(failure) = unreadable(&cluster, &[kind.as_str()], name) {
        return Err(failure);
    }
    let database = match &arguments.nb {
        Some(remote) => Database::Remote(remote.clone()),
        None => Database::Embedded,
    };
    let (keys, limit) = (&arguments.input.keys, arguments.input.limit);
    let zone = open_zone(Databases::CENTRAL, 0, &database, (keys, limit), console).await?;
    let before = zone.northbound().snapshot();
    let dry_run = DryRun::new(before.clone());
    let mut zone = ZoneReconciler::new(Databases::CENTRAL, dry_run, UuidSource::random());
    let problems = match zone.reconcile(&cluster).await {
        Ok(outcome) => outcome.problems,
        Err(error) => {
            console.warn("rows", &error.to_string())?;
            Vec::new()
        }
    };
    let before = arguments.nb.is_some().then_some(&before);
    let findings = lint(&manifests, &Facts::default(), before).findings;
    let after = zone.northbound().snapshot();
    let view = VpcView { findings: &findings, problems: &problems, before, after: &after };
    let Some(explanation) = explain_vpc(kind, name, &cluster.inventory, view) else {
        return Err(Failure::NoSuchObject {
            kind: kind.as_str(),
            name: name.to_owned(),
            known: kind.names(&cluster.inventory),
        });
    };
    match arguments.output {
        Format::Text => console.write_sentences(&explanation)?,
        format => console.document(&explanation, format)?,
    }
    Ok(explanation.is_ready())
}
