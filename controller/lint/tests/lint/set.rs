//! Sets of manifests: those of the tenant *alpha*, with changes.

use std::path::{Path, PathBuf};

use patchbay_lint::{ChartValues, Facts, Findings, lint};
use patchbay_resources::manifests::read_manifests;
use serde_json::Value;

use crate::northbound::Rows;

/// Manifests of the tenant *alpha* on its platform.
const TENANT: [&str; 5] = ["cluster", "provider", "metallb", "alpha", "alpha-pods"];

/// A set of manifests.
#[derive(Clone, Default)]
pub(crate) struct Set {
    documents: Vec<Value>,
    pub(crate) facts: Facts,
    northbound: Option<Rows>,
}

pub(crate) fn golden_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

impl Set {
    /// The platform with the tenant *alpha* and its chart values.
    pub(crate) fn tenant() -> Self {
        let mut set = Self::default();
        for name in TENANT {
            set.add_file(&format!("manifests/{name}.yaml"));
        }
        set.add_file("manifests/values.yaml");
        set
    }

    pub(crate) fn add_file(&mut self, path: &str) {
        self.change(&std::fs::read_to_string(golden_folder().join(path)).unwrap());
    }

    /// Adds documents. A document replaces that of its kind, namespace and name; `$delete` removes
    /// it. A document with the key `network` has chart values, and one with the key `northbound` the
    /// rows of a database.
    pub(crate) fn change(&mut self, text: &str) {
        for part in text.split("\n---\n") {
            let document: Value = serde_saphyr::from_str(part).unwrap();
            if document.is_null() {
                continue;
            }
            if document.get("network").is_some() {
                self.facts.values = Some(ChartValues::from_yaml(part).unwrap());
                continue;
            }
            if let Some(rows) = document.get("northbound") {
                self.northbound = Some(serde_json::from_value(rows.clone()).unwrap());
                continue;
            }
            let identity = identity(&document);
            let place = self.documents.iter().position(|one| self::identity(one) == identity);
            match (place, document.get("$delete").is_some()) {
                (Some(place), true) => drop(self.documents.remove(place)),
                (Some(place), false) => self.documents[place] = document,
                (None, _) => self.documents.push(document),
            }
        }
    }

    /// The documents as one text.
    pub(crate) fn text(&self) -> String {
        let documents = self.documents.iter().map(ToString::to_string);
        documents.collect::<Vec<_>>().join("\n---\n")
    }

    pub(crate) fn lint(&self) -> Findings {
        let text = self.text();
        let inventory = read_manifests(&["-".into()], &mut text.as_bytes()).unwrap();
        let northbound = self.northbound.as_ref().map(Rows::snapshot);
        lint(&inventory, &self.facts, northbound.as_ref())
    }
}

/// Kind, namespace and name of a document.
fn identity(document: &Value) -> [String; 3] {
    let text = |path| document.pointer(path).map(ToString::to_string).unwrap_or_default();
    [text("/kind"), text("/metadata/namespace"), text("/metadata/name")]
}
