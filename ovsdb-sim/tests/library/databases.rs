//! Databases that the owner adds to a running simulator and removes from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ovsdb_sim::{AddDatabaseError, Model, Remotes, RemoveDatabaseError, Sim};
use patchbay_engine::client::{Client, CommitOutcome, Config};
use patchbay_ovn_programs::testing::ScratchDir;
use patchbay_schemas::nb::{self, LogicalSwitch};
use patchbay_schemas::schema::DatabaseSchema;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::time::{Instant, timeout};
use uuid::Uuid;

const NB: &str = "OVN_Northbound";

fn schema() -> Arc<DatabaseSchema> {
    let text = br#"{"name":"D","tables":{"T":{"columns":{"i":{"type":"integer"}}}}}"#;
    Arc::new(DatabaseSchema::parse(text).unwrap())
}

fn sim(model: Model) -> Sim {
    Sim::builder().schema(schema()).model(model).build().unwrap()
}

/// The rows of `_Server`.
fn server_rows(sim: &Sim) -> Vec<String> {
    let snapshot = sim.database("_Server").unwrap().snapshot();
    let (id, table) = snapshot.schema().table_by_name("Database").unwrap();
    let rows = snapshot.table(id).iter().map(|row| {
        let column = |name| row.get(table.column_id(name).unwrap()).into_owned();
        let columns = ["name", "model", "leader", "connected", "cid", "sid", "index"];
        // The ids differ between clusters.
        let columns = columns.map(|name| match format!("{:?}", column(name)) {
            id if id.parse::<Uuid>().is_ok() => "id".to_owned(),
            value => value,
        });
        columns.join(" ")
    });
    let mut rows: Vec<_> = rows.collect();
    rows.sort();
    rows
}

#[test]
fn an_added_database_is_listed_like_an_initial_one() {
    for model in [Model::Standalone, Model::Clustered] {
        let from_the_beginning =
            Sim::builder().schema(schema()).schema(nb::schema()).model(model).build().unwrap();
        let added = sim(model);
        added.add_database(nb::schema()).unwrap();
        let found = server_rows(&added);
        assert_eq!(found, server_rows(&from_the_beginning));
        let expected = match model {
            Model::Standalone => "OVN_Northbound standalone true true [] [] []",
            Model::Clustered => "OVN_Northbound clustered true true id id 2",
        };
        assert_eq!(found[1].replace('"', ""), expected);
        added.remove_database(NB).unwrap();
        assert_eq!(server_rows(&added).len(), 2);
    }
}

#[test]
fn reserved_and_duplicate_names_are_rejected() {
    let sim = sim(Model::Standalone);
    let error = sim.add_database(schema()).unwrap_err();
    assert!(matches!(error, AddDatabaseError::Duplicate(name) if name == "D"));
    let reserved = DatabaseSchema::parse(br#"{"name":"_D","tables":{}}"#).unwrap();
    let error = sim.add_database(reserved.into()).unwrap_err();
    assert!(matches!(error, AddDatabaseError::Reserved(name) if name == "_D"));
    let unknown = RemoveDatabaseError::Unknown(NB.to_owned());
    assert_eq!(sim.remove_database(NB), Err(unknown));
    let own = RemoveDatabaseError::Reserved("_Server".to_owned());
    assert_eq!(sim.remove_database("_Server"), Err(own));
    assert_eq!(sim.remove_database("D"), Ok(()));
    assert!(sim.database("D").is_none());
}

#[test]
fn an_opened_file_is_the_journal_until_the_removal() {
    let dir = ScratchDir::new();
    let file = dir.path().join("nb.db");
    let add_switch = |sim: &Sim, name: &str| {
        let database = sim.database(NB).unwrap();
        let mut txn = database.txn();
        let switch = LogicalSwitch { name: name.to_owned(), ..Default::default() };
        txn.insert(&switch).unwrap();
        database.transact(&txn.finish())
    };
    let first = Sim::builder().journal(&file).build().unwrap();
    add_switch(&first, "a").unwrap();
    let second = sim(Model::Standalone);
    let error = second.open_database(&file).unwrap_err();
    assert!(matches!(error, AddDatabaseError::File(_)), "{error}");
    let kept = first.database(NB).unwrap();
    first.remove_database(NB).unwrap();
    second.open_database(&file).unwrap();
    let error = second.open_database(&file).unwrap_err();
    assert!(matches!(error, AddDatabaseError::AlreadyOpen(_)), "{error}");
    add_switch(&second, "b").unwrap();
    assert_eq!(second.database(NB).unwrap().snapshot().row_count(), 2);

    // A handle of the removed database has its last state.
    assert_eq!(kept.snapshot().row_count(), 1);
    let txn = kept.txn().finish();
    assert!(kept.transact(&txn).is_err());
    drop(second);
    first.open_database(&file).unwrap();
    assert_eq!(first.database(NB).unwrap().snapshot().row_count(), 2);
}

/// The engine's client reads in `_Server` that its database is served again.
#[tokio::test(start_paused = true)]
async fn a_client_returns_with_its_database() {
    let sim = Sim::builder().build().unwrap();
    let client = Client::connect(Config::new(sim.connector().into(), NB)).await.unwrap();
    sim.remove_database(NB).unwrap();
    let database = sim.add_database(nb::schema()).unwrap();
    let switch = LogicalSwitch { name: "sw0".to_owned(), ..Default::default() };
    let mut txn = database.txn();
    txn.insert(&switch).unwrap();
    database.transact(&txn.finish()).unwrap();
    timeout(Duration::from_secs(60), async {
        while client.snapshot().row_count() == 0 {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    })
    .await
    .unwrap();
    let txn = patchbay_engine::txn::TxnBuilder::new(&client.snapshot()).finish();
    assert!(matches!(client.transact(txn).await, CommitOutcome::Committed(_)));
}

/// Without waiting for the next update of their status.
#[tokio::test(start_paused = true)]
async fn configured_remotes_are_closed_and_opened_at_once() {
    let dir = ScratchDir::new();
    let place = dir.path().join("place");
    let schema = schema();
    let text = schema.to_json().to_text().replace("integer", "string");
    let schema = Arc::new(DatabaseSchema::parse(text.as_bytes()).unwrap());
    let sim = Sim::builder().schema(schema.clone()).build().unwrap();
    let name_place = || async {
        let request = format!(
            r#"{{"id":1,"method":"transact","params":["D",
                {{"op":"insert","table":"T","row":{{"i":"punix:{}"}}}}]}}"#,
            place.display()
        );
        let mut stream = sim.connect().unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        stream.read_u8().await.unwrap();
    };
    name_place().await;
    let remotes = Remotes::new(&sim);
    remotes.add("db:D,T,i").await.unwrap();
    let start = Instant::now();
    for _ in 0..2 {
        until(|| place.exists()).await;
        sim.remove_database("D").unwrap();
        until(|| !place.exists()).await;
        sim.add_database(schema.clone()).unwrap();
        name_place().await;
    }
    assert_eq!(start.elapsed(), Duration::ZERO);
    assert_eq!(remotes.targets(), ["db:D,T,i"]);
}

/// Lets other tasks run until a condition holds. Time advances only when all of them wait.
async fn until(condition: impl Fn() -> bool) {
    for _ in 0..1000 {
        if condition() {
            return;
        }
        tokio::task::yield_now().await;
    }
    panic!("it does not come");
}

/// Its operations are decoded while it is received, for a schema that is removed before its end.
#[tokio::test]
async fn a_long_transaction_does_not_outlive_its_database() {
    for comes_back in [false, true] {
        let sim = sim(Model::Standalone);
        let operation = r#",{"op":"insert","table":"T","row":{"i":7}}"#;
        let aware = r#"{"id":0,"method":"set_db_change_aware","params":[true]}"#;
        let head = r#"{"id":1,"method":"transact","params":["D""#;
        let half = operation.repeat((4 << 20) / operation.len());
        let mut stream = sim.connect().unwrap();
        stream.write_all(format!("{aware}{head}{half}").as_bytes()).await.unwrap();
        sim.remove_database("D").unwrap();
        if comes_back {
            sim.add_database(schema()).unwrap();
        }
        stream.write_all(format!("{half}]}}").as_bytes()).await.unwrap();
        let mut received = String::new();
        while !received.contains(r#""id":1"#) {
            let mut piece = [0; 4096];
            let count =
                timeout(Duration::from_secs(60), stream.read(&mut piece)).await.unwrap().unwrap();
            assert!(count > 0, "{received}");
            received += str::from_utf8(&piece[..count]).unwrap();
        }
        assert!(received.contains(r#""error":"canceled""#), "{received}");
        let database = sim.database("D");
        assert_eq!(database.is_some(), comes_back);
        assert!(database.is_none_or(|database| database.snapshot().row_count() == 0));
    }
}

/// A request during the removal of its database gets a reply, or its connection ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_request_is_answered_while_databases_are_added_and_removed() {
    let sim = sim(Model::Standalone);
    let is_over = Arc::new(AtomicBool::new(false));
    let clients = [true, false].map(|aware| {
        let (sim, is_over) = (sim.clone(), is_over.clone());
        tokio::spawn(async move {
            let mut answers = (0, 0);
            while !is_over.load(Ordering::Relaxed) {
                let requests = format!(
                    r#"{{"id":0,"method":"set_db_change_aware","params":[{aware}]}}
                    {{"id":1,"method":"monitor","params":["D",1,{{"T":{{}}}}]}}
                    {{"id":2,"method":"transact","params":["D",{{"op":"insert","table":"T","row":{{}}}}]}}
                    {{"id":3,"method":"transact","params":["D",{{"op":"wait","table":"T","where":[],
                        "columns":[],"until":"!=","rows":[],"timeout":1}}]}}
                    {{"id":4,"method":"monitor_cancel","params":[1]}}"#
                );
                let mut stream = sim.connect().unwrap();
                stream.write_all(requests.as_bytes()).await.unwrap_or_default();
                let mut received = String::new();
                while !(3..5).all(|id| received.contains(&format!(r#""id":{id},"#))) {
                    let mut piece = [0; 4096];
                    let count = timeout(Duration::from_secs(60), stream.read(&mut piece)).await;
                    match count.unwrap() {
                        Ok(count @ 1..) => received += str::from_utf8(&piece[..count]).unwrap(),
                        _ => break,
                    }
                }
                answers.0 += usize::from(received.contains(r#""uuid":"#));
                answers.1 += usize::from(!received.contains(r#""uuid":"#));
            }
            answers
        })
    });
    for _ in 0..60 {
        sim.remove_database("D").unwrap();
        sim.add_database(schema()).unwrap();
        tokio::time::sleep(Duration::from_micros(300)).await;
    }
    is_over.store(true, Ordering::Relaxed);
    for client in clients {
        let (executed, refused) = client.await.unwrap();
        assert!(executed > 0 && refused > 0, "{executed} {refused}");
    }
    assert_eq!(server_rows(&sim).len(), 2);
}
