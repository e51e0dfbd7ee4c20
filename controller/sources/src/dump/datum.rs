//! Values as `ovs-vsctl` prints them (`ovs-vsctl(8)`, "Database Values").

use patchbay_schemas::atom::AtomType;
use patchbay_schemas::schema::ColumnType;
use serde_json::{Value, json};

/// A value of a column as JSON of RFC 7047. `None`: the text is no value of the type.
pub(super) fn to_json(text: &str, column: &ColumnType) -> Option<Value> {
    let mut input = Input { rest: text.trim() };
    let value = match (&column.value, input.rest.chars().next()) {
        (Some(value), Some('{')) => {
            let pairs = input.list('{', '}', |input| {
                let key = input.atom(column.key.atom)?;
                input.rest = input.rest.strip_prefix('=')?;
                Some(json!([key, input.atom(value.atom)?]))
            })?;
            json!(["map", pairs])
        }
        (None, Some('[')) => {
            let atoms = input.list('[', ']', |input| input.atom(column.key.atom))?;
            json!(["set", atoms])
        }
        (None, _) => input.atom(column.key.atom)?,
        (Some(_), _) => return None,
    };
    input.rest.is_empty().then_some(value)
}

struct Input<'a> {
    rest: &'a str,
}

impl<'a> Input<'a> {
    /// Elements between two marks.
    fn list(
        &mut self,
        open: char,
        close: char,
        mut element: impl FnMut(&mut Self) -> Option<Value>,
    ) -> Option<Vec<Value>> {
        self.rest = self.rest.strip_prefix(open)?;
        let mut elements = Vec::new();
        if let Some(rest) = self.rest.strip_prefix(close) {
            self.rest = rest;
            return Some(elements);
        }
        loop {
            elements.push(element(self)?);
            if let Some(rest) = self.rest.strip_prefix(close) {
                self.rest = rest;
                return Some(elements);
            }
            self.rest = self.rest.strip_prefix(", ").or_else(|| self.rest.strip_prefix(','))?;
        }
    }

    fn atom(&mut self, kind: AtomType) -> Option<Value> {
        if kind == AtomType::String {
            let is_quoted = self.rest.starts_with('"');
            let text = if is_quoted { self.quoted()? } else { self.word().to_owned() };
            return Some(text.into());
        }
        let word = self.word();
        Some(match kind {
            AtomType::Integer => word.parse::<i64>().ok()?.into(),
            AtomType::Real => json!(word.parse::<f64>().ok().filter(|real| real.is_finite())?),
            AtomType::Boolean => word.parse::<bool>().ok()?.into(),
            AtomType::Uuid => json!(["uuid", uuid::Uuid::try_parse(word).ok()?.to_string()]),
            AtomType::String => return None,
        })
    }

    /// Characters up to a mark.
    fn word(&mut self) -> &'a str {
        let end = self.rest.find([',', '=', ']', '}', ' ']).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// A string of JSON.
    fn quoted(&mut self) -> Option<String> {
        let mut texts = serde_json::Deserializer::from_str(self.rest).into_iter::<String>();
        let text = texts.next()?.ok()?;
        let end = texts.byte_offset();
        self.rest = self.rest.get(end..)?;
        Some(text)
    }
}
