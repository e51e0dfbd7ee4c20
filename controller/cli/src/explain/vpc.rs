//! `patchbay explain` for objects of VPCs: what stops them, and their rows.

use patchbay_explain::{VpcKind, VpcView, explain_vpc};
use patchbay_lint::{Facts, lint};
use patchbay_model::vpc::NatKind;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{DryRun, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::uuids::UuidSource;

use super::args::{Explain, Explained};
use super::read_manifests;
use crate::args::{Database, Format};
use crate::console::Console;
use crate::failure::Failure;
use crate::unreadable::unreadable;
use crate::zones::{now, open_zone, report_objects};

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
    arguments: &Explain,
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
    let (inventory, settings) = read_manifests(arguments, console).await?;
    // The objects that are made for others are not judged.
    let manifests = inventory.clone();
    let central = ClusterSettings { databases: Databases::Central, ..settings };
    let cluster = Cluster::from_inventory(inventory, central, now())?.with_every_kind();
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
