//! Parsing of column types.

use std::sync::Arc;

use crate::atom::{Atom, AtomType, parse_uuid};
use crate::datum::Set;
use crate::error::OvsdbError;
use crate::json::Json;
use crate::utf8::utf8;

use super::{BaseType, ColumnType, Constraint, Members, RefType, Reference, TableId, is_id};

impl ColumnType {
    /// Parses a `<type>`.
    pub(super) fn from_json(json: &Json) -> Result<Self, OvsdbError> {
        if json.is_string() {
            return Ok(Self { key: BaseType::from_json(json)?, value: None, min: 1, max: 1 });
        }
        let mut members = Members::new(json, "ovsdb type");
        let key = members.required("key", is_type);
        let value = members.optional("value", is_type);
        let min = members.optional("min", Json::is_integer);
        let max = members.optional("max", |json| json.is_integer() || json.is_string());
        members.finish()?;
        let key = BaseType::from_json(key.unwrap_or(&Json::Null))?;
        let value = value.map(BaseType::from_json).transpose()?;
        let min = count(min)?;
        let max = match max {
            Some(Json::String(text)) if text == b"unlimited" => Self::UNLIMITED,
            max => count(max)?,
        };
        if min > 1 || max < 1 {
            return Err(OvsdbError::syntax(json, "ovsdb type fails constraint checks"));
        }
        Ok(Self { key, value, min, max })
    }
}

/// Parses `min` or `max`, which is 1 if absent.
fn count(json: Option<&Json>) -> Result<u32, OvsdbError> {
    match json {
        None => Ok(1),
        Some(Json::Integer(count)) if (0..i64::from(u32::MAX)).contains(count) => Ok(*count as u32),
        Some(json) => Err(OvsdbError::syntax(json, "bad min or max value")),
    }
}

impl BaseType {
    /// Parses a `<base-type>`.
    fn from_json(json: &Json) -> Result<Self, OvsdbError> {
        if json.is_string() {
            return Ok(Self::unconstrained(atom_type(json)?));
        }
        let mut members = Members::new(json, "ovsdb type");
        let Some(ty) = members.required("type", Json::is_string) else {
            return Err(members
                .finish()
                .err()
                .unwrap_or_else(|| OvsdbError::syntax(json, "type expected")));
        };
        let atom = atom_type(ty)?;
        let constraint = if let Some(allowed) = members.optional("enum", |_| true) {
            enum_from_json(atom, allowed)?
        } else {
            match atom {
                AtomType::Integer => integer_range(json, &mut members)?,
                AtomType::Real => real_range(json, &mut members)?,
                AtomType::Boolean => Constraint::None,
                AtomType::String => length_range(json, &mut members)?,
                AtomType::Uuid => reference(json, &mut members)?,
            }
        };
        members.finish()?;
        Ok(Self { atom, constraint })
    }
}

/// Parses an `enum`: a `<set>` of at least one atom.
fn enum_from_json(ty: AtomType, json: &Json) -> Result<Constraint, OvsdbError> {
    let elements = match json {
        Json::Array(pair) => match &pair[..] {
            [Json::String(tag), Json::Array(elements)] if tag == b"set" => &elements[..],
            [Json::String(tag), ..] if tag == b"set" => {
                return Err(OvsdbError::syntax(json, "expected [\"set\", <array>]"));
            }
            _ => std::slice::from_ref(json),
        },
        json => std::slice::from_ref(json),
    };
    if elements.is_empty() {
        let max = u32::MAX;
        return Err(OvsdbError::syntax(
            json,
            format!("set must have 1 to {max} members but 0 are present"),
        ));
    }
    let mut atoms =
        elements.iter().map(|element| enum_atom(ty, element)).collect::<Result<_, _>>()?;
    Set::from_distinct(&mut atoms)
        .map(Constraint::Enum)
        .ok_or_else(|| OvsdbError::new("ovsdb error", "set contains duplicate"))
}

/// Parses an atom of an `enum`.
fn enum_atom(ty: AtomType, json: &Json) -> Result<Atom, OvsdbError> {
    match (ty, json) {
        (AtomType::Integer, Json::Integer(value)) => Ok(Atom::from(*value)),
        (AtomType::Real, Json::Integer(value)) => Ok(Atom::from(*value as f64)),
        (AtomType::Real, Json::Real(value)) => Ok(Atom::from(*value)),
        (AtomType::Boolean, Json::Bool(value)) => Ok(Atom::from(*value)),
        (AtomType::String, Json::String(text)) => utf8(text).map(Atom::from),
        (AtomType::Uuid, json) => {
            let text = match json {
                Json::Array(pair) => match &pair[..] {
                    [Json::String(tag), Json::String(text)] if tag == b"uuid" => Some(text),
                    _ => None,
                },
                _ => None,
            };
            let text =
                text.ok_or_else(|| OvsdbError::syntax(json, "expected [\"uuid\", <string>]"))?;
            parse_uuid(text).map(Atom::from).ok_or_else(|| {
                let text = String::from_utf8_lossy(text);
                OvsdbError::syntax(json, format!("\"{text}\" is not a valid UUID"))
            })
        }
        _ => Err(OvsdbError::syntax(json, format!("expected {}", ty.name()))),
    }
}

/// Parses `minInteger` and `maxInteger`.
fn integer_range(json: &Json, members: &mut Members<'_>) -> Result<Constraint, OvsdbError> {
    let mut bound = |name, default| match members.optional(name, Json::is_integer) {
        Some(Json::Integer(value)) => *value,
        _ => default,
    };
    match (bound("minInteger", i64::MIN), bound("maxInteger", i64::MAX)) {
        (i64::MIN, i64::MAX) => Ok(Constraint::None),
        (min, max) if min > max => Err(OvsdbError::syntax(json, "minInteger exceeds maxInteger")),
        (min, max) => Ok(Constraint::Integer(min, max)),
    }
}

/// Parses `minReal` and `maxReal`.
fn real_range(json: &Json, members: &mut Members<'_>) -> Result<Constraint, OvsdbError> {
    let mut bound = |name, default| match members.optional(name, Json::is_number) {
        Some(Json::Integer(value)) => *value as f64,
        Some(Json::Real(value)) => *value,
        _ => default,
    };
    match (bound("minReal", -f64::MAX), bound("maxReal", f64::MAX)) {
        (min, max) if min > max => Err(OvsdbError::syntax(json, "minReal exceeds maxReal")),
        (min, max) if min <= -f64::MAX && max >= f64::MAX => Ok(Constraint::None),
        (min, max) => Ok(Constraint::Real(min, max)),
    }
}

/// Parses `minLength` and `maxLength`.
fn length_range(json: &Json, members: &mut Members<'_>) -> Result<Constraint, OvsdbError> {
    let mut bound = |name, default| match members.optional(name, Json::is_integer) {
        Some(value @ Json::Integer(length)) => u32::try_from(*length).map_err(|_| {
            OvsdbError::syntax(value, format!("{name} out of valid range 0 to {}", u32::MAX))
        }),
        _ => Ok(default),
    };
    match (bound("minLength", 0)?, bound("maxLength", u32::MAX)?) {
        (0, u32::MAX) => Ok(Constraint::None),
        (min, max) if min > max => Err(OvsdbError::syntax(json, "minLength exceeds maxLength")),
        (min, max) => Ok(Constraint::Length(min, max)),
    }
}

/// Parses `refTable` and `refType`.
fn reference(json: &Json, members: &mut Members<'_>) -> Result<Constraint, OvsdbError> {
    let Some(table) = members.optional("refTable", is_id_string) else {
        return Ok(Constraint::None);
    };
    let ref_type = match members.optional("refType", is_id_string).and_then(Json::as_str) {
        None | Some("strong") => RefType::Strong,
        Some("weak") => RefType::Weak,
        Some(other) => {
            let details = format!("refType must be \"strong\" or \"weak\" (not \"{other}\")");
            return Err(OvsdbError::syntax(json, details));
        }
    };
    let table_name = Arc::from(table.as_str().unwrap_or_default());
    Ok(Constraint::Reference(Reference { table_name, table: TableId(0), ref_type }))
}

/// Parses an `<atomic-type>`.
fn atom_type(json: &Json) -> Result<AtomType, OvsdbError> {
    let Some(name) = json.as_str() else {
        return Err(OvsdbError::syntax(json, "atomic-type expected"));
    };
    AtomType::from_name(name)
        .ok_or_else(|| OvsdbError::syntax(json, format!("\"{name}\" is not an atomic-type")))
}

/// `true` for strings that are an `<id>`.
pub(super) fn is_id_string(json: &Json) -> bool {
    json.as_str().is_some_and(is_id)
}

/// `true` for values that may be a type.
pub(super) fn is_type(json: &Json) -> bool {
    json.is_string() || json.is_object()
}
