//! Zones that run, as the leader observes by their leases.

use std::collections::BTreeMap;
use std::time::Duration;

use imbl::OrdMap;
use patchbay_resources::manifests::ObjectKey;
use tokio::time::Instant;

use crate::reports::zone_reports::zone_object_name;

/// State of a zone, by its lease.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum ZoneState {
    /// A renewal has been observed, and the lease has not expired since.
    Running,
    /// No renewal has been observed yet, but the leader's term is shorter than a lease.
    Unobserved,
    /// The lease has expired, or there is none.
    NotRunning,
}

/// Last observed renewal of each zone's lease.
///
/// Expiry is measured with the local clock from the observation of a renewal, so that clocks of
/// different nodes need not agree. A leader that cannot reach the API server loses its term, and
/// the next term begins without observations. So an outage of the API server is no outage of zones.
#[derive(Debug)]
pub(crate) struct ZoneLiveness {
    namespace: String,
    duration: Duration,
    /// Begin of the observation.
    begin: Instant,
    /// `true` after the first observation. Leases that appear later have just been created.
    is_listed: bool,
    leases: BTreeMap<ObjectKey, ObservedLease>,
}

#[derive(Debug)]
struct ObservedLease {
    /// `spec.renewTime`.
    renewed: String,
    /// Time of the first observation of this value. `None`: it may be older than the observation.
    since: Option<Instant>,
}

impl ZoneLiveness {
    /// Begins to observe leases of this duration in a namespace.
    pub(crate) fn new(namespace: String, duration: Duration) -> Self {
        Self {
            namespace,
            duration,
            begin: Instant::now(),
            is_listed: false,
            leases: BTreeMap::new(),
        }
    }

    /// Records the present leases, each with its time of renewal.
    pub(crate) fn observe(&mut self, leases: &OrdMap<ObjectKey, String>) {
        let now = Instant::now();
        self.leases.retain(|key, _| leases.contains_key(key));
        for (key, renewed) in leases {
            match self.leases.get_mut(key) {
                Some(lease) if lease.renewed == *renewed => {}
                Some(lease) => {
                    lease.renewed.clone_from(renewed);
                    lease.since = Some(now);
                }
                None => {
                    let lease = ObservedLease {
                        renewed: renewed.clone(),
                        since: self.is_listed.then_some(now),
                    };
                    self.leases.insert(key.clone(), lease);
                }
            }
        }
        self.is_listed = true;
    }

    /// Present state of a zone.
    pub(crate) fn state_of(&self, zone: &str) -> ZoneState {
        let key = ObjectKey::namespaced(&self.namespace, zone_object_name(zone));
        let renewed = self.leases.get(&key).and_then(|lease| lease.since);
        match renewed {
            _ if renewed.unwrap_or(self.begin).elapsed() >= self.duration => ZoneState::NotRunning,
            Some(_) => ZoneState::Running,
            None => ZoneState::Unobserved,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DURATION: Duration = Duration::from_secs(40);

    fn leases(renewals: &[(&str, &str)]) -> OrdMap<ObjectKey, String> {
        let leases = renewals.iter().map(|(zone, renewed)| {
            let key = ObjectKey::namespaced("ovn", zone_object_name(zone));
            (key, (*renewed).to_owned())
        });
        leases.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_zone_runs_while_its_renewals_are_observed() {
        let mut liveness = ZoneLiveness::new("ovn".to_owned(), DURATION);
        liveness.observe(&leases(&[("dead", "1"), ("alive", "1")]));
        let states = |liveness: &ZoneLiveness| {
            ["dead", "alive", "new", "none"].map(|zone| liveness.state_of(zone))
        };
        assert_eq!(states(&liveness), [ZoneState::Unobserved; 4]);
        tokio::time::sleep(DURATION / 2).await;
        liveness.observe(&leases(&[("dead", "1"), ("alive", "2"), ("new", "1")]));
        let (unobserved, running) = (ZoneState::Unobserved, ZoneState::Running);
        assert_eq!(states(&liveness), [unobserved, running, running, unobserved]);
        tokio::time::sleep(DURATION / 2).await;
        let stopped = ZoneState::NotRunning;
        assert_eq!(states(&liveness), [stopped, running, running, stopped]);
        tokio::time::sleep(DURATION / 2).await;
        assert_eq!(states(&liveness), [stopped; 4]);
        // A zone that comes back runs at once.
        liveness.observe(&leases(&[("dead", "2"), ("alive", "2")]));
        assert_eq!(states(&liveness), [running, stopped, stopped, stopped]);
    }
}
