//! What `patchbay explain` reads: objects of manifests, of an archive or of a cluster, and databases.

use std::path::PathBuf;

#[cfg(feature = "kubernetes")]
use patchbay_kubernetes::ListedKinds;
use patchbay_model::{ClusterSettings, Databases};
use patchbay_reconcile::{Cluster, load};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Node as NodeObject, Object as _};

use super::args::Explain;
#[cfg(feature = "kubernetes")]
use super::args::Explained;
#[cfg(feature = "kubernetes")]
use crate::api_server::inventory;
use crate::console::Console;
use crate::databases::ZoneDatabase;
use crate::failure::Failure;
use crate::files::{ArchivePart, archive_of, read_objects, split_zone};
#[cfg(feature = "kubernetes")]
use crate::source_age::SourceAge;
use crate::state::{folder, lock_to_read};
use crate::unreadable::unreadable;
use crate::zones::now;

/// Where the objects are.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum ObjectSource {
    Manifests,
    /// Archive of a collector.
    Archive(PathBuf),
    /// Running cluster.
    Cluster,
}

/// Objects and databases.
pub(super) struct Subject {
    pub(super) source: ObjectSource,
    pub(super) inventory: Inventory,
    pub(super) settings: ClusterSettings,
    /// Databases of the archive of the objects. `None`: those of the flags are not read yet.
    pub(super) databases: Option<Vec<ZoneDatabase>>,
}

impl Subject {
    /// Reads the objects that the flags name, and the databases of their archive.
    ///
    /// # Errors
    /// The objects or the archive cannot be read.
    pub(super) async fn read(
        arguments: &Explain,
        console: &mut Console<'_>,
    ) -> Result<Self, Failure> {
        let source = object_source(arguments)?;
        let mut databases = None;
        let inventory = match &source {
            ObjectSource::Manifests => read_manifests(arguments, console).await?,
            ObjectSource::Archive(archive) if !arguments.paths.is_empty() => {
                read_objects(archive, console)?
            }
            ObjectSource::Archive(archive) => {
                let keys = (&arguments.input.keys, arguments.input.limit);
                let flags = &arguments.databases;
                let (found, inventory) = flags.read_part(ArchivePart::Both, keys, console).await?;
                if found.is_empty() {
                    let archive = archive.display();
                    let warning =
                        format!("{archive}: no Northbound database in it: rows are not compared");
                    console.warn("members of archives", &warning)?;
                }
                databases = Some(found);
                inventory
            }
            ObjectSource::Cluster => cluster_inventory(arguments, console).await?,
        };
        let settings = settings((arguments, &source), &inventory)?;
        require_zone(arguments, &settings)?;
        Ok(Self { source, inventory, settings, databases })
    }
}

/// The cluster of the objects. Those of manifests are completed. Those of a cluster are taken as
/// they are, unless the archive lacks all attachment definitions.
///
/// # Errors
/// The objects contradict each other.
pub(super) fn cluster_of(
    inventory: Inventory,
    (source, settings): (&ObjectSource, ClusterSettings),
    console: &mut Console<'_>,
) -> Result<Cluster, Failure> {
    let is_observed = match source {
        ObjectSource::Manifests => false,
        ObjectSource::Cluster => true,
        ObjectSource::Archive(archive) => {
            let has_networks = !inventory.user_defined_networks.is_empty()
                || !inventory.cluster_user_defined_networks.is_empty();
            let lacks_definitions =
                has_networks && inventory.network_attachment_definitions.is_empty();
            if lacks_definitions {
                let warning = format!(
                    "{}: no NetworkAttachmentDefinition in it: networks have the ids and subnets \
                         that their objects would get",
                    archive.display()
                );
                console.warn("members of archives", &warning)?;
            }
            !lacks_definitions
        }
    };
    if is_observed {
        return Ok(Cluster::observed(inventory, settings, now()));
    }
    Ok(Cluster::from_inventory(inventory, settings, now())?)
}

/// Reads the databases of the zones to explain, each with the zone in the words of the objects.
/// `of_archive`: those that were read with the objects.
///
/// # Errors
/// A database cannot be read, or none is of a zone of the objects.
pub(super) async fn zone_databases(
    (arguments, of_archive): (&Explain, Option<Vec<ZoneDatabase>>),
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<Vec<ZoneDatabase>, Failure> {
    let mut databases = if let Some(databases) = of_archive {
        databases
    } else {
        let keys = (&arguments.input.keys, arguments.input.limit);
        arguments.databases.read(keys, console).await?
    };
    if databases.is_empty() {
        return Ok(databases);
    }
    if cluster.settings().databases == Databases::Central {
        // Members of a clustered database have equal rows, unless they lag.
        databases.sort_by_key(|database| std::cmp::Reverse(database.snapshot.row_count()));
        databases.truncate(1);
        for database in &mut databases {
            Databases::CENTRAL.clone_into(&mut database.zone);
        }
        return Ok(databases);
    }
    let nodes = cluster.zones();
    if let Some(zone) = &arguments.zone {
        if !nodes.contains(zone) {
            let failure = unreadable(cluster, &[NodeObject::KIND], zone);
            return Err(failure.unwrap_or(Failure::NoSuchZone { zone: zone.clone(), nodes }));
        }
        if let [only] = &mut databases[..] {
            only.zone.clone_from(zone);
        }
        databases.retain(|database| database.zone == *zone);
        if databases.is_empty() {
            return Err(Failure::Arguments(format!("--zone {zone}: it has no database here")));
        }
        return Ok(databases);
    }
    let mut names = Vec::new();
    databases.retain(|database| {
        let is_known = nodes.contains(&database.zone);
        if !is_known {
            names.push(database.zone.clone());
        }
        is_known
    });
    for name in &names {
        let warning = format!("database {name}: no Node has this name, so it is left out");
        console.warn("zones of databases", &warning)?;
    }
    if databases.is_empty() {
        let message = "no database is of a node: --zone names the node of a database";
        return Err(Failure::Arguments(message.to_owned()));
    }
    Ok(databases)
}

/// Where the objects are that the flags name.
pub(super) fn object_source(arguments: &Explain) -> Result<ObjectSource, Failure> {
    if let Some(archive) = archive_of(&arguments.paths)? {
        return Ok(ObjectSource::Archive(archive.to_owned()));
    }
    Ok(match &arguments.databases.must_gather {
        _ if !arguments.paths.is_empty() => ObjectSource::Manifests,
        Some(archive) => ObjectSource::Archive(archive.clone()),
        None => ObjectSource::Cluster,
    })
}

/// Reads the manifests, with the objects of the state folder.
async fn read_manifests(
    arguments: &Explain,
    console: &mut Console<'_>,
) -> Result<Inventory, Failure> {
    let state = folder(arguments.state.as_ref(), &arguments.paths)?;
    let _lock = lock_to_read(state.as_ref(), console).await?;
    let max_bytes = arguments.input.manifest_limit.bytes();
    Ok(load(&arguments.paths, console.input, state.as_ref(), max_bytes)?)
}

/// Settings of the cluster of these objects.
fn settings(
    (arguments, source): (&Explain, &ObjectSource),
    inventory: &Inventory,
) -> Result<ClusterSettings, Failure> {
    let flags = &arguments.input.cluster;
    let settings = match source {
        ObjectSource::Cluster => flags.zone_settings(inventory)?,
        ObjectSource::Manifests | ObjectSource::Archive(_) => flags.settings(inventory)?,
    };
    Ok(ClusterSettings { is_northd_stock: arguments.stock_northd, ..settings })
}

/// Fails if the server of a zone is named without the zone.
fn require_zone(arguments: &Explain, settings: &ClusterSettings) -> Result<(), Failure> {
    let has_zones = settings.databases == Databases::Zone;
    let mut servers = arguments.databases.nb.iter();
    let is_unnamed = servers.any(|server| split_zone(server).0.is_none());
    if is_unnamed && arguments.zone.is_none() && has_zones {
        let message = "--nb needs --zone: the node whose database it is";
        return Err(Failure::Arguments(message.to_owned()));
    }
    Ok(())
}

/// Lists the objects of a running cluster: for connects those that they depend on, else all.
#[cfg(feature = "kubernetes")]
async fn cluster_inventory(
    arguments: &Explain,
    console: &mut Console<'_>,
) -> Result<Inventory, Failure> {
    let access = (arguments.kubeconfig.as_deref(), arguments.context.as_deref());
    let limit = arguments.input.limit.duration();
    let kinds = match arguments.kind {
        Explained::Cnc => ListedKinds::Connects,
        _ => ListedKinds::Networks,
    };
    let (inventory, server) = inventory(access, kinds, limit).await?;
    console.note_source(SourceAge::live(&server))?;
    Ok(inventory)
}

/// Fails, because this build has no client of an API server.
#[cfg(not(feature = "kubernetes"))]
async fn cluster_inventory(_: &Explain, _: &mut Console<'_>) -> Result<Inventory, Failure> {
    Err(Failure::Arguments(
        "this build cannot read a cluster because it lacks the feature `kubernetes`; use --filename for manifests"
            .to_owned(),
    ))
}
