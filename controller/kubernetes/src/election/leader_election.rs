//! Leader election: of several processes, the holder of a `Lease` object is active.
//!
//! The holder renews the lease. A process that sees the lease unchanged for its whole duration
//! takes it. Each process measures that time with its own clock, so clocks of different machines
//! need not agree. A holder that cannot renew stops earlier. Every write names the resource version
//! that it is based on, so of two processes that take the lease at the same time one fails.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use metrics::{Gauge, gauge};
use patchbay_engine::backoff::with_jitter;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};
use uuid::Uuid;

use crate::admin::Heartbeat;
use crate::api::api_error;
use crate::config::LeaseConfig;
use crate::election::other_managers::{LABEL, OtherManagers};
use crate::metrics::names;

/// Shortest time after a claim that was given up, in intervals between attempts. With jitter, it ends
/// in one of several of them.
const YIELD_INTERVALS: u32 = 4;

/// A term of this process as the leader, with its deadline.
///
/// A process may be suspended between a decision and a write, so the deadline is checked before
/// each write.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct LeaderTerm {
    /// End of the term unless the lease is renewed.
    pub(crate) deadline: Instant,
    /// UID of the lease. `None`: it is not known.
    pub(crate) lease_uid: Option<Uuid>,
}

/// UID of the lease of the present term, for events about it. `None`: it is not known.
pub(crate) fn lease_uid(term: &watch::Receiver<Option<LeaderTerm>>) -> Option<Uuid> {
    term.borrow().and_then(|term| term.lease_uid)
}

impl LeaderTerm {
    /// `true` if the term has ended.
    pub(crate) fn has_ended(self) -> bool {
        Instant::now() >= self.deadline
    }
}

/// Acquires a lease and renews it.
///
/// # Why not `kubert::lease`
///
/// * Its claims expire at a wall-clock time that depends on the clock of another machine. Here
///   expiry is measured with the local monotonic clock, from the last observed change.
/// * Its claims last for the whole lease duration. Here the holder's term ends before that
///   ([`LeaderTerm`]), and [`ObjectWriter`](crate::write::writer::ObjectWriter) checks the term
///   before each write. A suspended process therefore does not write during the next leader's term.
/// * It needs an existing object. Here the first process creates it.
#[derive(Debug)]
pub(crate) struct LeaderElector {
    api: Api<LeaseObject>,
    lease: LeaseConfig,
    identity: String,
    term: watch::Sender<Option<LeaderTerm>>,
    /// The object's spec when it last changed, and when that was observed.
    observed: Option<(LeaseSpec, Instant)>,
    /// The object after the last write, for a renewal without a read. `None`: it has to be read.
    written: Option<LeaseObject>,
    /// UID of the object at the last write.
    uid: Option<Uuid>,
    /// Start of the last successful renewal. `None`: not the holder.
    renewed: Option<Instant>,
    /// Time before which the API server wants no request. `None`: at once.
    not_before: Option<Instant>,
    others: OtherManagers,
    /// Time of the last answered attempt, for the check of readiness.
    answered: Heartbeat,
    is_leader: Gauge,
}

impl LeaderElector {
    /// Makes an elector, and a receiver of the process's term as leader.
    pub(crate) fn new(
        client: Client,
        lease: LeaseConfig,
        identity: String,
    ) -> (Self, watch::Receiver<Option<LeaderTerm>>) {
        let (term, receiver) = watch::channel(None);
        let others = OtherManagers::new(client.clone(), lease.namespace.clone());
        let elector = Self {
            others,
            answered: Heartbeat::new(),
            is_leader: gauge!(names::IS_LEADER, "name" => lease.name.clone()),
            not_before: None,
            api: Api::namespaced(client, &lease.namespace),
            lease,
            identity,
            term,
            observed: None,
            written: None,
            uid: None,
            renewed: None,
        };
        (elector, receiver)
    }

    /// Time of the last attempt that the API server has answered.
    pub(crate) fn answered(&self) -> Heartbeat {
        self.answered.clone()
    }

    /// Acquires and renews the lease until `stop` becomes `true`, then releases it.
    pub(crate) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self.attempt().await;
            tokio::select! {
                () = tokio::time::sleep(self.lease.retry) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        self.term.send_replace(None);
        self.is_leader.set(0.0);
        if self.renewed.is_some()
            && let Err(error) = self.release().await
        {
            let error = api_error::describe(&error);
            tracing::warn!(error, "cannot release the lease");
        }
    }

    /// Tries once to get or renew the lease, unless the API server wants no request yet, and publishes
    /// the term.
    async fn attempt(&mut self) {
        let is_wanted = self.not_before.is_none_or(|time| Instant::now() >= time);
        if is_wanted {
            self.try_once().await;
        }
        self.publish_term();
    }

    async fn try_once(&mut self) {
        let start = Instant::now();
        self.not_before = None;
        let limit = match self.renewed {
            Some(renewed) => (renewed + self.lease.renew_deadline).duration_since(start),
            None => self.lease.renew_deadline,
        };
        let error = match timeout(limit, self.acquire()).await {
            Ok(Ok(is_held)) => {
                self.renewed = is_held.then_some(start);
                self.answered.beat();
                None
            }
            Ok(Err(error)) => {
                self.not_before = api_error::retry_after(&error).map(|wait| start + wait);
                Some(api_error::describe(&error))
            }
            Err(_) => Some(api_error::describe_unanswered(limit)),
        };
        if let Some(error) = error {
            tracing::warn!(error, "cannot get or renew the lease");
        }
    }

    /// `true` during a term of this process.
    fn is_leading(&self) -> bool {
        let deadline = self.lease.renew_deadline;
        self.renewed.is_some_and(|renewed| renewed.elapsed() < deadline)
    }

    fn publish_term(&mut self) {
        let deadline = self.lease.renew_deadline;
        self.renewed = self.renewed.filter(|renewed| renewed.elapsed() < deadline);
        let term = self
            .renewed
            .map(|renewed| LeaderTerm { deadline: renewed + deadline, lease_uid: self.uid });
        let leads = term.is_some();
        self.is_leader.set(f64::from(u8::from(leads)));
        if self.term.send_replace(term).is_some() != leads {
            tracing::info!(leads, identity = self.identity, "leadership changed");
        }
    }

    /// Tries to get or renew the lease. Returns `true` if this process holds it now.
    ///
    /// A conflict may be with an own write whose response was lost. The object then names this
    /// process, so a second try finds out.
    ///
    /// A lease that is claimed while a manager in another namespace holds its own is released.
    async fn acquire(&mut self) -> Result<bool, kube::Error> {
        let was_leading = self.is_leading();
        let is_held = match self.try_acquire().await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.try_acquire().await?,
            tried => tried?,
        };
        if is_held && !was_leading && self.others.hold_a_lease().await? {
            self.release().await?;
            // So that two managers do not claim at the same time again and again.
            let wait = with_jitter(self.lease.retry * YIELD_INTERVALS);
            self.not_before = Some(Instant::now() + wait);
            return Ok(false);
        }
        Ok(is_held)
    }

    /// `true` if this process may not claim its lease now, because a manager in another namespace
    /// holds its own.
    async fn must_wait_for_others(&mut self) -> Result<bool, kube::Error> {
        Ok(!self.is_leading() && self.others.hold_a_lease().await?)
    }

    async fn try_acquire(&mut self) -> Result<bool, kube::Error> {
        match self.renew().await {
            Ok(true) => return Ok(true),
            Ok(false) => {}
            // Somebody has changed or deleted the lease.
            Err(kube::Error::Api(status)) if [404, 409].contains(&status.code) => {}
            Err(error) => return Err(error),
        }
        let Some(object) = self.api.get_opt(&self.lease.name).await? else {
            if !self.may_create() || self.must_wait_for_others().await? {
                return Ok(false);
            }
            let metadata = ObjectMeta {
                name: Some(self.lease.name.clone()),
                labels: Some([label()].into()),
                ..ObjectMeta::default()
            };
            let spec = self.claim(None);
            return self.record_write(
                self.api
                    .create(&PostParams::default(), &LeaseObject { metadata, spec: Some(spec) })
                    .await,
            );
        };
        let spec = object.spec.clone().unwrap_or_default();
        if !self.may_claim(&spec) || self.must_wait_for_others().await? {
            return Ok(false);
        }
        let mut metadata = object.metadata;
        metadata.labels.get_or_insert_default().extend([label()]);
        let claimed = LeaseObject { metadata, spec: Some(self.claim(Some(&spec))) };
        let name = self.lease.name.clone();
        self.record_write(self.api.replace(&name, &PostParams::default(), &claimed).await)
    }

    /// Renews the lease of a term as it was written last, as client-go does. Returns `false` if it has
    /// to be read first. So it is after a renewal without an answer, which may have changed it.
    async fn renew(&mut self) -> Result<bool, kube::Error> {
        let Some(object) = self.written.take().filter(|_| self.is_leading()) else {
            return Ok(false);
        };
        let spec = Some(self.claim(object.spec.as_ref()));
        let renewed = LeaseObject { spec, ..object };
        let name = self.lease.name.clone();
        self.record_write(self.api.replace(&name, &PostParams::default(), &renewed).await)
    }

    /// `true` if this process may take or keep the lease: it is free, held by this process, or
    /// expired.
    fn may_claim(&mut self, spec: &LeaseSpec) -> bool {
        let former = self.observed.as_ref();
        let since = former.filter(|(observed, _)| observed == spec);
        let since = since.map_or_else(Instant::now, |(_, since)| *since);
        let may_claim = self.is_claimable(spec, since);
        let holding = |spec: &LeaseSpec| (spec.holder_identity.clone(), duration_of(spec));
        if !may_claim && former.map(|(observed, _)| holding(observed)) != Some(holding(spec)) {
            let (holder, duration) = (spec.holder_identity.as_deref(), duration_of(spec));
            if duration > self.lease.duration {
                tracing::warn!(holder, ?duration, "another process holds the lease for long");
            } else {
                tracing::info!(holder, ?duration, "another process holds the lease");
            }
        }
        self.observed = Some((spec.clone(), since));
        may_claim
    }

    /// `true` if this process may create the lease that is missing. The holder of a lease that is
    /// deleted leads until the end of its term, so others wait as if it were there. They wait for
    /// their own duration at most, because a lease is also deleted when its duration is wrong.
    fn may_create(&self) -> bool {
        let observed = self.observed.as_ref();
        let is_over = |since: Instant| since.elapsed() >= self.lease.duration;
        observed.is_none_or(|(spec, since)| is_over(*since) || self.is_claimable(spec, *since))
    }

    /// `true` if a lease that has not changed since a time is free, held by this process, or expired.
    fn is_claimable(&self, spec: &LeaseSpec, since: Instant) -> bool {
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        holder.is_empty() || holder == self.identity || since.elapsed() >= duration_of(spec)
    }

    /// The spec of the lease with this process as its holder.
    fn claim(&self, former: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let is_own = |spec: &&LeaseSpec| spec.holder_identity.as_ref() == Some(&self.identity);
        let transitions = former.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.lease.duration.as_secs().max(1) as i32),
            acquire_time: former
                .filter(is_own)
                .map_or_else(|| Some(now.clone()), |spec| spec.acquire_time.clone()),
            renew_time: Some(now),
            lease_transitions: Some(match former {
                Some(spec) if !is_own(&spec) => transitions.saturating_add(1),
                _ => transitions,
            }),
            ..former.cloned().unwrap_or_default()
        }
    }

    fn record_write(
        &mut self,
        result: Result<LeaseObject, kube::Error>,
    ) -> Result<bool, kube::Error> {
        let object = result?;
        let uid = object.metadata.uid.as_deref();
        self.uid = uid.and_then(|uid| Uuid::try_parse(uid).ok());
        self.observed = object.spec.clone().map(|spec| (spec, Instant::now()));
        self.written = Some(object);
        Ok(true)
    }

    async fn release(&mut self) -> Result<(), kube::Error> {
        let Some(mut object) = self.api.get_opt(&self.lease.name).await? else {
            return Ok(());
        };
        let spec = object.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            let name = self.lease.name.clone();
            let replaced = self.api.replace(&name, &PostParams::default(), &object).await;
            self.record_write(replaced)?;
        }
        Ok(())
    }
}

/// Label of the leases of cluster managers.
fn label() -> (String, String) {
    let (key, value) = LABEL;
    (key.to_owned(), value.to_owned())
}

/// Time after which another process may take a lease that its holder does not renew.
pub(crate) fn duration_of(spec: &LeaseSpec) -> Duration {
    let seconds = spec.lease_duration_seconds.unwrap_or_default();
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default().max(1))
}

#[cfg(test)]
mod tests;
