//! The state of all connects, and one step towards what their specs want.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_resources::object::Object;
use patchbay_resources::object::Time;
use thiserror::Error;

use super::error::{Failure, Stage, listed};
use super::held::{AllocatorError, Held};
use super::objects::Objects;
use super::report::{CncOutcome, Report, Warning};
use super::router_keys::RouterKeys;
use super::selection::Selection;
use super::status::{accepted, with_verdict};
use super::validation::{SharedNetworks, overlap, validate};
use patchbay_model::{
    ClusterSettings, ConnectSubnetMap, DatapathKey, IdError, OwnerKey, ROUTER_TUNNEL_KEY,
};
use patchbay_resources::cnc::ClusterNetworkConnect;

/// Hands out keys and subnets to all connects of a cluster.
///
/// ```
/// # use patchbay_allocate::connects::{ClusterController, Objects};
/// # use patchbay_model::ClusterSettings;
/// # use patchbay_resources::object::Time;
/// # use jiff::Timestamp;
/// # let (nads, namespaces, connects) = (vec![], vec![], vec![]);
/// let mut controller = ClusterController::new(ClusterSettings::default());
/// let networks = patchbay_resources::conversion::networks(&nads, &namespaces);
/// let objects = Objects::new(&networks, &nads, &namespaces, &connects);
/// let report = controller.reconcile(&objects, &Time(Timestamp::UNIX_EPOCH));
/// for outcome in &report.outcomes {
///     // Write `outcome.annotations()` and `outcome.status` where they differ from what is there.
/// }
/// ```
#[derive(Debug)]
pub struct ClusterController {
    settings: ClusterSettings,
    /// Tunnel keys that networks use and no attachment definition tells.
    reserved_keys: BTreeSet<DatapathKey>,
    connects: BTreeMap<String, Held>,
    keys: RouterKeys,
}

impl ClusterController {
    /// A controller that holds nothing yet. What was handed out before is taken from the connects' annotations.
    pub fn new(settings: ClusterSettings) -> Self {
        Self {
            settings,
            reserved_keys: BTreeSet::new(),
            connects: BTreeMap::new(),
            keys: RouterKeys::new(),
        }
    }

    /// The same controller with tunnel keys that it never hands out: networks use them that no attachment definition tells.
    #[must_use]
    pub fn with_reserved_keys(mut self, keys: BTreeSet<DatapathKey>) -> Self {
        self.reserved_keys = keys;
        self
    }

    /// Brings all connects to where they should be, given all objects there are. `now` becomes the time of the conditions
    /// that change.
    ///
    /// Connects are served from the oldest to the newest. As long as one of them is short of something, all are served
    /// again: what it lacks may have been given back by a later one, or by itself.
    pub fn reconcile(&mut self, objects: &Objects<'_>, now: &Time) -> Report {
        let mut warnings = Vec::new();
        self.forget_deleted(objects);
        let network_keys = self.network_keys(objects, &mut warnings);
        let connects = objects.connects_by_age();
        let failed = self.adopt(&connects, &mut warnings);
        let mut last = None;
        // Networks are deselected in the first round only. From then on a round that changes something has handed out
        // something more or moved a layer2 network to an earlier block, so there is a last one.
        loop {
            let mut unreadable = Vec::new();
            let mut outcomes: Vec<CncOutcome> = connects
                .iter()
                .map(|(name, object)| {
                    let name = name.as_str();
                    let served = match self.connects.remove(name) {
                        Some(mut held) => {
                            let mut served =
                                self.serve(name, object, &mut held, objects, &network_keys);
                            self.connects.insert(name.to_owned(), held);
                            unreadable.append(&mut served.unreadable);
                            served
                        }
                        None => Served {
                            failures: failed.get(name).map_or_else(Vec::new, |error| {
                                Failure::of(error.stage(), name, [error])
                            }),
                            ..Served::default()
                        },
                    };
                    served.into_outcome(name, object, now)
                })
                .collect();
            outcomes.sort_by(|left, right| left.name.cmp(&right.name));
            let held = self.connects.values();
            let progress: Vec<_> = held.map(|held| held.allocator.progress()).collect();
            let reached = Some((outcomes.clone(), progress));
            if outcomes.iter().all(CncOutcome::is_accepted) || reached == last {
                warnings.extend(unreadable);
                warnings.extend(self.lack_of_room(objects));
                return Report { outcomes, warnings };
            }
            last = reached;
        }
    }

    /// Drops connects that are gone or whose name belongs to another object now.
    fn forget_deleted(&mut self, objects: &Objects<'_>) {
        let keys = &mut self.keys;
        self.connects.retain(|name, held| {
            let object = objects.connects.get(name);
            let stays = object.is_some_and(|object| object.metadata.uid == held.uid);
            if !stays {
                keys.release(name);
            }
            stays
        });
    }

    /// The tunnel keys that are in use by networks.
    fn network_keys(
        &self,
        objects: &Objects<'_>,
        warnings: &mut Vec<Warning>,
    ) -> BTreeSet<DatapathKey> {
        let (mut keys, unreadable) = objects.network_keys();
        keys.extend(&self.reserved_keys);
        warnings.extend(
            unreadable
                .into_iter()
                .map(|(nad, reason)| Warning::NetworkKeys { nad, reason }),
        );
        keys
    }

    /// The connects whose blocks are too small for the nodes there are.
    fn lack_of_room(&self, objects: &Objects<'_>) -> Vec<Warning> {
        let Some((id, node)) = &objects.last_node else {
            return Vec::new();
        };
        let warning = |(connect, held): (&String, &Held)| {
            Some(Warning::NodeIds {
                connect: connect.clone(),
                capacity: held.lacks_room_for(*id)?,
                node: node.clone(),
                id: *id,
            })
        };
        self.connects.iter().filter_map(warning).collect()
    }

    /// Takes over connects seen for the first time with what their annotations say they have. Returns those that cannot
    /// be taken over: nothing of them is touched until their annotations can be read.
    fn adopt<'a>(
        &mut self,
        connects: &[(&'a String, &ClusterNetworkConnect)],
        warnings: &mut Vec<Warning>,
    ) -> BTreeMap<&'a str, AdoptError> {
        let mut failed = BTreeMap::new();
        for (name, object) in connects.iter().copied() {
            if self.connects.contains_key(name) {
                continue;
            }
            let held = Held::adopt(name, object, &self.settings, warnings);
            let adopted = held.map_err(AdoptError::from).and_then(|held| {
                self.adopt_key(name, object)?;
                Ok(held)
            });
            match adopted {
                Ok(held) => {
                    self.connects.insert(name.clone(), held);
                }
                Err(error) => {
                    failed.insert(name.as_str(), error);
                }
            }
        }
        failed
    }

    /// Takes over a key that a connect has. That a network has it, too, is told when the connect is served.
    fn adopt_key(&mut self, name: &str, object: &ClusterNetworkConnect) -> Result<(), AdoptError> {
        let Some(text) = written_key(object) else {
            return Ok(());
        };
        let key = text.parse()?;
        if !self.keys.reserve(name, key) {
            return Err(KeyTaken(key).into());
        }
        Ok(())
    }

    /// One step for one connect, which is not among the others meanwhile.
    fn serve(
        &mut self,
        name: &str,
        object: &ClusterNetworkConnect,
        held: &mut Held,
        objects: &Objects<'_>,
        network_keys: &BTreeSet<DatapathKey>,
    ) -> Served {
        let mut selection = Selection::discover(&object.spec, objects);
        let unreadable = std::mem::take(&mut selection.unreadable).into_iter();
        let unreadable = unreadable.map(|(nad, problem)| Warning::Definition {
            connect: name.to_owned(),
            nad,
            problem,
        });
        let key = self.keys.of(name);
        if written_key(object).is_none() && key.is_some_and(|key| network_keys.contains(&key)) {
            // Nobody uses it yet, so there can still be another one.
            self.keys.release(name);
        }
        Served {
            unreadable: unreadable.collect(),
            ..self.hand_out(name, held, &selection, network_keys)
        }
    }

    /// Gives the selected networks what they need.
    fn hand_out(
        &mut self,
        name: &str,
        held: &mut Held,
        selection: &Selection<'_>,
        network_keys: &BTreeSet<DatapathKey>,
    ) -> Served {
        let stopped = |failures| Served {
            failures,
            ..Served::default()
        };
        let errors = validate(&self.settings, &held.cidrs, &selection.networks);
        if !errors.is_empty() {
            return stopped(Failure::of(Stage::Validation, name, errors));
        }
        let shared = self.shared_networks(name, held, selection);
        if !shared.is_empty() {
            return stopped(Failure::of(Stage::CrossValidation, name, shared));
        }
        let key = self.keys.of(name);
        let Some(key) = key.or_else(|| self.keys.allocate(name, network_keys)) else {
            let cause = format!("failed to allocate the id for the resource {name}");
            return stopped(Failure::of(Stage::TunnelKey, name, [cause]));
        };
        let errors = held.hand_out(selection);
        let mut failures = Failure::of(Stage::Discovery, name, &selection.errors);
        // The annotation never changes, and zones use the key: the connect goes on with it.
        let taken = network_keys.contains(&key).then_some(KeyTaken(key));
        failures.extend(Failure::of(Stage::TunnelKey, name, taken));
        failures.extend(Failure::of(Stage::Subnets, name, errors));
        Served {
            tunnel_key: Some(key),
            subnets: held.annotation().cloned(),
            failures,
            ..Served::default()
        }
    }

    /// The other connects that hold some of the selected networks and have overlapping ranges.
    fn shared_networks(
        &self,
        name: &str,
        held: &Held,
        selection: &Selection<'_>,
    ) -> Vec<SharedNetworks> {
        let owners: BTreeSet<OwnerKey> = selection
            .networks
            .values()
            .map(|network| network.owner_key())
            .collect();
        let mut found = Vec::new();
        for (other_name, other) in &self.connects {
            if !overlap(&held.cidrs, &other.cidrs) {
                continue;
            }
            let shared: Vec<OwnerKey> = owners
                .iter()
                .copied()
                .filter(|owner| other.allocator.has(*owner))
                .collect();
            if !shared.is_empty() {
                found.push(SharedNetworks {
                    connect: name.to_owned(),
                    other: other_name.clone(),
                    networks: listed(shared),
                });
            }
        }
        found
    }
}

/// The key that a connect has, as it stands in its annotation.
fn written_key(object: &ClusterNetworkConnect) -> Option<&str> {
    let annotation = object.annotations().get(ROUTER_TUNNEL_KEY)?;
    Some(annotation.as_str()).filter(|text| !text.is_empty())
}

/// Why a connect cannot be taken over.
#[derive(Debug, Error)]
enum AdoptError {
    #[error(transparent)]
    Allocator(#[from] AllocatorError),
    #[error("annotation {ROUTER_TUNNEL_KEY}: {0}")]
    Key(#[from] IdError),
    /// The annotation never changes, so the connect cannot have another one.
    #[error(transparent)]
    KeyTaken(#[from] KeyTaken),
}

/// A key that is not a connect's alone.
#[derive(Debug, Error)]
#[error("annotation {ROUTER_TUNNEL_KEY}: key {0} is in use by another router")]
struct KeyTaken(DatapathKey);

impl AdoptError {
    const fn stage(&self) -> Stage {
        match self {
            Self::Allocator(_) => Stage::Allocator,
            Self::Key(_) | Self::KeyTaken(_) => Stage::TunnelKey,
        }
    }
}

/// What one step led to. Without a key or subnets, their annotations stay as they are.
#[derive(Default)]
struct Served {
    tunnel_key: Option<DatapathKey>,
    subnets: Option<ConnectSubnetMap>,
    failures: Vec<Failure>,
    unreadable: Vec<Warning>,
}

impl Served {
    fn into_outcome(self, name: &str, object: &ClusterNetworkConnect, now: &Time) -> CncOutcome {
        CncOutcome {
            name: name.to_owned(),
            tunnel_key: self.tunnel_key,
            subnets: self.subnets,
            status: with_verdict(
                object.status.as_ref(),
                accepted(&self.failures),
                object.metadata.generation,
                now,
            ),
        }
    }
}

#[cfg(test)]
mod tests;
