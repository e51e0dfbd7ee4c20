//! Abbreviation of lists and texts that are too long for a message.

/// Joins at most `max_names` names with commas and appends the number of further names.
///
/// ```
/// use patchbay_model::abbreviation::abbreviate_list;
///
/// assert_eq!(abbreviate_list(&["a", "b", "c"], 2), "a, b and 1 more");
/// ```
pub fn abbreviate_list<S: AsRef<str>>(names: &[S], max_names: usize) -> String {
    let joined = names.iter().take(max_names).map(AsRef::as_ref).collect::<Vec<&str>>().join(", ");
    match names.len().saturating_sub(max_names) {
        0 => joined,
        more => format!("{joined} and {more} more"),
    }
}

/// Returns the beginning of a text: at most `max_bytes` bytes, whole characters only.
pub fn truncate_text(text: &str, max_bytes: usize) -> &str {
    let end = (0..=max_bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_have_at_most_the_given_number_of_names() {
        let none: [&str; 0] = [];
        assert_eq!(abbreviate_list(&none, 2), "");
        assert_eq!(abbreviate_list(&["a"], 2), "a");
        assert_eq!(abbreviate_list(&["a", "b"], 2), "a, b");
        assert_eq!(abbreviate_list(&["a", "b", "c", "d"], 2), "a, b and 2 more");
    }

    #[test]
    fn texts_are_truncated_between_characters() {
        assert_eq!(truncate_text("grün", 10), "grün");
        assert_eq!(truncate_text("grün", 4), "grü");
        assert_eq!(truncate_text("grün", 3), "gr");
        assert_eq!(truncate_text("", 3), "");
    }
}
