//! Names that may be meant by a name that does not exist.

use std::collections::BTreeSet;

/// Maximum number of names in an error.
const MAX_NAMES: usize = 3;
/// Maximum number of inserted, removed, changed or swapped characters.
const MAX_EDITS: usize = 2;
/// Length in bytes of a name for each of these characters.
const BYTES_OF_EDIT: usize = 3;
/// Length in bytes from which a name is not compared: no name of Kubernetes is longer.
const MAX_LEN: usize = 512;

/// Known names that may be meant, the most similar ones first: those that differ from `name` by few
/// characters, and those that differ by the namespace only.
pub(crate) fn names(name: &str, known: &BTreeSet<String>) -> Vec<String> {
    if name.len() > MAX_LEN {
        return Vec::new();
    }
    let (namespace, short) = split(name);
    let limit = MAX_EDITS.min(short.len() / BYTES_OF_EDIT);
    let mut found: Vec<(usize, &String)> = known
        .iter()
        .filter_map(|known| {
            let (known_namespace, known_short) = split(known);
            if known_short == short {
                return Some((1, known));
            }
            let is_comparable =
                known_namespace == namespace && known_short.len().abs_diff(short.len()) <= limit;
            let edits = is_comparable.then(|| strsim::damerau_levenshtein(short, known_short))?;
            (edits <= limit).then_some((edits, known))
        })
        .collect();
    found.sort();
    let found = found.into_iter().take(MAX_NAMES);
    found.map(|(_, known)| known.clone()).collect()
}

/// Namespace, empty if there is none, and name.
fn split(name: &str) -> (&str, &str) {
    name.split_once('/').unwrap_or(("", name))
}

/// Known `NAMESPACE/NAME` with this name.
pub(crate) fn without_namespace(name: &str, known: &BTreeSet<String>) -> Vec<String> {
    let known = known.iter().filter(|known| split(known).1 == name);
    known.take(MAX_NAMES).cloned().collect()
}

/// End of an error: the names that may be meant.
pub(crate) fn hint(similar: &[String]) -> String {
    match similar {
        [] => String::new(),
        names => format!("; similar: {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> BTreeSet<String> {
        ["blue/client", "blue/server", "green/client", "red/klient"].map(str::to_owned).into()
    }

    #[test]
    fn similar_names_come_in_the_order_of_their_differences() {
        assert_eq!(names("blue/clint", &known()), ["blue/client"]);
        assert_eq!(names("red/client", &known()), ["blue/client", "green/client", "red/klient"]);
        assert!(names("blue/web", &known()).is_empty());
        assert!(names("blue/cl", &known()).is_empty());
        assert!(names(&"x".repeat(1 << 20), &known()).is_empty());
    }

    #[test]
    fn a_name_without_namespace_is_found_in_all_of_them() {
        assert_eq!(without_namespace("client", &known()), ["blue/client", "green/client"]);
        assert!(without_namespace("clien", &known()).is_empty());
    }
}
