//! Tests of the parser of YAML streams.

use std::fmt::Write;

use serde_json::json;

use super::*;

fn values(text: &str) -> Vec<(u32, u32, Value)> {
    parse_stream(text)
        .into_iter()
        .map(|document| {
            let node = document.content.map_err(|error| error.message).unwrap();
            (document.number, node.line, node.to_json())
        })
        .collect()
}

fn error(text: &str) -> (u32, u32, String) {
    let bad = parse_stream(text).into_iter().find_map(|document| match document.content {
        Ok(_) => None,
        Err(error) => Some((document.number, error.line, error.message)),
    });
    bad.unwrap()
}

#[test]
fn documents_are_numbered_and_lines_count_from_the_start_of_the_stream() {
    let text = "# heading\n---\na: 1\n---\n# nothing\n---\n\nb: [x,\n  z]\n";
    assert_eq!(values(text), [(1, 3, json!({"a": 1})), (3, 8, json!({"b": ["x", "z"]}))]);
    assert_eq!(
        values("a: 1\n---\nb: 2\n...\n# end\n"),
        [(1, 1, json!({"a": 1})), (2, 3, json!({"b": 2}))]
    );
    assert_eq!(
        values("a: 1\r\n---\r\nb: 2\r\n"),
        [(1, 1, json!({"a": 1})), (2, 3, json!({"b": 2}))]
    );
    assert!(values("").is_empty());
    assert!(values("---\n---\n~\n").is_empty());
}

#[test]
fn scalars_have_the_types_of_kubectl() {
    let text = "a: 2\nb: '2'\nc: yes\nd: 1.5\ne: 0a:58\nf: |\n  x\ng:\nh: 2026-01-01\n1: 12345678901234567890\n";
    assert_eq!(
        values(text)[0].2,
        json!({"a": 2, "b": "2", "c": true, "d": 1.5, "e": "0a:58", "f": "x\n", "g": null, "h": "2026-01-01",
               "1": 12_345_678_901_234_567_890_u64})
    );
}

#[test]
fn numbers_are_converted_as_by_kubectl() {
    let text = "a: 24.0\nb: 024\nc: +24\nd: 2.4e1\ne: 089\nf: -024\ng: 0x18\nh: 1e30\ni: 24.5\nj: 0\nk: '024'\n";
    assert_eq!(
        values(text)[0].2,
        json!({"a": 24, "b": 20, "c": 24, "d": 24, "e": 89, "f": -20, "g": 24, "h": 1e30, "i": 24.5, "j": 0,
               "k": "024"})
    );
}

#[test]
fn strings_that_look_like_numbers_are_written_in_quotes() {
    for text in ["024", "0_10", "-0_7", "0o_1", "0x_f", "00", "1_0", "24.0", "089", "+024"] {
        let written = serde_saphyr::to_string(&json!({"a": text})).unwrap();
        assert_eq!(values(&written)[0].2, json!({"a": text}), "{written}");
    }
}

#[test]
fn json_is_read() {
    assert_eq!(values("{\n\t\"a\": [1,\n\t\t2]\n}\n")[0].2, json!({"a": [1, 2]}));
}

#[test]
fn fields_have_lines() {
    let text = "a: 1\n---\nspec:\n  subnets:\n  - cidr: x\n  - cidr: y\nmetadata:\n  labels:\n    k8s.ovn.org/b: c\n";
    let documents = parse_stream(text);
    let Ok(node) = &documents[1].content else { panic!("not parsed") };
    for (path, line) in [
        ("spec", 3),
        ("spec.subnets[1].cidr", 6),
        ("spec.subnets[7].cidr", 4),
        ("spec.mtu", 3),
        ("metadata.labels[k8s.ovn.org/b]", 9),
        ("status", 3),
    ] {
        assert_eq!(node.line_of(path), line, "{path}");
    }
}

#[test]
fn a_syntax_error_has_a_line_and_hides_no_other_document() {
    assert_eq!(
        error("a: 1\n---\nb: c: d\n"),
        (2, 3, "mapping values are not allowed in this context".into())
    );
    assert_eq!(error("a: 1\na: 2\n"), (1, 2, "duplicate mapping key: a not allowed here".into()));
    assert_eq!(error("x: 1\n---\ny: *z\n").2, "reference to unknown value");
    assert_eq!(parse_stream("a: [\n---\nb: 1\n").len(), 2);
}

#[test]
fn the_expansion_of_aliases_is_limited() {
    let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
    for level in 1..9 {
        let items = vec![format!("*a{}", level - 1); 10].join(",");
        writeln!(bomb, "a{level}: &a{level} [{items}]").unwrap();
    }
    assert!(matches!(&parse_stream(&bomb)[..], [YamlDocument { content: Err(_), .. }]));
}
