//! Comparison of definitions and types by generated objects and changes.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::corpus::{CLUSTER_NETWORKS, CONNECTS, NETWORKS, spec};
use crate::definition::Definition;
use crate::generate::{Decisions, generate, mutate};

thread_local! {
    static CONNECT: Definition = Definition::connect();
    static NETWORK: Definition = Definition::network();
    static CLUSTER_NETWORK: Definition = Definition::cluster_network();
}

/// Random decisions for one object.
pub(crate) fn decisions() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..200)
}

/// Compares a changed valid object, and a generated one.
fn check(
    definition: &Definition,
    valid: &[&str],
    index: usize,
    numbers: &[u32],
) -> Result<(), TestCaseError> {
    let mut decisions = Decisions(numbers.iter());
    let old = spec(valid[index % valid.len()]);
    let new = changed(definition, &old, &mut decisions);
    let fail = |difference: Result<(), String>| difference.map_err(TestCaseError::fail);
    fail(definition.compare(&new, None))?;
    fail(definition.compare(&new, Some(&old)))?;
    let other: Value = generate(definition.spec(), &mut decisions);
    fail(definition.compare(&other, None))
}

/// Returns a `spec` with one to three changes.
pub(crate) fn changed(
    definition: &Definition,
    old: &Value,
    decisions: &mut Decisions<'_>,
) -> Value {
    let mut new = old.clone();
    for _ in 0..=decisions.peek() % 3 {
        mutate(definition.spec(), &mut new, decisions);
    }
    new
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn connects(index: usize, numbers in decisions()) {
        CONNECT.with(|definition| check(definition, &CONNECTS, index, &numbers))?;
    }

    #[test]
    fn networks(index: usize, numbers in decisions()) {
        NETWORK.with(|definition| check(definition, &NETWORKS, index, &numbers))?;
    }

    #[test]
    fn cluster_networks(index: usize, numbers in decisions()) {
        CLUSTER_NETWORK.with(|definition| check(definition, &CLUSTER_NETWORKS, index, &numbers))?;
    }
}
