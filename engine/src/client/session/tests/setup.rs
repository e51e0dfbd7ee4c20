//! What a session asks a server before it follows, and which servers it leaves.

use super::*;

#[test]
fn a_session_asks_for_server_schema_and_contents() {
    let mut scene = Scene::new();
    assert_eq!(
        scene.received(),
        [
            r#"{"method":"monitor_cond","params":["_Server","_Server.Database",{"Database":[{"columns":["cid","connected","index","leader","model","name","sid"]}]}],"id":1}"#,
            r#"{"method":"lock","params":["patchbay_1"],"id":2}"#,
            r#"{"method":"set_db_change_aware","params":[true],"id":3}"#,
        ]
    );
    let events = scene
        .send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
        .unwrap();
    assert!(events.is_empty());
    assert_eq!(
        scene.received(),
        [r#"{"method":"get_schema","params":["D"],"id":4}"#]
    );
    scene
        .send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#))
        .unwrap();
    assert_eq!(
        scene.received(),
        [format!(
            r#"{{"method":"monitor_cond_since","params":["D","D",{{"T":[{{"columns":["name","set"]}}]}},"{ZERO}"],"id":5}}"#
        )]
    );
    let events = scene
        .send(&format!(r#"{{"id":5,"result":[false,"{ZERO}",{{}}]}}"#))
        .unwrap();
    assert!(matches!(events[..], [Event::Live(_)]));
}

#[test]
fn a_server_that_says_nothing_of_itself_is_asked_for_its_databases() {
    let mut scene = Scene::new();
    scene.received();
    scene
        .send(r#"{"id":1,"error":{"error":"unknown database"}}{"id":3,"error":"unknown method"}"#)
        .unwrap();
    assert_eq!(
        scene.received(),
        [r#"{"method":"list_dbs","params":[],"id":4}"#]
    );
    scene
        .send(r#"{"id":4,"result":["D"],"error":null}"#)
        .unwrap();
    assert_eq!(
        scene.received(),
        [r#"{"method":"get_schema","params":["D"],"id":5}"#]
    );
}

#[test]
fn a_server_that_stops_to_be_good_enough_is_left() {
    for (update, error) in [
        (
            r#"{"modify":{"leader":false}}"#,
            "the server does not lead its cluster",
        ),
        (
            r#"{"modify":{"connected":false}}"#,
            "the server is not connected to its cluster",
        ),
        (r#"{"delete":null}"#, "no database D: the server has "),
    ] {
        let mut scene = Scene::new();
        scene
            .send(&format!(r#"{{"id":1,"result":{MEMBER},"error":null}}"#))
            .unwrap();
        let result = scene.send(&format!(
            r#"{{"id":null,"method":"update2","params":["_Server.Database",{{"Database":{{"00000000-0000-4000-8000-00000000000d":{update}}}}}]}}"#
        ));
        assert_eq!(result.unwrap_err().to_string(), error);
    }
}

#[test]
fn after_a_change_of_the_schema_the_session_begins_anew() {
    let mut scene = Scene::new();
    scene.until_live();
    let events = scene
        .send(r#"{"id":null,"method":"monitor_canceled","params":["D"]}"#)
        .unwrap();
    assert!(matches!(events[..], [Event::SchemaChanged]) && !scene.session.is_live());
    assert_eq!(
        scene.received(),
        [r#"{"method":"get_schema","params":["D"],"id":7}"#]
    );
    let schema = SCHEMA.replace("1.0.0", "1.0.1").replace("set", "later");
    scene
        .send(&format!(r#"{{"id":7,"result":{schema},"error":null}}"#))
        .unwrap();
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"b","later":"c"}}}}}}}}"#);
    let events = scene
        .send(&format!(
            r#"{{"id":8,"result":[false,"{ZERO}",{contents}],"error":null}}"#
        ))
        .unwrap();
    assert!(matches!(events[..], [Event::Live(_)]));
    assert_eq!(scene.names(), ["b"]);
}

#[test]
fn a_server_without_the_newer_monitors_is_asked_for_the_older() {
    let mut scene = Scene::new();
    scene.until_monitor();
    scene.send(r#"{"id":5,"error":"unknown method"}"#).unwrap();
    assert_eq!(
        scene.received(),
        [
            r#"{"method":"monitor_cond","params":["D","D",{"T":[{"columns":["name","set"]}]}],"id":6}"#
        ]
    );
    scene
        .send(r#"{"id":6,"result":null,"error":"rpc: can't find method monitor_cond"}"#)
        .unwrap();
    assert_eq!(
        scene.received(),
        [r#"{"method":"monitor","params":["D","D",{"T":[{"columns":["name","set"]}]}],"id":7}"#]
    );
    let events = scene
        .send(&format!(
            r#"{{"id":7,"result":{{"T":{{"{ROW}":{{"new":{{"name":"a"}}}}}}}}}}"#
        ))
        .unwrap();
    assert!(matches!(events[..], [Event::Live(_)]));
    let update = r#"{"old":{"name":"a"},"new":{"name":"b"}}"#;
    let update =
        format!(r#"{{"id":null,"method":"update","params":["D",{{"T":{{"{ROW}":{update}}}}}]}}"#);
    assert!(matches!(scene.send(&update).unwrap()[..], [Event::Changed]));
    assert_eq!(scene.names(), ["b"]);
}

#[test]
fn an_error_about_something_else_does_not_lead_to_the_older_monitors() {
    let mut scene = Scene::new();
    scene.until_monitor();
    let error = scene.send(
        r#"{"id":5,"error":{"error":"syntax error","details":"zz is not a valid column name"}}"#,
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "monitor_cond_since was refused: syntax error: zz is not a valid column name"
    );
}

#[test]
fn a_server_without_the_database_is_told_from_others() {
    let mut scene = Scene::new();
    let error = scene
        .send(&format!(
            r#"{{"id":1,"result":{},"error":null}}"#,
            SERVER.replace(r#""D""#, r#""OVN_Southbound""#)
        ))
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "no database D: the server has OVN_Southbound"
    );
}

#[test]
fn the_fence_comes_with_the_lock() {
    let mut scene = Scene::new();
    assert!(
        scene
            .send(r#"{"id":2,"result":{"locked":false},"error":null}"#)
            .unwrap()
            .is_empty()
    );
    scene.until_live_after_lock();
    assert!(!scene.session.is_fenced());
    scene
        .send(r#"{"id":null,"method":"locked","params":["other"]}"#)
        .unwrap();
    assert!(!scene.session.is_fenced());
    let events = scene
        .send(r#"{"id":null,"method":"locked","params":["patchbay_1"]}"#)
        .unwrap();
    assert!(matches!(events[..], [Event::Fenced]) && scene.session.is_fenced());

    let mut scene = Scene::new();
    scene.until_live();
    assert!(scene.session.is_fenced());

    let mut scene = Scene::new();
    scene.send(r#"{"id":2,"error":"unknown method"}"#).unwrap();
    assert!(scene.session.is_fenced());
}

impl Scene {
    /// Answers everything but the lock, which has been answered.
    fn until_live_after_lock(&mut self) {
        self.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
            .unwrap();
        self.send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#))
            .unwrap();
        self.send(&format!(
            r#"{{"id":5,"result":[false,"{ZERO}",{{}}],"error":null}}"#
        ))
        .unwrap();
    }
}

#[test]
fn who_asks_for_another_schema_waits_for_it_from_then_on() {
    let mut scene = Scene::new();
    scene.until_live();
    scene.now += Duration::from_secs(1000);
    let canceled = r#"{"id":null,"method":"monitor_canceled","params":["D"]}"#;
    let events = scene.send(canceled).unwrap();
    assert!(matches!(events[..], [Event::SchemaChanged]), "{events:?}");
    let deadline = scene.now + Duration::from_secs(60);
    assert_eq!(scene.session.deadline(), Some(deadline));
    assert!(scene.session.on_deadline(scene.now).is_ok());
}
