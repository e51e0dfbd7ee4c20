//! Change events, against the real `ovsdb-server`.

use patchbay_engine::client::{
    Change, ChangeEvent, ChangedRows, Client, Config, FollowedTables, Subscription,
};
use patchbay_engine::db::Index;
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{self, LogicalRouter, LogicalRouterPort, LogicalSwitch};

use crate::real_server::RealServer;
use crate::{impatient, soon};

fn config(server: &RealServer) -> Config {
    impatient(Config::new(server.remote().parse().unwrap(), "OVN_Northbound"))
}

fn switch(name: &str) -> LogicalSwitch {
    LogicalSwitch { name: name.into(), ..Default::default() }
}

async fn commit(client: &Client, change: impl FnOnce(&mut TxnBuilder)) {
    let mut txn = TxnBuilder::new(&client.snapshot());
    change(&mut txn);
    soon(client.transact(txn.finish())).await.into_result().unwrap();
}

async fn committed(events: &mut Subscription) -> ChangedRows {
    match soon(events.next()).await.unwrap() {
        ChangeEvent::Committed(changed) => changed,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_transaction_of_any_client_is_an_event() {
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let one = soon(Client::connect(config(&server))).await.unwrap();
    let other = soon(Client::connect(config(&server))).await.unwrap();
    let follow = FollowedTables::table::<LogicalRouter>().and::<LogicalRouterPort>();
    let mut events = one.follow(follow).unwrap();
    commit(&other, |txn| {
        txn.insert(&switch("not followed")).unwrap();
    })
    .await;
    commit(&other, |txn| {
        let port = txn.insert(&LogicalRouterPort::default()).unwrap();
        let router = LogicalRouter { ports: [port].into(), ..Default::default() };
        txn.insert(&router).unwrap();
    })
    .await;
    let changed = committed(&mut events).await;
    assert_eq!(changed.rows().len(), 2);
    let routers: Vec<_> = changed.of::<LogicalRouter>().map(Result::unwrap).collect();
    let [Change::Inserted { row: router, new }] = &routers[..] else { panic!("{routers:?}") };
    assert_eq!((new.ports.len(), changed.of::<LogicalSwitch>().count()), (1, 0));

    commit(&other, |txn| {
        txn.put(*router, LogicalRouter::OPTIONS, [("a", "1")]).unwrap();
    })
    .await;
    let changed = committed(&mut events).await;
    let change = changed.of::<LogicalRouter>().next().unwrap().unwrap();
    let Change::Modified { old, new, .. } = change else { panic!("{change:?}") };
    assert_eq!((old.options.len(), new.options.len()), (0, 1));

    drop(one);
    assert!(soon(events.next()).await.is_err());
}

#[tokio::test]
async fn changes_missed_without_a_connection_are_one_event() {
    let mut server = RealServer::start(nb::SCHEMA_TEXT);
    let by_name = Index::by(LogicalSwitch::NAME);
    let client = soon(Client::connect(config(&server).with_index(&by_name))).await.unwrap();
    commit(&client, |txn| {
        txn.insert(&switch("kept")).unwrap();
    })
    .await;
    let mut events = client.follow(FollowedTables::table::<LogicalSwitch>()).unwrap();
    server.kill();
    server.start_again();
    let other = soon(Client::connect(config(&server))).await.unwrap();
    commit(&other, |txn| {
        txn.insert(&switch("new")).unwrap();
    })
    .await;
    // The client receives the new row once, whether it reconnected before the commit or after it.
    let changed = match soon(events.next()).await.unwrap() {
        ChangeEvent::Committed(changed) | ChangeEvent::Resynced(changed) => changed,
        ChangeEvent::Lagged(_) => panic!("the queue holds two rows"),
    };
    let change = changed.of::<LogicalSwitch>().next().unwrap().unwrap();
    assert_eq!(change.now().unwrap().name, "new");
    let snapshot = client.snapshot();
    let found = snapshot.typed_index(&by_name).unwrap();
    assert!(found.one("new").unwrap().is_some() && found.one("kept").unwrap().is_some());
}

/// The text is much longer than what the client decodes at a time.
#[tokio::test]
async fn large_contents_and_updates_are_decoded_correctly() {
    const SWITCHES: usize = 3000;
    let server = RealServer::start(nb::SCHEMA_TEXT);
    let one = soon(Client::connect(config(&server))).await.unwrap();
    let with_ids = |number: usize| {
        let mut switch = switch(&format!("switch number {number}"));
        let id = format!("an id of switch \"{number}\" with }} and \u{e9}");
        switch.external_ids = [("k8s.ovn.org/id".into(), id)].into();
        switch
    };
    commit(&one, |txn| {
        for number in 0..SWITCHES {
            txn.insert(&with_ids(number)).unwrap();
        }
    })
    .await;
    let other = soon(Client::connect(config(&server))).await.unwrap();
    for client in [&one, &other] {
        let snapshot = client.snapshot();
        let mut rows: Vec<LogicalSwitch> =
            snapshot.typed::<LogicalSwitch>().iter().map(|row| row.unwrap().1).collect();
        rows.sort_by_key(|row| {
            row.name.trim_start_matches("switch number ").parse::<usize>().unwrap()
        });
        let made: Vec<_> = (0..SWITCHES).map(with_ids).collect();
        assert!(rows == made);
    }
}
