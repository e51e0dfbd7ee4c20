//! Text of an explanation.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Formatter};

use super::explanation::{Explanation, NetworkExplanation, NetworkState, NodeExplanation};
use super::line::line;

/// Maximum number of nodes named for a network: those that are connected, and those that are not
/// connected for like reasons. The others are counted.
const MAX_NAMED_NODES: usize = 10;

impl Display for Explanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let verdict = match (&self.accepted, self.is_accepted) {
            (None, _) => "not looked at yet",
            (Some(_), true) => "accepted",
            (Some(_), false) => "not accepted",
        };
        line!(f, "ClusterNetworkConnect {}: {verdict}", self.connect)?;
        if let (Some(message), false) = (&self.accepted, self.is_accepted) {
            line!(f, "  {message}")?;
        }
        match self.tunnel_key {
            Some(key) => line!(f, "  tunnel key of the connect router: {key}")?,
            None => line!(f, "  the connect router has no tunnel key yet")?,
        }
        for range in &self.ranges {
            line!(f, "  {}: {} blocks of /{}", range.cidr, range.blocks, range.network_prefix)?;
        }
        if let Some(ids) = &self.node_ids {
            line!(f, "  {}", ids.text)?;
        }
        for obstacle in &self.obstacles {
            line!(f, "  not connected: {obstacle}")?;
        }
        for notice in &self.notices {
            line!(f, "  note: {notice}")?;
        }
        if self.networks.is_empty() {
            f.write_str("\nno network is selected\n")?;
            for reason in &self.unselected {
                line!(f, "  {reason}")?;
            }
        }
        for network in &self.networks {
            write!(f, "\n{network}")?;
        }
        Ok(())
    }
}

impl Display for NetworkExplanation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            NetworkState::Connected => "connected",
            NetworkState::Partly => "connected on some nodes",
            NetworkState::NotConnected => "NOT connected",
        };
        let Self { network, object, topology, id, .. } = self;
        line!(f, "network {network}: {state}")?;
        line!(f, "  {object}, {topology}, id {id}")?;
        for selector in &self.selected_by {
            line!(f, "  selected by {selector}")?;
        }
        if !self.subnets.is_empty() {
            let subnets: Vec<String> = self.subnets.iter().map(ToString::to_string).collect();
            line!(f, "  connect subnet {}", subnets.join(", "))?;
        }
        for reason in &self.reasons {
            line!(f, "  not connected: {reason}")?;
        }
        let (connected, others): (Vec<_>, Vec<_>) =
            self.nodes.iter().partition(|node| node.connected);
        if !connected.is_empty() {
            line!(f, "  connected on {}", names(&connected))?;
        }
        let mut alike = BTreeMap::<_, usize>::new();
        for node in others {
            for reason in &node.reasons {
                let count = alike.entry(reason.mend()).or_default();
                *count += 1;
                if *count <= MAX_NAMED_NODES {
                    line!(f, "  node {}: not connected: {reason}", node.node)?;
                }
            }
        }
        for (mend, count) in alike {
            if let Some(more @ 1..) = count.checked_sub(MAX_NAMED_NODES) {
                line!(f, "  {more} more nodes: not connected -> {mend}")?;
            }
        }
        Ok(())
    }
}

fn names(nodes: &[&NodeExplanation]) -> String {
    let named: Vec<&str> = nodes.iter().take(MAX_NAMED_NODES).map(|node| &*node.node).collect();
    let named = named.join(", ");
    match nodes.len().checked_sub(MAX_NAMED_NODES) {
        None | Some(0) => named,
        Some(more) => format!("{named} and {more} more nodes"),
    }
}
