use patchbay_schemas::json::{Json, TextBuf};

use crate::client::outgoing::request_head;

use super::*;

fn reply(results: &str) -> TextBuf {
    TextBuf::parse(format!(r#"{{"id":1,"result":{results},"error":null}}"#).into_bytes()).unwrap()
}

fn text(request: &[u8]) -> String {
    String::from_utf8(request.to_vec()).unwrap()
}

const ROW: &str = "00000000-0000-4000-8000-000000000001";
const MARK: &str = "00000000-0000-4000-8000-00000000000a";

fn taking() -> Taking {
    Taking::begin(&Guard::new("T", "ids", "me"), "D", &CLIENT.into()).0
}

fn ask(taken: Taken) -> (Taking, String) {
    match taken {
        Taken::Ask(taking, request) => (taking, text(&request)),
        Taken::Held(held) => panic!("{held:?}"),
    }
}

fn held(taken: Taken) -> HeldGuard {
    match taken {
        Taken::Held(held) => held,
        Taken::Ask(taking, _) => panic!("{taking:?}"),
    }
}

const CLIENT: &str = "00000000-0000-4000-8000-0000000000c1";
const OTHER: &str = "00000000-0000-4000-8000-0000000000c2";

/// What a connection holds that finds these pairs besides the name in the row.
fn taken(pairs: &[(&str, &str)]) -> HeldGuard {
    let pair = |(key, value): &(&str, &str)| format!(r#",["{key}","{value}"]"#);
    let pairs: String = pairs.iter().map(pair).collect();
    let map = format!(r#"["map",[["patchbay-guard","me"],["patchbay-epoch","1"]{pairs}]]"#);
    let found = format!(r#"[{{"rows":[{{"_uuid":["uuid","{ROW}"],"ids":{map}}}]}}]"#);
    let (replacing, replace) = ask(taking().answered(&reply(&found)).unwrap());
    assert!(replace.contains(r#"["ids","includes",["map",[["patchbay-epoch","1"]]]]"#));
    let replaced = format!(r#"[{{}},{{"rows":[{{"ids":{map}}}]}},{{"count":1}}]"#);
    held(replacing.answered(&reply(&replaced)).unwrap())
}

/// What a connection holds that has made the row.
fn made() -> HeldGuard {
    let (taking, made) = ask(taking().answered(&reply(r#"[{"rows":[]}]"#)).unwrap());
    assert!(made.contains(r#""op":"insert""#) && made.contains(r#"["patchbay-guard","me"]"#));
    let inserted = format!(r#"[{{}},{{"uuid":["uuid","{ROW}"]}}]"#);
    held(taking.answered(&reply(&inserted)).unwrap())
}

/// The mark of a guarded request, and the request.
fn guarded(held: &mut HeldGuard) -> (Mark, String) {
    let mut request = request_head("transact");
    request.extend_from_slice(br#"["D",{"op":"comment","comment":"x"}]"#);
    let mut request = request.into();
    let mark = held.guard(&mut request);
    (mark, text(&request.text))
}

#[test]
fn who_was_faster_is_waited_for() {
    let map = r#"["map",[["patchbay-guard","me"],["patchbay-epoch","1"]]]"#;
    let found = format!(r#"[{{"rows":[{{"_uuid":["uuid","{ROW}"],"ids":{map}}}]}}]"#);
    let (again, _) = ask(taking().answered(&reply(&found)).unwrap());
    let timed_out = reply(r#"[{"error":"timed out"},null,null]"#);
    let (_, look) = ask(again.answered(&timed_out).unwrap());
    assert!(look.contains(r#""op":"select""#) && !look.contains("mutate"));
}

#[test]
fn the_row_tells_what_was_made_as_long_as_nobody_else_has_tidied_it_up() {
    for (at_first, mut first) in [
        (None, taken(&[])),
        (Some(MARK), taken(&[(CLEARED, MARK)])),
        (None, made()),
    ] {
        let (mark, _) = guarded(&mut first);
        let epoch = first.hold.epoch.clone();
        let at_first = at_first.or(first.hold.cleared.as_deref());
        let find = |with: &[(&str, &str)], cleared: Option<&str>| {
            let cleared = cleared.map(|cleared| (CLEARED, cleared));
            let pairs: Vec<_> = with.iter().copied().chain(cleared).collect();
            taken(&pairs).fate(&mark)
        };
        let own = [(mark.key.as_str(), CLIENT)];
        assert_eq!(find(&own, at_first), Fate::Made);
        assert_eq!(find(&own, Some(ROW)), Fate::Made);
        assert_eq!(find(&[], at_first), Fate::NotMade);
        // This client itself has removed others' marks.
        assert_eq!(find(&[], Some(&epoch)), Fate::NotMade);
        assert_eq!(find(&[], Some(ROW)), Fate::Unknown);
        // The row was deleted.
        assert_eq!(made().fate(&mark), Fate::Unknown);
    }
}

#[test]
fn only_own_marks_are_removed_at_once() {
    let mut held = taken(&[(MARK, CLIENT), (ROW, OTHER), (CLEARED, "before")]);
    let removed = |keys: &str| format!(r#"["ids","delete",["set",[{keys}]]]"#);
    let (first, request) = guarded(&mut held);
    assert!(request.contains(&removed(&format!(r#""{MARK}""#))));
    assert!(!request.contains(CLEARED));
    // Later, who has left marks does not come back.
    held.foreign_until = Instant::now();
    held.settle(first);
    let (_, request) = guarded(&mut held);
    let epoch = held.hold.epoch.clone();
    assert!(
        request.contains(&format!(r#""{ROW}","{CLEARED}"]]]"#)),
        "{request}"
    );
    assert!(request.contains(&format!(
        r#"["ids","insert",["map",[["{CLEARED}","{epoch}"]]]]"#
    )));
    let (_, request) = guarded(&mut held);
    assert!(
        !request.contains(CLEARED) && !request.contains("delete"),
        "{request}"
    );
}

#[test]
fn a_request_is_guarded_on_both_sides() {
    let (mark, request) = guarded(&mut made());
    let json = Json::parse(format!("{request}}}").as_bytes()).unwrap();
    let Some(Json::Array(params)) = json.get("params") else {
        panic!("{request}")
    };
    let names: Vec<_> = params[1..]
        .iter()
        .map(|operation| operation.get("op").and_then(Json::as_str).unwrap())
        .collect();
    assert_eq!(names, ["wait", "comment", "mutate"]);
    assert!(request.contains(&format!(
        r#"["ids","excludes",["map",[["{}","{CLIENT}"]]]]"#,
        mark.key
    )));
    assert!(request.contains(&format!(
        r#"["ids","insert",["map",[["{}","{CLIENT}"]]]]"#,
        mark.key
    )));
}

#[test]
fn what_makes_no_sense_is_an_error() {
    for results in [
        "{}",
        "[]",
        r#"[{"rows":5}]"#,
        r#"[{"rows":[{}]}]"#,
        r#"[{"rows":[{},{}]}]"#,
        r#"[{"error":"unknown table"}]"#,
    ] {
        assert!(taking().answered(&reply(results)).is_err(), "{results}");
    }
}
