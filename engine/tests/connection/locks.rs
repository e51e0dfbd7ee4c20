//! Locks between clients, on the real server and on ovsdb-sim.

use patchbay_engine::client::{Client, CommitOutcome, HeldLock, Lock, LockError, LockLost};
use patchbay_engine::txn::{Transaction, TxnBuilder};
use patchbay_schemas::nb::LogicalSwitch;

use crate::proxy::Proxy;
use crate::served::{Served, real, simulated};
use crate::{names, once, soon};

const NAME: &str = "leader";

fn new_switch(client: &Client, name: &str) -> Transaction {
    let mut txn = TxnBuilder::new(&client.snapshot());
    let switch = LogicalSwitch { name: name.to_owned(), ..Default::default() };
    txn.insert(&switch).unwrap();
    txn.finish()
}

async fn held(lock: &Lock) -> HeldLock {
    soon(lock.wait_until_held()).await.unwrap()
}

fn is_not_owner(outcome: &CommitOutcome) -> bool {
    matches!(outcome, CommitOutcome::Rejected(error) if error.is_not_owner())
}

async fn clients_own_the_lock_in_turn(served: Served) {
    let (a, b) = (served.client().await, served.client().await);
    let lock_a = a.lock(NAME).unwrap();
    let held_a = held(&lock_a).await;
    let lock_b = b.lock(NAME).unwrap();
    let outcome = soon(held_a.transact(new_switch(&a, "a"))).await;
    let committed = outcome.into_result().unwrap();
    assert_eq!(committed.results.len(), 2, "an insert, and an assert after it");

    // A client that does not own the lock cannot commit with it.
    assert!(lock_b.current().is_none() && !held_a.is_over());
    let mut txn = TxnBuilder::new(&b.snapshot());
    txn.assert_lock(NAME);
    txn.insert(&LogicalSwitch::default()).unwrap();
    let outcome = soon(b.transact(txn.finish())).await;
    assert!(is_not_owner(&outcome), "{outcome:?}");

    // The next owner sees the former owner's transactions, and the former owner cannot commit with
    // the lock.
    drop(lock_a);
    let held_b = held(&lock_b).await;
    assert_eq!(names(&b), once(["a"]));
    assert!(matches!(soon(held_a.wait_until_lost()).await, LockLost::Released));
    let outcome = soon(held_a.transact(new_switch(&a, "late"))).await;
    let CommitOutcome::Rejected(error) = outcome else { panic!("{outcome:?}") };
    assert_eq!(
        error.to_string(),
        "the server refused the transaction at operation 1 (assert): \
         not owner: Asserted lock leader not held."
    );

    // It can be requested again, but only once at a time by a client.
    let lock_a = a.lock(NAME).unwrap();
    let twice = a.clone().lock(NAME).unwrap_err();
    assert_eq!(twice.to_string(), "this client has already requested lock leader");
    let bad = a.lock("9 lives").unwrap_err();
    assert!(matches!(bad, LockError::BadName { .. }), "{bad}");
    drop(lock_b);
    assert!(!held(&lock_a).await.is_over() && held_b.is_over());
}

async fn clients_steal_the_lock(served: Served) {
    let (a, b) = (served.client().await, served.client().await);
    let c = served.client().await;
    let lock_b = b.lock(NAME).unwrap();
    let held_b = held(&lock_b).await;

    let lock_a = a.steal(NAME).unwrap();
    let held_a = held(&lock_a).await;
    assert!(matches!(soon(held_b.wait_until_lost()).await, LockLost::Stolen));
    let outcome = soon(held_b.transact(new_switch(&b, "b"))).await;
    assert!(is_not_owner(&outcome), "{outcome:?}");

    let lock_c = c.steal(NAME).unwrap();
    let held_c = held(&lock_c).await;
    assert!(matches!(soon(held_a.wait_until_lost()).await, LockLost::Stolen));
    let outcome = soon(held_c.transact(new_switch(&c, "c"))).await;
    outcome.into_result().unwrap();

    // Both clients whose lock was stolen are in the queue.
    drop(lock_c);
    let again = held(&lock_b).await;
    assert!(held_b.is_over() && !again.is_over());
    assert_eq!(names(&b), once(["c"]));
    drop(lock_b);
    assert!(!held(&lock_a).await.is_over());
}

async fn the_lock_is_requested_on_each_connection(served: Served) {
    let proxy = Proxy::start(&served.socket);
    let (a, b) = (served.client_through(&proxy).await, served.client().await);
    let lock_a = a.lock(NAME).unwrap();
    let held_a = held(&lock_a).await;
    let lock_b = b.lock(NAME).unwrap();
    proxy.refuse(true);
    let lost = soon(held_a.wait_until_lost()).await;
    assert!(matches!(lost, LockLost::Disconnected(_)), "{lost}");
    let held_b = held(&lock_b).await;
    let outcome = soon(held_b.transact(new_switch(&b, "b"))).await;
    outcome.into_result().unwrap();

    // A transaction of an earlier ownership is rejected in a later one.
    let late = new_switch(&a, "late");
    proxy.refuse(false);
    drop(lock_b);
    let again = held(&lock_a).await;
    assert_eq!(names(&a), once(["b"]));
    let outcome = soon(held_a.transact(late)).await;
    assert!(is_not_owner(&outcome), "{outcome:?}");
    let outcome = soon(again.transact(new_switch(&a, "a"))).await;
    outcome.into_result().unwrap();

    // A lock that was dropped without a connection is not requested again.
    proxy.refuse(true);
    assert!(matches!(soon(again.wait_until_lost()).await, LockLost::Disconnected(_)));
    drop(lock_a);
    proxy.refuse(false);
    let other = a.lock("other").unwrap();
    held(&other).await;
    let free = b.lock(NAME).unwrap();
    held(&free).await;
}

#[tokio::test]
async fn a_real_server_gives_a_lock_to_clients_own_the_lock_in_turn() {
    clients_own_the_lock_in_turn(real()).await;
}

#[tokio::test]
async fn the_simulator_gives_a_lock_to_clients_own_the_lock_in_turn() {
    clients_own_the_lock_in_turn(simulated().await).await;
}

#[tokio::test]
async fn a_lock_of_a_real_server_is_stolen() {
    clients_steal_the_lock(real()).await;
}

#[tokio::test]
async fn a_lock_of_the_simulator_is_stolen() {
    clients_steal_the_lock(simulated().await).await;
}

#[tokio::test]
async fn a_lock_of_a_real_server_is_asked_for_on_each_connection() {
    the_lock_is_requested_on_each_connection(real()).await;
}

#[tokio::test]
async fn a_lock_of_the_simulator_is_asked_for_on_each_connection() {
    the_lock_is_requested_on_each_connection(simulated().await).await;
}
