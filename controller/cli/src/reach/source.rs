//! The databases that `patchbay reach` asks: of servers, of files, or of manifests.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_model::Databases;
use patchbay_model::owner::Owner;
use patchbay_reach::{
    Course, Destination, Matrix, Northbound, Protocol, Question, QuestionError, RowRef, Scene,
    Sender, Zones,
};
use patchbay_reconcile::northbound::Northbound as _;
use patchbay_reconcile::{Cluster, load};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::{Object as _, Pod, Service};

use super::args::{MatrixKind, SourceFlags};
use super::facts::Facts;
use super::owners::{PolicyNames, described};
use crate::args::{Database, Format, Manifests};
use crate::console::Console;
use crate::databases::ZoneDatabase;
use crate::failure::Failure;
use crate::unreadable::unreadable;
use crate::zones::{complete_cluster, now, open_zone, reconcile_zone};

/// Databases, and manifests from which others can be made.
pub(crate) struct Source {
    zones: Zones,
    /// Rows of the zones that have databases.
    snapshots: BTreeMap<String, Snapshot>,
    /// Manifests whose zones get databases when a question needs them. `None`: the databases are
    /// those of servers and files.
    manifests: Option<ManifestZones>,
    /// Objects of the archive of the databases. `None`: there are none.
    observed: Option<Cluster>,
    policies: PolicyNames,
    /// The chassis whose variables templates get.
    chassis: Option<String>,
}

/// Zones of manifests.
struct ManifestZones {
    arguments: Manifests,
    cluster: Cluster,
    names: Vec<String>,
    /// Nodes of the pods, by namespace and name.
    nodes: BTreeMap<String, String>,
    facts: Facts,
}

impl Source {
    /// Reads what the flags name, with all zones.
    ///
    /// # Errors
    /// A database or manifest cannot be read.
    pub(crate) async fn open(
        flags: &SourceFlags,
        console: &mut Console<'_>,
    ) -> Result<Self, Failure> {
        let mut source = Box::pin(read_databases(flags, &[], console)).await?;
        source.open_all(console).await?;
        Ok(source)
    }

    /// Databases of zones with the objects of their archive. The flags' manifests replace these.
    ///
    /// # Errors
    /// The manifests cannot be read, two databases are of one zone, or there is none.
    pub(crate) fn of_databases(
        flags: &SourceFlags,
        (databases, collected): (Vec<ZoneDatabase>, Inventory),
        console: &mut Console<'_>,
    ) -> Result<Self, Failure> {
        let chassis = flags.chassis.as_deref();
        let limit = flags.input.manifest_limit.bytes();
        let inventory = if flags.paths.is_empty() {
            collected
        } else {
            load(&flags.paths, console.input, None, limit)?
        };
        let facts = Facts::of_inventory(&inventory, flags.northd());
        let policies = PolicyNames::of(&inventory);
        let mut zones: Option<Zones> = None;
        let mut named = BTreeMap::new();
        for ZoneDatabase { zone, snapshot } in databases {
            let mut database = Northbound::new(&snapshot, chassis);
            facts.add_to(&mut database);
            named.insert(zone.clone(), snapshot);
            if let Some(zones) = &mut zones {
                add_zone(zones, zone, database, console)?;
            } else {
                warn_of_ignored_rows(&database, console)?;
                zones = Some(Zones::new(zone, database));
            }
        }
        let zones = zones.ok_or_else(|| {
            Failure::Arguments("one of --nb, --file and --filename is required".to_owned())
        })?;
        Ok(Self {
            zones,
            snapshots: named,
            manifests: None,
            observed: flags.paths.is_empty().then(|| observed(flags, inventory)),
            policies,
            chassis: flags.chassis.clone(),
        })
    }

    /// Answers a question, with the zones that the packet and the reply meet.
    pub(crate) async fn ask(
        &mut self,
        question: &Question,
        console: &mut Console<'_>,
    ) -> Result<Result<Course, QuestionError>, Failure> {
        if let Destination::Pod(pod) = &question.destination {
            self.open_zone_of(pod, console).await?;
        }
        if let Some(pod) = &question.sender.pod {
            self.open_zone_of(pod, console).await?;
        }
        loop {
            let course = self.zones.ask(question);
            let not_asked: Vec<_> =
                course.iter().flat_map(|course| &course.zones.not_asked).cloned().collect();
            if !self.open_zones(not_asked, console).await? {
                return Ok(course);
            }
        }
    }

    /// Asks all pairs of networks or pods.
    pub(super) async fn matrix(
        &mut self,
        kind: MatrixKind,
        protocol: Protocol,
        console: &mut Console<'_>,
    ) -> Result<Matrix, Failure> {
        if let (MatrixKind::Pods, Some(manifests)) = (kind, &self.manifests) {
            let nodes = manifests.nodes.values().cloned().collect();
            self.open_zones(nodes, console).await?;
        }
        loop {
            let matrix = match kind {
                MatrixKind::Networks => self.zones.network_matrix(protocol),
                MatrixKind::Pods => self.zones.machine_matrix(protocol),
            };
            let not_asked = matrix.not_asked.iter().cloned().collect();
            if !self.open_zones(not_asked, console).await? {
                return Ok(matrix);
            }
        }
    }

    /// Writes the rows of all zones of the manifests that have no database yet.
    pub(crate) async fn open_all(&mut self, console: &mut Console<'_>) -> Result<(), Failure> {
        let names = self.manifests.iter().flat_map(|manifests| manifests.names.clone()).collect();
        self.open_zones(names, console).await?;
        Ok(())
    }

    /// The databases.
    pub(crate) fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Rows of the zones that have databases, by zone.
    pub(crate) fn rows(&self) -> &BTreeMap<String, Snapshot> {
        &self.snapshots
    }

    /// Pods of this name, with their namespaces.
    pub(super) fn pods_named(&self, name: &str) -> Vec<String> {
        let of_manifests = self.manifests.iter().flat_map(|manifests| manifests.nodes.keys());
        let mut pods: BTreeSet<String> =
            of_manifests.filter(|pod| is_named(pod, name)).cloned().collect();
        for snapshot in self.snapshots.values() {
            let Some((table, schema)) = snapshot.schema().table_by_name("Logical_Switch_Port")
            else {
                continue;
            };
            let columns = schema.column_id("name").zip(schema.column_id("external_ids"));
            let owners = snapshot.table(table).iter().filter_map(|row| {
                let (port, ids) = columns?;
                let (port, ids) = (row.get(port), row.get(ids));
                let port = port.as_scalar().and_then(|port| port.as_str())?;
                Owner::of(port, |key| ids.as_map()?.get_str(key))
            });
            let named = owners.filter(|owner| owner.kind == "pod" && is_named(&owner.name, name));
            pods.extend(named.map(|owner| owner.name));
        }
        pods.into_iter().collect()
    }

    /// Objects of the manifests, or of the archive. `None`: the databases are those of servers and
    /// files.
    pub(crate) fn cluster(&self) -> Option<&Cluster> {
        let of_manifests = self.manifests.as_ref().map(|manifests| &manifests.cluster);
        of_manifests.or(self.observed.as_ref())
    }

    /// Rows of the zones that have databases, by zone.
    pub(crate) fn snapshots(&self) -> impl Iterator<Item = (&str, &Snapshot)> {
        self.snapshots.iter().map(|(zone, snapshot)| (zone.as_str(), snapshot))
    }

    /// The databases, with what their rows say about each machine.
    pub(crate) fn scene(&self) -> Scene<'_> {
        Scene::new(&self.zones, &self.snapshots)
    }

    /// The object for which a row of a zone exists. `None`: it names none.
    pub(crate) fn owner(&self, (zone, row): (&str, RowRef)) -> Option<String> {
        let snapshot = self.snapshots.get(zone)?;
        let (id, table) = snapshot.schema().table_by_name(row.table)?;
        let found = snapshot.row(id, row.uuid)?;
        let ids = found.get(table.column_id("external_ids")?);
        let id = |key: &str| ids.as_map()?.get_str(key);
        match Owner::of("", id) {
            Some(owner) => Some(described(&owner)),
            None => self.policies.of_port_group(id("parent")?),
        }
    }

    /// The database of the zone of a sender.
    pub(super) fn database_of(&self, sender: &Sender) -> &Northbound {
        let pod = sender.pod.as_ref().filter(|_| sender.port.is_none());
        let nodes = self.manifests.as_ref().map(|manifests| &manifests.nodes);
        let node = pod.zip(nodes).and_then(|(pod, nodes)| nodes.get(pod));
        let zone = node.and_then(|node| self.zones.database(node));
        zone.unwrap_or_else(|| self.zones.default_database())
    }

    /// The failure of a question about an object of the manifests that cannot be read.
    pub(super) fn unreadable(&self, question: &Question) -> Option<Failure> {
        let cluster = &self.manifests.as_ref()?.cluster;
        let is_unreadable = |pod: &String| unreadable(cluster, &[Pod::KIND], pod);
        let sender = question.sender.pod.as_ref().and_then(is_unreadable);
        sender.or_else(|| match &question.destination {
            Destination::Pod(pod) => is_unreadable(pod),
            Destination::Service(service) => self.unreadable_service(service),
            _ => None,
        })
    }

    /// The failure of a question about a service of the manifests that cannot be read.
    pub(super) fn unreadable_service(&self, service: &str) -> Option<Failure> {
        unreadable(&self.manifests.as_ref()?.cluster, &[Service::KIND], service)
    }

    async fn open_zone_of(&mut self, pod: &str, console: &mut Console<'_>) -> Result<(), Failure> {
        let manifests = self.manifests.as_ref();
        let node: Vec<_> =
            manifests.and_then(|manifests| manifests.nodes.get(pod)).cloned().into_iter().collect();
        self.open_zones(node, console).await?;
        Ok(())
    }

    /// Writes the rows of zones of the manifests that have no database yet. Returns `true` if there
    /// was one.
    async fn open_zones(
        &mut self,
        names: Vec<String>,
        console: &mut Console<'_>,
    ) -> Result<bool, Failure> {
        let Some(manifests) = &self.manifests else {
            return Ok(false);
        };
        let mut is_new = false;
        for name in names {
            if !manifests.names.contains(&name) || self.zones.database(&name).is_some() {
                continue;
            }
            let (database, snapshot) =
                manifests.rows(&name, self.chassis.as_deref(), console).await?;
            self.snapshots.insert(name.clone(), snapshot);
            add_zone(&mut self.zones, name, database, console)?;
            is_new = true;
        }
        Ok(is_new)
    }
}

impl ManifestZones {
    /// The rows of a zone in an embedded database.
    async fn rows(
        &self,
        name: &str,
        chassis: Option<&str>,
        console: &mut Console<'_>,
    ) -> Result<(Northbound, Snapshot), Failure> {
        let input = &self.arguments.input;
        let keys = (&input.keys, input.limit);
        let mut zone = open_zone(name, 0, &self.arguments.nb, keys, console).await?;
        reconcile_zone(&mut zone, &self.cluster, console).await?;
        let snapshot = zone.northbound().snapshot();
        let mut database = Northbound::new(&snapshot, chassis);
        self.facts.add_to(&mut database);
        Ok((database, snapshot))
    }
}

/// Reads the databases that the flags name. `senders`: pods that send.
pub(crate) async fn read_databases(
    flags: &SourceFlags,
    senders: &[&str],
    console: &mut Console<'_>,
) -> Result<Source, Failure> {
    if flags.databases.is_empty() {
        return Box::pin(read_manifests(flags, senders, console)).await;
    }
    let keys = (&flags.input.keys, flags.input.limit);
    let (databases, inventory) = flags.databases.read_with_objects(keys, console).await?;
    Source::of_databases(flags, (databases, inventory), console)
}

/// Writes the rows of a zone of manifests into an embedded database: that of the flags, or else
/// that of the first sender, or else that of the first node. Other zones follow when questions need
/// them.
async fn read_manifests(
    flags: &SourceFlags,
    senders: &[&str],
    console: &mut Console<'_>,
) -> Result<Source, Failure> {
    let manifests = Manifests {
        prune: false,
        paths: flags.paths.clone(),
        nb: Database::Embedded,
        zones: flags.zone.iter().cloned().collect(),
        all_zones: false,
        output: Format::Text,
        state: None,
        stock_northd: flags.stock_northd.unwrap_or(true),
        input: flags.input.clone(),
    };
    let inventory =
        load(&manifests.paths, console.input, None, manifests.input.manifest_limit.bytes())?;
    let (cluster, selected) = complete_cluster(&manifests, inventory, console)?;
    let cluster = cluster.with_default_pods()?;
    let zones = ManifestZones {
        names: cluster.zones(),
        nodes: pod_nodes(&cluster),
        facts: Facts::of_cluster(&cluster, flags.northd()),
        arguments: manifests,
        cluster,
    };
    let mut of_senders = senders
        .iter()
        .filter_map(|pod| zones.nodes.get(*pod))
        .filter(|node| selected.contains(node));
    let default = of_senders.next().or(selected.first()).ok_or(Failure::NoNode)?;
    let chassis = flags.chassis.as_deref();
    let (database, snapshot) = zones.rows(default, chassis, console).await?;
    warn_of_ignored_rows(&database, console)?;
    Ok(Source {
        zones: Zones::new(default, database),
        snapshots: [(default.clone(), snapshot)].into(),
        manifests: Some(zones),
        observed: None,
        policies: PolicyNames::default(),
        chassis: flags.chassis.clone(),
    })
}

/// The objects of an archive, as they were in its cluster.
fn observed(flags: &SourceFlags, inventory: Inventory) -> Cluster {
    // Ranges of the cluster do not change what is shown.
    let settings = flags.input.cluster.settings(&inventory).unwrap_or_default();
    Cluster::observed(inventory, settings, now())
}

/// `true` if a pod, which is named with its namespace, has this name.
fn is_named(pod: &str, name: &str) -> bool {
    pod.rsplit_once('/').is_some_and(|(_, own)| own == name)
}

/// Zones of the pods of manifests: their nodes, or the one database of all nodes.
fn pod_nodes(cluster: &Cluster) -> BTreeMap<String, String> {
    if cluster.settings().databases == Databases::Central {
        let pods = cluster.inventory.pods.iter();
        return pods.map(|(key, _)| (key.to_string(), Databases::CENTRAL.to_owned())).collect();
    }
    let Some(pods) = cluster.zone_pods("") else {
        return BTreeMap::new();
    };
    let nodes = pods.pods().filter_map(|pod| {
        let node = pod.node.as_deref()?;
        Some((pod.key.to_string(), node.to_owned()))
    });
    nodes.collect()
}

/// Adds the database of a zone, with warnings about its rows.
fn add_zone(
    zones: &mut Zones,
    name: String,
    database: Northbound,
    console: &mut Console<'_>,
) -> Result<(), Failure> {
    warn_of_ignored_rows(&database, console)?;
    let added = zones.add(name, database);
    added
        .map_err(|error| Failure::Arguments(format!("{error}; name others with NODE= before them")))
}

/// Warns of rows that OVN ignores. The console names the first ones, and counts the others.
fn warn_of_ignored_rows(database: &Northbound, console: &mut Console<'_>) -> Result<(), Failure> {
    for note in database.notes() {
        console.warn("rows that OVN ignores", &format!("OVN ignores {note}"))?;
    }
    Ok(())
}
