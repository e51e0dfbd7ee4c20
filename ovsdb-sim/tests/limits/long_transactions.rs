//! Long transactions, whose operations are decoded before the request has ended.

use ovsdb_sim::Limits;
use patchbay_schemas::json::Json;

use crate::Bed;

/// Length in bytes of the operations of a request, which is several times that of one decoded part.
const OPERATIONS_BYTES: usize = 4 << 20;

fn inserts() -> Vec<String> {
    let text = "x".repeat(1000);
    let insert = |i| {
        format!(
            r#"{{"op":"insert","table":"A","uuid-name":"n{i}","row":{{"i":{i},"s":"{text}"}}}}"#
        )
    };
    (0..OPERATIONS_BYTES / 1000).map(insert).collect()
}

async fn count(bed: &Bed) -> usize {
    let select = r#"["D",{"op":"select","table":"A","where":[],"columns":["_uuid"]}]"#;
    let result = bed.client().await.call("transact", select).await.unwrap();
    let Json::Array(results) = result else { panic!("an array") };
    match results[0].get("rows") {
        Some(Json::Array(rows)) => rows.len(),
        _ => panic!("rows"),
    }
}

#[tokio::test]
async fn a_request_that_breaks_off_or_ends_differently_has_no_effect() {
    let bed = Bed::new(Limits::default()).await;
    let inserts = inserts().join(",");
    for end in [
        "",
        ",}",
        r#"],"id":1,"method":"echo"}"#,
        r#"],"id":1,"params":["D"]}"#,
        r#"],"id":1,"result":1}"#,
        "]}",
    ] {
        let mut client = bed.client().await;
        client
            .send(format!(r#"{{"method":"transact","params":["D",{inserts}{end}"#).as_bytes())
            .await;
        tokio::io::AsyncWriteExt::shutdown(&mut client.stream).await.unwrap_or_default();
        assert!(client.next().await.is_none(), "no answer to {end}");
        assert_eq!(count(&bed).await, 0, "{end}");
    }
}

#[tokio::test]
async fn a_request_with_an_invalid_operation_has_results_and_no_effect() {
    let bed = Bed::new(Limits::default()).await;
    for broken in [0, 1, 1500, OPERATIONS_BYTES / 1000] {
        let mut operations = inserts();
        operations.insert(
            broken,
            r#"{"op":"insert","table":"A","uuid-name":"n0","row":{"b":1}}"#.to_owned(),
        );
        let params = format!(r#"["D",{}]"#, operations.join(","));
        let result = bed.client().await.call("transact", &params).await.unwrap();
        let Json::Array(results) = result else { panic!("an array") };
        assert_eq!(results.len(), operations.len());
        let error = results[broken].get("error").and_then(Json::as_str);
        let expected = if broken == 0 { "unknown column" } else { "duplicate uuid-name" };
        assert_eq!(error, Some(expected), "{broken}");
        assert!(results[..broken].iter().all(|result| result.get("uuid").is_some()));
        assert!(results[broken + 1..].iter().all(|result| *result == Json::Null));
        assert_eq!(count(&bed).await, 0);
    }
    let params = format!(r#"["D",{}]"#, inserts().join(","));
    bed.client().await.call("transact", &params).await.unwrap();
    assert_eq!(count(&bed).await, inserts().len());
}
