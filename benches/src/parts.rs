//! Parts of a benchmark, chosen by their names on the command line.

use anyhow::Result;

/// Measures and prints something.
pub type Part = fn() -> Result<()>;

/// Runs the parts that the arguments name, or all when they name none.
///
/// # Errors
/// The first that a part has.
pub fn run(parts: &[(&str, Part)], arguments: &[String]) -> Result<()> {
    let is_named = |name: &str| arguments.iter().any(|argument| argument == name);
    let all = !parts.iter().any(|(name, _)| is_named(name));
    for (name, part) in parts {
        if all || is_named(name) {
            part()?;
        }
    }
    Ok(())
}
