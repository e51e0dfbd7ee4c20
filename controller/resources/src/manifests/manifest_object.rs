//! Kubernetes objects as YAML nodes of a manifest.

use std::sync::Arc;

use serde_json::Value;

use super::yaml::YamlNode;
use super::{Problem, SourceLocation};
use patchbay_model::FieldProblem;

/// An object of a manifest, before it is decoded into its type.
#[derive(Clone, Copy)]
pub(super) struct ManifestObject<'a> {
    pub(super) node: &'a YamlNode,
    pub(super) file: &'a Arc<str>,
    /// Number of files that were read before.
    pub(super) place: u32,
    /// Number of the document in the file, from 1.
    pub(super) document: u32,
    /// `apiVersion` and kind of the items of the enclosing typed list. `None`: the object is not
    /// an item of a typed list.
    pub(super) item_type: Option<(&'a str, &'a str)>,
}

impl ManifestObject<'_> {
    /// `apiVersion` and kind. An object without both fields has those of the enclosing list.
    pub(super) fn type_meta(&self) -> Option<(&str, &str)> {
        let is_present = |field| self.node.get(field).is_some();
        if !is_present("apiVersion") && !is_present("kind") {
            return self.item_type;
        }
        self.text("apiVersion").zip(self.text("kind"))
    }

    /// Converts the object to JSON, with `apiVersion` and `kind`.
    pub(super) fn to_json(self) -> Value {
        let mut json = self.node.to_json();
        if let (Some(members), Some((api_version, kind))) = (json.as_object_mut(), self.type_meta())
        {
            members.insert("apiVersion".to_owned(), api_version.into());
            members.insert("kind".to_owned(), kind.into());
        }
        json
    }

    /// Converts the object to JSON, without `status`.
    pub(super) fn to_json_without_status(self) -> Value {
        let mut json = self.to_json();
        if let Some(members) = json.as_object_mut() {
            members.remove("status");
        }
        json
    }

    /// String value of a field at the top level.
    pub(super) fn text(&self, field: &str) -> Option<&str> {
        self.node.get(field).and_then(YamlNode::as_str)
    }

    /// String value of a field of the metadata.
    pub(super) fn meta_text(&self, field: &str) -> Option<&str> {
        self.node.get("metadata")?.get(field)?.as_str()
    }

    /// Location of the field with this path; an empty path stands for the object.
    pub(super) fn location(&self, field: &str) -> SourceLocation {
        SourceLocation {
            place: self.place,
            file: self.file.clone(),
            document: self.document,
            line: self.node.line_of(field),
        }
    }

    /// Kind, namespace and name for messages, as far as they can be read.
    pub(super) fn describe(&self) -> Option<String> {
        let kind = match self.type_meta() {
            Some((_, kind)) => kind,
            None => self.text("kind")?,
        };
        Some(match (self.meta_text("namespace"), self.meta_text("name")) {
            (Some(namespace), Some(name)) => format!("{kind} {namespace}/{name}"),
            (None, Some(name)) => format!("{kind} {name}"),
            (_, None) => format!("{kind} without a name"),
        })
    }

    /// Problem of the field with this path; an empty path stands for the object.
    pub(super) fn problem(&self, field: &str, message: impl Into<String>) -> Problem {
        Problem {
            location: Some(self.location(field)),
            object: self.describe(),
            field: (!field.is_empty()).then(|| field.to_owned()),
            message: message.into(),
        }
    }

    /// Problem with the field and message of a violation.
    pub(super) fn violation_problem(
        &self,
        FieldProblem { field, reason }: &FieldProblem,
    ) -> Problem {
        self.problem(field, reason)
    }
}
