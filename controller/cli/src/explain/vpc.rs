//! `patchbay explain` for objects of VPCs: what stops them, and their rows.

use patchbay_engine::db::Snapshot;
use patchbay_explain::{VpcKind, VpcView, explain_vpc};
use patchbay_lint::{Facts, lint};
use patchbay_model::vpc::NatKind;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::Cluster;
use patchbay_reconcile::northbound::{DryRun, Northbound as _};
use patchbay_reconcile::zone::ZoneReconciler;
use patchbay_schemas::nb;
use patchbay_schemas::uuids::UuidSource;

use super::args::{Explain, Explained};
use super::subject::{ObjectSource, Subject, object_source, zone_databases};
use crate::args::Format;
use crate::console::Console;
use crate::failure::Failure;
use crate::unreadable::unreadable;
use crate::zones::{now, report_objects};

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
    if let Some(zone) = &arguments.zone {
        let message = format!("--zone {zone}: all nodes have one database for VPCs");
        return Err(Failure::Topology(message));
    }
    if object_source(arguments)? == ObjectSource::Cluster {
        let message = "objects of VPCs are read from manifests only: use --filename";
        return Err(Failure::Arguments(message.to_owned()));
    }
    let Subject { inventory, settings, databases, .. } = Subject::read(arguments, console).await?;
    // The objects that are made for others are not judged.
    let manifests = inventory.clone();
    let central = ClusterSettings { databases: Databases::Central, ..settings };
    let cluster = Cluster::from_inventory(inventory, central, now())?.with_every_kind();
    report_objects(&cluster, console)?;
    let name = &*arguments.name;
    if let Some(failure) = unreadable(&cluster, &[kind.as_str()], name) {
        return Err(failure);
    }
    let databases = zone_databases((arguments, databases), &cluster, console).await?;
    let real = databases.into_iter().next().map(|database| database.snapshot);
    let before = real.clone().unwrap_or_else(|| Snapshot::empty(nb::schema()));
    let dry_run = DryRun::new(before);
    let mut zone = ZoneReconciler::new(Databases::CENTRAL, dry_run, UuidSource::random());
    let problems = match zone.reconcile(&cluster).await {
        Ok(outcome) => outcome.problems,
        Err(error) => {
            console.warn("rows", &error.to_string())?;
            Vec::new()
        }
    };
    let before = real.as_ref();
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
