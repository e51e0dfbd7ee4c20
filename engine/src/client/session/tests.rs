use std::time::Duration;

use patchbay_schemas::json::Framer;

use super::*;
use crate::client::condition::{Filter, FilterChange, FilterError};

const SCHEMA: &str = r#"{"name":"D","version":"1.0.0","tables":{"T":{"columns":{"name":{"type":"string"},
    "set":{"type":{"key":"string","min":0,"max":"unlimited"}}}}}}"#;
/// What a server says of the database.
const SERVER: &str = r#"{"Database":{"00000000-0000-4000-8000-00000000000d":{"initial":{"name":"D","model":"standalone","connected":true,"leader":true}}}}"#;
/// What a member of a cluster says of it.
const MEMBER: &str = r#"{"Database":{"00000000-0000-4000-8000-00000000000d":{"initial":{"name":"D","model":"clustered","connected":true,"leader":true,"index":7}}}}"#;
const ROW: &str = "00000000-0000-4000-8000-000000000001";
const ZERO: &str = "00000000-0000-0000-0000-000000000000";

/// A session, and the server that a test plays.
struct Scene {
    session: Session,
    known: Known,
    now: Instant,
    received: Framer,
}

impl Scene {
    fn new() -> Self {
        Self::with(
            Config::new(Remote::Unix("x".into()).into(), "D"),
            &Remote::Unix("x".into()),
        )
    }

    fn with(config: Config, remote: &Remote) -> Self {
        let now = Instant::now();
        let known = Known::new(&config);
        let session = Session::new(Arc::new(config), remote, "patchbay_1".into(), now);
        Self {
            session,
            known,
            now,
            received: Framer::new(usize::MAX),
        }
    }

    /// What the session sent since the last call.
    fn received(&mut self) -> Vec<String> {
        loop {
            let (_, output) = self.session.buffers();
            let len = output.len();
            self.received.push(output);
            self.session.sent(len);
            if len == 0 {
                break;
            }
        }
        let texts = std::iter::from_fn(|| self.received.next_text().unwrap());
        texts
            .map(|text| String::from_utf8(text.as_text().bytes().to_vec()).unwrap())
            .collect()
    }

    /// Sends messages to the session and returns what they meant to it.
    fn send(&mut self, messages: &str) -> Result<Vec<Event>, SessionError> {
        self.session
            .buffers()
            .0
            .extend_from_slice(messages.as_bytes());
        self.session.received(self.now);
        std::iter::from_fn(|| self.session.next_event(&mut self.known).transpose()).collect()
    }

    /// Answers everything up to the monitor.
    fn until_monitor(&mut self) {
        self.send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
            .unwrap();
        self.send(r#"{"id":2,"result":{"locked":true},"error":null}"#)
            .unwrap();
        self.send(r#"{"id":3,"result":{},"error":null}"#).unwrap();
        self.send(&format!(r#"{{"id":4,"result":{SCHEMA},"error":null}}"#))
            .unwrap();
        self.received();
    }

    /// Answers everything, with a row named `a`.
    fn until_live(&mut self) {
        self.until_monitor();
        let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"a"}}}}}}}}"#);
        let events = self.send(&format!(
            r#"{{"id":5,"result":[false,"{ZERO}",{contents}],"error":null}}"#
        ));
        assert!(matches!(events.unwrap()[..], [Event::Live(_)]));
    }

    /// Another connection of the same client.
    fn connect_again(&mut self) {
        let remote = Remote::Unix("x".into());
        let config = self.session.config.clone();
        self.session = Session::new(config, &remote, "patchbay_1".into(), self.now);
    }

    fn update3(&mut self, row_update: &str) -> Result<Vec<Event>, SessionError> {
        self.send(&format!(
            r#"{{"id":null,"method":"update3","params":["D","{ZERO}",{{"T":{{"{ROW}":{row_update}}}}}]}}"#
        ))
    }

    /// The names in the replica.
    fn names(&self) -> Vec<String> {
        let snapshot = self.known.replica.as_ref().unwrap().snapshot();
        let (id, table) = snapshot.schema().table_by_name("T").unwrap();
        let name = table.column_id("name").unwrap();
        snapshot
            .table(id)
            .iter()
            .map(|row| row.get(name).to_string())
            .collect()
    }
}

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
        [r#"{"method":"get_schema","params":["D"],"id":6}"#]
    );
    let schema = SCHEMA.replace("1.0.0", "1.0.1").replace("set", "later");
    scene
        .send(&format!(r#"{{"id":6,"result":{schema},"error":null}}"#))
        .unwrap();
    let contents = format!(r#"{{"T":{{"{ROW}":{{"initial":{{"name":"b","later":"c"}}}}}}}}"#);
    let events = scene
        .send(&format!(
            r#"{{"id":7,"result":[false,"{ZERO}",{contents}],"error":null}}"#
        ))
        .unwrap();
    assert!(matches!(events[..], [Event::Live(_)]));
    assert_eq!(scene.names(), ["b"]);
}

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
    scene.received();
    let mut first = filter(&mut scene, Filter::none());
    assert!(scene.session.change_filters(&mut scene.known).is_none());
    assert_eq!(
        scene.received(),
        [r#"{"method":"monitor_cond_change","params":["D","D",{"T":[{"where":[false]}]}],"id":6}"#]
    );
    let mut second = filter(&mut scene, Filter::all());
    assert!(scene.session.change_filters(&mut scene.known).is_none());
    assert!(scene.received().is_empty());

    scene.update3(r#"{"delete":null}"#).unwrap();
    assert!(scene.names().is_empty() && first.try_recv().is_err());
    let events = scene.send(r#"{"id":6,"result":{},"error":null}"#).unwrap();
    events.into_iter().for_each(reach);
    assert!(first.try_recv().unwrap().is_ok() && second.try_recv().is_err());

    assert!(scene.session.change_filters(&mut scene.known).is_none());
    assert_eq!(
        scene.received(),
        [r#"{"method":"monitor_cond_change","params":["D","D",{"T":[{"where":[]}]}],"id":7}"#]
    );
    let refused = r#"{"id":7,"error":{"error":"syntax error"}}"#;
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
fn echo_is_answered_in_every_state() {
    let mut scene = Scene::new();
    scene.received();
    let echo = r#"{"method":"echo","params":[{"a":1}],"id":["x"]}"#;
    scene.send(echo).unwrap();
    let answer = r#"{"result":[{"a":1}],"error":null,"id":["x"]}"#;
    assert_eq!(scene.received(), [answer]);
    scene.until_live();
    scene.received();
    scene.send(echo).unwrap();
    assert_eq!(scene.received(), [answer]);
    scene
        .send(r#"{"method":"wipe","params":[],"id":7}"#)
        .unwrap();
    assert_eq!(
        scene.received(),
        [r#"{"result":null,"error":"unknown method","id":7}"#]
    );
}

#[test]
fn a_server_that_asks_without_reading_is_left() {
    let mut scene = Scene::new();
    let echo = format!(
        r#"{{"method":"echo","params":["{}"],"id":1}}"#,
        "x".repeat(1 << 18)
    );
    assert!((0..3).all(|_| scene.send(&echo).is_ok()));
    scene.received();
    assert!((0..3).all(|_| scene.send(&echo).is_ok()));
    assert!(scene.send(&echo).is_err());
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
fn what_makes_no_sense_ends_the_session_and_leaves_the_replica() {
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
fn answers_that_make_no_sense_end_the_session() {
    let schema = format!(r#"{{"id":4,"result":{SCHEMA}}}"#);
    let list = format!(r#"{{"id":1,"result":{SERVER}}}"#);
    let no_server = r#"{"id":1,"error":"no"}"#.to_owned();
    for messages in [
        vec![r#"{"id":1,"result":[]}"#.to_owned()],
        vec![r#"{"id":1,"result":{}}"#.to_owned()],
        vec![format!(
            r#"{{"id":1,"result":{}}}"#,
            SERVER.replace("standalone", "other")
        )],
        vec![format!(
            r#"{{"id":1,"result":{}}}"#,
            SERVER.replace("true", "1")
        )],
        vec![no_server.clone(), r#"{"id":4,"result":{}}"#.to_owned()],
        vec![no_server.clone(), r#"{"id":4,"result":[1]}"#.to_owned()],
        vec![no_server.clone(), r#"{"id":4,"result":["E"]}"#.to_owned()],
        vec![no_server, r#"{"id":4,"error":"no"}"#.to_owned()],
        vec![r#"{"id":2,"result":{}}"#.to_owned()],
        vec![list.clone(), r#"{"id":4,"result":[]}"#.to_owned()],
        vec![list.clone(), r#"{"id":4,"result":{"name":"D"}}"#.to_owned()],
        vec![
            list.clone(),
            r#"{"id":4,"error":{"error":"unknown database"}}"#.to_owned(),
        ],
        vec![
            list.clone(),
            schema.clone(),
            r#"{"id":5,"result":{}}"#.to_owned(),
        ],
        vec![
            list.clone(),
            schema.clone(),
            r#"{"id":5,"result":[]}"#.to_owned(),
        ],
        vec![
            list.clone(),
            schema.clone(),
            r#"{"id":5,"result":[false,"0"]}"#.to_owned(),
        ],
        vec![
            list.clone(),
            schema.clone(),
            r#"{"id":5,"result":[true,"0",{}]}"#.to_owned(),
        ],
        vec![
            list,
            schema,
            r#"{"id":5,"result":[false,"0",{"X":{}}]}"#.to_owned(),
        ],
    ] {
        let mut scene = Scene::new();
        let (last, before) = messages.split_last().unwrap();
        assert!(
            before.iter().all(|message| scene.send(message).is_ok()),
            "{messages:?}"
        );
        assert!(scene.send(last).is_err(), "{messages:?}");
    }
}

#[test]
fn unknown_notifications_and_answers_to_probes_are_ignored() {
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

#[test]
fn a_silent_server_is_left_only_while_it_owes_an_answer() {
    let (first, minute) = (Duration::from_secs(10), Duration::from_secs(60));
    let mut scene = Scene::new();
    assert_eq!(scene.session.deadline(), Some(scene.now + first));
    assert!(scene.session.on_deadline(scene.now + first / 2).is_ok());
    let error = scene.session.on_deadline(scene.now + first).unwrap_err();
    assert_eq!(error.to_string(), "the server has been silent for 10s");
    scene
        .send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
        .unwrap();
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
fn a_server_that_talks_of_other_things_is_left_and_one_that_is_slow_is_not() {
    let minute = Duration::from_secs(60);
    let mut scene = Scene::new();
    scene
        .send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
        .unwrap();
    let start = scene.now;
    for half_minutes in 1..4 {
        scene.now = start + half_minutes * minute / 2;
        scene
            .send(r#"{"id":"echo","method":"echo","params":[]}"#)
            .unwrap();
        assert_eq!(
            scene.session.on_deadline(scene.now).is_ok(),
            half_minutes < 2
        );
    }
    // The same time with parts of a message.
    let mut scene = Scene::new();
    scene
        .send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
        .unwrap();
    let start = scene.now;
    scene.send(r#"{"id":4,"result":{"#).unwrap();
    for half_minutes in 1..9 {
        scene.now = start + half_minutes * minute / 2;
        scene.send(" ").unwrap();
        scene.session.on_deadline(scene.now).unwrap();
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

#[test]
fn endless_limits_are_none() {
    let remote: Remote = "tcp:127.0.0.1:1".parse().unwrap();
    let mut config = Config::new(remote.clone().into(), "D");
    config.connect_timeout = Duration::MAX;
    config.setup_timeout = Duration::MAX;
    config.probe_interval = Some(Duration::MAX);
    let mut scene = Scene::with(config, &remote);
    assert_eq!(scene.session.deadline(), None);
    scene
        .send(&format!(r#"{{"id":1,"result":{SERVER},"error":null}}"#))
        .unwrap();
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
    assert_eq!(
        scene.received(),
        [r#"{"method":"echo","params":[],"id":"echo"}"#]
    );
    assert!(scene.session.on_deadline(ten).is_err());
}

#[test]
fn a_message_over_the_limit_ends_the_session() {
    let remote = Remote::Unix("x".into());
    let mut config = Config::new(remote.clone().into(), "D");
    config.max_message = 100;
    let mut scene = Scene::with(config, &remote);
    let error = scene
        .send(&format!(r#"{{"id":1,"result":["{}"#, "x".repeat(100)))
        .unwrap_err();
    assert!(
        error.to_string().contains("longer than the limit"),
        "{error}"
    );
}
