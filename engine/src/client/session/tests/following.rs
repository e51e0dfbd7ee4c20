//! Updates, other selections of rows, and connections that go on where another one ended.

use super::*;

const FIRST: &str = "00000000-0000-4000-8000-0000000000f1";
const SECOND: &str = "00000000-0000-4000-8000-0000000000f2";

/// A scene in which the replica stands at [`SECOND`].
fn with_history() -> Scene {
    let mut scene = Scene::new();
    scene.until_monitor();
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"a"}}}}}}}}"#);
    scene
        .send(&format!(
            r#"{{"id":5,"result":[false,"{FIRST}",{contents}],"error":null}}"#
        ))
        .unwrap();
    scene.check_schema();
    scene
        .send(&format!(
            r#"{{"id":null,"method":"update3","params":["D","{SECOND}",{{"T":{{"{ROW}":{{"modify":{{"name":"b"}}}}}}}}]}}"#
        ))
        .unwrap();
    scene
}

/// The monitor that a new connection asks for.
fn asked_again(scene: &mut Scene) -> String {
    scene.connect_again();
    scene.received();
    scene
        .send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
        .unwrap();
    scene
        .send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#))
        .unwrap();
    scene.received().pop().unwrap()
}

#[test]
fn another_connection_continues_after_the_last_transaction() {
    let mut scene = with_history();
    let asked = asked_again(&mut scene);
    assert!(asked.contains(&format!(r#"]}},"{SECOND}"]"#)), "{asked}");
    let events = scene
        .send(&format!(
            r#"{{"id":5,"result":[true,"{FIRST}",{{"T":{{"{ROW}":{{"modify":{{"name":"c"}}}}}}}}],"error":null}}"#
        ))
        .unwrap();
    let [Event::Live(live)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((live.resync, live.rows), (Resync::Continued, 1));
    assert_eq!(scene.names(), ["c"]);
}

#[test]
fn a_history_that_the_server_has_not_is_replaced_by_its_contents() {
    let mut scene = with_history();
    asked_again(&mut scene);
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"c"}}}}}}}}"#);
    let events = scene
        .send(&format!(
            r#"{{"id":5,"result":[false,"{FIRST}",{contents}],"error":null}}"#
        ))
        .unwrap();
    let [Event::Live(live)] = &events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((live.resync, live.rows), (Resync::Full, 1));
}

#[test]
fn what_makes_no_sense_is_not_continued() {
    let mut scene = with_history();
    scene.update3(r#"{"insert":{"name":"twice"}}"#).unwrap_err();
    assert!(asked_again(&mut scene).contains(ZERO));
    let mut scene = with_history();
    asked_again(&mut scene);
    scene
        .send(&format!(
            r#"{{"id":5,"result":[true,"{FIRST}",{{"T":{{"{ROW}":{{"insert":{{}}}}}}}}],"error":null}}"#
        ))
        .unwrap_err();
    assert_eq!(scene.names(), ["b"]);
    assert!(asked_again(&mut scene).contains(ZERO));
}

#[test]
fn another_selection_of_rows_is_not_continued() {
    let mut scene = with_history();
    let mut changed = filter(&mut scene, Filter::none());
    let asked = asked_again(&mut scene);
    assert!(asked.contains(r#""where":[false]"#) && asked.contains(ZERO));
    scene
        .send(&format!(
            r#"{{"id":5,"result":[false,"{FIRST}",{{}}],"error":null}}"#
        ))
        .unwrap()
        .into_iter()
        .for_each(reach);
    assert!(changed.try_recv().unwrap().is_ok());
    assert!(scene.names().is_empty());
    assert!(asked_again(&mut scene).contains(FIRST));
}

fn filter(
    scene: &mut Scene,
    filter: Filter,
) -> tokio::sync::oneshot::Receiver<Result<(), FilterError>> {
    let (done, outcome) = tokio::sync::oneshot::channel();
    let table = "T".to_owned();
    scene.known.filters.change(FilterChange {
        table,
        filter,
        done,
    });
    outcome
}

fn reach(event: Event) {
    match event {
        Event::Live(live) => live.reached.tell(),
        Event::Filtered(reached) => reached.tell(),
        _ => {}
    }
}

#[test]
fn filters_change_one_after_the_other() {
    let mut scene = with_history();
    let mut first = filter(&mut scene, Filter::none());
    assert!(scene.session.change_filters(&mut scene.known).is_none());
    assert_eq!(
        scene.received(),
        [r#"{"method":"monitor_cond_change","params":["D","D",{"T":[{"where":[false]}]}],"id":7}"#]
    );
    let mut second = filter(&mut scene, Filter::all());
    assert!(scene.session.change_filters(&mut scene.known).is_none());
    assert!(scene.received().is_empty());

    scene.update3(r#"{"delete":null}"#).unwrap();
    assert!(scene.names().is_empty() && first.try_recv().is_err());
    let events = scene.send(r#"{"id":7,"result":{},"error":null}"#).unwrap();
    events.into_iter().for_each(reach);
    assert!(first.try_recv().unwrap().is_ok() && second.try_recv().is_err());

    assert!(scene.session.change_filters(&mut scene.known).is_none());
    assert_eq!(
        scene.received(),
        [r#"{"method":"monitor_cond_change","params":["D","D",{"T":[{"where":[]}]}],"id":8}"#]
    );
    let refused = r#"{"id":8,"error":{"error":"syntax error"}}"#;
    scene.send(refused).unwrap().into_iter().for_each(reach);
    let error = second.try_recv().unwrap().unwrap_err();
    assert_eq!(
        error.to_string(),
        "the filter of table T was refused: syntax error"
    );

    // What is in force already needs no request.
    let mut third = filter(&mut scene, Filter::none());
    let event = scene.session.change_filters(&mut scene.known);
    event.into_iter().for_each(reach);
    assert!(third.try_recv().unwrap().is_ok() && scene.received().is_empty());
}

#[test]
fn updates_change_the_replica_in_order() {
    let mut scene = Scene::new();
    scene.until_live();
    assert_eq!(scene.names(), ["a"]);
    let events = scene.update3(r#"{"modify":{"name":"b"}}"#).unwrap();
    assert!(matches!(events[..], [Event::Changed]));
    assert_eq!(scene.names(), ["b"]);
    scene.update3(r#"{"modify":{}}"#).unwrap();
    assert_eq!(scene.names(), ["b"]);
    scene.update3(r#"{"delete":null}"#).unwrap();
    assert!(scene.names().is_empty());
}

#[test]
fn what_a_server_says_of_locks_is_passed_on() {
    for (method, told) in [("locked", Notice::Locked), ("stolen", Notice::Stolen)] {
        let mut scene = Scene::new();
        scene.until_live();
        let message = format!(r#"{{"id":null,"method":"{method}","params":["x"]}}"#);
        let events = scene.send(&message).unwrap();
        assert!(
            matches!(&events[..], [Event::Lock { name, notice }] if name == b"x" && *notice == told),
            "{events:?}"
        );
        let nameless = format!(r#"{{"id":null,"method":"{method}","params":[]}}"#);
        assert!(scene.send(&nameless).is_err());
    }
}
