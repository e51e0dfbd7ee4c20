//! Cost of single steps of a small transaction in process, on a router of 32,000 ports: framing and
//! decoding the request, executing and committing it, and lookups in a new snapshot.
//!
//! `cargo bench --workspace --bench operations` prints the figures. criterion saves them and
//! compares the next run with them (`-- --save-baseline NAME`, `-- --baseline NAME`).

use std::hint::black_box;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use patchbay_benches::northbound::{
    add_given_port_transaction, given_uuid, remove_port_transaction, router_transaction,
};
use patchbay_engine::db::{Access, Database, Execution};
use patchbay_schemas::json::TextBuf;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort};
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::typed::Ref;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::{DecodedTransaction, Message, decode_transaction};

const PORTS: usize = 32_000;

criterion_group!(benches, small_transaction);
criterion_main!(benches);

fn small_transaction(criterion: &mut Criterion) {
    let mut database = Database::new(nb::schema());
    execute(&mut database, &router_transaction(1, PORTS));
    let router = database
        .snapshot()
        .typed::<LogicalRouter>()
        .iter()
        .find_map(|row| Some(row.ok()?.0.uuid))
        .expect("the router was inserted");
    let insert = add_given_port_transaction(2, PORTS, router);
    let remove = remove_port_transaction(3, PORTS, router);

    let mut group = criterion.benchmark_group("small transaction");
    group.bench_function("decode", |bencher| bencher.iter(|| decode(&insert)));
    group.bench_function("insert a port and remove it", |bencher| {
        bencher.iter_batched(
            || (decode(&insert), decode(&remove)),
            |(insert, remove)| {
                for mut transaction in [insert, remove] {
                    commit(&mut database, &mut transaction);
                }
            },
            BatchSize::SmallInput,
        );
    });
    execute(&mut database, &insert);
    let snapshot = database.snapshot();
    group.bench_function("look a port up", |bencher| {
        let port = Ref::<LogicalRouterPort>::new(given_uuid(PORTS));
        bencher.iter(|| snapshot.get(black_box(port)));
    });
    group.finish();
}

fn decode(request: &str) -> DecodedTransaction {
    let text = TextBuf::parse(request.as_bytes().to_vec()).expect("the request is JSON");
    let Ok(Message::Request { mut params, .. }) = Message::decode(&text) else {
        panic!("the request is a request");
    };
    params.enter_array();
    params.next_element();
    params.skip();
    decode_transaction(
        params,
        &nb::schema(),
        &mut StringCache::default(),
        &mut UuidSource::random(),
    )
}

fn execute(database: &mut Database, request: &str) {
    commit(database, &mut decode(request));
}

fn commit(database: &mut Database, transaction: &mut DecodedTransaction) {
    let execution = database.execute(transaction, &Access::unrestricted());
    assert!(matches!(execution, Execution::Committed { .. }), "{execution:?}");
}
