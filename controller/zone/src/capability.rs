//! What a zone's loop knows of a capability.

use std::fmt::Debug;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::{ClusterSettings, ObjectProblem};
use patchbay_rows::{Capability, Change, Engine, KeptRow, PlanError, Scope};

/// A capability of the row engine that a zone runs.
///
/// Its folder implements [`Capability`] and this trait for one type, and `patchbay-reconcile` has a
/// line for it in the list of the zone's capabilities. Everything else follows.
pub trait ZoneCapability: Capability {
    /// Subject of errors and warnings about the rows.
    const NAME: &'static str;

    /// Kinds of objects that the rows follow from. While an object of one of them may be missing,
    /// because it cannot be decoded or listed, the rows stay as they are.
    fn needs(settings: &ClusterSettings) -> Vec<&'static str>;

    /// Kinds of objects that the rows are for. Manifests without an object of them specify nothing
    /// about the rows that are there. Empty: the rows follow from any objects.
    fn specified_by(settings: &ClusterSettings) -> &'static [&'static str] {
        let _ = settings;
        &[]
    }

    /// Names of the capabilities whose rows new rows wait for. After these are committed, the
    /// capability is planned again; if it waits for itself, until nothing is left to do.
    fn waits_for(inputs: &Self::Inputs) -> &'static [&'static str] {
        let _ = inputs;
        &[]
    }

    /// Subject of errors and warnings about the rows of a group.
    fn subject(group: &Self::Group) -> String {
        let _ = group;
        Self::NAME.to_owned()
    }

    /// Problems of objects: those that the inputs show, and those that the last plan has found.
    fn problems(engine: &Engine<Self>, inputs: &Self::Inputs) -> Vec<ObjectProblem>
    where
        Self: Sized;
}

/// The rows of one capability, as the loop of a zone runs them.
pub trait ZoneRows<I>: Debug + Send {
    /// See [`ZoneCapability::NAME`].
    fn name(&self) -> &'static str;

    /// See [`ZoneCapability::needs`].
    fn needs(&self, settings: &ClusterSettings) -> Vec<&'static str>;

    /// See [`ZoneCapability::specified_by`].
    fn specified_by(&self, settings: &ClusterSettings) -> &'static [&'static str];

    /// See [`ZoneCapability::waits_for`].
    fn waits_for(&self, inputs: &I) -> &'static [&'static str];

    /// Sets which rows go that nothing wants: see [`Engine::set_scope`].
    fn set_scope(&mut self, scope: Option<Arc<Scope>>);

    /// Plans what makes the rows right in the database: changes of groups by their subjects. Their
    /// transactions do not depend on each other. Without an entry, nothing is to be done.
    fn plan(&mut self, inputs: &I, snapshot: &Snapshot) -> Vec<SubjectChange>;

    /// See [`ZoneCapability::problems`].
    fn problems(&self, inputs: &I) -> Vec<ObjectProblem>;

    /// Rows that stay because of the scope, as the last plan has found them.
    fn kept(&self) -> Vec<KeptRow>;
}

/// Changes of one group of a capability.
#[derive(Debug)]
pub struct SubjectChange {
    /// Subject of errors and warnings.
    pub subject: String,
    /// The changes, or the reason why they cannot be planned.
    pub change: Result<Change, PlanError>,
}

impl SubjectChange {
    /// `true` if the plan fits the database and changes nothing.
    pub fn is_empty(&self) -> bool {
        matches!(&self.change, Ok(change) if change.transaction.is_none())
    }
}

impl<C: ZoneCapability> ZoneRows<C::Inputs> for Engine<C>
where
    Self: Send,
{
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn needs(&self, settings: &ClusterSettings) -> Vec<&'static str> {
        C::needs(settings)
    }

    fn specified_by(&self, settings: &ClusterSettings) -> &'static [&'static str] {
        C::specified_by(settings)
    }

    fn waits_for(&self, inputs: &C::Inputs) -> &'static [&'static str] {
        C::waits_for(inputs)
    }

    fn set_scope(&mut self, scope: Option<Arc<Scope>>) {
        self.set_scope(scope);
    }

    fn plan(&mut self, inputs: &C::Inputs, snapshot: &Snapshot) -> Vec<SubjectChange> {
        let changes = self.plan(inputs, snapshot).changes.into_iter();
        changes
            .map(|(group, change)| SubjectChange { subject: C::subject(&group), change })
            .collect()
    }

    fn problems(&self, inputs: &C::Inputs) -> Vec<ObjectProblem> {
        C::problems(self, inputs)
    }

    fn kept(&self) -> Vec<KeptRow> {
        self.kept().cloned().collect()
    }
}

/// Problems that the parts of a capability report, in the order of parts.
pub fn reported_problems<C>(engine: &Engine<C>) -> impl Iterator<Item = ObjectProblem>
where
    C: Capability<Report = Vec<ObjectProblem>>,
{
    engine.reports().flat_map(|(_, found)| found).cloned()
}
