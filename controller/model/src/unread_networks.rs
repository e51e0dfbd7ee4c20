//! Networks whose definitions cannot be read.

use std::collections::BTreeSet;

use super::names::network_prefix;
use super::networks::{NadProblem, Networks};

/// Networks that may exist although they are not known. Rows of such networks stay as they are.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnreadNetworks {
    /// `true` if a definition does not show which network it is about.
    any: bool,
    prefixes: BTreeSet<String>,
}

impl UnreadNetworks {
    /// The networks of definitions that have a problem.
    pub fn new(networks: &Networks) -> Self {
        let mut this = Self::default();
        for problem in networks.problems().values() {
            match problem {
                NadProblem::NoId { network, .. }
                | NadProblem::BadId { network, .. }
                | NadProblem::Differs { network, .. }
                | NadProblem::IdTaken { network, .. } => {
                    this.prefixes.insert(network_prefix(network));
                }
                NadProblem::SecondPrimary { .. } | NadProblem::NameTaken { .. } => {}
                _ => this.any = true,
            }
        }
        this
    }

    /// Returns `true` if a network whose rows' names start with this prefix may exist.
    pub fn may_have_prefix(&self, prefix: &str) -> bool {
        self.any || self.prefixes.contains(prefix)
    }
}
