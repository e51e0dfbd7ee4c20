//! Names in messages: the first ones, and how many more there are.

/// The names with commas between them, at most `most` of them.
pub(crate) fn listed<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let named: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let named = named.join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_so_many_are_named() {
        let none: [&str; 0] = [];
        assert_eq!(listed(&none, 2), "");
        assert_eq!(listed(&["a"], 2), "a");
        assert_eq!(listed(&["a", "b"], 2), "a, b");
        assert_eq!(listed(&["a", "b", "c", "d"], 2), "a, b and 2 more");
    }
}
