//! Objects that a command names, and that cannot be read.

use patchbay_reconcile::Cluster;

use super::failure::Failure;

/// The failure of a command that names an object of one of these kinds which cannot be read. `None`:
/// there is no such object. `name`: its name, with its namespace or without.
pub(super) fn unreadable(cluster: &Cluster, kinds: &[&str], name: &str) -> Option<Failure> {
    let mut missing = kinds.iter().flat_map(|kind| cluster.inventory.missing(kind));
    let object = missing.find(|object| {
        let key = &object.key;
        !name.is_empty() && (key.name == name || key.to_string() == name)
    })?;
    let problem = object.problems.first()?;
    let field = problem.field.as_ref().map(|field| format!("{field}: "));
    Some(Failure::Unreadable {
        object: format!("{} {}", object.kind, object.key),
        reason: format!("{}{}", field.unwrap_or_default(), problem.message),
    })
}
