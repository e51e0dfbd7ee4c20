//! Connection setup, and servers that do not qualify.

use super::*;

#[test]
fn setup_requests_server_status_schema_and_contents() {
    let mut scene = Scene::new();
    assert_eq!(
        scene.take_sent(),
        [
            r#"{"method":"monitor_cond","params":["_Server","_Server.Database",{"Database":[{"columns":["cid","connected","index","leader","model","name","sid"]}]}],"id":1}"#,
            r#"{"method":"lock","params":["patchbay_1"],"id":2}"#,
            r#"{"method":"set_db_change_aware","params":[true],"id":3}"#,
        ]
    );
    let events = scene.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
    assert!(events.is_empty());
    assert_eq!(scene.take_sent(), [r#"{"method":"get_schema","params":["D"],"id":4}"#]);
    scene.send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#)).unwrap();
    assert_eq!(
        scene.take_sent(),
        [format!(
            r#"{{"method":"monitor_cond_since","params":["D","D",{{"T":[{{"columns":["name","set"]}}]}},"{ZERO}"],"id":5}}"#
        )]
    );
    let events = scene.send(&format!(r#"{{"id":5,"result":[false,"{ZERO}",{{}}]}}"#)).unwrap();
    assert!(matches!(events[..], [SessionEvent::ReplicaReady(_)]));
}

#[test]
fn without_server_status_the_databases_are_listed() {
    let mut scene = Scene::new();
    scene.take_sent();
    scene
        .send(r#"{"id":1,"error":{"error":"unknown database"}}{"id":3,"error":"unknown method"}"#)
        .unwrap();
    assert_eq!(scene.take_sent(), [r#"{"method":"list_dbs","params":[],"id":4}"#]);
    scene.send(r#"{"id":4,"result":["D"],"error":null}"#).unwrap();
    assert_eq!(scene.take_sent(), [r#"{"method":"get_schema","params":["D"],"id":5}"#]);
}

#[test]
fn a_server_that_no_longer_qualifies_is_disconnected() {
    for (update, error) in [
        (r#"{"modify":{"leader":false}}"#, "the server does not lead its cluster"),
        (r#"{"modify":{"connected":false}}"#, "the server is not connected to its cluster"),
        (r#"{"delete":null}"#, "no database D: the server has none"),
    ] {
        let mut scene = Scene::new();
        scene.send(&format!(r#"{{"id":1,"result":{MEMBER},"error":null}}"#)).unwrap();
        let result = scene.send(&format!(
            r#"{{"id":null,"method":"update2","params":["_Server.Database",{{"Database":{{"00000000-0000-4000-8000-00000000000d":{update}}}}}]}}"#
        ));
        assert_eq!(result.unwrap_err().to_string(), error);
    }
}

#[test]
fn after_a_change_of_the_schema_setup_starts_again() {
    let mut scene = Scene::new();
    scene.until_live();
    let events = scene.send(r#"{"id":null,"method":"monitor_canceled","params":["D"]}"#).unwrap();
    assert!(matches!(events[..], [SessionEvent::SchemaChanged]) && !scene.session.is_live());
    assert_eq!(scene.take_sent(), [r#"{"method":"get_schema","params":["D"],"id":7}"#]);
    let schema = SCHEMA.replace("1.0.0", "1.0.1").replace("set", "later");
    scene.send(&format!(r#"{{"id":7,"result":{schema},"error":null}}"#)).unwrap();
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"b","later":"c"}}}}}}}}"#);
    let events = scene
        .send(&format!(r#"{{"id":8,"result":[false,"{ZERO}",{contents}],"error":null}}"#))
        .unwrap();
    assert!(matches!(events[..], [SessionEvent::ReplicaReady(_)]));
    assert_eq!(scene.names(), ["b"]);
}

#[test]
fn older_monitor_methods_are_tried_if_the_newer_are_unknown() {
    let mut scene = Scene::new();
    scene.until_monitor();
    scene.send(r#"{"id":5,"error":"unknown method"}"#).unwrap();
    assert_eq!(
        scene.take_sent(),
        [
            r#"{"method":"monitor_cond","params":["D","D",{"T":[{"columns":["name","set"]}]}],"id":6}"#
        ]
    );
    scene.send(r#"{"id":6,"result":null,"error":"rpc: can't find method monitor_cond"}"#).unwrap();
    assert_eq!(
        scene.take_sent(),
        [r#"{"method":"monitor","params":["D","D",{"T":[{"columns":["name","set"]}]}],"id":7}"#]
    );
    let events = scene
        .send(&format!(r#"{{"id":7,"result":{{"T":{{"{ROW}":{{"new":{{"name":"a"}}}}}}}}}}"#))
        .unwrap();
    assert!(matches!(events[..], [SessionEvent::ReplicaReady(_)]));
    let update = r#"{"old":{"name":"a"},"new":{"name":"b"}}"#;
    let update =
        format!(r#"{{"id":null,"method":"update","params":["D",{{"T":{{"{ROW}":{update}}}}}]}}"#);
    assert!(matches!(scene.send(&update).unwrap()[..], [SessionEvent::ReplicaChanged]));
    assert_eq!(scene.names(), ["b"]);
}

#[test]
fn other_errors_do_not_lead_to_older_monitor_methods() {
    let mut scene = Scene::new();
    scene.until_monitor();
    let error = scene.send(
        r#"{"id":5,"error":{"error":"syntax error","details":"zz is not a valid column name"}}"#,
    );
    assert_eq!(
        error.unwrap_err().to_string(),
        "the server rejected monitor_cond_since: syntax error: zz is not a valid column name"
    );
}

#[test]
fn a_server_without_the_database_is_rejected() {
    let mut scene = Scene::new();
    let error = scene
        .send(&format!(
            r#"{{"id":1,"result":{},"error":null}}"#,
            SERVER.replace(r#""D""#, r#""OVN_Southbound""#)
        ))
        .unwrap_err();
    assert_eq!(error.to_string(), "no database D: the server has OVN_Southbound");
}

#[test]
fn the_fence_comes_with_the_lock() {
    let mut scene = Scene::new();
    assert!(scene.send(r#"{"id":2,"result":{"locked":false},"error":null}"#).unwrap().is_empty());
    scene.until_live_after_lock();
    assert!(!scene.session.is_fenced());
    scene.send(r#"{"id":null,"method":"locked","params":["other"]}"#).unwrap();
    assert!(!scene.session.is_fenced());
    let events = scene.send(r#"{"id":null,"method":"locked","params":["patchbay_1"]}"#).unwrap();
    assert!(matches!(events[..], [SessionEvent::Fenced]) && scene.session.is_fenced());

    let mut scene = Scene::new();
    scene.until_live();
    assert!(scene.session.is_fenced());

    let mut scene = Scene::new();
    scene.send(r#"{"id":2,"error":"unknown method"}"#).unwrap();
    assert!(scene.session.is_fenced());
}

impl Scene {
    /// Replies to all requests but the one for the lock, which has a reply.
    fn until_live_after_lock(&mut self) {
        self.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
        self.send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#)).unwrap();
        self.send(&format!(r#"{{"id":5,"result":[false,"{ZERO}",{{}}],"error":null}}"#)).unwrap();
    }
}

#[test]
fn a_request_for_a_changed_schema_restarts_the_setup_timeout() {
    let mut scene = Scene::new();
    scene.until_live();
    scene.now += Duration::from_secs(1000);
    let canceled = r#"{"id":null,"method":"monitor_canceled","params":["D"]}"#;
    let events = scene.send(canceled).unwrap();
    assert!(matches!(events[..], [SessionEvent::SchemaChanged]), "{events:?}");
    let deadline = scene.now + Duration::from_secs(60);
    assert_eq!(scene.session.deadline(), Some(deadline));
    assert!(scene.session.on_deadline(scene.now).is_ok());
}
