//! Networks whose definitions cannot be read.

use std::collections::BTreeSet;

use super::names::network_prefix;
use super::networks::{NadProblem, Networks};

/// Networks that may exist although they are not known. Rows of such networks stay as they are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnreadNetworks {
    /// `true` if a definition has had a network, and neither an annotation nor its owner names it.
    any: bool,
    prefixes: BTreeSet<String>,
}

impl UnreadNetworks {
    /// The networks of definitions that have a problem, and of custom resources that cannot be
    /// decoded.
    pub fn new(networks: &Networks) -> Self {
        let mut this =
            Self { any: false, prefixes: networks.undecoded().map(network_prefix).collect() };
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
                _ => {
                    if let Some(names) = networks.former_names(nad) {
                        this.any |= names.is_empty();
                        let prefixes = names.iter().map(|name| network_prefix(name));
                        this.prefixes.extend(prefixes);
                    }
                }
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

    /// A definition without a network, with what shows the network that it had.
    fn unread(config: Option<&str>, [id, name, owner]: [Option<&str>; 3]) -> UnreadNetworks {
        let definition = AttachmentDefinition {
            key: NadKey { namespace: "blue".to_owned(), name: "a".to_owned() },
            config,
            network_id: id,
            network_name: name,
            tunnel_keys: None,
            advertisements: None,
            owner_network: owner.map(str::to_owned),
        };
        let networks = Networks::from_definitions([definition], &BTreeSet::new());
        assert_eq!(networks.problems().len(), 1);
        UnreadNetworks::new(&networks)
    }

    const UNREADABLE: [Option<&str>; 3] =
        [None, Some("{"), Some(r#"{"type": "ovn-k8s-cni-overlay", "topology": "x"}"#)];

    #[test]
    fn definitions_that_never_had_a_network_hide_none() {
        for config in UNREADABLE {
            let never = unread(config, [None; 3]);
            assert!(!never.may_have_prefix("green_"), "{config:?}");
            let unnamed = unread(config, [Some("3"), None, None]);
            assert!(unnamed.may_have_prefix("green_"), "{config:?}");
        }
    }

    #[test]
    fn definitions_hide_the_networks_that_their_objects_name() {
        for config in UNREADABLE {
            for shown in [
                [Some("3"), Some("blue_a"), None],
                [None, None, Some("blue_a")],
                [Some("3"), Some("blue-a"), Some("blue_a")],
            ] {
                let named = unread(config, shown);
                assert!(named.may_have_prefix("blue_a_"), "{config:?} {shown:?}");
                assert!(!named.may_have_prefix("green_"), "{config:?} {shown:?}");
            }
            let renamed = unread(config, [Some("3"), Some("blue-a"), Some("blue_a")]);
            assert!(renamed.may_have_prefix("blue.a_"), "{config:?}");
        }
    }
}
