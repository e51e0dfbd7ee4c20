//! The list of rules in `docs/lint.md`.

use std::fmt::Write as _;
use std::path::Path;

use patchbay_lint::{ROW_RULES, RULES, Source};

/// Line before the list.
const MARK: &str = "<!-- rules -->\n";

#[test]
fn the_document_lists_the_rules_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, list) = text.split_once(MARK).unwrap();
    let mut expected = "\n| rule | severity | finds |\n| --- | --- | --- |\n".to_owned();
    for rule in RULES {
        let star = if rule.source == Source::Documentation { "\\*" } else { "" };
        let (id, severity) = (rule.id, rule.severity);
        writeln!(expected, "| {id}{star} | {severity} | {} |", rule.condition).unwrap();
    }
    if list != expected {
        // The file beside it takes its place after a review.
        let new = path.with_extension("md.new");
        std::fs::write(&new, format!("{head}{MARK}{expected}")).unwrap();
        panic!("docs/lint.md has other rules; see {}", new.display());
    }
}

#[test]
fn the_document_of_rows_lists_their_rules() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/lint-rows.md");
    let text = std::fs::read_to_string(&path).unwrap();
    let (head, list) = text.split_once(MARK).unwrap();
    let mut expected = "\n| rule | severity | finds |\n| --- | --- | --- |\n".to_owned();
    for rule in ROW_RULES {
        writeln!(expected, "| {} | {} | {} |", rule.id, rule.severity, rule.condition).unwrap();
    }
    if list != expected {
        // The file beside it takes its place after a review.
        let new = path.with_extension("md.new");
        std::fs::write(&new, format!("{head}{MARK}{expected}")).unwrap();
        panic!("docs/lint-rows.md has other rules; see {}", new.display());
    }
}
