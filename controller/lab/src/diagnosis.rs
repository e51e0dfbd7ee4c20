//! Places where packets are lost: by the rows of the Northbound databases, and by ovn-trace.
//!
//! A packet to a pod on another node meets the rows of both nodes. The sender's node decides up to
//! the tunnel, and its port there has to be the same one on the other node. The answer shows the
//! rows of the other node. Rows that a packet meets behind the tunnel, such as ACLs to the asked
//! pod, are not followed.

use std::fmt;
use std::net::IpAddr;

use patchbay_engine::db::Snapshot;
use patchbay_model::IpFamily;
use patchbay_reach::{Destination, Northbound, RowRef, Sender, Verdict};
use patchbay_schemas::nb::{LogicalRouter, LogicalSwitch};

use super::lab::Lab;
use super::ovn_trace::{self, OvnTrace};
use super::pods::{Pod, PodName};
use super::questions::{Protocol, QuestionError};

/// Option of a datapath or port: its key in tunnels.
const TUNNEL_KEY: &str = "requested-tnl-key";
/// Option of a port: the chassis to which it is bound.
const CHASSIS: &str = "requested-chassis";

/// Course of a packet and of its answer, by rows and by ovn-trace.
#[derive(Clone, Debug)]
pub struct Diagnosis {
    /// The packet, in the databases of its sender's node.
    pub request: NodeTrace,
    /// The answer, in the databases of the asked pod's node.
    pub answer: NodeTrace,
}

/// Course of a packet in the databases of one node.
#[derive(Clone, Debug)]
pub struct NodeTrace {
    /// Name of the node.
    pub node: String,
    /// Path through the rows of the Northbound database, or the reason why there is none.
    pub rows: Result<patchbay_reach::Answer, patchbay_reach::QuestionError>,
    /// Obstacle in the rows. `None`: the rows let the packet pass.
    pub obstacle: Option<Obstacle>,
    /// Path through the logical flows, or the reason why there is none.
    pub flows: Result<OvnTrace, String>,
}

/// Reason why rows do not let a packet pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Obstacle {
    /// Reason in words.
    pub reason: String,
    /// The last row that decided. `None`: no row did.
    pub row: Option<RowRef>,
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        match &self.row {
            Some(row) => write!(f, " [{} {}]", row.table, row.uuid),
            None => Ok(()),
        }
    }
}

impl Diagnosis {
    /// Obstacles in the rows, each with the node.
    pub fn obstacles(&self) -> impl Iterator<Item = (&str, &Obstacle)> {
        let traces = [&self.request, &self.answer].into_iter();
        traces.filter_map(|trace| Some((trace.node.as_str(), trace.obstacle.as_ref()?)))
    }
}

impl fmt::Display for Diagnosis {
    /// A line for each obstacle, and the last table of ovn-trace beside it. Without an obstacle the
    /// tables of both nodes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_passed = self.obstacles().next().is_none();
        if is_passed {
            f.write_str(
                "no obstacle in the rows that the packet and its answer meet up to the tunnel\n",
            )?;
        }
        for (trace, packet) in [(&self.request, "packet"), (&self.answer, "answer")] {
            let node = &trace.node;
            if let Some(obstacle) = &trace.obstacle {
                writeln!(f, "reach on {node}, {packet}: {obstacle}")?;
            }
            if is_passed || trace.obstacle.is_some() {
                match &trace.flows {
                    Ok(flows) => writeln!(f, "ovn-trace on {node}, {packet}: {}", flows.end)?,
                    Err(reason) => writeln!(f, "ovn-trace on {node}, {packet}: {reason}")?,
                }
            }
        }
        Ok(())
    }
}

impl Lab {
    /// Follows a packet and its answer through the rows and the logical flows of their nodes.
    /// `family`: IP family; `None`: the first common one.
    ///
    /// # Errors
    /// There is no such pod, or the pods have no common family.
    pub async fn diagnose(
        &self,
        from: &PodName,
        to: &PodName,
        protocol: Protocol,
        family: Option<IpFamily>,
    ) -> Result<Diagnosis, QuestionError> {
        let (source, target) = (self.known_pod(from)?, self.known_pod(to)?);
        let (own, other) = common_addresses(source, target, family)?;
        Ok(Diagnosis {
            request: self.trace_on_node(source, target, other, protocol).await,
            answer: self.trace_on_node(target, source, own, protocol).await,
        })
    }

    async fn trace_on_node(
        &self,
        source: &Pod,
        target: &Pod,
        address: IpAddr,
        protocol: Protocol,
    ) -> NodeTrace {
        let (rows, obstacle) = self.trace_rows(source, target, address, protocol);
        NodeTrace {
            node: source.node.clone(),
            rows,
            obstacle,
            flows: self.trace_flows(source, address, protocol).await,
        }
    }

    fn trace_rows(
        &self,
        source: &Pod,
        target: &Pod,
        address: IpAddr,
        protocol: Protocol,
    ) -> (
        Result<patchbay_reach::Answer, patchbay_reach::QuestionError>,
        Option<Obstacle>,
    ) {
        let chassis = self.chassis(&source.node);
        let snapshot = self.northbound(&source.node).ok();
        let (Some(chassis), Some(snapshot)) = (chassis, snapshot) else {
            let error = patchbay_reach::NameError::NoSender;
            return (Err(error.into()), None);
        };
        let answer = Northbound::new(&snapshot, Some(chassis)).answer(&patchbay_reach::Question {
            sender: Sender::port(source.port.as_str()),
            destination: Destination::Address(address),
            protocol: match protocol {
                Protocol::Icmp => patchbay_reach::Protocol::Icmp,
                Protocol::Udp(port) => patchbay_reach::Protocol::Udp(port),
                Protocol::Tcp(port) => patchbay_reach::Protocol::Tcp(port),
            },
        });
        let obstacle = match &answer {
            Ok(answer) => self.obstacle(answer, &snapshot, source, target),
            Err(error) => Some(Obstacle {
                reason: error.to_string(),
                row: None,
            }),
        };
        (answer, obstacle)
    }

    /// The reason why the rows of the sender's node do not let a packet pass.
    fn obstacle(
        &self,
        answer: &patchbay_reach::Answer,
        snapshot: &Snapshot,
        source: &Pod,
        target: &Pod,
    ) -> Option<Obstacle> {
        let row = answer.hops.iter().rev().find_map(|hop| hop.row);
        let obstacle = |reason: String| Some(Obstacle { reason, row });
        let out = match (answer.verdict, &answer.out) {
            (Verdict::Reaches, Some(out)) => out,
            (verdict, _) => return obstacle(format!("{verdict}: {}", answer.at)),
        };
        if source.node == target.node {
            let is_right = *out == target.port;
            return if is_right {
                None
            } else {
                obstacle(format!("reaches {out}, and not {}", target.port))
            };
        }
        let other = self.northbound(&target.node).ok()?;
        let chassis = self.chassis(&target.node)?;
        let Some(here) = TunnelPort::find(snapshot, out) else {
            return obstacle(format!("reaches {out}"));
        };
        if here.chassis.as_deref() != Some(chassis) {
            return obstacle(format!(
                "reaches {out} with {CHASSIS} {}, and node {} has the chassis {chassis}",
                here.chassis.as_deref().unwrap_or("unset"),
                target.node
            ));
        }
        let Some(there) = TunnelPort::find(&other, out) else {
            return obstacle(format!(
                "leaves for node {} by {out}, which that node does not have",
                target.node
            ));
        };
        (here.keys != there.keys).then(|| Obstacle {
            reason: format!(
                "leaves for node {} by {out} with the tunnel keys {}, and that node has {}",
                target.node, here.keys, there.keys
            ),
            row: answer.hops.iter().rev().find_map(|hop| hop.row),
        })
    }

    async fn trace_flows(
        &self,
        source: &Pod,
        address: IpAddr,
        protocol: Protocol,
    ) -> Result<OvnTrace, String> {
        let (_, asker) = self.asker(&source.name).ok_or("there is no such pod")?;
        let Some((own, mac)) = asker.resolve(address).await else {
            return Err("not asked, because nobody answers for the next hop".to_owned());
        };
        let packet = ovn_trace::packet(source, own, mac, address, protocol);
        let command = self.release().command("ovn-trace");
        let command = command.map_err(|error| error.to_string())?;
        let environment = self.environment(&source.node);
        let environment = environment.map_err(|error| error.to_string())?;
        ovn_trace::run(command, environment, packet).await
    }

    fn known_pod(&self, name: &PodName) -> Result<&Pod, QuestionError> {
        let found = self.pods().find(|pod| pod.name == *name);
        found.ok_or_else(|| QuestionError::NoSuchPod {
            name: name.to_string(),
            similar: Vec::new(),
        })
    }
}

/// Addresses of two pods in the first common family.
fn common_addresses(
    source: &Pod,
    target: &Pod,
    family: Option<IpFamily>,
) -> Result<(IpAddr, IpAddr), QuestionError> {
    let pairs = target.ips().filter_map(|other| {
        let own = source.ips().find(|own| own.is_ipv4() == other.is_ipv4())?;
        Some((own, other))
    });
    let mut wanted = pairs.filter(|(own, _)| family.is_none_or(|f| IpFamily::of(*own) == f));
    wanted.next().ok_or_else(|| QuestionError::NoCommonFamily {
        from: source.name.clone(),
        to: target.name.clone(),
    })
}

/// Port through which packets enter a tunnel.
struct TunnelPort {
    keys: TunnelKeys,
    chassis: Option<String>,
}

/// Tunnel keys of a datapath and a port in it. `None`: ovn-northd chooses one.
#[derive(Eq, PartialEq)]
struct TunnelKeys {
    datapath: Option<String>,
    port: Option<String>,
}

impl fmt::Display for TunnelKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |key: &Option<String>| key.clone().unwrap_or_else(|| "unset".to_owned());
        write!(f, "{} and {}", text(&self.datapath), text(&self.port))
    }
}

impl TunnelPort {
    /// The port of a router or switch.
    fn find(snapshot: &Snapshot, name: &str) -> Option<Self> {
        for (_, router) in snapshot.typed::<LogicalRouter>().iter().flatten() {
            let mut ports = router.ports.iter();
            let port = ports.find_map(|port| {
                let row = snapshot.get(*port).ok()??;
                (row.name == name).then_some(row)
            });
            if let Some(port) = port {
                return Some(Self {
                    keys: TunnelKeys {
                        datapath: router.options.get(TUNNEL_KEY).cloned(),
                        port: port.options.get(TUNNEL_KEY).cloned(),
                    },
                    chassis: port.options.get(CHASSIS).cloned(),
                });
            }
        }
        for (_, switch) in snapshot.typed::<LogicalSwitch>().iter().flatten() {
            let mut ports = switch.ports.iter();
            let port = ports.find_map(|port| {
                let row = snapshot.get(*port).ok()??;
                (row.name == name).then_some(row)
            });
            if let Some(port) = port {
                return Some(Self {
                    keys: TunnelKeys {
                        datapath: switch.other_config.get(TUNNEL_KEY).cloned(),
                        port: port.options.get(TUNNEL_KEY).cloned(),
                    },
                    chassis: port.options.get(CHASSIS).cloned(),
                });
            }
        }
        None
    }
}
