//! Parts of a benchmark, chosen by their names on the command line.

use anyhow::Result;

/// Function that measures and prints one part.
pub type Part = fn() -> Result<()>;

/// Runs the parts that the arguments name; without names, all parts.
///
/// # Errors
/// The first error of a part.
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
