//! Nodes on which networks have users, for dynamic allocation of networks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

/// Nodes on which networks are rendered while feature
/// [`DynamicUdnAllocation`](super::Feature::DynamicUdnAllocation) is on.
///
/// A network that is not limited is rendered on all nodes.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct NetworkActivity {
    limited: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
    /// Networks that stay on the zone's node without users there.
    kept: BTreeSet<Arc<str>>,
}

impl NetworkActivity {
    /// Finds the nodes of networks.
    ///
    /// - `limited`: networks that are rendered on nodes with users only.
    /// - `uses`: networks with nodes where they have users.
    /// - `connected`: sets of networks that are connected. A network is rendered where one that it
    ///   is connected with has users, too.
    ///
    /// ```
    /// use patchbay_model::NetworkActivity;
    ///
    /// let limited = ["blue".into(), "green".into()];
    /// let uses = [("blue".into(), "n1".into())];
    /// let activity = NetworkActivity::new(limited, uses, &[]);
    /// assert!(activity.is_rendered("blue", "n1"));
    /// assert!(!activity.is_rendered("green", "n1"));
    /// assert!(activity.is_rendered("red", "n1"));
    /// ```
    pub fn new(
        limited: impl IntoIterator<Item = Arc<str>>,
        uses: impl IntoIterator<Item = (Arc<str>, Arc<str>)>,
        connected: &[BTreeSet<Arc<str>>],
    ) -> Self {
        let limited = limited.into_iter();
        let mut direct: BTreeMap<Arc<str>, BTreeSet<Arc<str>>> =
            limited.map(|network| (network, BTreeSet::new())).collect();
        for (network, node) in uses {
            if let Some(nodes) = direct.get_mut(&network) {
                nodes.insert(node);
            }
        }
        let limited = direct.iter().filter_map(|(network, nodes)| {
            let mut nodes = nodes.clone();
            for peers in connected.iter().filter(|peers| peers.contains(network)) {
                for peer in peers {
                    // One that is rendered on all nodes makes its peers so.
                    nodes.extend(direct.get(peer)?.iter().cloned());
                }
            }
            Some((network.clone(), nodes))
        });
        Self { limited: limited.collect(), kept: BTreeSet::new() }
    }

    /// `true` if a network is rendered on a node.
    pub fn is_rendered(&self, network: &str, node: &str) -> bool {
        let nodes = self.limited.get(network);
        nodes.is_none_or(|nodes| nodes.contains(node))
    }

    /// The nodes of a network. `None`: all.
    pub fn nodes(&self, network: &str) -> Option<&BTreeSet<Arc<str>>> {
        self.limited.get(network)
    }

    /// The limited networks with their nodes.
    pub fn limited(&self) -> impl Iterator<Item = (&Arc<str>, &BTreeSet<Arc<str>>)> {
        self.limited.iter()
    }

    /// `true` if a network stays on the zone's node without users there, for the grace period.
    pub fn is_kept(&self, network: &str) -> bool {
        self.kept.contains(network)
    }
}

/// Networks that a zone has rendered: one without users stays for a while.
#[derive(Clone, Debug, Default)]
pub struct RenderedNetworks {
    /// Rendered networks, with the time since when they have no users on the zone's node. `None`:
    /// they have some.
    unused_since: BTreeMap<Arc<str>, Option<Timestamp>>,
}

impl RenderedNetworks {
    /// Follows the users of networks on the zone's node. Networks whose last user there has left
    /// less than `grace_period` ago count as rendered on the node.
    pub fn update(
        &mut self,
        activity: &mut NetworkActivity,
        zone: &str,
        grace_period: SignedDuration,
        now: Timestamp,
    ) {
        let known = std::mem::take(&mut self.unused_since);
        for (network, nodes) in &mut activity.limited {
            if nodes.contains(zone) {
                self.unused_since.insert(network.clone(), None);
                continue;
            }
            let Some(known) = known.get(network) else {
                continue;
            };
            let since = known.unwrap_or(now);
            if now.duration_since(since) < grace_period {
                nodes.insert(zone.into());
                activity.kept.insert(network.clone());
                self.unused_since.insert(network.clone(), Some(since));
            }
        }
    }

    /// Time at which the first of the networks without users goes. `None`: all have some.
    pub fn next_removal(&self, grace_period: SignedDuration) -> Option<Timestamp> {
        let since = self.unused_since.values().flatten().min()?;
        since.checked_add(grace_period).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTES: SignedDuration = SignedDuration::from_mins(2);

    fn activity(uses: &[(&str, &str)], connected: &[&[&str]]) -> NetworkActivity {
        let limited = ["blue", "green", "red"].map(Arc::from);
        let uses = uses.iter().map(|(of, at)| ((*of).into(), (*at).into()));
        let connected: Vec<BTreeSet<Arc<str>>> = connected
            .iter()
            .map(|peers| peers.iter().map(|peer| Arc::from(*peer)).collect())
            .collect();
        NetworkActivity::new(limited, uses, &connected)
    }

    fn nodes(activity: &NetworkActivity, network: &str) -> Option<String> {
        let nodes = activity.nodes(network)?.iter();
        Some(nodes.map(|node| &**node).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn a_network_is_rendered_where_it_and_its_direct_peers_have_users() {
        let uses = [("blue", "n1"), ("red", "n2"), ("plain", "n3")];
        let activity = activity(&uses, &[&["blue", "green"], &["green", "red"]]);
        assert_eq!(nodes(&activity, "blue").as_deref(), Some("n1"));
        assert_eq!(nodes(&activity, "green").as_deref(), Some("n1 n2"));
        assert_eq!(nodes(&activity, "red").as_deref(), Some("n2"));
        assert_eq!(nodes(&activity, "plain"), None);
    }

    #[test]
    fn a_peer_on_all_nodes_makes_a_network_so() {
        let activity = activity(&[], &[&["blue", "plain"]]);
        assert_eq!(nodes(&activity, "blue"), None);
        assert_eq!(nodes(&activity, "green").as_deref(), Some(""));
    }

    #[test]
    fn a_network_stays_for_the_grace_period_after_its_last_user() {
        let mut rendered = RenderedNetworks::default();
        let mut at = |uses: &[(&str, &str)], second: i64| {
            let mut activity = activity(uses, &[]);
            let now = Timestamp::from_second(second).unwrap();
            rendered.update(&mut activity, "n1", MINUTES, now);
            let next = rendered.next_removal(MINUTES);
            let is_rendered = activity.is_rendered("blue", "n1");
            let has_users = is_rendered && !activity.is_kept("blue");
            assert_eq!(has_users, uses.contains(&("blue", "n1")));
            (is_rendered, next.map(Timestamp::as_second))
        };
        // A new zone keeps no network that has no users.
        assert_eq!(at(&[("blue", "n2")], 0), (false, None));
        assert_eq!(at(&[("blue", "n1")], 1), (true, None));
        assert_eq!(at(&[], 10), (true, Some(130)));
        assert_eq!(at(&[], 129), (true, Some(130)));
        assert_eq!(at(&[("blue", "n1")], 129), (true, None));
        assert_eq!(at(&[], 200), (true, Some(320)));
        assert_eq!(at(&[], 320), (false, None));
        assert_eq!(at(&[], 321), (false, None));
    }
}
