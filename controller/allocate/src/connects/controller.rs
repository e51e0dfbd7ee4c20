//! Reconciliation of all ClusterNetworkConnects with their specs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use patchbay_model::{
    ClusterSettings, ConnectSubnetMap, ConnectedVpc, DatapathKey, IdError, NetworkId,
    ROUTER_TUNNEL_KEY,
};
use patchbay_resources::cnc::ClusterNetworkConnect;
use patchbay_resources::object::Object;
use patchbay_resources::object::Time;
use thiserror::Error;

use super::allocation::{AllocatorError, ConnectAllocation};
use super::error::{Failure, Stage};
use super::objects::ClusterObjects;
use super::owner_ranges::OwnerRanges;
use super::report::{AllocationReport, AllocationWarning, CncOutcome};
use super::router_keys::RouterKeys;
use super::selection::Selection;
use super::status::{accepted_condition, with_condition};
use super::unconnected::Unconnected;
use super::validation::{shared_networks, validate};
use crate::router_key_cursor::RouterKeyCursor;

/// Allocates tunnel keys and connect subnets for all ClusterNetworkConnects of a cluster.
///
/// ```
/// # use patchbay_allocate::connects::{ClusterController, ClusterObjects};
/// # use patchbay_model::ClusterSettings;
/// # use patchbay_resources::object::Time;
/// # use jiff::Timestamp;
/// # let (nads, namespaces, connects) = (vec![], vec![], vec![]);
/// let mut controller = ClusterController::new(ClusterSettings::default());
/// let networks = patchbay_resources::conversion::networks(&nads, &namespaces);
/// let objects = ClusterObjects::new(&networks, &nads, &namespaces, &connects);
/// let report = controller.reconcile(&objects, &Time(Timestamp::UNIX_EPOCH));
/// for outcome in &report.outcomes {
///     // Write `outcome.annotations()` and `outcome.status` where they differ from what is there.
/// }
/// ```
#[derive(Debug)]
pub struct ClusterController {
    settings: ClusterSettings,
    /// Tunnel keys of networks whose attachment definitions do not contain them.
    reserved_keys: BTreeSet<DatapathKey>,
    connects: BTreeMap<String, ConnectAllocation>,
    /// Ranges of `connects`, by the networks that have subnets in them.
    ranges: OwnerRanges,
    keys: RouterKeys,
}

impl ClusterController {
    /// Makes a controller without allocations. They are restored from the connects' annotations.
    pub fn new(settings: ClusterSettings) -> Self {
        Self {
            settings,
            reserved_keys: BTreeSet::new(),
            connects: BTreeMap::new(),
            ranges: OwnerRanges::default(),
            keys: RouterKeys::default(),
        }
    }

    /// Shares the position of the allocator of tunnel keys with that of networks.
    #[must_use]
    pub fn with_router_keys(mut self, keys: RouterKeyCursor) -> Self {
        self.keys.share(keys);
        self
    }

    /// Adds tunnel keys that are never allocated, because networks use them whose attachment
    /// definitions do not contain them.
    #[must_use]
    pub fn with_reserved_keys(mut self, keys: BTreeSet<DatapathKey>) -> Self {
        self.reserved_keys = keys;
        self
    }

    /// Computes annotations and status of all connects from all objects. `now` is the time of
    /// conditions that change.
    ///
    /// Connects are reconciled from the oldest to the newest. While an allocation of one of them
    /// fails, all are reconciled again, because a later connect, or the same one, may have released
    /// what is missing.
    pub fn reconcile(&mut self, objects: &ClusterObjects<'_>, now: &Time) -> AllocationReport {
        let mut warnings = Vec::new();
        self.forget_deleted(objects);
        let network_keys = self.network_keys(objects, &mut warnings);
        let connects = objects.connects_by_age();
        let failed = self.restore(&connects, &mut warnings);
        let mut last = None;
        // Networks are released in the first round only. A later round that changes something has
        // allocated more or moved a layer2 network to an earlier block, so the loop ends.
        loop {
            let mut of_connects = Vec::new();
            let mut outcomes: Vec<CncOutcome> = connects
                .iter()
                .map(|(name, object)| {
                    let name = name.as_str();
                    let result = match self.connects.remove(name) {
                        Some(mut allocation) => {
                            self.ranges.remove(name, &allocation);
                            let mut result = self.reconcile_connect(
                                name,
                                object,
                                &mut allocation,
                                objects,
                                &network_keys,
                            );
                            self.ranges.insert(name, &allocation);
                            self.connects.insert(name.to_owned(), allocation);
                            of_connects.append(&mut result.warnings);
                            result
                        }
                        None => ConnectResult {
                            failures: failed.get(name).map_or_else(Vec::new, |error| {
                                Failure::of(error.stage(), name, [error])
                            }),
                            unconnected: {
                                let selection = Selection::discover(object, objects);
                                Unconnected::of(&object.spec, &selection, None, objects)
                            },
                            ..ConnectResult::default()
                        },
                    };
                    result.into_outcome(name, object, now)
                })
                .collect();
            outcomes.sort_by(|left, right| left.name.cmp(&right.name));
            let allocation = self.connects.values();
            let progress: Vec<_> =
                allocation.map(|allocation| allocation.allocator.progress()).collect();
            let reached = Some((outcomes.clone(), progress));
            if outcomes.iter().all(CncOutcome::is_accepted) || reached == last {
                warnings.extend(of_connects);
                warnings.extend(self.capacity_warnings(objects));
                return AllocationReport { outcomes, warnings };
            }
            last = reached;
        }
    }

    /// Removes connects that were deleted or replaced by another object of the same name.
    fn forget_deleted(&mut self, objects: &ClusterObjects<'_>) {
        let (keys, ranges) = (&mut self.keys, &mut self.ranges);
        self.connects.retain(|name, allocation| {
            let object = objects.connects.get(name);
            let stays = object.is_some_and(|object| object.metadata.uid == allocation.uid);
            if !stays {
                keys.release(name);
                ranges.remove(name, allocation);
            }
            stays
        });
    }

    /// Tunnel keys that networks use.
    fn network_keys(
        &self,
        objects: &ClusterObjects<'_>,
        warnings: &mut Vec<AllocationWarning>,
    ) -> BTreeSet<DatapathKey> {
        let (mut keys, unreadable) = objects.network_keys();
        keys.extend(&self.reserved_keys);
        warnings.extend(
            unreadable
                .into_iter()
                .map(|(nad, reason)| AllocationWarning::NetworkKeys { nad, reason }),
        );
        keys
    }

    /// Warnings of connects whose blocks are too small for the nodes.
    fn capacity_warnings(&self, objects: &ClusterObjects<'_>) -> Vec<AllocationWarning> {
        let Some((id, node)) = &objects.last_node else {
            return Vec::new();
        };
        let warning = |(connect, allocation): (&String, &ConnectAllocation)| {
            let capacity = allocation.node_capacity()?;
            capacity.is_short(*id).then(|| AllocationWarning::NodeIds {
                connect: connect.clone(),
                capacity,
                node: node.clone(),
                id: *id,
            })
        };
        self.connects.iter().filter_map(warning).collect()
    }

    /// Restores connects that are seen for the first time from their annotations. Returns the
    /// errors of the others, which stay unchanged until their annotations can be read.
    fn restore<'a>(
        &mut self,
        connects: &[(&'a String, &ClusterNetworkConnect)],
        warnings: &mut Vec<AllocationWarning>,
    ) -> BTreeMap<&'a str, RestoreError> {
        let mut failed = BTreeMap::new();
        for (name, object) in connects.iter().copied() {
            if self.connects.contains_key(name) {
                continue;
            }
            let allocation = ConnectAllocation::restore(name, object, &self.settings, warnings);
            let restored = allocation.map_err(RestoreError::from).and_then(|allocation| {
                self.restore_key(name, object)?;
                Ok(allocation)
            });
            match restored {
                Ok(allocation) => {
                    self.ranges.insert(name, &allocation);
                    self.connects.insert(name.clone(), allocation);
                }
                Err(error) => {
                    failed.insert(name.as_str(), error);
                }
            }
        }
        failed
    }

    /// Restores the key of a connect. If a network has the same key, `reconcile_connect` reports
    /// it.
    fn restore_key(
        &mut self,
        name: &str,
        object: &ClusterNetworkConnect,
    ) -> Result<(), RestoreError> {
        let Some(text) = annotated_key(object) else {
            return Ok(());
        };
        let key = text.parse()?;
        if !self.keys.reserve(name, key) {
            return Err(KeyTaken(key).into());
        }
        Ok(())
    }

    /// Reconciles one connect, which is not in `connects` meanwhile.
    fn reconcile_connect(
        &mut self,
        name: &str,
        object: &ClusterNetworkConnect,
        allocation: &mut ConnectAllocation,
        objects: &ClusterObjects<'_>,
        network_keys: &BTreeSet<DatapathKey>,
    ) -> ConnectResult {
        let mut selection = Selection::discover(object, objects);
        let unreadable = std::mem::take(&mut selection.unreadable).into_iter();
        let warnings = unreadable.map(|(nad, problem)| AllocationWarning::Definition {
            connect: name.to_owned(),
            nad,
            problem,
        });
        let key = self.keys.of(name);
        if annotated_key(object).is_none() && key.is_some_and(|key| network_keys.contains(&key)) {
            // The key is not in use yet, so it can be replaced.
            self.keys.release(name);
        }
        let vpcs = objects.vpcs.and_then(|vpcs| vpcs.vpcs(name));
        let mut result = self.allocate((name, vpcs), allocation, &selection, network_keys);
        if result.is_refused {
            result.subnets = allocation.close(object, &selection);
        }
        result.warnings.splice(..0, warnings);
        result.unconnected = Unconnected::of(&object.spec, &selection, Some(allocation), objects);
        result
    }

    /// Allocates the key of the connect and the subnets of the selected networks.
    fn allocate(
        &mut self,
        (name, vpcs): (&str, Option<&BTreeMap<NetworkId, Arc<ConnectedVpc>>>),
        allocation: &mut ConnectAllocation,
        selection: &Selection<'_>,
        network_keys: &BTreeSet<DatapathKey>,
    ) -> ConnectResult {
        let errors = validate(&self.settings, &allocation.cidrs, &selection.networks, vpcs);
        if !errors.is_empty() {
            return ConnectResult::refused(Stage::Validation, name, errors);
        }
        let selected = selection.networks.values().map(|it| it.owner_key());
        let shared = shared_networks(name, &allocation.cidrs, selected, &self.ranges);
        if !shared.is_empty() {
            return ConnectResult::refused(Stage::CrossValidation, name, shared);
        }
        let Some(key) = self.keys.of(name).or_else(|| self.keys.allocate(name, network_keys))
        else {
            let cause = format!("failed to allocate the id for the resource {name}");
            return ConnectResult::refused(Stage::TunnelKey, name, [cause]);
        };
        let errors = allocation.allocate(selection);
        let mut failures = Failure::of(Stage::Discovery, name, &selection.errors);
        // The connect keeps the key, because zones use it and the annotation never changes.
        let taken = network_keys.contains(&key).then_some(KeyTaken(key));
        failures.extend(Failure::of(Stage::TunnelKey, name, taken));
        failures.extend(Failure::of(Stage::Subnets, name, errors));
        ConnectResult {
            tunnel_key: Some(key),
            subnets: allocation.annotation().cloned(),
            failures,
            ..ConnectResult::default()
        }
    }
}

/// The value of a connect's tunnel key annotation.
fn annotated_key(object: &ClusterNetworkConnect) -> Option<&str> {
    let annotation = object.annotations().get(ROUTER_TUNNEL_KEY)?;
    Some(annotation.as_str()).filter(|text| !text.is_empty())
}

/// Reason why a connect cannot be restored from its annotations.
#[derive(Debug, Error)]
enum RestoreError {
    #[error(transparent)]
    Allocator(#[from] AllocatorError),
    #[error("annotation {ROUTER_TUNNEL_KEY}: {0}")]
    Key(#[from] IdError),
    /// The annotation never changes, so the connect cannot get another key.
    #[error(transparent)]
    KeyTaken(#[from] KeyTaken),
}

/// Error of a key that another router has.
#[derive(Debug, Error)]
#[error("annotation {ROUTER_TUNNEL_KEY}: key {0} is in use by another router")]
struct KeyTaken(DatapathKey);

impl RestoreError {
    const fn stage(&self) -> Stage {
        match self {
            Self::Allocator(_) => Stage::Allocator,
            Self::Key(_) | Self::KeyTaken(_) => Stage::TunnelKey,
        }
    }
}

/// Result of reconciling one connect. `None`: the annotation stays as it is.
#[derive(Default)]
struct ConnectResult {
    /// `true` if nothing was allocated.
    is_refused: bool,
    tunnel_key: Option<DatapathKey>,
    subnets: Option<ConnectSubnetMap>,
    failures: Vec<Failure>,
    warnings: Vec<AllocationWarning>,
    unconnected: Unconnected,
}

impl ConnectResult {
    /// Result of a stage that stops the reconcile. As in OVN-Kubernetes, the condition has the
    /// first cause; the others are warnings.
    fn refused<E: ToString>(stage: Stage, name: &str, causes: impl IntoIterator<Item = E>) -> Self {
        let mut causes = causes.into_iter().map(|cause| cause.to_string());
        let failures = Failure::of(stage, name, causes.next());
        let others =
            causes.map(|cause| AllocationWarning::Refused { connect: name.to_owned(), cause });
        Self { is_refused: true, failures, warnings: others.collect(), ..Self::default() }
    }

    fn into_outcome(self, name: &str, object: &ClusterNetworkConnect, now: &Time) -> CncOutcome {
        CncOutcome {
            name: name.to_owned(),
            tunnel_key: self.tunnel_key,
            subnets: self.subnets,
            status: with_condition(
                object.status.as_ref(),
                accepted_condition(&self.failures),
                object.metadata.generation,
                now,
            ),
            unconnected: self.unconnected,
        }
    }
}

#[cfg(test)]
mod tests;
