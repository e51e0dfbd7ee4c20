//! Random questions, the same in each run: a difference is that of a change.

use std::path::Path;

use ovsdb_sim::testing::Release;
use patchbay_comparison::{
    Random, RecordedState, Tally, ask_clusters, ask_free_topologies, ask_recorded,
};

/// Seed of the questions. The benchmark `comparison` asks with others.
const SEED: u64 = 1_795_486_001;

fn assert_equal(tally: &Tally) {
    println!("{}", tally.summary());
    assert!(tally.arrived * 50 > tally.asked, "{}", tally.summary());
    assert!(
        tally.wrong.is_empty(),
        "{}\n{}",
        tally.summary(),
        tally.differences()
    );
}

#[test]
fn questions_about_free_topologies_have_the_answers_of_ovn() {
    if let Some(release) = Release::newest() {
        assert_equal(&ask_free_topologies(&release, 400, &mut Random::new(SEED)));
    }
}

#[test]
fn questions_about_clusters_of_manifests_have_the_answers_of_ovn() {
    if let Some(release) = Release::newest() {
        assert_equal(&ask_clusters(&release, 300, &mut Random::new(SEED)));
    }
}

#[test]
fn questions_about_recorded_states_have_the_answers_of_ovn() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../app/tests/golden/udn");
    let states = RecordedState::read_folder(&folder);
    assert!(states.len() > 200, "{} states", states.len());
    if let Some(release) = Release::newest() {
        let mut random = Random::new(SEED);
        assert_equal(&ask_recorded(&release, &states, 300, &mut random));
    }
}
