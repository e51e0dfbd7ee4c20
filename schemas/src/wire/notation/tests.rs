use super::*;
use crate::json::TextBuf;
use crate::uuids::UuidSource;

fn decode(value: &str, ty: &ColumnType) -> Result<Datum, OvsdbError> {
    let bytes = [b"[", value.as_bytes(), b"]"].concat();
    let text = TextBuf::parse(bytes).unwrap();
    let mut reader = Reader::new(text.as_text());
    reader.enter_array();
    reader.next_element();
    NotationReader::new(&mut StringCache::default()).datum(&mut reader, ty)
}

fn set_of(atom: AtomType, min: u32, max: u32) -> ColumnType {
    ColumnType { key: BaseType::unconstrained(atom), value: None, min, max }
}

#[test]
fn values_round_trip() {
    let map = ColumnType {
        value: Some(BaseType::unconstrained(AtomType::Integer)),
        ..set_of(AtomType::String, 0, u32::MAX)
    };
    for (value, canonical, ty) in [
        ("1.0", "1", set_of(AtomType::Integer, 1, 1)),
        (r#"["set",["a"]]"#, r#""a""#, set_of(AtomType::String, 1, 1)),
        (r#"["set",["b","a"]]"#, r#"["set",["a","b"]]"#, set_of(AtomType::String, 0, u32::MAX)),
        (r#"["set",[]]"#, r#"["set",[]]"#, set_of(AtomType::Real, 0, 1)),
        (r#"["map",[["k",1e1]]]"#, r#"["map",[["k",10]]]"#, map),
    ] {
        let mut out = Vec::new();
        decode(value, &ty).unwrap().write_json(&mut out);
        assert_eq!(String::from_utf8(out).unwrap(), canonical);
    }
}

#[test]
fn errors_are_worded_like_those_of_ovsdb_server() {
    let int = set_of(AtomType::Integer, 1, 1);
    let strings = set_of(AtomType::String, 0, 2);
    let uuid = set_of(AtomType::Uuid, 1, 1);
    for (value, ty, error) in [
        ("\"x\"", &int, "syntax error: expected integer (in \"x\")"),
        ("1.5", &int, "syntax error: expected integer (in 1.5)"),
        ("9223372036854775808", &int, "syntax error: expected integer (in 9.22337203685478e+18)"),
        (
            r#"["set",[1,2]]"#,
            &int,
            "syntax error: set must have exactly one member but 2 are present (in [\"set\",[1,2]])",
        ),
        (
            r#"["set",["a","b","c"]]"#,
            &strings,
            "syntax error: set must have 0 to 2 members but 3 are present (in [\"set\",[\"a\",\"b\",\"c\"]])",
        ),
        (r#"["set",["a","a"]]"#, &strings, "ovsdb error: set contains duplicate"),
        (r#"["set"]"#, &strings, "syntax error: expected [\"set\", <array>] (in [\"set\"])"),
        (r#"["zet",[]]"#, &strings, "syntax error: expected string (in [\"zet\",[]])"),
        (r#"["uuid","x"]"#, &uuid, "syntax error: \"x\" is not a valid UUID (in [\"uuid\",\"x\"])"),
        (
            r#"["named-uuid","x"]"#,
            &uuid,
            "syntax error: expected [\"uuid\", <string>] (in [\"named-uuid\",\"x\"])",
        ),
    ] {
        assert_eq!(decode(value, ty).unwrap_err().to_string(), error);
    }
}

#[test]
fn references_are_equal_however_they_are_written() {
    let ty = set_of(AtomType::Uuid, 1, 1);
    let mut uuids = UuidSource::seeded(1);
    let mut names = NamedUuids::new(&mut uuids);
    let mut read = |value: &str| {
        let text = TextBuf::parse(value.as_bytes().to_vec()).unwrap();
        let mut strings = StringCache::default();
        let mut reader = Reader::new(text.as_text());
        let outcome = NotationReader::with_named_uuids(&mut strings, &mut names)
            .datum(&mut reader, &ty)
            .map_err(|error| error.to_string());
        outcome.map(|datum| (datum, reader.position() == value.len()))
    };
    for (tag, text, is_valid) in [
        ("uuid", "550e8400-e29b-41d4-a716-446655440000", true),
        ("uuid", "550E8400-E29B-41D4-A716-446655440000", true),
        ("uuid", "550e8400e29b41d4a716446655440000", false),
        ("uuid", "", false),
        ("named-uuid", "row1", true),
        ("named-uuid", "1row", false),
        ("named-uuid", "", false),
        ("named-uuid", "\u{e9}", false),
        ("name", "row1", false),
    ] {
        let compact = read(&format!(r#"["{tag}","{text}"]"#));
        assert_eq!(compact.is_ok(), is_valid, "{tag} {text}");
        let first = text.chars().next().map_or(0, u32::from);
        let rest: String = text.chars().skip(1).collect();
        let escaped = if text.is_empty() { String::new() } else { format!("\\u{first:04x}{rest}") };
        for other in [format!(r#"[ "{tag}" , "{text}" ]"#), format!(r#"["{tag}","{escaped}"]"#)] {
            assert_eq!(read(&other), compact, "{other}");
        }
    }
    let longer = read(r#"["uuid","550e8400-e29b-41d4-a716-446655440000",1]"#);
    assert!(longer.is_err());
}

#[test]
fn the_allowed_values_are_checked_before_the_encoding() {
    let allowed = [Atom::from(""), Atom::from("a")].into_iter().collect();
    let enumerated = ColumnType {
        key: BaseType { atom: AtomType::String, constraint: Constraint::Enum(allowed) },
        value: None,
        min: 0,
        max: 1,
    };
    let strings = set_of(AtomType::String, 0, 1);
    let invalid = r#""\udc00""#;
    let words = |ty| decode(invalid, ty).unwrap_err().to_string();
    let not_allowed = "constraint violation: \"\u{fffd}\u{fffd}\u{fffd}\" is not one of the allowed values ([\"\", a])";
    assert_eq!(words(&enumerated), not_allowed);
    let not_utf8 =
        "constraint violation: not a valid UTF-8 string: invalid UTF-8 sequence 0xed 0xb0";
    assert_eq!(words(&strings), not_utf8);
}
