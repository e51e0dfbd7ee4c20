//! Policies of administrators on the row engine.
//!
//! A policy owns the rows that its external ids show. Pods contribute ports to groups and addresses
//! to address sets. In a database with OVN-Kubernetes' default network they are OVN-Kubernetes',
//! and stay as they are. New address sets come before the ACLs that name them, and go after them.
//! All ACLs of a policy change at once, because the first one that matches decides.

use std::convert::Infallible;
use std::sync::Arc;

use patchbay_engine::db::Snapshot;
use patchbay_model::external_ids::key;
use patchbay_model::{AdminPolicyKey, AdminPolicyKind, PodKey, format_address};
use patchbay_rows::{
    Capability, Change, Engine, Holding, Identity, KeptRow, Layout, ObjectName, Owner, PartRow,
    PartRows, Phase, Phases, PlanError, Reader, RowView, Scope, Table,
};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::nb::{Acl, AddressSet, PortGroup};
use patchbay_schemas::schema::DatabaseSchema;
use patchbay_schemas::typed::TableRow;
use patchbay_schemas::uuids::UuidSource;
use patchbay_zone::{Cell, Kind, ZoneObjects};

use super::applied::{applied, is_selected, is_usable, object_problems};
use super::rows::{AddressSetRow, PolicyScene, kind_of};
use crate::problem::{PolicyProblem, PolicyProblemReason, PolicySubject};
use crate::tables::{
    CONTROLLER, DEFAULT_NETWORK, DEFAULT_ROUTER, PeerAddresses, PolicyGroup, PortName, RouterName,
    column,
};
use crate::text::{text, text_map};

/// Address sets come first.
const SETS: Phase = Phase(0);
/// Groups and ACLs.
const RULES: Phase = Phase(1);
/// Address sets go last.
const RELEASE: Phase = Phase(2);
/// Number of the steps of a policy, which are one transaction.
const POLICY_STEPS: u32 = 1;
/// Column that databases of OVN 23.06 and later have.
const TIER: &str = "tier";

/// Keeps the rows of one zone's administrators' policies as they should be. See `patchbay_rows`.
#[derive(Debug)]
pub struct AdminPolicyController {
    engine: Engine<AdminPolicies>,
    /// `true` if the feature is off, and no rows were there when it was looked for them.
    is_idle: bool,
    /// `true` if the schema of the last plan lacks tiers of ACLs.
    lacks_tiers: bool,
}

impl Default for AdminPolicyController {
    fn default() -> Self {
        Self::new(UuidSource::random())
    }
}

impl AdminPolicyController {
    /// A controller that takes the placeholders of new rows from `uuids`.
    pub fn new(uuids: UuidSource) -> Self {
        Self {
            engine: Engine::new(uuids),
            is_idle: false,
            lacks_tiers: false,
        }
    }

    /// Sets which rows go that no policy wants: see [`Engine::set_scope`].
    pub fn set_scope(&mut self, scope: Option<Arc<Scope>>) {
        self.engine.set_scope(scope);
    }

    /// Rows that stay because of the scope.
    pub fn kept(&self) -> impl Iterator<Item = &KeptRow> {
        self.engine.kept().filter(|_| !self.is_idle)
    }

    /// Plans what makes the rows right in the database. A database with OVN-Kubernetes' default
    /// network stays as it is.
    ///
    /// # Errors
    /// The database's schema cannot express the rows.
    pub fn plan(&mut self, inputs: &ZoneObjects, snapshot: &Snapshot) -> Result<Change, PlanError> {
        self.is_idle = !inputs.has_admin_policies() && (self.is_idle || !has_rows(snapshot));
        if self.is_idle {
            return Ok(Change::default());
        }
        self.lacks_tiers = !has_tiers(snapshot.schema());
        self.engine.plan(inputs, snapshot).into_change()
    }

    /// Reasons why policies do not apply as their objects specify. Those of the schema are those of
    /// the last plan's.
    pub fn problems(&self, inputs: &ZoneObjects) -> Vec<PolicyProblem> {
        let mut problems = object_problems(inputs);
        let applied = applied(inputs).filter(|_| self.lacks_tiers);
        problems.extend(applied.map(|policy| PolicyProblem {
            subject: PolicySubject::Admin(policy.key.clone()),
            reason: PolicyProblemReason::NoTiers,
        }));
        problems
    }
}

/// Returns `true` if ACLs have tiers.
fn has_tiers(schema: &DatabaseSchema) -> bool {
    let acl = schema.table_by_name(Acl::TABLE);
    acl.is_some_and(|(_, table)| table.column_id(TIER).is_some())
}

/// Returns `true` if there are port groups of policies of administrators.
fn has_rows(snapshot: &Snapshot) -> bool {
    let groups = snapshot.typed::<PolicyGroup>();
    let mut groups = groups.iter().filter_map(Result::ok);
    groups.any(|(_, group)| {
        let owner_type = group.external_ids.get_str(key::OWNER_TYPE);
        owner_type.is_some_and(|text| kind_of(text).is_some())
    })
}

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub(super) enum Part {
    /// The rows of a policy.
    Policy(AdminPolicyKey),
    /// Contribution of a pod to port groups and address sets.
    Pod(PodKey),
}

/// Policies of administrators in a zone, as a capability of the row engine.
#[derive(Debug)]
pub(super) struct AdminPolicies {
    groups: Table<PolicyGroup>,
    acls: Table<Acl>,
    acls_of_group: Holding,
    address_sets: Table<PeerAddresses>,
    ports: Table<PortName>,
    routers: Table<RouterName>,
}

type Rows = PartRows<()>;

impl Capability for AdminPolicies {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = ();
    type SharedKey = Infallible;
    type Shared = ();

    const KINDS: &'static [Kind] = &[Kind::Zone, Kind::Nodes, Kind::AdminPolicies];

    fn declare(layout: &mut Layout<Part>) -> Self {
        let rules = Phases {
            come: RULES,
            change: RULES,
            go: RULES,
        };
        let ports = column::<_, PolicyGroup, _>(PortGroup::PORTS);
        let addresses = column::<_, PeerAddresses, _>(AddressSet::ADDRESSES);
        let groups = layout
            .table(Identity::NAME)
            .owned_by(owner)
            .phases(rules)
            .members(ports)
            .declare();
        let acls = layout
            .table(Identity::ExternalId(key::ID))
            .owned_by(owner)
            .phases(rules)
            .declare();
        Self {
            acls_of_group: layout.holding(groups, column(PortGroup::ACLS), acls),
            groups,
            acls,
            address_sets: layout
                .table(Identity::NAME)
                .owned_by(owner)
                .phases(Phases {
                    come: SETS,
                    change: RULES,
                    go: RELEASE,
                })
                .members(addresses)
                .declare(),
            ports: layout.table(Identity::NAME).shared().declare(),
            routers: layout.table(Identity::NAME).shared().declare(),
        }
    }

    fn group(&self, _: &Part) {}

    fn comment(&self, (): &()) -> String {
        "patchbay: policies of administrators".to_owned()
    }

    fn parts(&self, cell: &Cell, inputs: &ZoneObjects, part: &mut dyn FnMut(Part)) {
        match cell {
            Cell::AdminPolicy(policy) => part(Part::Policy(policy.clone())),
            Cell::AdminPod(pod) if is_selected(inputs, pod) => part(Part::Pod(pod.clone())),
            _ => {}
        }
    }

    fn exists(&self, part: &Part, inputs: &ZoneObjects) -> bool {
        match part {
            Part::Policy(policy) => inputs.admin_policy(policy).is_some(),
            Part::Pod(pod) => is_selected(inputs, pod),
        }
    }

    fn shared(&self, key: &Infallible, _: &Reader<'_, Self>) {
        match *key {}
    }

    fn rows(&self, part: &Part, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let is_shared = reader.row(self.routers, DEFAULT_ROUTER).is_some();
        if is_shared || !reader.has_column(self.acls, TIER) {
            return rows.keep_rest();
        }
        reader.read(&Cell::Zone);
        match part {
            Part::Policy(policy) => self.policy(policy, reader, rows),
            Part::Pod(pod) => self.pod(pod, reader, rows),
        }
    }

    fn objects(&self, part: &Part, _: PartRow<'_>, _: &Reader<'_, Self>) -> Vec<ObjectName> {
        match part {
            Part::Policy(key) => vec![ObjectName::new(&key.kind.to_string(), &key.name)],
            Part::Pod(_) => Vec::new(),
        }
    }
}

impl AdminPolicies {
    fn policy(&self, key: &AdminPolicyKey, reader: &Reader<'_, Self>, rows: &mut Rows) {
        reader.read(&Cell::NamedPorts(key.clone()));
        reader.read(&Cell::NodeLabels);
        let inputs = reader.read(&Cell::AdminPolicy(key.clone()));
        let Some(policy) = inputs.admin_policy(key) else {
            return;
        };
        if !is_usable(inputs, policy) {
            return rows.keep_rest();
        }
        let made = PolicyScene::new(policy, inputs).rows();
        let group = PolicyGroup {
            name: made.group.name.as_str().into(),
            ports: Set::EMPTY,
            external_ids: text_map(made.group.external_ids),
        };
        rows.put(self.groups, &group);
        for acl in &made.acls {
            rows.put(self.acls, acl)
                .held_by(self.acls_of_group, made.group.name.as_str())
                .together(POLICY_STEPS);
        }
        for AddressSetRow { ids, addresses } in made.address_sets {
            let set = PeerAddresses {
                name: ids.name.as_str().into(),
                addresses: Set::EMPTY,
                external_ids: text_map(ids.external_ids),
            };
            rows.put(self.address_sets, &set);
            for address in addresses {
                rows.member(self.address_sets, set.name.clone(), text(address));
            }
        }
    }

    fn pod(&self, key: &PodKey, reader: &Reader<'_, Self>, rows: &mut Rows) {
        let inputs = reader.read(&Cell::AdminPod(key.clone()));
        let Some(pod) = inputs.selectable_pod(key) else {
            return;
        };
        for policy in applied(inputs) {
            let membership = PolicyScene::new(policy, inputs).membership(pod);
            for (set, address) in membership.addresses {
                rows.member(self.address_sets, set, text(format_address(address)));
            }
            let Some(group) = membership.group else {
                continue;
            };
            if let Some(port) = reader.row(self.ports, &pod.key.default_port()) {
                rows.member(self.groups, group, Atom::Uuid(port.uuid()));
            }
        }
    }
}

/// The policy that the external ids of a row show.
fn owner(row: &RowView<'_>) -> Owner<Part> {
    let controller = row.external_id(key::OWNER_CONTROLLER);
    let network = controller.and_then(|controller| controller.strip_suffix(CONTROLLER));
    let kind: Option<AdminPolicyKind> = row.external_id(key::OWNER_TYPE).and_then(kind_of);
    let name = row.external_id(key::NAME);
    match (kind, name) {
        (Some(kind), Some(name)) if network == Some(DEFAULT_NETWORK) => {
            Owner::Part(Part::Policy(AdminPolicyKey {
                kind,
                name: name.into(),
            }))
        }
        _ => Owner::Unowned,
    }
}
