//! Filters of the replica.

use patchbay_engine::client::{Filter, FilterError};
use patchbay_ovn_programs::testing::{RealServer, ScratchDir};
use patchbay_schemas::datum::Datum;
use patchbay_schemas::wire::Function;

use crate::proxy::Proxy;
use crate::{add, config, connect, names, once, schema_file, soon};

#[tokio::test]
async fn filters_choose_rows_and_change_while_the_replica_follows() {
    let dir = ScratchDir::new();
    let server = RealServer::start([schema_file(&dir)]);
    let writer = connect(config(&server.remote())).await;
    for name in ["a", "b", "c"] {
        add(&writer, name).await;
    }
    let named = |name: &str| Filter::column("name", Function::Equal, Datum::scalar(name));
    let proxy = Proxy::start(server.socket());
    let mut filtered = config(&proxy.remote())
        .with_columns("Logical_Switch", ["name"])
        .with_filter("Logical_Switch", named("a"));
    filtered.guard = None;
    let client = connect(filtered).await;
    assert_eq!(names(&client), once(["a"]));

    let set = |filter| soon(client.set_filter("Logical_Switch", filter));
    set(named("b").or(named("c"))).await.unwrap();
    assert_eq!(names(&client), once(["b", "c"]));
    set(Filter::none()).await.unwrap();
    assert!(names(&client).is_empty());

    // An invalid filter is rejected and changes nothing.
    let wrong = Filter::column("name", Function::Less, Datum::scalar("b"));
    let error = set(wrong).await.unwrap_err();
    assert!(matches!(error, FilterError::Refused { .. }), "{error}");
    let error = soon(client.set_filter("Guard", Filter::all())).await;
    assert!(matches!(error, Err(FilterError::NoTable { .. })));
    assert!(names(&client).is_empty());

    // A filter survives reconnects, and one that is set without a connection takes effect with the
    // next.
    proxy.refuse(true);
    let changing = tokio::spawn({
        let client = client.clone();
        let filter = named("a").or(named("c"));
        async move { client.set_filter("Logical_Switch", filter).await }
    });
    proxy.refuse(false);
    soon(changing).await.unwrap().unwrap();
    assert_eq!(names(&client), once(["a", "c"]));
    set(Filter::all()).await.unwrap();
    assert_eq!(names(&client), once(["a", "b", "c"]));
}
