//! Which of several processes works: the one that holds a Lease object.
//!
//! The holder renews the lease. Whoever sees it unchanged for its whole duration, by his own clock, takes it; that the
//! clocks of two machines disagree does not matter. A holder that cannot renew stops before that. Every write names
//! the version of the object that it is based on, so of two that take it at the same time one fails.

use std::time::Duration;

use k8s_openapi::api::coordination::v1::{Lease as LeaseObject, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::core::ObjectMeta;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use super::config::Lease;
use super::failure;

/// Until when this process leads, if it does. Whoever has slept in between must look at the clock before he writes.
pub(super) type Term = Option<Instant>;

/// Asks for a lease and keeps it.
#[derive(Debug)]
pub(super) struct Elector {
    api: Api<LeaseObject>,
    lease: Lease,
    identity: String,
    leads: watch::Sender<Term>,
    /// What the object said when it last changed, and when that was.
    observed: Option<(LeaseSpec, Instant)>,
    /// When the last renewal that succeeded was begun.
    renewed: Option<Instant>,
}

impl Elector {
    /// An elector, and whether its process leads.
    pub(super) fn new(
        client: Client,
        lease: Lease,
        identity: String,
    ) -> (Self, watch::Receiver<Term>) {
        let (leads, led) = watch::channel(None);
        let elector = Self {
            api: Api::namespaced(client, &lease.namespace),
            lease,
            identity,
            leads,
            observed: None,
            renewed: None,
        };
        (elector, led)
    }

    /// Asks for the lease and keeps it until `stop` changes; then gives it back, so that the next need not wait.
    pub(super) async fn run(mut self, mut stop: watch::Receiver<bool>) {
        loop {
            self.attempt().await;
            tokio::select! {
                () = tokio::time::sleep(self.lease.retry) => {}
                _ = stop.wait_for(|stop| *stop) => break,
            }
        }
        self.leads.send_replace(None);
        if self.renewed.is_some()
            && let Err(error) = self.give_back().await
        {
            let error = failure::told(&error);
            tracing::warn!(error, "cannot give the lease back");
        }
    }

    /// One attempt to get or renew the lease.
    async fn attempt(&mut self) {
        let begun = Instant::now();
        let limit = match self.renewed {
            Some(renewed) => (renewed + self.lease.renew_deadline).duration_since(begun),
            None => self.lease.renew_deadline,
        };
        let error = match timeout(limit, self.acquire()).await {
            Ok(Ok(true)) => {
                self.renewed = Some(begun);
                None
            }
            Ok(Ok(false)) => {
                self.renewed = None;
                None
            }
            Ok(Err(error)) => Some(failure::told(&error)),
            Err(_) => Some(failure::NO_ANSWER.to_owned()),
        };
        if let Some(error) = error {
            tracing::warn!(error, "cannot renew or get the lease");
        }
        let deadline = self.lease.renew_deadline;
        self.renewed = self.renewed.filter(|renewed| renewed.elapsed() < deadline);
        let term = self.renewed.map(|renewed| renewed + deadline);
        let leads = term.is_some();
        if self.leads.send_replace(term).is_some() != leads {
            tracing::info!(leads, identity = self.identity, "leadership");
        }
    }

    /// Whether the lease is ours now. A conflict may be with a write of ours that was done and not answered: the object says
    /// so.
    async fn acquire(&mut self) -> Result<bool, kube::Error> {
        match self.try_acquire().await {
            Err(kube::Error::Api(status)) if status.code == 409 => self.try_acquire().await,
            tried => tried,
        }
    }

    async fn try_acquire(&mut self) -> Result<bool, kube::Error> {
        let Some(object) = self.api.get_opt(&self.lease.name).await? else {
            let metadata = ObjectMeta {
                name: Some(self.lease.name.clone()),
                ..ObjectMeta::default()
            };
            let spec = self.claim(None);
            return self.written(
                self.api
                    .create(
                        &PostParams::default(),
                        &LeaseObject {
                            metadata,
                            spec: Some(spec),
                        },
                    )
                    .await,
            );
        };
        let spec = object.spec.clone().unwrap_or_default();
        if !self.is_free(&spec) {
            return Ok(false);
        }
        let claimed = LeaseObject {
            metadata: object.metadata,
            spec: Some(self.claim(Some(&spec))),
        };
        let name = self.lease.name.clone();
        self.written(
            self.api
                .replace(&name, &PostParams::default(), &claimed)
                .await,
        )
    }

    /// Whether we may take or keep the lease.
    fn is_free(&mut self, spec: &LeaseSpec) -> bool {
        let now = Instant::now();
        let since = match &self.observed {
            Some((observed, since)) if observed == spec => *since,
            _ => {
                self.observed = Some((spec.clone(), now));
                now
            }
        };
        let holder = spec.holder_identity.as_deref().unwrap_or_default();
        let duration = spec.lease_duration_seconds.unwrap_or_default().max(1);
        holder.is_empty()
            || holder == self.identity
            || now.duration_since(since) >= Duration::from_secs(duration as u64)
    }

    /// The lease as we hold it.
    fn claim(&self, former: Option<&LeaseSpec>) -> LeaseSpec {
        let now = MicroTime(Timestamp::now());
        let ours = |spec: &&LeaseSpec| spec.holder_identity.as_ref() == Some(&self.identity);
        let transitions = former.and_then(|spec| spec.lease_transitions).unwrap_or(0);
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(self.lease.duration.as_secs().max(1) as i32),
            acquire_time: former
                .filter(ours)
                .map_or_else(|| Some(now.clone()), |spec| spec.acquire_time.clone()),
            renew_time: Some(now),
            lease_transitions: Some(match former {
                Some(spec) if !ours(&spec) => transitions + 1,
                _ => transitions,
            }),
            ..former.cloned().unwrap_or_default()
        }
    }

    fn written(&mut self, result: Result<LeaseObject, kube::Error>) -> Result<bool, kube::Error> {
        let object = result?;
        self.observed = object.spec.map(|spec| (spec, Instant::now()));
        Ok(true)
    }

    async fn give_back(&mut self) -> Result<(), kube::Error> {
        let Some(mut object) = self.api.get_opt(&self.lease.name).await? else {
            return Ok(());
        };
        let spec = object.spec.get_or_insert_default();
        if spec.holder_identity.as_ref() == Some(&self.identity) {
            spec.holder_identity = None;
            spec.lease_duration_seconds = Some(1);
            let name = self.lease.name.clone();
            let replaced = self
                .api
                .replace(&name, &PostParams::default(), &object)
                .await;
            self.written(replaced)?;
        }
        Ok(())
    }
}
