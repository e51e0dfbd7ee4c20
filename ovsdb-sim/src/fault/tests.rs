use super::*;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);

fn sent(faults: &Faults, session: SessionId, bytes: usize) -> (usize, bool) {
    let passage = faults.pass(session, Direction::Sent, bytes);
    (passage.bytes, passage.cut)
}

#[test]
fn bytes_are_counted_for_each_connection_and_the_smallest_limit_applies() {
    let faults = Faults::default();
    assert_eq!(sent(&faults, A, 100), (100, false));
    faults.set(Fault::DropAfterSent { bytes: 10 }.into()).unwrap();
    faults
        .set(FaultRule::from(Fault::DropAfterSent { bytes: 8 }).on_connection(ConnectionId(B)))
        .unwrap();
    assert_eq!(sent(&faults, A, 9), (9, false));
    assert_eq!(sent(&faults, B, 9), (8, true));
    assert_eq!(sent(&faults, A, 1), (1, true));
    let received = faults.pass(A, Direction::Received, 100);
    assert_eq!((received.bytes, received.cut), (100, false));
    let struck: Vec<u64> = faults.list().iter().map(|fault| fault.struck).collect();
    assert_eq!(struck, [1, 1]);
    faults.remove_connection(B);
    assert_eq!(faults.list().len(), 1);
}

#[test]
fn a_fault_that_has_struck_as_often_as_it_should_is_removed() {
    let faults = Faults::default();
    let error = OvsdbError::new("e", "d");
    let fault = Fault::Refuse { method: Some("echo".to_owned()), error: error.clone() };
    let id = faults.set(FaultRule::from(fault).once()).unwrap();
    assert_eq!(faults.refusal(A, "transact"), None);
    assert_eq!(faults.refusal(A, "echo"), Some(error));
    assert_eq!(faults.refusal(A, "echo"), None);
    assert!(!faults.clear(id));
}

#[test]
fn a_fault_for_the_next_connection_affects_only_that_one() {
    let faults = Faults::default();
    faults.add_connection(A);
    faults.set(FaultRule::from(Fault::Drop).on_next_connection()).unwrap();
    assert!(!faults.drops_connection(A));
    faults.add_connection(B);
    assert!(faults.drops_connection(B));
    assert!(!faults.drops_connection(A));
    faults.remove_connection(B);
    assert_eq!(faults.list(), []);
}

#[test]
fn the_number_of_faults_is_limited() {
    let faults = Faults::default();
    let ids: Vec<_> =
        (0..MAX_FAULTS).map(|_| faults.set(Fault::StopReading.into()).unwrap()).collect();
    assert_eq!(faults.set(Fault::StopReading.into()), None);
    faults.clear(ids[0]);
    assert!(faults.set(Fault::StopReading.into()).is_some());
}

#[tokio::test(start_paused = true)]
async fn reading_is_stopped_until_the_fault_is_cleared() {
    let faults = std::sync::Arc::new(Faults::default());
    let id = faults.set(FaultRule::from(Fault::StopReading).once()).unwrap();
    let stopped = faults.clone();
    let stopped = tokio::spawn(async move { stopped.wait_while_reading_is_stopped(A).await });
    tokio::time::sleep(Duration::from_secs(3600)).await;
    faults.wait_while_reading_is_stopped(B).await;
    assert!(!stopped.is_finished());
    assert!(faults.clear(id));
    stopped.await.unwrap();
}

#[test]
fn rules_survive_json() {
    let error = OvsdbError {
        tag: "e".into(),
        details: None,
        syntax: Some("[]".into()),
        io_error: Some("No space left on device".into()),
    };
    for fault in [
        Fault::Drop,
        Fault::DropAfterReceived { bytes: 1 },
        Fault::DropAfterSent { bytes: u64::MAX },
        Fault::LoseReply(Loss::Crashed),
        Fault::DelayReplies { by: Duration::from_millis(5) },
        Fault::Refuse { method: None, error: error.clone() },
        Fault::FailCommit(error),
        Fault::StopReading,
    ] {
        let rule = FaultRule::from(fault).on_next_connection().once();
        let text = serde_json::to_string(&rule).unwrap();
        assert_eq!(serde_json::from_str::<FaultRule>(&text).unwrap(), rule, "{text}");
    }
}
