//! Long messages, decoded while they arrive.

use super::*;

const FIRST: &str = "00000000-0000-4000-8000-0000000000f1";
/// Rows of a long message.
const ROWS: usize = 400;

fn row_uuid(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

/// A `<table-updates>` of far more than what is decoded at once.
fn long_contents(kind: &str) -> String {
    let row = |number| {
        format!(
            r#""{}":{{"{kind}":{{"name":"row {number}","set":["set",["{}","}}]"]]}}}}"#,
            row_uuid(number),
            "x".repeat(number % 700)
        )
    };
    let rows: Vec<String> = (0..ROWS).map(row).collect();
    format!(r#"{{"T":{{{}}}}}"#, rows.join(","))
}

fn reply(contents: &str) -> String {
    format!(r#"{{"id":5,"result":[false,"{FIRST}",{contents}],"error":null}}"#)
}

impl Scene {
    /// As [`send`](Scene::send), in parts of this length.
    fn send_in_parts(
        &mut self,
        messages: &str,
        len: usize,
    ) -> Result<Vec<SessionEvent>, SessionError> {
        let mut events = Vec::new();
        for part in messages.as_bytes().chunks(len) {
            events.extend(self.send(std::str::from_utf8(part).unwrap())?);
        }
        Ok(events)
    }

    /// How much of what it has received the session keeps as text.
    fn unread(&mut self) -> usize {
        self.session.buffers().0.len()
    }

    fn row_count(&self) -> usize {
        self.retained.replica.as_ref().map_or(0, |replica| replica.snapshot().row_count())
    }
}

#[test]
fn the_first_reply_is_never_kept_as_a_whole() {
    let mut whole = Scene::new();
    whole.until_monitor();
    whole.send(&reply(&long_contents("initial"))).unwrap();
    let mut names = whole.names();
    names.sort();
    assert_eq!(names.len(), ROWS);
    for len in [1000, 4096, 65_536, 100_000] {
        let mut scene = Scene::new();
        scene.until_monitor();
        let message = reply(&long_contents("initial"));
        let mut events = Vec::new();
        for part in message.as_bytes().chunks(len) {
            events.extend(scene.send(std::str::from_utf8(part).unwrap()).unwrap());
            assert!(scene.unread() <= (32 << 10) + len, "of {}", message.len());
        }
        let [SessionEvent::ReplicaReady(live)] = &events[..] else { panic!("{events:?}") };
        assert_eq!((live.resync, live.rows), (ResyncKind::Full, ROWS));
        let mut arrived = scene.names();
        arrived.sort();
        assert_eq!(arrived, names);
    }
}

#[test]
fn older_monitors_and_long_updates_too() {
    for (version, kind) in [(2, "initial"), (1, "new")] {
        let mut scene = Scene::new();
        scene.until_monitor();
        for id in 5..8 - version {
            let unknown = format!(r#"{{"id":{id},"error":"unknown method"}}"#);
            scene.send(&unknown).unwrap();
        }
        let id = 8 - version;
        let contents = long_contents(kind);
        let message = format!(r#"{{"id":{id},"result":{contents},"error":null}}"#);
        scene.send_in_parts(&message, 5000).unwrap();
        assert_eq!(scene.row_count(), ROWS, "version {version}");
        assert_eq!(scene.unread(), 0);
    }
    let mut scene = Scene::new();
    scene.until_live();
    let contents = long_contents("insert").replace(&row_uuid(1), &row_uuid(ROWS));
    let update = format!(r#"{{"id":null,"method":"update3","params":["D","{FIRST}",{contents}]}}"#);
    let (begin, end) = update.split_at(update.len() - 1);
    assert!(scene.send_in_parts(begin, 5000).unwrap().is_empty());
    assert!(scene.unread() < 40_000);
    assert_eq!(scene.row_count(), 1, "nothing is shown before the end");
    assert!(matches!(scene.send(end).unwrap()[..], [SessionEvent::ReplicaChanged]));
    assert_eq!(scene.row_count(), ROWS + 1);
}

#[test]
fn a_reply_that_breaks_off_changes_nothing() {
    let mut scene = Scene::new();
    scene.until_live();
    let message = reply(&long_contents("initial"));
    for part in [100, message.len() / 2, message.len() - 1] {
        scene.connect_again();
        scene.until_monitor();
        assert!(scene.send_in_parts(&message[..part], 5000).unwrap().is_empty());
        assert_eq!(scene.names(), ["a"]);
    }
    scene.connect_again();
    scene.until_monitor();
    scene.send_in_parts(&message, 5000).unwrap();
    assert_eq!(scene.row_count(), ROWS);
}

#[test]
fn the_limit_is_that_of_the_whole_message() {
    let message = reply(&long_contents("initial"));
    for (limit, fits) in [(message.len(), true), (message.len() - 1, false)] {
        let remote = Remote::Unix("x".into());
        let mut config = Config::new(remote.clone().into(), "D");
        config.max_message = limit;
        let mut scene = Scene::with(config, &remote);
        scene.until_monitor();
        let outcome = scene.send_in_parts(&message, 5000);
        assert_eq!(outcome.is_ok(), fits);
    }
}

#[test]
fn a_row_that_never_ends_is_kept_up_to_the_limit() {
    let remote = Remote::Unix("x".into());
    let mut config = Config::new(remote.clone().into(), "D");
    config.max_message = 300_000;
    let mut scene = Scene::with(config, &remote);
    scene.until_monitor();
    let begin = reply(&long_contents("initial"));
    let (begin, _) = begin.rsplit_once('x').unwrap();
    assert!(scene.send_in_parts(begin, 5000).unwrap().is_empty());
    let error = loop {
        assert!(scene.unread() < 300_000);
        if let Err(error) = scene.send(&"y".repeat(5000)) {
            break error;
        }
    };
    assert!(error.to_string().contains("longer than the limit"), "{error}");
}

#[test]
fn what_makes_no_sense_is_found_as_in_a_short_message() {
    let good = long_contents("initial");
    let long = |from: &str, to: &str| reply(&good.replacen(from, to, 1));
    let tail = r#"}}},"T":{"#;
    for (message, problem) in [
        (long(r#""name":"row 7""#, r#""name":7"#), "column name: syntax error: expected string"),
        (
            long(r#"{"initial":{"name":"row 399""#, r#"{"modify":{"name":"row 399""#),
            "it is changed or deleted",
        ),
        (long(&row_uuid(3), "x"), "a row's name is not a UUID"),
        (reply(&good.replacen(r#"{"T":"#, r#"{"X":"#, 1)), "update of unknown table X"),
        (reply(&good.replace("}}}}", &format!("{tail}\"x\":5}}}}"))), "a row's name is not a UUID"),
        (reply(&good.replacen(r#""row 9""#, "\"row\u{1}\"", 1)), "unescaped control character"),
        (
            reply(&good).replacen(r#""error":null"#, r#""error":"no""#, 1),
            "reply must not have \"error\"",
        ),
        (reply(&good).replacen(r#""error":null"#, r#""bogus":null"#, 1), "unexpected member"),
        (
            reply(&good).replacen(r#""error":null"#, r#""id":77"#, 1),
            "it does not end as what it began as",
        ),
        (
            reply(&good).replacen("false", "true", 1),
            "it continues a history that was not requested",
        ),
        (reply(&good).replacen(FIRST, "x", 1), "it has no transaction id"),
    ] {
        let (mut whole, mut parts) = (Scene::new(), Scene::new());
        whole.until_monitor();
        parts.until_monitor();
        let error = parts.send_in_parts(&message, 5000).unwrap_err().to_string();
        assert!(error.contains(problem), "{error} instead of {problem}");
        assert!(parts.retained.replica.is_none() || parts.row_count() == 0);
        if !problem.contains("does not end") {
            assert_eq!(whole.send(&message).unwrap_err().to_string(), error);
        }
    }
}

#[test]
fn a_reply_is_known_by_an_id_that_comes_later() {
    let contents = long_contents("initial");
    for message in [
        format!(r#"{{"result":[false,"{FIRST}",{contents}],"error":null,"id":5}}"#),
        format!(r#"{{"error":null,"result":[false,"{FIRST}",{contents}],"id":5}}"#),
        // Of equal members the last counts.
        format!(
            r#"{{"id":5,"result":[false,"{FIRST}",{{"T":{{"x":{contents}}}}}],"result":[false,"{FIRST}",{contents}]}}"#
        ),
        format!(r#"{{"id":5,"result":[false,"{FIRST}",{contents},{contents}]}}"#),
    ] {
        let mut scene = Scene::new();
        scene.until_monitor();
        let events = scene.send_in_parts(&message, 5000).unwrap();
        assert!(matches!(events[..], [SessionEvent::ReplicaReady(_)]), "{events:?}");
        assert_eq!(scene.row_count(), ROWS);
    }
}

#[test]
fn long_messages_about_something_else_arrive_whole() {
    let mut scene = Scene::new();
    scene.until_live();
    let contents = long_contents("insert");
    let answer = format!(r#"{{"id":9,"result":[0,{contents}],"error":null}}"#);
    let events = scene.send_in_parts(&answer, 5000).unwrap();
    let [SessionEvent::Answer { request: 9, reply }] = &events[..] else { panic!("{events:?}") };
    assert_eq!(reply.as_text().bytes(), answer.as_bytes());
    let update = format!(
        r#"{{"id":null,"method":"update2","params":["_Server.Database",{}]}}"#,
        SERVER
            .replace(r#""leader":true"#, r#""leader":false"#)
            .replace("initial", "modify")
            .replacen(
                r#""model""#,
                &format!(r#""other":["map",["{}"]],"model""#, "x".repeat(100_000)),
                1
            )
    );
    // The server leads no more: so it was read.
    assert!(scene.send_in_parts(&update, 5000).is_err());
    assert_eq!(scene.names(), ["a"]);
}
