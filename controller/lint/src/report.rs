//! Collection of findings while the rules run.

use std::collections::BTreeMap;

use patchbay_resources::manifests::{
    InventoryKind, ObjectKey, RefusedObject, SourceLocation, Sourced,
};

use crate::finding::{Finding, Findings};
use crate::rules::Rule;
use crate::{LINT_IGNORE, RULES};

/// Findings so far.
#[derive(Default)]
pub(crate) struct Report {
    /// Rule that runs.
    rule: Option<&'static Rule>,
    /// Findings with the positions of their objects.
    findings: Vec<(u64, Finding)>,
    silenced: usize,
}

/// Object that findings are about.
#[derive(Clone, Debug, Default)]
pub(crate) struct Subject {
    /// Kind, namespace and name.
    pub(crate) reference: String,
    /// Position in the order of the manifests.
    pub(crate) position: u64,
    /// Annotation [`LINT_IGNORE`].
    ignored: Option<String>,
    location: Option<SourceLocation>,
}

/// A finding that is being made.
pub(crate) struct Draft<'r> {
    report: &'r mut Report,
    subject: Subject,
    others: Vec<String>,
    field: Option<String>,
}

impl Subject {
    pub(crate) fn of<T: InventoryKind>(object: &Sourced<T>) -> Self {
        Self {
            reference: reference(object),
            position: object.position,
            ignored: object.object.annotations().get(LINT_IGNORE).cloned(),
            location: object.origin.location().cloned(),
        }
    }
}

impl Report {
    /// Starts with the findings of a rule.
    pub(crate) fn begin(&mut self, rule: &'static Rule) {
        self.rule = Some(rule);
    }

    /// Starts a finding about an object.
    pub(crate) fn about<T: InventoryKind>(&mut self, object: &Sourced<T>) -> Draft<'_> {
        self.about_subject(Subject::of(object))
    }

    /// Starts a finding about an object that cannot be decoded.
    pub(crate) fn about_refused(&mut self, object: &RefusedObject) -> Draft<'_> {
        let annotations = object.json.pointer("/metadata/annotations");
        let ignored = annotations.and_then(|annotations| annotations.get(LINT_IGNORE));
        let mut problems = object.problems.iter();
        self.about_subject(Subject {
            reference: named(object.kind, &object.key),
            position: object.position,
            ignored: ignored.and_then(|text| text.as_str()).map(str::to_owned),
            location: problems.find_map(|problem| problem.location.clone()),
        })
    }

    /// Starts a finding about something that no manifest has, such as chart values.
    pub(crate) fn about_text(&mut self, reference: impl Into<String>) -> Draft<'_> {
        self.about_subject(Subject { reference: reference.into(), ..Subject::default() })
    }

    /// Starts a finding about an object.
    pub(crate) fn about_subject(&mut self, subject: Subject) -> Draft<'_> {
        Draft { report: self, subject, others: Vec::new(), field: None }
    }

    /// Returns the findings in the order of their objects, and of the rules for each object.
    pub(crate) fn finish(self) -> Findings {
        let mut findings = self.findings;
        // The sort is stable, and the rules ran in the order of the table.
        findings.sort_by_key(|(position, _)| *position);
        Findings {
            findings: findings.into_iter().map(|(_, finding)| finding).collect(),
            silenced: self.silenced,
            omitted: BTreeMap::new(),
        }
    }
}

impl Draft<'_> {
    /// Sets the path of the field.
    pub(crate) fn field(mut self, field: impl Into<String>) -> Self {
        self.field = Some(field.into());
        self
    }

    /// Sets the location of the field, where it is known.
    pub(crate) fn located(mut self, location: Option<SourceLocation>) -> Self {
        self.subject.location = location.or(self.subject.location);
        self
    }

    /// Adds a further object.
    pub(crate) fn other<T: InventoryKind>(mut self, object: &Sourced<T>) -> Self {
        self.others.push(reference(object));
        self
    }

    /// Adds a further object.
    pub(crate) fn other_subject(mut self, subject: &Subject) -> Self {
        self.others.push(subject.reference.clone());
        self
    }

    /// Completes the finding: effect and correction.
    pub(crate) fn found(self, message: impl Into<String>, repair: impl Into<String>) {
        let rule = self.report.rule.unwrap_or(&RULES[0]);
        let mut ignored = self.subject.ignored.iter().flat_map(|text| text.split(','));
        if rule.can_be_silenced() && ignored.any(|id| id.trim() == rule.id) {
            self.report.silenced += 1;
            return;
        }
        let finding = Finding {
            rule: rule.id,
            severity: rule.severity,
            object: self.subject.reference,
            others: self.others,
            field: self.field,
            location: self.subject.location,
            message: message.into(),
            repair: repair.into(),
            row: None,
        };
        self.report.findings.push((self.subject.position, finding));
    }
}

/// Kind, namespace and name of an object, such as `Pod/alpha/vm1`.
pub(crate) fn reference<T: InventoryKind>(object: &Sourced<T>) -> String {
    named(T::KIND, &ObjectKey::of(object.object.meta()))
}

fn named(kind: &str, key: &ObjectKey) -> String {
    format!("{kind}/{key}")
}
