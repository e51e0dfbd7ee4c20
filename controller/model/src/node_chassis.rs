//! Chassis ids of nodes while a controller runs.

use jiff::Timestamp;

/// Chassis id of a node, and a mark for an id that has changed since a running controller has seen
/// the node.
///
/// OVN-Kubernetes binds ports of other zones when it starts and when it makes them. If the chassis
/// id alone changes, the ports follow at the next start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeChassis {
    id: Option<String>,
    created: Option<Timestamp>,
    is_changed: bool,
}

impl NodeChassis {
    /// The chassis id of a node with this time of creation, as at the start of a controller.
    pub fn new(id: Option<String>, created: Option<Timestamp>) -> Self {
        Self { id, created, is_changed: false }
    }

    /// The chassis id. `None`: not known yet.
    pub fn id(&self) -> Option<&str> {
        self.id.as_deref()
    }

    /// `true` if the node has had another chassis id since the controller has started.
    pub fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// Continues the record that a running controller has of the node of this name. A node that was
    /// deleted and created again has a new record.
    pub fn follow(&mut self, earlier: &Self) {
        let has_other_id = earlier.id.is_some() && earlier.id != self.id;
        self.is_changed = earlier.created == self.created && (earlier.is_changed || has_other_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The history of a node with these chassis ids, one after the other.
    fn followed(ids: &[Option<&str>]) -> NodeChassis {
        let mut versions = ids.iter().map(|id| NodeChassis::new(id.map(str::to_owned), None));
        let first = versions.next().unwrap();
        versions.fold(first, |earlier, mut chassis| {
            chassis.follow(&earlier);
            chassis
        })
    }

    #[test]
    fn a_chassis_is_changed_once_the_node_has_had_another_one() {
        for (ids, is_changed) in [
            (&[Some("c1")][..], false),
            (&[Some("c1"), Some("c1")], false),
            (&[None, Some("c1")], false),
            (&[Some("c1"), Some("c2")], true),
            (&[Some("c1"), None, Some("c2")], true),
            (&[Some("c1"), Some("c2"), Some("c1")], true),
        ] {
            let chassis = followed(ids);
            assert_eq!(chassis.is_changed(), is_changed, "{ids:?}");
            assert_eq!(chassis.id(), *ids.last().unwrap());
        }
    }

    #[test]
    fn a_node_that_is_created_again_has_no_former_chassis() {
        let chassis = |id: &str, created| {
            let created = Timestamp::from_second(created).unwrap();
            NodeChassis::new(Some(id.to_owned()), Some(created))
        };
        let mut again = chassis("c2", 2);
        again.follow(&chassis("c1", 1));
        assert!(!again.is_changed());
        let mut changed = chassis("c3", 2);
        changed.follow(&again);
        assert!(changed.is_changed());
    }
}
