//! Generated objects and changes, on which definition and Rust agree.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::Value;

use crate::corpus::{CLUSTER_NETWORKS, CONNECTS, NETWORKS, spec};
use crate::definition::Definition;
use crate::generate::{Choices, generate, mutate};

thread_local! {
    static CONNECT: Definition = Definition::connect();
    static NETWORK: Definition = Definition::network();
    static CLUSTER_NETWORK: Definition = Definition::cluster_network();
}

/// Decisions of one object.
pub(crate) fn choices() -> impl Strategy<Value = Vec<u32>> {
    vec(any::<u32>(), 0..200)
}

/// A good object with some changes, and a whole object out of thin air.
fn check(
    definition: &Definition,
    good: &[&str],
    index: usize,
    numbers: &[u32],
) -> Result<(), TestCaseError> {
    let mut choices = Choices(numbers.iter());
    let old = spec(good[index % good.len()]);
    let new = changed(definition, &old, &mut choices);
    let fail = |difference: Result<(), String>| difference.map_err(TestCaseError::fail);
    fail(definition.agree(&new, None))?;
    fail(definition.agree(&new, Some(&old)))?;
    let other: Value = generate(definition.spec(), &mut choices);
    fail(definition.agree(&other, None))
}

/// A `spec` with one to three changes.
pub(crate) fn changed(definition: &Definition, old: &Value, choices: &mut Choices<'_>) -> Value {
    let mut new = old.clone();
    for _ in 0..=choices.first() % 3 {
        mutate(definition.spec(), &mut new, choices);
    }
    new
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn connects(index: usize, numbers in choices()) {
        CONNECT.with(|definition| check(definition, &CONNECTS, index, &numbers))?;
    }

    #[test]
    fn networks(index: usize, numbers in choices()) {
        NETWORK.with(|definition| check(definition, &NETWORKS, index, &numbers))?;
    }

    #[test]
    fn cluster_networks(index: usize, numbers in choices()) {
        CLUSTER_NETWORK.with(|definition| check(definition, &CLUSTER_NETWORKS, index, &numbers))?;
    }
}
