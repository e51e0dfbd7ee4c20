//! The database that `patchbay reach` asks: of a server, of a file, or of manifests.

use std::collections::BTreeMap;
use std::net::IpAddr;

use ovsdb_sim::Sim;
use patchbay_app::northbound::{Northbound as _, Remote};
use patchbay_app::{Cluster, load};
use patchbay_engine::db::Snapshot;
use patchbay_model::Role;
use patchbay_reach::{Answer, Destination, Northbound, Question, QuestionError};

use super::args::{Database, Manifests};
use super::console::Console;
use super::failure::Failure;
use super::reach_args::Reach;
use super::zones::{complete_cluster, open_zone, reconcile_zone};

/// Name of the database that is read.
const DATABASE: &str = "OVN_Northbound";

/// A database, and what the manifests say beside it.
pub(super) struct Source {
    pub(super) snapshot: Snapshot,
    /// Addresses of the manifests' pods in their primary networks, by namespace and name.
    pods: BTreeMap<String, IpAddr>,
}

impl From<Snapshot> for Source {
    fn from(snapshot: Snapshot) -> Self {
        Self {
            snapshot,
            pods: BTreeMap::new(),
        }
    }
}

impl Source {
    /// Answers a question. A pod that is on another node, and so not in the database, is asked by
    /// its address.
    pub(super) fn answer(
        &self,
        northbound: &Northbound,
        question: &Question,
    ) -> Result<Answer, QuestionError> {
        let answer = northbound.answer(question);
        let (Err(QuestionError::Name(_)), Destination::Pod(pod)) = (&answer, &question.destination)
        else {
            return answer;
        };
        match self.pods.get(pod) {
            Some(address) => northbound.answer(&Question {
                destination: Destination::Address(*address),
                ..question.clone()
            }),
            None => answer,
        }
    }
}

/// Reads the database that the flags name.
pub(super) async fn read_database(
    arguments: &Reach,
    console: &mut Console<'_>,
) -> Result<Source, Failure> {
    if let Some(remote) = &arguments.nb {
        let limit = arguments.limit.duration();
        let remote = Remote::open(remote, arguments.keys.tls(), limit).await?;
        return Ok(remote.snapshot().into());
    }
    if let Some(file) = &arguments.file {
        let sim = Sim::builder()
            .load(file)
            .build()
            .map_err(|error| Failure::Arguments(error.to_string()))?;
        let database = sim.database(DATABASE).ok_or_else(|| {
            Failure::Arguments(format!("{}: no database {DATABASE}", file.display()))
        })?;
        return Ok(database.snapshot().into());
    }
    read_manifests(arguments, console).await
}

/// Writes the rows of manifests into an embedded database.
async fn read_manifests(arguments: &Reach, console: &mut Console<'_>) -> Result<Source, Failure> {
    let manifests = Manifests {
        paths: arguments.paths.clone(),
        nb: Database::Embedded,
        zone: arguments.zone.clone(),
        output: arguments.output,
        state: None,
        manifest_limit: arguments.manifest_limit,
        limit: arguments.limit,
        keys: arguments.keys.clone(),
        cluster: arguments.cluster.clone(),
    };
    let inventory = load(
        &manifests.paths,
        console.input,
        None,
        manifests.manifest_limit.bytes(),
    )?;
    let (cluster, zones) = complete_cluster(&manifests, inventory, console)?;
    let sender = arguments.from.as_deref();
    let node = sender.and_then(|pod| node_of(&cluster, pod));
    let own = zones.iter().find(|zone| Some(*zone) == node.as_ref());
    let name = own.or(zones.first()).ok_or(Failure::NoNode)?;
    let (keys, limit) = (&manifests.keys, manifests.limit);
    let mut zone = open_zone(name, 0, &manifests.nb, keys, limit).await?;
    reconcile_zone(&mut zone, &cluster, console).await?;
    Ok(Source {
        snapshot: zone.northbound().snapshot(),
        pods: pod_addresses(&cluster),
    })
}

/// The node of a pod of the manifests.
fn node_of(cluster: &Cluster, pod: &str) -> Option<String> {
    let pods = cluster.zone_pods("")?;
    let found = pods.pods().find(|one| one.key.to_string() == pod)?;
    found.node.as_deref().map(str::to_owned)
}

/// First addresses of pods in their primary networks.
fn pod_addresses(cluster: &Cluster) -> BTreeMap<String, IpAddr> {
    let mut addresses = BTreeMap::new();
    let Some(pods) = cluster.zone_pods("") else {
        return addresses;
    };
    for pod in pods.pods() {
        let mut places = pods.places(pod);
        let primary = places.find(|place| place.network.role == Role::Primary);
        let address = primary.and_then(|place| place.addresses.addresses.first().copied());
        if let Some(address) = address {
            addresses.insert(pod.key.to_string(), address.addr());
        }
    }
    addresses
}
