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

fn acquisition() -> GuardAcquisition {
    GuardAcquisition::begin(&Guard::new("T", "ids", "me"), "D", &CLIENT.into()).0
}

fn ask(taken: AcquisitionProgress) -> (GuardAcquisition, String) {
    match taken {
        AcquisitionProgress::Request(acquisition, request) => (acquisition, text(&request)),
        AcquisitionProgress::Acquired(held) => panic!("{held:?}"),
    }
}

fn held(taken: AcquisitionProgress) -> HeldGuard {
    match taken {
        AcquisitionProgress::Acquired(held) => held,
        AcquisitionProgress::Request(acquisition, _) => panic!("{acquisition:?}"),
    }
}

const CLIENT: &str = "00000000-0000-4000-8000-0000000000c1";
const OTHER: &str = "00000000-0000-4000-8000-0000000000c2";

/// The guard of a connection that finds these pairs, besides the name, in the row.
fn acquired(pairs: &[(&str, &str)]) -> HeldGuard {
    let pair = |(key, value): &(&str, &str)| format!(r#",["{key}","{value}"]"#);
    let pairs: String = pairs.iter().map(pair).collect();
    let map = format!(r#"["map",[["patchbay-guard","me"],["patchbay-epoch","1"]{pairs}]]"#);
    let found = format!(r#"[{{"rows":[{{"_uuid":["uuid","{ROW}"],"ids":{map}}}]}}]"#);
    let (replacing, replace) = ask(acquisition().handle_reply(&reply(&found)).unwrap());
    assert!(replace.contains(r#"["ids","includes",["map",[["patchbay-epoch","1"]]]]"#));
    let replaced = format!(r#"[{{}},{{"rows":[{{"ids":{map}}}]}},{{"count":1}}]"#);
    held(replacing.handle_reply(&reply(&replaced)).unwrap())
}

/// The guard of a connection that has inserted the row.
fn made() -> HeldGuard {
    let (acquisition, made) = ask(acquisition().handle_reply(&reply(r#"[{"rows":[]}]"#)).unwrap());
    assert!(made.contains(r#""op":"insert""#) && made.contains(r#"["patchbay-guard","me"]"#));
    let inserted = format!(r#"[{{}},{{"uuid":["uuid","{ROW}"]}}]"#);
    held(acquisition.handle_reply(&reply(&inserted)).unwrap())
}

/// Guards a request. Returns its mark and its text.
fn guarded(held: &mut HeldGuard) -> (TransactionMark, String) {
    let mut request = request_head("transact");
    request.extend_from_slice(br#"["D",{"op":"comment","comment":"x"}]"#);
    let mut request = request.into();
    let mark = held.guard_request(&mut request);
    (mark, text(&request.text))
}

#[test]
fn a_conflict_starts_the_acquisition_again() {
    let map = r#"["map",[["patchbay-guard","me"],["patchbay-epoch","1"]]]"#;
    let found = format!(r#"[{{"rows":[{{"_uuid":["uuid","{ROW}"],"ids":{map}}}]}}]"#);
    let (again, _) = ask(acquisition().handle_reply(&reply(&found)).unwrap());
    let timed_out = reply(r#"[{"error":"timed out"},null,null]"#);
    let (_, look) = ask(again.handle_reply(&timed_out).unwrap());
    assert!(look.contains(r#""op":"select""#) && !look.contains("mutate"));
}

#[test]
fn the_status_is_known_unless_another_client_has_removed_marks() {
    for (at_first, mut first) in
        [(None, acquired(&[])), (Some(MARK), acquired(&[(CLEARED_KEY, MARK)])), (None, made())]
    {
        let (mark, _) = guarded(&mut first);
        let epoch = first.epoch.id.clone();
        let at_first = at_first.or(first.epoch.cleared.as_deref());
        let find = |with: &[(&str, &str)], cleared: Option<&str>| {
            let cleared = cleared.map(|cleared| (CLEARED_KEY, cleared));
            let pairs: Vec<_> = with.iter().copied().chain(cleared).collect();
            acquired(&pairs).execution_status(&mark)
        };
        let own = [(mark.key.as_str(), CLIENT)];
        assert_eq!(find(&own, at_first), ExecutionStatus::Executed);
        assert_eq!(find(&own, Some(ROW)), ExecutionStatus::Executed);
        assert_eq!(find(&[], at_first), ExecutionStatus::NotExecuted);
        // This client has removed the foreign marks.
        assert_eq!(find(&[], Some(&epoch)), ExecutionStatus::NotExecuted);
        assert_eq!(find(&[], Some(ROW)), ExecutionStatus::Unknown);
        // The row was deleted.
        assert_eq!(made().execution_status(&mark), ExecutionStatus::Unknown);
    }
}

#[test]
fn foreign_marks_are_removed_after_the_retention_time() {
    let mut held = acquired(&[(MARK, CLIENT), (ROW, OTHER), (CLEARED_KEY, "before")]);
    let removed = |keys: &str| format!(r#"["ids","delete",["set",[{keys}]]]"#);
    let (first, request) = guarded(&mut held);
    assert!(request.contains(&removed(&format!(r#""{MARK}""#))));
    assert!(!request.contains(CLEARED_KEY));
    // After the retention time, foreign marks are removed.
    held.foreign_marks_expiry = Instant::now();
    held.release_mark(first);
    let (_, request) = guarded(&mut held);
    let epoch = held.epoch.id.clone();
    assert!(request.contains(&format!(r#""{ROW}","{CLEARED_KEY}"]]]"#)), "{request}");
    assert!(
        request.contains(&format!(r#"["ids","insert",["map",[["{CLEARED_KEY}","{epoch}"]]]]"#))
    );
    let (_, request) = guarded(&mut held);
    assert!(!request.contains(CLEARED_KEY) && !request.contains("delete"), "{request}");
}

#[test]
fn a_request_begins_with_a_wait_and_ends_with_a_mark() {
    let (mark, request) = guarded(&mut made());
    let json = Json::parse(format!("{request}}}").as_bytes()).unwrap();
    let Some(Json::Array(params)) = json.get("params") else { panic!("{request}") };
    let names: Vec<_> = params[1..]
        .iter()
        .map(|operation| operation.get("op").and_then(Json::as_str).unwrap())
        .collect();
    assert_eq!(names, ["wait", "comment", "mutate"]);
    assert!(
        request.contains(&format!(r#"["ids","excludes",["map",[["{}","{CLIENT}"]]]]"#, mark.key))
    );
    assert!(
        request.contains(&format!(r#"["ids","insert",["map",[["{}","{CLIENT}"]]]]"#, mark.key))
    );
}

#[test]
fn malformed_replies_are_errors() {
    for results in [
        "{}",
        "[]",
        r#"[{"rows":5}]"#,
        r#"[{"rows":[{}]}]"#,
        r#"[{"rows":[{},{}]}]"#,
        r#"[{"error":"unknown table"}]"#,
    ] {
        assert!(acquisition().handle_reply(&reply(results)).is_err(), "{results}");
    }
}
