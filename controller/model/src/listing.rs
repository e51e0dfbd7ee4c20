//! What is too long for a message: the first ones of many names and how many more there are, the beginning of a long text.

/// The names with commas between them, at most `most` of them.
pub fn listed<S: AsRef<str>>(names: &[S], most: usize) -> String {
    let named: Vec<&str> = names.iter().take(most).map(AsRef::as_ref).collect();
    let named = named.join(", ");
    match names.len().saturating_sub(most) {
        0 => named,
        more => format!("{named} and {more} more"),
    }
}

/// The beginning of a text, at most so many bytes.
pub fn beginning(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len()))
        .rev()
        .find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
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

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(beginning("grün", 10), "grün");
        assert_eq!(beginning("grün", 4), "grü");
        assert_eq!(beginning("grün", 3), "gr");
        assert_eq!(beginning("", 3), "");
    }
}
