//! Schema with columns of all kinds, and transactions with all kinds of changes.

use std::path::{Path, PathBuf};

use super::servers::transact;

/// The schema of database D.
pub(crate) const SCHEMA: &str = r#"{"name":"D","version":"1.2.3","cksum":"12 34","tables":{
    "Parent":{"isRoot":true,"indexes":[["name"],["number","flag"]],"columns":{
        "name":{"type":"string"},
        "number":{"type":"integer"},
        "real":{"type":"real"},
        "flag":{"type":"boolean"},
        "id":{"type":"uuid"},
        "ephemeral":{"type":"string","ephemeral":true},
        "fixed":{"type":"string","mutable":false},
        "maybe":{"type":{"key":"integer","min":0}},
        "range":{"type":{"key":{"type":"integer","minInteger":-5,"maxInteger":5}}},
        "kind":{"type":{"key":{"type":"string","enum":["set",["","one","two"]]}}},
        "few":{"type":{"key":"integer","min":0,"max":3}},
        "some":{"type":{"key":"integer","min":1,"max":"unlimited"}},
        "strings":{"type":{"key":"string","min":0,"max":"unlimited"}},
        "reals":{"type":{"key":"real","min":0,"max":"unlimited"}},
        "booleans":{"type":{"key":"boolean","min":0,"max":"unlimited"}},
        "ids":{"type":{"key":"uuid","min":0,"max":"unlimited"}},
        "map":{"type":{"key":"string","value":"string","min":0,"max":"unlimited"}},
        "pair":{"type":{"key":"string","value":"integer","min":0,"max":1}},
        "children":{"type":{"key":{"type":"uuid","refTable":"Child"},"min":0,"max":"unlimited"}},
        "named":{"type":{"key":"string","value":{"type":"uuid","refTable":"Child"},"min":0,"max":"unlimited"}},
        "friends":{"type":{"key":{"type":"uuid","refTable":"Parent","refType":"weak"},"min":0,"max":"unlimited"}}}},
    "Child":{"columns":{
        "name":{"type":"string"},
        "ephemeral":{"type":"integer","ephemeral":true},
        "children":{"type":{"key":{"type":"uuid","refTable":"Child"},"min":0,"max":"unlimited"}}}}}}"#;

/// Operations, one transaction each. Rows have given UUIDs, so that they are equal on two servers.
pub(crate) const STEPS: &[&str] = &[
    r#"{"op":"insert","table":"Parent","uuid":"00000000-0000-0000-0000-00000000000a","row":{"name":"a","ephemeral":"lost","fixed":"f"}},
       {"op":"comment","comment":"first"},{"op":"comment","comment":"and \"second\""}"#,
    r#"{"op":"insert","table":"Parent","uuid":"00000000-0000-0000-0000-00000000000b","row":{"name":"b","number":-9223372036854775808,
        "real":-1.5e300,"flag":true,"id":["uuid","ffffffff-0000-0000-0000-000000000000"],"maybe":7,"range":-5,"kind":"two",
        "few":["set",[3,1,2]],"some":["set",[4,5]],"strings":["set",["","ä\u0001\"\\\n","日本語","😀"]],"reals":["set",[0.5,1,1e-7]],
        "booleans":["set",[true,false]],"ids":["uuid","00000000-0000-0000-0000-000000000001"],
        "map":["map",[["k","v"],["","é"]]],"pair":["map",[["p",1]]]}},{"op":"commit","durable":true}"#,
    // No change, which has no record in a file.
    r#"{"op":"comment","comment":"nothing"}"#,
    r#"{"op":"insert","table":"Child","uuid":"00000000-0000-0000-0000-0000000000ff","row":{"name":"orphan"}}"#,
    r#"{"op":"update","table":"Parent","where":[],"row":{"ephemeral":"only this"}},{"op":"comment","comment":"forgotten"}"#,
    // Children, of a parent and of children.
    r#"{"op":"insert","table":"Child","uuid":"00000000-0000-0000-0000-0000000000c1","row":{"name":"c1","ephemeral":5,
        "children":["uuid","00000000-0000-0000-0000-0000000000c2"]}},
       {"op":"insert","table":"Child","uuid":"00000000-0000-0000-0000-0000000000c2","row":{"name":"c2"}},
       {"op":"insert","table":"Child","uuid":"00000000-0000-0000-0000-0000000000c3","row":{}},
       {"op":"mutate","table":"Parent","where":[["name","==","a"]],"mutations":[
        ["children","insert",["set",[["uuid","00000000-0000-0000-0000-0000000000c1"],["uuid","00000000-0000-0000-0000-0000000000c3"]]]],
        ["named","insert",["map",[["third",["uuid","00000000-0000-0000-0000-0000000000c3"]]]]],
        ["friends","insert",["set",[["uuid","00000000-0000-0000-0000-00000000000a"],["uuid","00000000-0000-0000-0000-00000000000b"]]]]]}"#,
    // Differences of everything.
    r#"{"op":"update","table":"Parent","where":[["name","==","b"]],"row":{"number":1,"real":0.25,"flag":false,
        "id":["uuid","00000000-0000-0000-0000-000000000000"],"maybe":["set",[]],"range":5,"kind":"","few":["set",[2,9]],
        "some":["set",[5,6,7]],"strings":["set",["😀","x"]],"reals":["set",[1,2]],"booleans":true,
        "ids":["set",[["uuid","00000000-0000-0000-0000-000000000002"],["uuid","00000000-0000-0000-0000-000000000001"]]],
        "map":["map",[["k","changed"],["new","n"]]],"pair":["map",[["q",2]]],"ephemeral":"too"}},{"op":"comment","comment":"差"}"#,
    // Clears and sets again.
    r#"{"op":"update","table":"Parent","where":[["name","==","b"]],"row":{"strings":["set",[]],"map":["map",[]],"pair":["map",[]],"few":["set",[]]}}"#,
    r#"{"op":"update","table":"Parent","where":[["name","==","b"]],"row":{"strings":["set",["y","z"]],"map":["map",[["k","v"]]],"few":4}}"#,
    // A long set, changed in one element.
    r#"{"op":"update","table":"Parent","where":[["name","==","b"]],"row":{"some":["set",[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,
        19,20,21,22,23,24,25,26,27,28,29,30,31,32,33,34,35,36,37,38,39,40]]}}"#,
    r#"{"op":"mutate","table":"Parent","where":[["name","==","b"]],"mutations":[["some","delete",20],["some","insert",41]]}"#,
    // A failure, and a deletion that removes a weak reference and children.
    r#"{"op":"insert","table":"Parent","row":{"name":"a"}}"#,
    r#"{"op":"insert","table":"Parent","uuid":"00000000-0000-0000-0000-00000000000d","row":{"name":"d","number":3}}"#,
    r#"{"op":"delete","table":"Parent","where":[["name","==","b"]]}"#,
    r#"{"op":"mutate","table":"Parent","where":[["name","==","a"]],"mutations":[["children","delete",["uuid","00000000-0000-0000-0000-0000000000c1"]]]}"#,
    // A new row with the UUID of a deleted one.
    r#"{"op":"insert","table":"Parent","uuid":"00000000-0000-0000-0000-00000000000b","row":{"name":"b again","number":2,
        "children":["uuid","00000000-0000-0000-0000-0000000000c3"]}}"#,
];

/// Executes the steps and returns the replies.
pub(crate) fn execute(socket: &Path) -> Vec<String> {
    STEPS.iter().map(|step| transact(socket, step)).collect()
}

/// The schema in a file.
pub(crate) fn schema_file(folder: &Path) -> PathBuf {
    let file = folder.join("d.ovsschema");
    std::fs::write(&file, SCHEMA).unwrap();
    file
}
