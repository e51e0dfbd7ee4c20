//! Spoiled rows: the library answers whatever is in them.

use patchbay_oracle::{Random, ask_spoiled};

/// Seed of the databases.
const SEED: u64 = 1_795_486_002;
/// Number of databases.
const DATABASES: usize = 150;

#[test]
fn spoiled_databases_have_answers() {
    let mut random = Random::new(SEED);
    let answers: Vec<_> = (0..DATABASES).map(|_| ask_spoiled(&mut random)).collect();
    let accepted = answers.iter().flatten().count();
    assert!(accepted * 2 > DATABASES, "{accepted} databases");
    let answers: usize = answers.into_iter().flatten().sum();
    println!("{answers} answers of {accepted} databases");
    assert!(answers > 10 * accepted, "{answers} answers");
}
