//! Servers that send malformed messages, too many requests, or nothing.

use super::*;

#[test]
fn echo_is_answered_in_every_state() {
    let mut scene = Scene::new();
    scene.take_sent();
    let echo = r#"{"method":"echo","params":[{"a":1}],"id":["x"]}"#;
    scene.send(echo).unwrap();
    let answer = r#"{"result":[{"a":1}],"error":null,"id":["x"]}"#;
    assert_eq!(scene.take_sent(), [answer]);
    scene.until_live();
    scene.take_sent();
    scene.send(echo).unwrap();
    assert_eq!(scene.take_sent(), [answer]);
    scene.send(r#"{"method":"wipe","params":[],"id":7}"#).unwrap();
    assert_eq!(scene.take_sent(), [r#"{"result":null,"error":"unknown method","id":7}"#]);
}

#[test]
fn a_server_that_does_not_read_its_replies_is_disconnected() {
    let mut scene = Scene::new();
    let echo = format!(r#"{{"method":"echo","params":["{}"],"id":1}}"#, "x".repeat(1 << 18));
    assert!((0..3).all(|_| scene.send(&echo).is_ok()));
    scene.take_sent();
    assert!((0..3).all(|_| scene.send(&echo).is_ok()));
    assert!(scene.send(&echo).is_err());
}

#[test]
fn malformed_messages_end_the_session_and_keep_the_replica() {
    for message in [
        r#"{"id":null,"method":"update3","params":["other","",{}]}"#,
        r#"{"id":null,"method":"update3","params":["D",{}]}"#,
        r#"{"id":null,"method":"update3","params":["D"]}"#,
        r#"{"id":null,"method":"update3","params":[]}"#,
        r#"{"id":null,"method":"update3","params":["D","0",5]}"#,
        r#"{"id":null,"method":"update3","params":["D","0",{"X":{}}]}"#,
        r#"{"id":null,"method":"update3","params":["D","0",{"T":{"x":{"delete":null}}}]}"#,
        r#"{"id":"who","result":[]}"#,
        r#"{"id":1,"result":[],"bogus":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":[]}"#,
        "[]",
        "{nonsense}",
        "\u{1}",
    ] {
        let mut scene = Scene::new();
        scene.until_live();
        assert!(scene.send(message).is_err(), "{message}");
        assert_eq!(scene.names(), ["a"], "{message}");
    }
    for update in [
        r#"{"insert":{"name":"b"}}"#,
        r#"{"modify":{"name":5}}"#,
        r#"{"modify":{"name":["set",[]]}}"#,
        r#"{"modify":{"set":["map",[["a","b"]]]}}"#,
        r#"{"modify":{},"delete":null}"#,
        "{}",
        "5",
    ] {
        let mut scene = Scene::new();
        scene.until_live();
        assert!(scene.update3(update).is_err(), "{update}");
        assert_eq!(scene.names(), ["a"], "{update}");
    }
}

#[test]
fn malformed_replies_end_the_session() {
    let schema = format!(r#"{{"id":4,"result":{SCHEMA}}}"#);
    let list = format!(r#"{{"id":1,"result":{SERVER}}}"#);
    let no_server = r#"{"id":1,"error":"no"}"#.to_owned();
    for messages in [
        vec![r#"{"id":1,"result":[]}"#.to_owned()],
        vec![r#"{"id":1,"result":{}}"#.to_owned()],
        vec![format!(r#"{{"id":1,"result":{}}}"#, SERVER.replace("standalone", "other"))],
        vec![format!(r#"{{"id":1,"result":{}}}"#, SERVER.replace("true", "1"))],
        vec![no_server.clone(), r#"{"id":4,"result":{}}"#.to_owned()],
        vec![no_server.clone(), r#"{"id":4,"result":[1]}"#.to_owned()],
        vec![no_server.clone(), r#"{"id":4,"result":["E"]}"#.to_owned()],
        vec![no_server, r#"{"id":4,"error":"no"}"#.to_owned()],
        vec![r#"{"id":2,"result":{}}"#.to_owned()],
        vec![list.clone(), r#"{"id":4,"result":[]}"#.to_owned()],
        vec![list.clone(), r#"{"id":4,"result":{"name":"D"}}"#.to_owned()],
        vec![list.clone(), r#"{"id":4,"error":{"error":"unknown database"}}"#.to_owned()],
        vec![list.clone(), schema.clone(), r#"{"id":5,"result":{}}"#.to_owned()],
        vec![list.clone(), schema.clone(), r#"{"id":5,"result":[]}"#.to_owned()],
        vec![list.clone(), schema.clone(), r#"{"id":5,"result":[false,"0"]}"#.to_owned()],
        vec![list.clone(), schema.clone(), r#"{"id":5,"result":[true,"0",{}]}"#.to_owned()],
        vec![list, schema, r#"{"id":5,"result":[false,"0",{"X":{}}]}"#.to_owned()],
    ] {
        let mut scene = Scene::new();
        let (last, before) = messages.split_last().unwrap();
        assert!(before.iter().all(|message| scene.send(message).is_ok()), "{messages:?}");
        assert!(scene.send(last).is_err(), "{messages:?}");
    }
}

#[test]
fn unknown_notifications_and_probe_replies_are_ignored() {
    let mut scene = Scene::new();
    scene.until_live();
    for message in [
        r#"{"id":null,"method":"later","params":["x"]}"#,
        r#"{"id":null,"method":"update2","params":["D",{"T":{}}]}"#,
        r#"{"id":"echo","result":[]}"#,
    ] {
        assert!(scene.send(message).unwrap().is_empty());
    }
}

#[test]
fn a_silent_server_is_disconnected_only_while_a_reply_is_outstanding() {
    let (first, minute) = (Duration::from_secs(10), Duration::from_secs(60));
    let mut scene = Scene::new();
    assert_eq!(scene.session.deadline(), Some(scene.now + first));
    assert!(scene.session.on_deadline(scene.now + first / 2).is_ok());
    let error = scene.session.on_deadline(scene.now + first).unwrap_err();
    assert_eq!(error.to_string(), "the server has been silent for 10s");
    scene.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
    assert_eq!(scene.session.deadline(), Some(scene.now + minute));
    assert!(scene.session.on_deadline(scene.now + minute / 2).is_ok());
    let error = scene.session.on_deadline(scene.now + minute).unwrap_err();
    assert_eq!(error.to_string(), "the server has been silent for 60s");
    let mut scene = Scene::new();
    scene.until_live();
    assert_eq!(scene.session.deadline(), None);
    assert!(scene.session.on_deadline(scene.now + 10 * minute).is_ok());
}

#[test]
fn other_messages_do_not_extend_the_setup_timeout_but_parts_of_a_reply_do() {
    let minute = Duration::from_secs(60);
    let mut scene = Scene::new();
    scene.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
    let start = scene.now;
    for half_minutes in 1..4 {
        scene.now = start + half_minutes * minute / 2;
        scene.send(r#"{"id":"echo","method":"echo","params":[]}"#).unwrap();
        assert_eq!(scene.session.on_deadline(scene.now).is_ok(), half_minutes < 2);
    }
    // The same duration with parts of a message.
    let mut scene = Scene::new();
    scene.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
    let start = scene.now;
    scene.send(r#"{"id":4,"result":{"#).unwrap();
    for half_minutes in 1..9 {
        scene.now = start + half_minutes * minute / 2;
        scene.send(" ").unwrap();
        scene.session.on_deadline(scene.now).unwrap();
    }
}

#[test]
fn limits_that_overflow_a_time_are_no_limits() {
    let remote: Remote = "tcp:127.0.0.1:1".parse().unwrap();
    let mut config = Config::new(remote.clone().into(), "D");
    config.connect_timeout = Duration::MAX;
    config.setup_timeout = Duration::MAX;
    config.probe_interval = Some(Duration::MAX);
    let mut scene = Scene::with(config, &remote);
    assert_eq!(scene.session.deadline(), None);
    scene.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#)).unwrap();
    assert_eq!(scene.session.deadline(), None);
    assert!(scene.session.on_deadline(scene.now).is_ok());
}

#[test]
fn a_silent_server_on_tcp_is_probed() {
    let remote: Remote = "tcp:127.0.0.1:1".parse().unwrap();
    let mut scene = Scene::with(Config::new(remote.clone().into(), "D"), &remote);
    scene.until_live();
    let seconds = |n| scene.now + Duration::from_secs(n);
    let (five, ten) = (seconds(5), seconds(10));
    assert_eq!(scene.session.deadline(), Some(five));
    scene.session.on_deadline(five).unwrap();
    assert_eq!(scene.take_sent(), [r#"{"method":"echo","params":[],"id":"echo"}"#]);
    assert!(scene.session.on_deadline(ten).is_err());
}

#[test]
fn a_message_over_the_limit_ends_the_session() {
    let remote = Remote::Unix("x".into());
    let mut config = Config::new(remote.clone().into(), "D");
    config.max_message = 100;
    let mut scene = Scene::with(config, &remote);
    let error = scene.send(&format!(r#"{{"id":1,"result":["{}"#, "x".repeat(100))).unwrap_err();
    assert!(error.to_string().contains("longer than the limit"), "{error}");
}

#[test]
fn a_string_over_the_limit_ends_the_session_before_its_end() {
    let remote = Remote::Unix("x".into());
    let mut config = Config::new(remote.clone().into(), "D");
    config.max_string = 100;
    let mut scene = Scene::with(config, &remote);
    scene.send(&format!(r#"{{"id":1,"result":["{}"#, "x".repeat(90))).unwrap();
    let error = scene.send(&"x".repeat(20)).unwrap_err();
    assert!(error.to_string().contains("string is longer than the limit"), "{error}");
}
