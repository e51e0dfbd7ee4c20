//! Networks whose definitions cannot be read.

use std::collections::BTreeSet;

use super::names::network_prefix;
use super::networks::{NadProblem, Networks};

/// Networks that may exist although they are not known. Rows of such networks stay as they are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnreadNetworks {
    /// `true` if a definition that has had a network does not show which one.
    any: bool,
    prefixes: BTreeSet<String>,
}

impl UnreadNetworks {
    /// The networks of definitions that have a problem.
    pub fn new(networks: &Networks) -> Self {
        let mut this = Self::default();
        for (nad, problem) in networks.problems() {
            match problem {
                NadProblem::Refused { network, .. }
                | NadProblem::NoId { network, .. }
                | NadProblem::BadId { network, .. }
                | NadProblem::Differs { network, .. }
                | NadProblem::IdTaken { network, .. } => {
                    this.prefixes.insert(network_prefix(network));
                }
                NadProblem::SecondPrimary { .. } | NadProblem::NameTaken { .. } => {}
                _ => this.any |= networks.has_had_network(nad),
            }
        }
        this
    }

    /// Returns `true` if a network whose rows' names start with this prefix may exist.
    pub fn may_have_prefix(&self, prefix: &str) -> bool {
        self.any || self.prefixes.contains(prefix)
    }
}

#[cfg(test)]
mod tests {
    use crate::networks::{AttachmentDefinition, NadKey};

    use super::*;

    fn may_exist(config: Option<&str>, id: Option<&str>, owner: Option<&str>) -> bool {
        let definition = AttachmentDefinition {
            key: NadKey {
                namespace: "blue".to_owned(),
                name: "a".to_owned(),
            },
            config,
            network_id: id,
            tunnel_keys: None,
            advertisements: None,
            owner_network: owner.map(str::to_owned),
        };
        let networks = Networks::from_definitions([definition], &BTreeSet::new());
        assert_eq!(networks.problems().len(), 1);
        UnreadNetworks::new(&networks).may_have_prefix("green_")
    }

    #[test]
    fn definitions_that_never_had_a_network_hide_none() {
        for config in [
            None,
            Some("{"),
            Some(r#"{"type": "ovn-k8s-cni-overlay", "topology": "x"}"#),
        ] {
            assert!(!may_exist(config, None, None), "{config:?}");
            assert!(may_exist(config, Some("3"), None), "{config:?}");
            assert!(may_exist(config, None, Some("blue_a")), "{config:?}");
        }
    }
}
