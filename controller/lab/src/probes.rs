//! Packets that go on while a lab changes: streams of probes, and connections that stay open.

use std::net::IpAddr;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep};

use super::lab::Lab;
use super::pods::PodName;
use super::questions::QuestionError;
use super::wire::asker::{Asker, Probe, Way};
use super::wire::open_questions::Seen;
use super::wire::stream::Stream;

/// Interval between the probes of a stream.
const PROBE_INTERVAL: Duration = Duration::from_millis(20);

/// Echo requests from one pod to another, 50 in a second, until it is stopped.
#[derive(Debug)]
pub struct ProbeStream {
    stop: oneshot::Sender<Stop>,
    task: JoinHandle<ProbeReport>,
}

/// Outcomes of the probes of a stream.
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

/// Message that ends a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Stop {
    /// Time for the last answers.
    patience: Duration,
    /// State that the last probe has to show. `None`: any.
    awaited: Option<AwaitedState>,
}

/// State that a stream goes on to see before it ends.
#[derive(Clone, Copy, Debug)]
struct AwaitedState {
    is_answered: bool,
    /// Time after which the stream ends without it.
    limit: Duration,
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
        self.end(Stop { patience, awaited: None }).await
    }

    /// Goes on until a probe is answered, or is not, for at most `limit`, then stops and reports.
    /// `patience`: time for the answer to each of these probes. Open vSwitch removes the datapath
    /// flows of the former state some milliseconds after the tables have changed. `None`: the
    /// stream has panicked.
    pub async fn stop_when(
        self,
        is_answered: bool,
        limit: Duration,
        patience: Duration,
    ) -> Option<ProbeReport> {
        let awaited = Some(AwaitedState { is_answered, limit });
        self.end(Stop { patience, awaited }).await
    }

    async fn end(self, stop: Stop) -> Option<ProbeReport> {
        // The task waits for this message.
        let _ = self.stop.send(stop);
        self.task.await.ok()
    }
}

impl ProbeReport {
    fn add(&mut self, time: Duration, is_answered: bool, seen: &Seen) {
        self.sent += 1;
        let times = if is_answered { &mut self.answered } else { &mut self.unanswered };
        times.push(time);
        if !seen.arrivals.is_empty() {
            self.arrived.push(time);
        }
    }

    fn sort(&mut self) {
        for times in [&mut self.answered, &mut self.unanswered, &mut self.arrived] {
            times.sort_unstable();
        }
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
        let address = target
            .ips()
            .find(is_common)
            .ok_or_else(|| QuestionError::NoCommonFamily { from: from.clone(), to: to.clone() })?;
        let found = self.asker(from).map(|(_, asker)| asker);
        let asker = found.ok_or_else(|| QuestionError::NoSuchPod {
            name: from.to_string(),
            similar: Vec::new(),
        })?;
        let way = asker
            .way(address)
            .await
            .ok_or_else(|| QuestionError::NoNextHop { from: from.clone(), address })?;
        Ok((asker, way, address))
    }
}

async fn send_probes(asker: Asker, way: Way, mut stopped: oneshot::Receiver<Stop>) -> ProbeReport {
    let start = Instant::now();
    let mut ticks = interval(PROBE_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut probes: Vec<(Duration, Probe)> = Vec::new();
    let stop = loop {
        tokio::select! {
            stop = &mut stopped => break stop.unwrap_or_default(),
            _ = ticks.tick() => probes.push((start.elapsed(), asker.probe(way))),
        }
    };
    let mut report = ProbeReport::default();
    let until = Instant::now() + stop.patience;
    if let Some(awaited) = stop.awaited {
        await_state(&asker, way, start, (awaited, stop.patience), &mut report).await;
    }
    for (time, mut probe) in probes {
        let is_answered = asker.is_answered(&mut probe, until).await;
        report.add(time, is_answered, &asker.end(&probe));
    }
    report.sort();
    report
}

/// Sends one probe after the other until one shows the awaited state.
async fn await_state(
    asker: &Asker,
    way: Way,
    start: Instant,
    (awaited, patience): (AwaitedState, Duration),
    report: &mut ProbeReport,
) {
    let limit = Instant::now() + awaited.limit;
    loop {
        let (time, mut probe) = (start.elapsed(), asker.probe(way));
        let is_answered = asker.is_answered(&mut probe, Instant::now() + patience).await;
        report.add(time, is_answered, &asker.end(&probe));
        if is_answered == awaited.is_answered || Instant::now() >= limit {
            return;
        }
        sleep(PROBE_INTERVAL).await;
    }
}
