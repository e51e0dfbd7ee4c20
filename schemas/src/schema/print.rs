//! Schemas as JSON, in the normalised form of `get_schema`.

use crate::atom::Atom;
use crate::hash_order;
use crate::json::{Json, TextBuf, write};

use super::{BaseType, ColumnSchema, ColumnType, Constraint, DatabaseSchema, RefType, TableSchema};

/// Part of a schema.
enum Node {
    Value(Json),
    /// Members in the order in which ovsdb-server adds them.
    Object(Vec<(String, Node)>),
}

impl Node {
    fn string(text: impl AsRef<str>) -> Self {
        Self::Value(Json::string(text))
    }

    fn integer(integer: impl Into<i64>) -> Self {
        Self::Value(Json::Integer(integer.into()))
    }

    fn object(members: Vec<(&'static str, Node)>) -> Self {
        let members = members.into_iter();
        Self::Object(members.map(|(name, node)| (name.to_owned(), node)).collect())
    }

    fn into_json(self) -> Json {
        match self {
            Self::Value(value) => value,
            Self::Object(members) => {
                let member = |(name, node): (String, Self)| (name.into_bytes(), node.into_json());
                Json::Object(members.into_iter().map(member).collect())
            }
        }
    }

    /// Appends the compact text. Members have the order of hash tables.
    fn write(self, out: &mut Vec<u8>) {
        let members = match self {
            Self::Value(value) => return value.write(out),
            Self::Object(members) => members,
        };
        out.push(b'{');
        for (i, (name, node)) in hash_order::pair_order(members).into_iter().enumerate() {
            if i > 0 {
                out.push(b',');
            }
            write::string(out, name.as_bytes());
            out.push(b':');
            node.write(out);
        }
        out.push(b'}');
    }
}

impl DatabaseSchema {
    /// Returns the schema as JSON. Members with default values are omitted.
    pub fn to_json(&self) -> Json {
        self.to_node().into_json()
    }

    /// Returns the result of `get_schema`: [`to_json`](Self::to_json) with members in the order of
    /// ovsdb-server's [hash tables](crate::hash_order). `ovsdb-client list-columns` shows it.
    pub fn to_text(&self) -> TextBuf {
        let mut text = Vec::new();
        self.to_node().write(&mut text);
        TextBuf::from_valid(text, 0)
    }

    fn to_node(&self) -> Node {
        let all_root = self.tables.iter().all(|table| table.is_root);
        let tables = self
            .tables_in_hash_order()
            .map(|table| (table.name.to_string(), table.to_node(all_root)))
            .collect();
        let mut members = vec![("name", Node::string(&self.name))];
        if !self.version.is_empty() {
            members.push(("version", Node::string(&self.version)));
        }
        if !self.cksum.is_empty() {
            members.push(("cksum", Node::string(&self.cksum)));
        }
        members.push(("tables", Node::Object(tables)));
        Node::object(members)
    }
}

impl TableSchema {
    fn to_node(&self, all_root: bool) -> Node {
        let columns = self
            .columns_in_hash_order()
            .iter()
            .filter_map(|column| self.column(*column))
            .map(|column| (column.name.to_string(), column.to_node()))
            .collect();
        let mut members = Vec::new();
        if !self.mutable {
            members.push(("mutable", Node::Value(Json::Bool(false))));
        }
        if self.is_root && !all_root {
            members.push(("isRoot", Node::Value(Json::Bool(true))));
        }
        members.push(("columns", Node::Object(columns)));
        if self.max_rows != u32::MAX {
            members.push(("maxRows", Node::integer(self.max_rows)));
        }
        if !self.indexes.is_empty() {
            let names =
                |index: &Vec<_>| index.iter().map(|c| Json::string(self.column_name(*c))).collect();
            let indexes = self.indexes.iter().map(|index| Json::Array(names(index))).collect();
            members.push(("indexes", Node::Value(Json::Array(indexes))));
        }
        Node::object(members)
    }
}

impl ColumnSchema {
    fn to_node(&self) -> Node {
        let mut members = Vec::new();
        if !self.mutable {
            members.push(("mutable", Node::Value(Json::Bool(false))));
        }
        if self.ephemeral {
            members.push(("ephemeral", Node::Value(Json::Bool(true))));
        }
        members.push(("type", self.ty.to_node()));
        Node::object(members)
    }
}

impl ColumnType {
    fn to_node(&self) -> Node {
        if self.is_scalar() && self.key.constraint == Constraint::None {
            return self.key.to_node();
        }
        let mut members = vec![("key", self.key.to_node())];
        if let Some(value) = &self.value {
            members.push(("value", value.to_node()));
        }
        if self.min != 1 {
            members.push(("min", Node::integer(self.min)));
        }
        match self.max {
            1 => {}
            Self::UNLIMITED => members.push(("max", Node::string("unlimited"))),
            max => members.push(("max", Node::integer(max))),
        }
        Node::object(members)
    }
}

impl BaseType {
    fn to_node(&self) -> Node {
        let mut members = vec![("type", Node::string(self.atom.name()))];
        match &self.constraint {
            Constraint::None => return Node::string(self.atom.name()),
            Constraint::Enum(allowed) => {
                let atoms: Vec<Json> = allowed.iter().map(Json::from_atom).collect();
                let set = |atoms| Json::Array(vec![Json::string("set"), Json::Array(atoms)]);
                let allowed = match &atoms[..] {
                    [one] => one.clone(),
                    _ => set(atoms),
                };
                members.push(("enum", Node::Value(allowed)));
            }
            Constraint::Integer(min, max) => {
                members.extend((*min != i64::MIN).then(|| ("minInteger", Node::integer(*min))));
                members.extend((*max != i64::MAX).then(|| ("maxInteger", Node::integer(*max))));
            }
            Constraint::Real(min, max) => {
                let real = |real| Node::Value(Json::from_real(real));
                members.extend((*min > -f64::MAX).then(|| ("minReal", real(*min))));
                members.extend((*max < f64::MAX).then(|| ("maxReal", real(*max))));
            }
            Constraint::Length(min, max) => {
                members.extend((*min != 0).then(|| ("minLength", Node::integer(*min))));
                members.extend((*max != u32::MAX).then(|| ("maxLength", Node::integer(*max))));
            }
            Constraint::Reference(reference) => {
                members.push(("refTable", Node::string(&reference.table_name)));
                if reference.ref_type == RefType::Weak {
                    members.push(("refType", Node::string("weak")));
                }
            }
        }
        Node::object(members)
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
