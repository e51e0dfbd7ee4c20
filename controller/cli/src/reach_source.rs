//! The database that `patchbay reach` asks: of a server, of a file, or of manifests.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use ovsdb_sim::Sim;
use patchbay_app::northbound::Northbound as _;
use patchbay_app::{Cluster, load};
use patchbay_engine::db::Snapshot;
use patchbay_model::Role;
use patchbay_reach::{
    Answer, Destination, Matrix, Northbound, Protocol, Question, QuestionError, Sender,
};

use super::args::{Database, Manifests};
use super::console::Console;
use super::failure::Failure;
use super::reach_args::Reach;
use super::zones::{complete_cluster, open_remote, open_zone, reconcile_zone};

/// Name of the database that is read.
const DATABASE: &str = "OVN_Northbound";

/// Databases, and manifests beside them.
pub(super) struct Source {
    /// By zone. There is one without a name if the rows are not those of manifests.
    zones: BTreeMap<String, Northbound>,
    /// Zone of senders that are no pods of the manifests.
    default_zone: String,
    /// Pods of the manifests, by namespace and name.
    pods: BTreeMap<String, PodPlacement>,
}

/// Place of a pod in the manifests.
struct PodPlacement {
    node: Option<String>,
    /// Port and first address in the primary network. `None`: it has none.
    place: Option<(String, IpAddr)>,
}

impl Source {
    fn new(snapshot: &Snapshot, chassis: Option<&str>) -> Self {
        let northbound = Northbound::new(snapshot, chassis);
        Self {
            zones: [(String::new(), northbound)].into(),
            default_zone: String::new(),
            pods: BTreeMap::new(),
        }
    }

    /// The rows of the flags' zone, or of the server or file.
    pub(super) fn default_database(&self) -> &Northbound {
        &self.zones[&self.default_zone]
    }

    /// The databases.
    pub(super) fn databases(&self) -> impl Iterator<Item = &Northbound> {
        self.zones.values()
    }

    /// Asks all pairs of the manifests' pods, each in the zone of its sender. `None`: the rows are
    /// not those of manifests, or these have no pods.
    pub(super) fn pod_matrix(&self, protocol: Protocol) -> Option<Matrix> {
        let placed = self.pods.iter().filter_map(|(name, pod)| {
            let northbound = self.zones.get(pod.node.as_ref()?)?;
            let (port, address) = pod.place.as_ref()?;
            Some((name, northbound, port, *address))
        });
        let placed: Vec<_> = placed.collect();
        if placed.is_empty() {
            return None;
        }
        let rows = placed.iter().map(|(from, northbound, own, _)| {
            let cells = placed.iter().map(|(to, _, port, address)| {
                let question = Question {
                    sender: Sender::port(*own),
                    destination: Destination::Address(*address),
                    protocol,
                };
                let answer = northbound.answer(&question).ok().filter(|_| from != to)?;
                Some(northbound.pair(from, (to, port), &answer))
            });
            cells.collect()
        });
        Some(Matrix {
            protocol,
            rows: rows.collect(),
            names: placed.iter().map(|(name, ..)| (*name).clone()).collect(),
        })
    }

    /// Database of the zone of a sender.
    pub(super) fn database_of(&self, sender: &Sender) -> &Northbound {
        let pod = sender.pod.as_ref().filter(|_| sender.port.is_none());
        let node = pod.and_then(|pod| self.pods.get(pod)?.node.as_ref());
        let zone = node.and_then(|node| self.zones.get(node));
        zone.unwrap_or_else(|| self.default_database())
    }

    /// Answers a question in the zone of its sender. A pod that is on another node, and so not in
    /// the database, is asked by its address.
    pub(super) fn answer(&self, question: &Question) -> Result<Answer, QuestionError> {
        let northbound = self.database_of(&question.sender);
        let answer = northbound.answer(question);
        let (Err(QuestionError::Name(_)), Destination::Pod(pod)) = (&answer, &question.destination)
        else {
            return answer;
        };
        match self.pods.get(pod).and_then(|pod| pod.place.as_ref()) {
            Some((_, address)) => northbound.answer(&Question {
                destination: Destination::Address(*address),
                ..question.clone()
            }),
            None => answer,
        }
    }
}

/// Reads the databases that the flags name. `senders`: pods that send, `None`: all pods.
pub(super) async fn read_databases(
    arguments: &Reach,
    senders: Option<&[&str]>,
    console: &mut Console<'_>,
) -> Result<Source, Failure> {
    let chassis = arguments.chassis.as_deref();
    if let Some(remote) = &arguments.nb {
        let (keys, limit) = (&arguments.input.keys, arguments.input.limit);
        let remote = open_remote(remote, keys, limit, console).await?;
        return Ok(Source::new(&remote.snapshot(), chassis));
    }
    if let Some(file) = &arguments.file {
        let sim = Sim::builder()
            .load(file)
            .build()
            .map_err(|error| Failure::Arguments(error.to_string()))?;
        let database = sim.database(DATABASE).ok_or_else(|| {
            Failure::Arguments(format!("{}: no database {DATABASE}", file.display()))
        })?;
        return Ok(Source::new(&database.snapshot(), chassis));
    }
    Box::pin(read_manifests(arguments, senders, console)).await
}

/// Writes the rows of manifests into embedded databases: those of the zone of the flags, or else of
/// the zones of the senders.
async fn read_manifests(
    arguments: &Reach,
    senders: Option<&[&str]>,
    console: &mut Console<'_>,
) -> Result<Source, Failure> {
    let manifests = Manifests {
        prune: false,
        paths: arguments.paths.clone(),
        nb: Database::Embedded,
        zone: arguments.zone.clone(),
        output: arguments.output,
        state: None,
        input: arguments.input.clone(),
    };
    let inventory = load(
        &manifests.paths,
        console.input,
        None,
        manifests.input.manifest_limit.bytes(),
    )?;
    let (cluster, names) = complete_cluster(&manifests, inventory, console)?;
    let cluster = cluster.with_default_pods()?;
    let pods = placements(&cluster);
    let is_sender = |pod: &str| senders.is_none_or(|senders| senders.contains(&pod));
    let senders = pods.iter().filter(|(name, _)| is_sender(name));
    let nodes = senders.filter_map(|(_, pod)| pod.node.as_ref());
    let mut wanted: BTreeSet<&String> = nodes.filter(|node| names.contains(node)).collect();
    let default_zone = match wanted.first() {
        Some(first) => (*first).clone(),
        None => names.first().ok_or(Failure::NoNode)?.clone(),
    };
    wanted.insert(&default_zone);
    let mut zones = BTreeMap::new();
    for name in wanted {
        let (keys, limit) = (&manifests.input.keys, manifests.input.limit);
        let mut zone = open_zone(name, 0, &manifests.nb, (keys, limit), console).await?;
        reconcile_zone(&mut zone, &cluster, console).await?;
        let snapshot = zone.northbound().snapshot();
        let northbound = Northbound::new(&snapshot, arguments.chassis.as_deref());
        zones.insert(name.clone(), northbound);
    }
    Ok(Source {
        zones,
        default_zone,
        pods,
    })
}

/// Nodes of the pods of manifests, and their first addresses in their primary networks.
fn placements(cluster: &Cluster) -> BTreeMap<String, PodPlacement> {
    let Some(pods) = cluster.zone_pods("") else {
        return BTreeMap::new();
    };
    let placements = pods.pods().map(|pod| {
        let mut places = pods.places(pod);
        let primary = places.find(|place| place.network.role == Role::Primary);
        let place = primary.and_then(|place| {
            let address = place.addresses.addresses.first()?.addr();
            Some((place.port, address))
        });
        let placement = PodPlacement {
            node: pod.node.as_deref().map(str::to_owned),
            place,
        };
        (pod.key.to_string(), placement)
    });
    placements.collect()
}
