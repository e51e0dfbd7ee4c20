//! Packets that go on while a lab changes: streams of probes, and connections that stay open.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

use super::lab::Lab;
use super::pods::PodName;
use super::questions::QuestionError;
use super::wire::asker::{Asker, Probe, Way};
use super::wire::stream::Stream;

/// Interval between the probes of a stream.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// Echo requests from one pod to another, 50 in a second, until it is stopped.
#[derive(Debug)]
pub struct ProbeStream {
    stop: oneshot::Sender<Duration>,
    task: JoinHandle<ProbeReport>,
}

/// What became of the probes of a stream.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ProbeReport {
    /// Number of probes.
    pub sent: usize,
    /// Times of the answered probes, since the first probe.
    pub answered: Vec<Duration>,
    /// Times of the probes without answer, since the first probe.
    pub unanswered: Vec<Duration>,
    /// Times of the probes that arrived at a pod, the asked one or another, since the first probe.
    pub arrived: Vec<Duration>,
}

/// TCP connection from one pod to another that stays open.
#[derive(Debug)]
pub struct Connection {
    stream: Stream,
}

impl ProbeStream {
    /// Stops, waits at most `patience` for the last answers, and reports. A busy machine answers
    /// late, and loses nothing. `None`: the stream has panicked.
    pub async fn stop(self, patience: Duration) -> Option<ProbeReport> {
        // The task waits for this message.
        let _ = self.stop.send(patience);
        self.task.await.ok()
    }
}

impl Lab {
    /// Starts a stream of probes.
    ///
    /// # Errors
    /// There is no such pod, or the next hop is not resolved.
    pub async fn start_probes(
        &self,
        from: &PodName,
        to: &PodName,
    ) -> Result<ProbeStream, QuestionError> {
        let (asker, way, _) = self.way(from, to).await?;
        let (stop, stopped) = oneshot::channel();
        let task = tokio::spawn(send_probes(asker, way, stopped));
        Ok(ProbeStream { stop, task })
    }

    /// Opens a TCP connection. `None`: it is not accepted.
    ///
    /// # Errors
    /// There is no such pod, or the next hop is not resolved.
    pub async fn connect(
        &self,
        from: &PodName,
        to: &PodName,
        port: u16,
    ) -> Result<Option<Connection>, QuestionError> {
        let (asker, way, _) = self.way(from, to).await?;
        let stream = asker.connect(way, port).await;
        Ok(stream.map(|stream| Connection { stream }))
    }

    /// Sends data on a connection and waits until it comes back. Returns the pod at which it
    /// arrived. `None`: it did not come back.
    pub async fn exchange(&self, connection: &mut Connection) -> Option<PodName> {
        let endpoint = connection.stream.exchange().await?;
        self.pod_of_endpoint(endpoint).map(|pod| pod.name.clone())
    }

    /// The way of packets from one pod to another, with the asked address.
    async fn way(
        &self,
        from: &PodName,
        to: &PodName,
    ) -> Result<(Asker, Way, IpAddr), QuestionError> {
        let (source, target) = (self.known_pod(from)?, self.known_pod(to)?);
        let is_common = |ip: &IpAddr| source.ips().any(|own| own.is_ipv4() == ip.is_ipv4());
        let address = target.ips().find(is_common);
        let address = address.ok_or_else(|| QuestionError::NoCommonFamily {
            from: from.clone(),
            to: to.clone(),
        })?;
        let found = self.asker(from).map(|(_, asker)| asker);
        let asker = found.ok_or_else(|| QuestionError::NoSuchPod {
            name: from.to_string(),
            similar: Vec::new(),
        })?;
        let way = asker.way(address).await;
        let way = way.ok_or_else(|| QuestionError::NoNextHop {
            from: from.clone(),
            address,
        })?;
        Ok((asker, way, address))
    }
}

async fn send_probes(
    asker: Asker,
    way: Way,
    mut stopped: oneshot::Receiver<Duration>,
) -> ProbeReport {
    let start = Instant::now();
    let mut ticks = interval(PROBE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut probes: Vec<(Duration, Probe)> = Vec::new();
    let patience = loop {
        tokio::select! {
            patience = &mut stopped => break patience.unwrap_or_default(),
            _ = ticks.tick() => probes.push((start.elapsed(), asker.probe(way))),
        }
    };
    let mut report = ProbeReport {
        sent: probes.len(),
        ..ProbeReport::default()
    };
    let until = Instant::now() + patience;
    for (time, mut probe) in probes {
        if asker.is_answered(&mut probe, until).await {
            report.answered.push(time);
        } else {
            report.unanswered.push(time);
        }
        if !asker.end(&probe).arrivals.is_empty() {
            report.arrived.push(time);
        }
    }
    report
}
