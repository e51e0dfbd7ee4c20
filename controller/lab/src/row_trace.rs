//! Courses of packets by the rows of the Northbound databases.

mod address_trace;

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

use patchbay_engine::db::Snapshot;
use patchbay_model::IpFamily;
use patchbay_reach::{Arrival, Destination, Northbound, RowRef, Sender, Verdict};

use super::lab::Lab;
use super::pods::{Pod, PodName};
use super::questions::{Protocol, QuestionError};
use super::tunnel_port::{CHASSIS, TunnelPort};

pub use address_trace::{AddressDiagnosis, AddressEnd};

/// End of the names of the stages in which ACLs decide.
const ACL_STAGE: &str = "_eval";

/// Course of a packet by the rows of one node.
#[derive(Clone, Debug)]
pub struct RowTrace {
    /// Name of the node.
    pub node: String,
    /// Path through the rows of the Northbound database, or the reason why there is none.
    pub path: Result<patchbay_reach::Answer, patchbay_reach::QuestionError>,
    /// Obstacle in the rows. `None`: the rows let the packet pass.
    pub obstacle: Option<Obstacle>,
}

/// Course of a packet and of its answer by rows.
#[derive(Clone, Debug)]
pub struct RowDiagnosis {
    /// The packet, in the database of its sender's node.
    pub request: RowTrace,
    /// The packet behind the tunnel, in the database of the asked pod's node. `None`: the pods are
    /// on one node, or the packet does not get there.
    pub arrival: Option<RowTrace>,
    /// The answer, in the database of the asked pod's node.
    pub answer: RowTrace,
}

/// Reason why rows do not let a packet pass.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Obstacle {
    /// Reason in words.
    pub reason: String,
    /// The last row that decided. `None`: no row did.
    pub row: Option<RowRef>,
}

impl Obstacle {
    /// The obstacle at the end of a path.
    fn after(path: &patchbay_reach::Answer, reason: String) -> Self {
        Self {
            reason,
            row: path.hops.iter().rev().find_map(|hop| hop.row),
        }
    }
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

/// The rows of all nodes at one time.
#[derive(Debug)]
pub struct LabRows<'a> {
    lab: &'a Lab,
    nodes: BTreeMap<String, NodeRows>,
}

/// The rows of a node.
#[derive(Debug)]
struct NodeRows {
    snapshot: Snapshot,
    index: Northbound,
}

impl RowDiagnosis {
    /// `true` if rows deliver the packet to the asked pod, with or without an answer.
    pub fn is_reached(&self) -> bool {
        let arrival = self.arrival.as_ref();
        self.request.obstacle.is_none() && arrival.is_none_or(|trace| trace.obstacle.is_none())
    }

    /// The first obstacle of the packet, or else that of its answer, with the node.
    pub fn obstacle(&self) -> Option<(&str, &Obstacle)> {
        let traces = [
            Some(&self.request),
            self.arrival.as_ref(),
            Some(&self.answer),
        ];
        let mut traces = traces.into_iter().flatten();
        traces.find_map(|trace| Some((trace.node.as_str(), trace.obstacle.as_ref()?)))
    }
}

impl Lab {
    /// The rows of all nodes, as they are now.
    pub fn rows(&self) -> LabRows<'_> {
        let nodes = self.nodes().filter_map(|node| {
            let snapshot = self.northbound(node).ok()?;
            let index = Northbound::new(&snapshot, self.chassis(node));
            Some((node.to_owned(), NodeRows { snapshot, index }))
        });
        LabRows {
            lab: self,
            nodes: nodes.collect(),
        }
    }
}

impl LabRows<'_> {
    /// Follows a packet and its answer through the rows of their nodes. `family`: IP family;
    /// `None`: the first common one.
    ///
    /// # Errors
    /// There is no such pod, or the pods have no common family.
    pub fn diagnose(
        &self,
        from: &PodName,
        to: &PodName,
        protocol: Protocol,
        family: Option<IpFamily>,
    ) -> Result<RowDiagnosis, QuestionError> {
        let (source, target) = (self.lab.known_pod(from)?, self.lab.known_pod(to)?);
        let (own, other) = common_addresses(source, target, family)?;
        let request = self.trace_rows(source, target, other, protocol);
        let out = request.path.as_ref().ok();
        let out = out.and_then(|path| path.out.as_deref());
        let arrival = match out {
            Some(out) if request.obstacle.is_none() && source.node != target.node => {
                Some(self.trace_arrival(target, own, other, out, protocol))
            }
            _ => None,
        };
        let mut answer = self.trace_rows(target, source, own, protocol);
        if answer.is_dropped_by_acl() {
            // ACLs let the answers of connections pass that they have let begin.
            answer.obstacle = None;
        }
        Ok(RowDiagnosis {
            request,
            arrival,
            answer,
        })
    }

    /// Follows a packet through the rows of its sender's node.
    fn trace_rows(
        &self,
        source: &Pod,
        target: &Pod,
        address: IpAddr,
        protocol: Protocol,
    ) -> RowTrace {
        let node = source.node.clone();
        let Some(NodeRows { index, .. }) = self.nodes.get(&node) else {
            return RowTrace::unknown(node);
        };
        let path = index.answer(&patchbay_reach::Question {
            sender: Sender::port(source.port.as_str()),
            destination: Destination::Address(address),
            protocol: protocol.into(),
        });
        let obstacle = match &path {
            Ok(path) => self.obstacle(path, source, target),
            Err(error) => Some(Obstacle {
                reason: error.to_string(),
                row: None,
            }),
        };
        RowTrace {
            node,
            path,
            obstacle,
        }
    }

    /// Follows a packet through the rows of the asked pod's node, from the tunnel on. `out`: port
    /// by which it has entered the tunnel.
    fn trace_arrival(
        &self,
        target: &Pod,
        own: IpAddr,
        other: IpAddr,
        out: &str,
        protocol: Protocol,
    ) -> RowTrace {
        let node = target.node.clone();
        let Some(NodeRows { index, .. }) = self.nodes.get(&node) else {
            return RowTrace::unknown(node);
        };
        let path = index.follow_arrival(&Arrival {
            port: out.to_owned(),
            source: own,
            destination: other,
            protocol: protocol.into(),
        });
        let path = path.map_err(patchbay_reach::QuestionError::from);
        let obstacle = match &path {
            Ok(path) => delivery_obstacle(path, target),
            Err(error) => Some(Obstacle {
                reason: error.to_string(),
                row: None,
            }),
        };
        RowTrace {
            node,
            path,
            obstacle,
        }
    }

    /// The reason why the rows of the sender's node do not let a packet pass.
    fn obstacle(
        &self,
        path: &patchbay_reach::Answer,
        source: &Pod,
        target: &Pod,
    ) -> Option<Obstacle> {
        let (Verdict::Reaches, Some(out), false) =
            (path.verdict, &path.out, source.node == target.node)
        else {
            return delivery_obstacle(path, target);
        };
        let obstacle = |reason: String| Some(Obstacle::after(path, reason));
        let snapshot = &self.nodes.get(&source.node)?.snapshot;
        let chassis = self.lab.chassis(&target.node)?;
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
        obstacle(self.tunnel_obstacle(&here, out, &target.node)?)
    }

    /// The reason why a node does not get a packet that enters the tunnel by a port.
    fn tunnel_obstacle(&self, here: &TunnelPort, out: &str, node: &str) -> Option<String> {
        let Some(there) = TunnelPort::find(&self.nodes.get(node)?.snapshot, out) else {
            return Some(format!(
                "leaves for node {node} by {out}, which that node does not have"
            ));
        };
        (here.keys != there.keys).then(|| {
            format!(
                "leaves for node {node} by {out} with the tunnel keys {}, and that node has {}",
                here.keys, there.keys
            )
        })
    }
}

impl RowTrace {
    /// The course on a node that the lab does not have.
    fn unknown(node: String) -> Self {
        Self {
            node,
            path: Err(patchbay_reach::NameError::NoSender.into()),
            obstacle: None,
        }
    }

    /// `true` if an ACL drops or rejects the packet.
    fn is_dropped_by_acl(&self) -> bool {
        let path = self.path.as_ref().ok();
        let path = path.filter(|path| path.verdict == Verdict::Dropped);
        let last = path.and_then(|path| path.hops.last());
        last.is_some_and(|hop| hop.stage.ends_with(ACL_STAGE))
    }
}

/// Reason why rows do not deliver a packet to the port of the asked pod.
fn delivery_obstacle(path: &patchbay_reach::Answer, target: &Pod) -> Option<Obstacle> {
    let reason = match (path.verdict, &path.out) {
        (Verdict::Reaches, Some(out)) if *out == target.port => return None,
        (Verdict::Reaches, Some(out)) => format!("reaches {out}, and not {}", target.port),
        (verdict, _) => format!("{verdict}: {}", path.at),
    };
    Some(Obstacle::after(path, reason))
}

/// Addresses of two pods in the first common family.
pub(crate) fn common_addresses(
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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_app::northbound::{Embedded, Northbound as _};
    use patchbay_engine::txn::TxnBuilder;
    use patchbay_schemas::nb::{Acl, AclAction, AclDirection, LogicalSwitch, LogicalSwitchPort};

    use super::*;

    /// Course of a packet from `p1` to `p2` on a switch, with ACLs.
    async fn trace(acls: &[Acl], is_enabled: bool) -> RowTrace {
        let mut northbound = Embedded::new(0).unwrap();
        let mut txn = TxnBuilder::new(&northbound.snapshot());
        let ports = [1, 2].map(|number| LogicalSwitchPort {
            name: format!("p{number}"),
            addresses: [format!("0a:00:00:00:00:0{number} 10.0.0.{number}")].into(),
            enabled: (number == 2).then_some(is_enabled),
            ..LogicalSwitchPort::default()
        });
        let switch = LogicalSwitch {
            name: "s".to_owned(),
            ports: ports.map(|port| txn.insert(&port).unwrap()).into(),
            acls: acls.iter().map(|acl| txn.insert(acl).unwrap()).collect(),
            ..LogicalSwitch::default()
        };
        txn.insert(&switch).unwrap();
        northbound.commit(txn.finish()).await.unwrap();
        let index = Northbound::new(&northbound.snapshot(), None);
        RowTrace {
            node: "n1".to_owned(),
            path: index.answer(&patchbay_reach::Question {
                sender: Sender::port("p1"),
                destination: Destination::Address("10.0.0.2".parse().unwrap()),
                protocol: "tcp 80".parse().unwrap(),
            }),
            obstacle: None,
        }
    }

    #[tokio::test]
    async fn only_acls_that_stop_a_packet_let_the_answers_of_connections_pass() {
        let acl = |direction, action, options: &[(&str, &str)]| Acl {
            direction,
            action,
            priority: 1,
            r#match: "ip4".to_owned(),
            options: options
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect::<BTreeMap<_, _>>(),
            ..Acl::default()
        };
        let (from, to) = (AclDirection::FromLport, AclDirection::ToLport);
        let after = [("apply-after-lb", "true")];
        for (acls, is_enabled, is_dropped) in [
            (vec![], true, false),
            (vec![acl(from, AclAction::Drop, &[])], true, true),
            (vec![acl(from, AclAction::Reject, &[])], true, true),
            (vec![acl(from, AclAction::Drop, &after)], true, true),
            (vec![acl(to, AclAction::Drop, &[])], true, true),
            (vec![acl(to, AclAction::Allow, &[])], true, false),
            // The port drops the packet, and not an ACL before it.
            (vec![acl(to, AclAction::Allow, &[])], false, false),
        ] {
            let trace = trace(&acls, is_enabled).await;
            assert_eq!(trace.is_dropped_by_acl(), is_dropped, "{:?}", trace.path);
        }
    }
}
