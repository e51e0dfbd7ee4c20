//! Questions to and from hosts on the wires of provider networks.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use ipnet::IpNet;
use thiserror::Error;

use super::lab::{Lab, LabWire};
use super::pods::PodName;
use super::provider_networks::{PlannedSubnet, host_mac};
use super::questions::{Answer, Protocol, QuestionError, Verdict};
use super::wire::asker::Asker;
use super::wire::endpoint::{EndpointConfig, EndpointRole, RequestOutcome, TTL};
use super::wire::open_questions::{WireLoss, lock};

/// Beginning of the text of an [`OutsideHost`].
const OUT: &str = "out:";

/// Host outside of the cluster: one in an underlay subnet, or one of the internet behind the gateway
/// of that subnet. Its text is `out:SUBNET/ADDRESS`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OutsideHost {
    /// Name of the subnet.
    pub subnet: String,
    /// Address of the host.
    pub address: IpAddr,
}

/// Error: the text is not a host outside.
#[derive(Clone, Debug, Eq, Error, PartialEq)]
#[error("{0:?} is not out:SUBNET/ADDRESS")]
pub struct OutsideHostError(String);

impl fmt::Display for OutsideHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OUT}{}/{}", self.subnet, self.address)
    }
}

impl FromStr for OutsideHost {
    type Err = OutsideHostError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parts = text.strip_prefix(OUT).and_then(|text| text.split_once('/'));
        let host = parts.and_then(|(subnet, address)| {
            Some(Self { subnet: subnet.to_owned(), address: address.parse().ok()? })
        });
        host.ok_or_else(|| OutsideHostError(text.to_owned()))
    }
}

impl Lab {
    /// Asks an address from a host outside. `via`: address of the next hop; `None`: the address
    /// itself in the subnet, and else the gateway.
    ///
    /// # Errors
    /// There is no such subnet, or the host is not behind its gateway.
    pub async fn ask_from_outside(
        &self,
        from: &OutsideHost,
        address: IpAddr,
        via: Option<IpAddr>,
        protocol: Protocol,
    ) -> Result<Answer, QuestionError> {
        let asker = self.host_asker(from)?.via(via);
        Ok(self.ask_anywhere(&asker, address, protocol).await)
    }

    /// Asks any address from a pod.
    pub(crate) async fn ask_from_pod(
        &self,
        from: &PodName,
        address: IpAddr,
        protocol: Protocol,
    ) -> Result<Answer, QuestionError> {
        let (_, asker) = self.asker(from).ok_or_else(|| QuestionError::NoSuchPod {
            name: from.to_string(),
            similar: Vec::new(),
        })?;
        Ok(self.ask_anywhere(&asker, address, protocol).await)
    }

    async fn ask_anywhere(&self, asker: &Asker, address: IpAddr, protocol: Protocol) -> Answer {
        let before = self.losses();
        let outcome = asker.ask(address, protocol.into()).await;
        let mut answer = self.judge_anywhere(address, outcome);
        let mut after = self.losses();
        after.retain(|loss, frames| before.get(loss) != Some(frames));
        answer.losses = after.into_keys().collect();
        answer
    }

    /// Judges where packets arrived. Any pod and any host may get them.
    fn judge_anywhere(&self, address: IpAddr, outcome: RequestOutcome) -> Answer {
        let arrivals = outcome.seen.arrivals.clone();
        let pods: Vec<&PodName> = arrivals
            .iter()
            .filter_map(|arrival| self.pod_of_endpoint(arrival.endpoint))
            .map(|pod| &pod.name)
            .collect();
        let mut answer = self.judge(address, &pods, outcome);
        answer.source = arrivals.first().map(|arrival| arrival.source);
        let outside = arrivals.iter().find(|arrival| self.is_outside(arrival.endpoint));
        match (outside, &answer.verdict) {
            (Some(arrival), Verdict::AnsweredByOther) => {
                let routers = TTL.saturating_sub(arrival.ttl);
                answer.verdict = Verdict::Reached { routers };
            }
            (Some(_), Verdict::Lost) => answer.verdict = Verdict::AnswerLost,
            _ => {}
        }
        answer
    }

    /// Numbers of frames that nobody could read on all wires so far.
    fn losses(&self) -> BTreeMap<WireLoss, u64> {
        self.wires.values().flat_map(|wire| wire.wire.losses()).collect()
    }

    /// The host, or the gateway that stands for it.
    fn host_asker(&self, from: &OutsideHost) -> Result<Asker, QuestionError> {
        let (wire, subnet) = self.underlay_subnet(&from.subnet)?;
        let gateway = wire.gateways.get(&subnet.name).copied();
        let is_gateway = subnet.gateways.iter().any(|one| one.addr() == from.address);
        let error =
            || QuestionError::NotInSubnet { host: from.address, subnet: subnet.name.clone() };
        match (subnet.host(from.address), gateway) {
            (Some(_), Some(gateway)) if is_gateway => wire.wire.asker(gateway).ok_or_else(error),
            (Some(own), _) => {
                let mut hosts = lock(&wire.hosts);
                let key = (subnet.name.clone(), from.address);
                let port = *hosts.entry(key).or_insert_with(|| {
                    let number = self.take_number();
                    let config = EndpointConfig {
                        number,
                        role: EndpointRole::Machine,
                        mac: host_mac(number),
                        addresses: vec![own],
                        gateways: subnet.gateways.iter().map(IpNet::addr).collect(),
                    };
                    wire.wire.add_host(subnet.vlan, config)
                });
                wire.wire.asker(port).ok_or_else(error)
            }
            (None, Some(gateway)) => {
                let asker = wire.wire.asker(gateway).ok_or_else(error)?;
                Ok(asker.behind(from.address))
            }
            (None, None) => Err(error()),
        }
    }

    /// An underlay subnet with its wire.
    fn underlay_subnet(&self, name: &str) -> Result<(&LabWire, &PlannedSubnet), QuestionError> {
        let subnets = || {
            let wires = self.wires.values();
            wires.flat_map(|wire| wire.network.subnets.iter().map(move |subnet| (wire, subnet)))
        };
        let found = subnets().find(|(_, subnet)| subnet.name == name);
        found.ok_or_else(|| QuestionError::NoSuchSubnet {
            name: name.to_owned(),
            known: subnets().map(|(_, subnet)| subnet.name.clone()).collect(),
        })
    }
}
