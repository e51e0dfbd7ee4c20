//! Objects as they stand in their documents.

use std::sync::Arc;

use serde_json::Value;

use super::{Place, Problem, yaml};
use crate::Violation;

/// An object as it stands in its document.
#[derive(Clone, Copy)]
pub(super) struct Raw<'a> {
    pub(super) node: &'a yaml::Node,
    pub(super) file: &'a Arc<str>,
    pub(super) document: u32,
    /// Version and kind of the items of the list that it stands in.
    pub(super) of_list: Option<(&'a str, &'a str)>,
}

impl Raw<'_> {
    /// Version and kind.
    pub(super) fn kind(&self) -> Option<(&str, &str)> {
        let is_said = ["apiVersion", "kind"].map(|field| self.node.get(field).is_some());
        if is_said == [false; 2] {
            return self.of_list;
        }
        self.text("apiVersion").zip(self.text("kind"))
    }

    /// The object, with version and kind.
    pub(super) fn to_json(self) -> Value {
        let mut json = self.node.to_json();
        if let (Some(members), Some((api_version, kind))) = (json.as_object_mut(), self.kind()) {
            members.insert("apiVersion".to_owned(), api_version.into());
            members.insert("kind".to_owned(), kind.into());
        }
        json
    }

    pub(super) fn without_status(self) -> Value {
        let mut json = self.to_json();
        if let Some(members) = json.as_object_mut() {
            members.remove("status");
        }
        json
    }

    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.node.get(field).and_then(yaml::Node::as_str)
    }

    pub(super) fn place(&self, field: &str) -> Place {
        Place {
            file: self.file.clone(),
            document: self.document,
            line: self.node.line_of(field),
        }
    }

    /// Kind and name as far as they can be read.
    pub(super) fn describe(&self) -> Option<String> {
        let meta = |field| self.node.get("metadata")?.get(field)?.as_str();
        let kind = match self.kind() {
            Some((_, kind)) => kind,
            None => self.text("kind")?,
        };
        Some(match (meta("namespace"), meta("name")) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            (_, None) => format!("{kind} without a name"),
        })
    }

    pub(super) fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        Problem {
            place: Some(self.place(field)),
            object: self.describe(),
            field: (!field.is_empty()).then(|| field.to_owned()),
            message: message.into(),
        }
    }

    pub(super) fn violation(&self, Violation { field, message }: &Violation) -> Problem {
        self.problem(field, message)
    }
}
