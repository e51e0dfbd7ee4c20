//! Schemas as JSON, in the normalised form of `get_schema`.

use crate::atom::Atom;
use crate::json::Json;

use super::{BaseType, ColumnSchema, ColumnType, Constraint, DatabaseSchema, RefType, TableSchema};

/// Returns an object with these members.
fn object(members: Vec<(&'static str, Json)>) -> Json {
    Json::Object(
        members
            .into_iter()
            .map(|(name, value)| (name.as_bytes().to_vec(), value))
            .collect(),
    )
}

impl DatabaseSchema {
    /// Returns the result of `get_schema`. Members with default values are omitted.
    pub fn to_json(&self) -> Json {
        let all_root = self.tables.iter().all(|table| table.is_root);
        let tables = self
            .tables
            .iter()
            .map(|t| (t.name.as_bytes().to_vec(), t.to_json(all_root)))
            .collect();
        let mut members: Vec<(&str, Json)> = vec![
            ("name", Json::string(&self.name)),
            ("tables", Json::Object(tables)),
        ];
        if !self.version.is_empty() {
            members.push(("version", Json::string(&self.version)));
        }
        if !self.cksum.is_empty() {
            members.push(("cksum", Json::string(&self.cksum)));
        }
        object(members)
    }
}

impl TableSchema {
    fn to_json(&self, all_root: bool) -> Json {
        let columns = self
            .columns
            .iter()
            .map(|c| (c.name.as_bytes().to_vec(), c.to_json()))
            .collect();
        let mut members: Vec<(&str, Json)> = vec![("columns", Json::Object(columns))];
        if !self.mutable {
            members.push(("mutable", Json::Bool(false)));
        }
        if self.max_rows != u32::MAX {
            members.push(("maxRows", Json::Integer(self.max_rows.into())));
        }
        if self.is_root && !all_root {
            members.push(("isRoot", Json::Bool(true)));
        }
        if !self.indexes.is_empty() {
            let names = |index: &Vec<_>| {
                index
                    .iter()
                    .map(|c| Json::string(self.column_name(*c)))
                    .collect()
            };
            let indexes = self
                .indexes
                .iter()
                .map(|index| Json::Array(names(index)))
                .collect();
            members.push(("indexes", Json::Array(indexes)));
        }
        object(members)
    }
}

impl ColumnSchema {
    fn to_json(&self) -> Json {
        let mut members: Vec<(&str, Json)> = vec![("type", self.ty.to_json())];
        if !self.mutable {
            members.push(("mutable", Json::Bool(false)));
        }
        if self.ephemeral {
            members.push(("ephemeral", Json::Bool(true)));
        }
        object(members)
    }
}

impl ColumnType {
    fn to_json(&self) -> Json {
        if self.is_scalar() && self.key.constraint == Constraint::None {
            return self.key.to_json();
        }
        let mut members: Vec<(&str, Json)> = vec![("key", self.key.to_json())];
        if let Some(value) = &self.value {
            members.push(("value", value.to_json()));
        }
        if self.min != 1 {
            members.push(("min", Json::Integer(self.min.into())));
        }
        match self.max {
            1 => {}
            Self::UNLIMITED => members.push(("max", Json::string("unlimited"))),
            max => members.push(("max", Json::Integer(max.into()))),
        }
        object(members)
    }
}

impl BaseType {
    fn to_json(&self) -> Json {
        let mut members: Vec<(&str, Json)> = vec![("type", Json::string(self.atom.name()))];
        match &self.constraint {
            Constraint::None => return Json::string(self.atom.name()),
            Constraint::Enum(allowed) => {
                let atoms: Vec<Json> = allowed.iter().map(Json::from_atom).collect();
                let set = |atoms| Json::Array(vec![Json::string("set"), Json::Array(atoms)]);
                members.push((
                    "enum",
                    if let [one] = &atoms[..] {
                        one.clone()
                    } else {
                        set(atoms)
                    },
                ));
            }
            Constraint::Integer(min, max) => {
                members.extend((*min != i64::MIN).then_some(("minInteger", Json::Integer(*min))));
                members.extend((*max != i64::MAX).then_some(("maxInteger", Json::Integer(*max))));
            }
            Constraint::Real(min, max) => {
                members.extend((*min > -f64::MAX).then(|| ("minReal", Json::from_real(*min))));
                members.extend((*max < f64::MAX).then(|| ("maxReal", Json::from_real(*max))));
            }
            Constraint::Length(min, max) => {
                members.extend((*min != 0).then_some(("minLength", Json::Integer((*min).into()))));
                members.extend(
                    (*max != u32::MAX).then_some(("maxLength", Json::Integer((*max).into()))),
                );
            }
            Constraint::Reference(reference) => {
                members.push(("refTable", Json::string(&reference.table_name)));
                if reference.ref_type == RefType::Weak {
                    members.push(("refType", Json::string("weak")));
                }
            }
        }
        object(members)
    }
}

impl Json {
    /// Returns an atom in RFC 7047 notation.
    pub fn from_atom(atom: &Atom) -> Self {
        match atom {
            Atom::Integer(value) => Self::Integer(*value),
            Atom::Real(value) => Self::from_real(value.0),
            Atom::Boolean(value) => Self::Bool(*value),
            Atom::String(text) => Self::string(text),
            Atom::Uuid(uuid) => {
                Self::Array(vec![Self::string("uuid"), Self::string(uuid.to_string())])
            }
        }
    }

    /// Returns a number, as an integer if ovsdb-server prints it as one.
    fn from_real(real: f64) -> Self {
        // Magnitude from which ovsdb-server prints an exponent.
        const MIN_EXPONENT_MAGNITUDE: f64 = 1.0e15;
        if real.abs() < MIN_EXPONENT_MAGNITUDE && real.fract() == 0.0 {
            Self::Integer(real as i64)
        } else {
            Self::Real(real)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_omitted() {
        let schema = DatabaseSchema::parse(
            br#"{"name":"D","version":"01.2.3","tables":{"T":{"isRoot":true,"maxRows":4294967295,"indexes":[],"columns":{
                "a":{"type":{"key":"string","min":1,"max":1},"mutable":true},
                "b":{"type":{"key":{"type":"string","enum":"x"},"min":0}},
                "c":{"type":{"key":{"type":"integer","maxInteger":5},"value":"real","min":0,"max":"unlimited"}}}}}}"#,
        )
        .unwrap();
        let columns = r#""a":{"type":"string"},"b":{"type":{"key":{"enum":"x","type":"string"},"min":0}},"c":{"type":{"key":{"maxInteger":5,"type":"integer"},"max":"unlimited","min":0,"value":"real"}}"#;
        let expected = format!(
            r#"{{"name":"D","tables":{{"T":{{"columns":{{{columns}}}}}}},"version":"01.2.3"}}"#
        );
        assert_eq!(schema.to_json().to_text(), expected);
    }
}
