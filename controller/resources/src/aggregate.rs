//! Text of several errors.

use std::fmt;

/// Joins messages without duplicates, as Kubernetes' library prints an aggregate of errors. A
/// single one stays as it is, several become a list in brackets.
pub fn aggregate<E: fmt::Display>(messages: &[E]) -> String {
    let mut texts: Vec<String> = Vec::with_capacity(messages.len());
    for message in messages {
        let text = message.to_string();
        if !texts.contains(&text) {
            texts.push(text);
        }
    }
    match &texts[..] {
        [one] => one.clone(),
        _ => format!("[{}]", texts.join(", ")),
    }
}
