//! Names of a schema as Rust identifiers.

use std::collections::HashMap;

use super::GenerateError;

/// Keywords of Rust 2024 that are valid identifiers with `r#`.
const RAW_KEYWORDS: [&str; 48] = [
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "do", "dyn",
    "else", "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let",
    "loop", "macro", "match", "mod", "move", "mut", "override", "priv", "pub", "ref", "return",
    "static", "struct", "trait", "true", "try", "type", "typeof", "unsafe", "unsized", "use",
    "virtual", "where", "while", "yield",
];

/// Rust names of one scope, each with the name in the schema from which it is derived.
#[derive(Default)]
pub(super) struct RustNames(HashMap<String, String>);

impl RustNames {
    /// Adds a Rust name, or returns [`GenerateError::Collision`] if the scope has it already.
    pub(super) fn add(&mut self, source: String, rust: &str) -> Result<(), GenerateError> {
        if let Some(first) = self.0.get(rust) {
            return Err(GenerateError::Collision {
                first: first.clone(),
                second: source,
                rust: rust.to_owned(),
            });
        }
        self.0.insert(rust.to_owned(), source);
        Ok(())
    }
}

/// Converts a name to camel case.
///
/// `Logical_Router_Port` becomes `LogicalRouterPort`, `allow-related` becomes `AllowRelated`, `ACL`
/// becomes `Acl`. A text that is not a valid identifier is changed: `802.1q` becomes `N8021q`, the
/// empty string `Empty`, `self` `Self_`.
pub(super) fn type_name(name: &str) -> String {
    let mut out = String::new();
    for word in name.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty()) {
        let all_upper = word.chars().all(|c| !c.is_ascii_lowercase());
        for (i, c) in word.chars().enumerate() {
            out.push(match i {
                0 => c.to_ascii_uppercase(),
                _ if all_upper => c.to_ascii_lowercase(),
                _ => c,
            });
        }
    }
    match out.as_bytes().first() {
        None => "Empty".to_owned(),
        Some(b'0'..=b'9') => format!("N{out}"),
        Some(_) if out == "Self" => "Self_".to_owned(),
        Some(_) => out,
    }
}

/// Converts the name of a column to an identifier: with `r#` for keywords, and with a trailing `_`
/// for names that cannot be written raw.
pub(super) fn field_name(column: &str) -> String {
    if RAW_KEYWORDS.contains(&column) {
        format!("r#{column}")
    } else if ["self", "Self", "super", "crate", "_"].contains(&column) {
        format!("{column}_")
    } else {
        column.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_rust_identifiers() {
        for (wire, rust) in [
            ("Logical_Router_Port", "LogicalRouterPort"),
            ("ACL", "Acl"),
            ("allow-related", "AllowRelated"),
            ("QoS", "QoS"),
            ("NB_Global", "NbGlobal"),
            ("802.1q", "N8021q"),
            ("self", "Self_"),
            ("", "Empty"),
        ] {
            assert_eq!(type_name(wire), rust);
        }
        for (wire, rust) in [("type", "r#type"), ("self", "self_"), ("name", "name")] {
            assert_eq!(field_name(wire), rust);
        }
    }
}
