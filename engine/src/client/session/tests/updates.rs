//! Updates, changes of filters, and connections that continue the history of a former one.

use super::*;

const FIRST: &str = "00000000-0000-4000-8000-0000000000f1";
const SECOND: &str = "00000000-0000-4000-8000-0000000000f2";

/// A scene whose replica is at transaction [`SECOND`].
fn with_history() -> Scene {
    let mut scene = Scene::new();
    scene.until_monitor();
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"a"}}}}}}}}"#);
    scene
        .send(&format!(r#"{{"id":5,"result":[false,"{FIRST}",{contents}],"error":null}}"#))
        .unwrap();
    scene.check_schema();
    scene
        .send(&format!(
            r#"{{"id":null,"method":"update3","params":["D","{SECOND}",{{"T":{{"{ROW}":{{"modify":{{"name":"b"}}}}}}}}]}}"#
        ))
        .unwrap();
    scene
}

/// Starts another connection and returns its monitor request.
fn reconnect_monitor(scene: &mut Scene) -> String {
    scene.connect_again();
    scene.take_sent();
    scene.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
    scene.send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#)).unwrap();
    scene.take_sent().pop().unwrap()
}

#[test]
fn a_reconnect_continues_after_the_last_transaction() {
    let mut scene = with_history();
    let asked = reconnect_monitor(&mut scene);
    assert!(asked.contains(&format!(r#"]}},"{SECOND}"]"#)), "{asked}");
    let events = scene
        .send(&format!(
            r#"{{"id":5,"result":[true,"{FIRST}",{{"T":{{"{ROW}":{{"modify":{{"name":"c"}}}}}}}}],"error":null}}"#
        ))
        .unwrap();
    let [SessionEvent::ReplicaReady(live)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((live.resync, live.rows), (ResyncKind::Continued, 1));
    assert_eq!(scene.names(), ["c"]);
}

#[test]
fn without_the_history_the_server_sends_the_whole_database() {
    let mut scene = with_history();
    reconnect_monitor(&mut scene);
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"c"}}}}}}}}"#);
    let events = scene
        .send(&format!(r#"{{"id":5,"result":[false,"{FIRST}",{contents}],"error":null}}"#))
        .unwrap();
    let [SessionEvent::ReplicaReady(live)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((live.resync, live.rows), (ResyncKind::Full, 1));
}

#[test]
fn a_malformed_update_discards_the_position_in_the_history() {
    let mut scene = with_history();
    scene.update3(r#"{"insert":{"name":"twice"}}"#).unwrap_err();
    assert!(reconnect_monitor(&mut scene).contains(ZERO));
    let mut scene = with_history();
    reconnect_monitor(&mut scene);
    scene
        .send(&format!(
            r#"{{"id":5,"result":[true,"{FIRST}",{{"T":{{"{ROW}":{{"insert":{{}}}}}}}}],"error":null}}"#
        ))
        .unwrap_err();
    assert_eq!(scene.names(), ["b"]);
    assert!(reconnect_monitor(&mut scene).contains(ZERO));
}

#[test]
fn other_filters_discard_the_position_in_the_history() {
    let mut scene = with_history();
    let mut changed = filter(&mut scene, Filter::none());
    let asked = reconnect_monitor(&mut scene);
    assert!(asked.contains(r#""where":[false]"#) && asked.contains(ZERO));
    scene
        .send(&format!(r#"{{"id":5,"result":[false,"{FIRST}",{{}}],"error":null}}"#))
        .unwrap()
        .into_iter()
        .for_each(notify_filters);
    assert!(changed.try_recv().unwrap().is_ok());
    assert!(scene.names().is_empty());
    assert!(reconnect_monitor(&mut scene).contains(FIRST));
}

fn filter(
    scene: &mut Scene,
    filter: Filter,
) -> tokio::sync::oneshot::Receiver<Result<(), FilterError>> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    let table = "T".to_owned();
    scene.retained.filters.request_change(FilterChange { table, filter, done });
    outcome
}

fn notify_filters(event: SessionEvent) {
    match event {
        SessionEvent::ReplicaReady(live) => live.applied_filters.notify(),
        SessionEvent::FiltersApplied(filters) => filters.notify(),
        _ => {}
    }
}

#[test]
fn filters_change_one_after_the_other() {
    let mut scene = with_history();
    let mut first = filter(&mut scene, Filter::none());
    assert!(scene.session.send_filter_change(&mut scene.retained).is_none());
    assert_eq!(
        scene.take_sent(),
        [r#"{"method":"monitor_cond_change","params":["D","D",{"T":[{"where":[false]}]}],"id":7}"#]
    );
    let mut second = filter(&mut scene, Filter::all());
    assert!(scene.session.send_filter_change(&mut scene.retained).is_none());
    assert!(scene.take_sent().is_empty());

    scene.update3(r#"{"delete":null}"#).unwrap();
    assert!(scene.names().is_empty() && first.try_recv().is_err());
    let events = scene.send(r#"{"id":7,"result":{},"error":null}"#).unwrap();
    events.into_iter().for_each(notify_filters);
    assert!(first.try_recv().unwrap().is_ok() && second.try_recv().is_err());

    assert!(scene.session.send_filter_change(&mut scene.retained).is_none());
    assert_eq!(
        scene.take_sent(),
        [r#"{"method":"monitor_cond_change","params":["D","D",{"T":[{"where":[]}]}],"id":8}"#]
    );
    let refused = r#"{"id":8,"error":{"error":"syntax error"}}"#;
    scene.send(refused).unwrap().into_iter().for_each(notify_filters);
    let error = second.try_recv().unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the server rejected the filter of table T: syntax error");

    // A filter that is in effect already needs no request.
    let mut third = filter(&mut scene, Filter::none());
    let event = scene.session.send_filter_change(&mut scene.retained);
    event.into_iter().for_each(notify_filters);
    assert!(third.try_recv().unwrap().is_ok() && scene.take_sent().is_empty());
}

#[test]
fn updates_change_the_replica_in_order() {
    let mut scene = Scene::new();
    scene.until_live();
    assert_eq!(scene.names(), ["a"]);
    let events = scene.update3(r#"{"modify":{"name":"b"}}"#).unwrap();
    assert!(matches!(events[..], [SessionEvent::ReplicaChanged]));
    assert_eq!(scene.names(), ["b"]);
    scene.update3(r#"{"modify":{}}"#).unwrap();
    assert_eq!(scene.names(), ["b"]);
    scene.update3(r#"{"delete":null}"#).unwrap();
    assert!(scene.names().is_empty());
}

#[test]
fn lock_notifications_are_events() {
    for (method, expected) in
        [("locked", LockNotification::Locked), ("stolen", LockNotification::Stolen)]
    {
        let mut scene = Scene::new();
        scene.until_live();
        let message = format!(r#"{{"id":null,"method":"{method}","params":["x"]}}"#);
        let events = scene.send(&message).unwrap();
        assert!(
            matches!(&events[..], [SessionEvent::Lock { name, notification }] if name == b"x" && *notification == expected),
            "{events:?}"
        );
        let nameless = format!(r#"{{"id":null,"method":"{method}","params":[]}}"#);
        assert!(scene.send(&nameless).is_err());
    }
}
