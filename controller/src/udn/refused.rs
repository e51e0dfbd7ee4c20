//! Attachment definitions that nobody would follow: those that were written by hand are told nowhere else.

use super::cni::Cni;
use crate::model::{NadProblem, NetConfError, Networks};
use crate::source::{Inventory, ObjectKey, Problem, describe};

/// Adds the definitions that lead to no network to the warnings of the inventory.
pub(super) fn warn(inventory: &mut Inventory) {
    let nads = inventory.network_attachment_definitions.iter();
    let namespaces = inventory.namespaces.iter();
    let networks = Networks::read(
        nads.map(|(_, nad)| &nad.object),
        namespaces.map(|(_, namespace)| &namespace.object),
    );
    for (nad, problem) in networks.problems() {
        let key = ObjectKey::namespaced(&nad.namespace, &nad.name);
        let Some(nad) = inventory.network_attachment_definitions.get(&key) else {
            continue;
        };
        let message = match problem {
            // Other plugins have definitions without a configuration.
            NadProblem::Config(NetConfError::Missing) => continue,
            // Told when its network was to get an id.
            NadProblem::Config(NetConfError::Json(_)) if Cni::read(&nad.object).is_err() => {
                continue;
            }
            NadProblem::Config(_) | NadProblem::Misplaced { .. } => {
                format!("Failed to parse network config: {problem}")
            }
            NadProblem::Differs { .. }
            | NadProblem::IdTaken { .. }
            | NadProblem::SecondPrimary { .. } => problem.to_string(),
            // The first two are errors, and zones tell whose rows they do not make.
            NadProblem::NoId { .. } | NadProblem::BadId { .. } | NadProblem::NameTaken { .. } => {
                continue;
            }
        };
        inventory.warnings.push(Problem {
            place: nad.origin.place().cloned(),
            object: Some(describe(&nad.object)),
            field: None,
            message,
        });
    }
}
