//! Requests that crash the real ovsdb-server 3.1, with the replies of the simulator.

use ovsdb_sim::{Model, ServerRelease};
use patchbay_schemas::json::Json;

use crate::client::Client;
use crate::servers::start_sim;

const SCHEMA: &str = r#"{"name":"D","tables":{"T":{"columns":{"i":{"type":"integer"}}}}}"#;

/// Method, parameters and the reply without its id.
const REQUESTS: [(&str, &str, &str); 9] = [
    (
        "transact",
        r#"["D",{"op":"insert","table":"T","row":{"i":-5}},{"op":"mutate","table":"T","where":[],"mutations":[["i","*=",0]]},{"op":"select","table":"T","where":[],"columns":["i"]},{"op":"delete","table":"T","where":[["i","==",1]]},{"op":"abort"}]"#,
        r#""result":[{"uuid":"?"},{"count":1},{"rows":[{"i":0}]},{"count":0},{"details":"aborted by request","error":"aborted"}]"#,
    ),
    (
        "transact",
        r#"["D",{"op":"select","table":"T","where":[["i","true",1]]}]"#,
        r#""result":[{"details":"No function named true.","error":"unknown function"}]"#,
    ),
    (
        "monitor",
        r#"["D",1]"#,
        r#""error":{"details":"invalid parameters","error":"syntax error","syntax":"[\"D\",1]"}"#,
    ),
    (
        "monitor",
        r#"["D"]"#,
        r#""error":{"details":"invalid parameters","error":"syntax error","syntax":"[\"D\"]"}"#,
    ),
    ("monitor_cond", r#"["D","m",{"T":{"columns":["i"],"where":[false]}}]"#, r#""result":{}"#),
    ("monitor_cond_change", r#"["m","m",{"T":[{}]}]"#, r#""result":{}"#),
    (
        "monitor_cond_since",
        r#"["_Server","since _Server",{"Database":[]},"00000000-0000-4000-8000-000000000001"]"#,
        r#""result":[false,"00000000-0000-0000-0000-000000000000",{}]"#,
    ),
    (
        "convert",
        r#"["_Server",{"name":"_Server","tables":{"T":{"columns":{"i":{"type":"integer"}}}}}]"#,
        r#""error":{"details":"conversion is not allowed for read-only database _Server","error":"not allowed"}"#,
    ),
    (
        "convert",
        r#"["_Server"]"#,
        r#""error":{"details":"conversion is not allowed for read-only database _Server","error":"not allowed"}"#,
    ),
];

#[test]
fn requests_that_crash_the_real_server_get_a_reply() {
    let sim = start_sim(SCHEMA, Model::Standalone, ServerRelease::default());
    let mut client = Client::connect(sim.socket());
    for (method, params, expected) in REQUESTS {
        client.send(format!(r#"{{"id":0,"method":"{method}","params":{params}}}"#).as_bytes());
        client.barrier();
        client.read_to_barrier();
        let (received, _) = client.take_received();
        let mut replies: Vec<String> = received.iter().map(without_inserted).collect();
        let reply = replies.pop().unwrap_or_default();
        assert!(reply.contains(expected), "{method} {params}: {reply}");
        assert!(replies.is_empty(), "{replies:?}");
    }
}

/// A reply's text without the UUIDs of new rows.
fn without_inserted(reply: &Json) -> String {
    let mut reply = reply.clone();
    if let Json::Object(members) = &mut reply
        && let Some(Json::Array(results)) = members.get_mut(&b"result"[..])
    {
        for result in results {
            if let Json::Object(members) = result
                && let Some(uuid) = members.get_mut(&b"uuid"[..])
            {
                *uuid = Json::string("?");
            }
        }
    }
    reply.to_text()
}
