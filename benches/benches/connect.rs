//! The zone half on the embedded engine: plan and commit of a connect with 32,000 ports.
//!
//! `cargo bench -p patchbay-benches --bench connect`

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use patchbay_benches::connect::{NETWORKS, NODES, database, inputs, sync};
use patchbay_controller::zone::ZoneController;

fn connect(c: &mut Criterion) {
    let all = inputs(NETWORKS, NODES).expect("the inputs are well-formed");
    let mut group = c.benchmark_group("connect");
    group
        .sample_size(10)
        .measurement_time(Duration::from_secs(15));

    group.bench_function("32000 ports from nothing", |bencher| {
        bencher.iter_batched_ref(
            || {
                (
                    ZoneController::default(),
                    database(NETWORKS).expect("the schema has the tables"),
                )
            },
            |(controller, database)| {
                let ports = sync(controller, &all, database).expect("everything is connected");
                assert_eq!(ports, NETWORKS * NODES + NETWORKS);
            },
            BatchSize::PerIteration,
        );
    });

    let mut full = database(NETWORKS).expect("the schema has the tables");
    let mut controller = ZoneController::default();
    sync(&mut controller, &all, &mut full).expect("everything is connected");
    group.bench_function("32000 ports, nothing to do", |bencher| {
        bencher.iter(|| black_box(sync(&mut controller, &all, &mut full).expect("nothing fails")));
    });
    group.finish();
}

criterion_group!(benches, connect);
criterion_main!(benches);
