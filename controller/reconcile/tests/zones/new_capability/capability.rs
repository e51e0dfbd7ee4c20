//! Records of namespaces: a row with the label `record` of each.

use std::convert::Infallible;
use std::sync::Arc;

use patchbay_model::{ClusterSettings, FieldProblem, ObjectProblem, ObjectRef, object_kind};
use patchbay_rows::{Capability, Engine, Layout, ObjectName, PartRow, PartRows, Reader};
use patchbay_schemas::nb::Dns;
use patchbay_zone::{Cell, Kind, ZoneCapability, ZoneNamespace, ZoneObjects, reported_problems};

use super::tables::{NAMESPACE, Tables};

/// Label of namespaces with a record.
const LABEL: &str = "record";

#[derive(Debug)]
pub(super) struct Records {
    tables: Tables,
}

/// A namespace.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) struct Part(pub(super) Arc<str>);

impl ZoneCapability for Records {
    const NAME: &'static str = "records";

    fn needs(_: &ClusterSettings) -> Vec<&'static str> {
        vec![object_kind::NAMESPACE]
    }

    fn problems(engine: &Engine<Self>, _: &ZoneObjects) -> Vec<ObjectProblem> {
        reported_problems(engine).collect()
    }
}

impl Capability for Records {
    type Part = Part;
    type Group = ();
    type Inputs = ZoneObjects;
    type Report = Vec<ObjectProblem>;
    type SharedKey = Infallible;
    type Shared = ();

    const KINDS: &'static [Kind] = &[Kind::Namespaces];

    fn declare(layout: &mut Layout<Part>) -> Self {
        Self { tables: Tables::declare(layout) }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: records".to_owned()
    }

    fn parts(&self, cell: &Cell, _: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        if let Cell::Namespace(name) = cell {
            part(Part(name.clone()));
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        namespace(inputs, part).is_some()
    }

    fn shared(&self, key: &Infallible, _: &Reader<'_, Self>) {
        match *key {}
    }

    fn rows(
        &self,
        part: &Part,
        reader: &Reader<'_, Self>,
        rows: &mut PartRows<Vec<ObjectProblem>>,
    ) {
        let inputs = reader.read(&Cell::Namespace(part.0.clone()));
        let label = namespace(inputs, part).and_then(|namespace| namespace.labels.get(LABEL));
        match label.map(String::as_str) {
            Some("") => {
                let object = ObjectRef::cluster(object_kind::NAMESPACE, part.0.clone());
                let field = format!("metadata.labels[{LABEL}]");
                let problem = FieldProblem::new(field, "is empty, so there is no record");
                rows.report(vec![ObjectProblem::new(object, problem)]);
            }
            Some(record) => {
                let row = Dns {
                    external_ids: [(NAMESPACE.to_owned(), part.0.to_string())].into(),
                    records: [(part.0.to_string(), record.to_owned())].into(),
                    ..Dns::default()
                };
                rows.put(self.tables.records, &row);
            }
            None => {}
        }
    }

    fn objects(&self, part: &Part, _: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        vec![ObjectName::new(object_kind::NAMESPACE, &part.0)]
    }
}

fn namespace<'a>(inputs: &'a ZoneObjects, part: &Part) -> Option<&'a ZoneNamespace> {
    let mut namespaces = inputs.namespaces();
    let (_, namespace) = namespaces.find(|(name, _)| **name == part.0)?;
    Some(namespace)
}
