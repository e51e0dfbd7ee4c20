//! Policies of administrators on the row engine.
//!
//! A policy owns the rows that its external ids show. Pods contribute ports to groups and addresses
//! to address sets. In a database with OVN-Kubernetes' default network they are OVN-Kubernetes',
//! and stay as they are. New address sets come before the ACLs that name them, and go after them.
//! All ACLs of a policy change at once, because the first one that matches decides.

use std::convert::Infallible;

use patchbay_engine::db::Snapshot;
use patchbay_model::external_ids::key;
use patchbay_model::{
    AdminPolicyKey, AdminPolicyKind, ClusterSettings, Feature, FieldProblem, ObjectProblem, PodKey,
    format_address, object_kind,
};
use patchbay_rows::{
    Capability, Engine, Holding, Identity, Layout, ObjectName, Owner, PartRow, PartRows, Phase,
    Phases, Reader, RowView, Table,
};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Set;
use patchbay_schemas::nb::{Acl, AddressSet, PortGroup};
use patchbay_zone::{
    Cell, Kind, ZoneCapability, ZoneObjects, kinds_of, network_kinds, reported_problems,
};

use super::applied::{applied, is_selected, is_usable, object_problems};
use super::rows::{AddressSetRow, PolicyScene, kind_of};
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

/// Rows that are computed and compared together.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Part {
    /// The rows of a policy.
    Policy(AdminPolicyKey),
    /// Contribution of a pod to port groups and address sets.
    Pod(PodKey),
}

/// Policies of administrators in a zone, as a capability of the row engine.
#[derive(Debug)]
pub struct AdminPolicies {
    groups: Table<PolicyGroup>,
    acls: Table<Acl>,
    acls_of_group: Holding,
    address_sets: Table<PeerAddresses>,
    ports: Table<PortName>,
    routers: Table<RouterName>,
}

type Rows = PartRows<Vec<ObjectProblem>>;

impl ZoneCapability for AdminPolicies {
    const NAME: &'static str = "policies of administrators";

    fn needs(settings: &ClusterSettings) -> Vec<&'static str> {
        let policies =
            [object_kind::ADMIN_NETWORK_POLICY, object_kind::BASELINE_ADMIN_NETWORK_POLICY];
        let own = kinds_of(settings, Feature::AdminNetworkPolicy, &policies);
        let kinds = network_kinds(settings).into_iter();
        kinds.chain([object_kind::POD]).chain(own).collect()
    }

    fn problems(engine: &Engine<Self>, inputs: &ZoneObjects) -> Vec<ObjectProblem> {
        let found = reported_problems(engine);
        object_problems(inputs).into_iter().chain(found).collect()
    }
}

impl Capability for AdminPolicies {
    type Part = Part;
    type Inputs = ZoneObjects;
    type Group = ();
    type Report = Vec<ObjectProblem>;
    type SharedKey = Infallible;
    type Shared = ();

    const KINDS: &'static [Kind] = &[Kind::Zone, Kind::Nodes, Kind::AdminPolicies];

    fn is_off(inputs: &ZoneObjects) -> bool {
        !inputs.has_admin_policies()
    }

    fn has_rows(snapshot: &Snapshot) -> bool {
        let groups = snapshot.typed::<PolicyGroup>();
        let mut groups = groups.iter().filter_map(Result::ok);
        groups.any(|(_, group)| {
            let owner_type = group.external_ids.get_str(key::OWNER_TYPE);
            owner_type.is_some_and(|text| kind_of(text).is_some())
        })
    }

    fn declare(layout: &mut Layout<Part>) -> Self {
        let rules = Phases { come: RULES, change: RULES, go: RULES };
        let ports = column::<_, PolicyGroup, _>(PortGroup::PORTS);
        let addresses = column::<_, PeerAddresses, _>(AddressSet::ADDRESSES);
        let groups =
            layout.table(Identity::NAME).owned_by(owner).phases(rules).members(ports).declare();
        let acls =
            layout.table(Identity::ExternalId(key::ID)).owned_by(owner).phases(rules).declare();
        Self {
            acls_of_group: layout.holding(groups, column(PortGroup::ACLS), acls),
            groups,
            acls,
            address_sets: layout
                .table(Identity::NAME)
                .owned_by(owner)
                .phases(Phases { come: SETS, change: RULES, go: RELEASE })
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
        let has_tiers = reader.has_column(self.acls, TIER);
        if let Part::Policy(policy) = part
            && !has_tiers
        {
            report_missing_tiers(policy, reader, rows);
        }
        if !has_tiers || reader.row(self.routers, DEFAULT_ROUTER).is_some() {
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

/// Reports that a policy that would have rows has none, because ACLs have no tiers.
fn report_missing_tiers(key: &AdminPolicyKey, reader: &Reader<'_, AdminPolicies>, rows: &mut Rows) {
    reader.read(&Cell::Zone);
    reader.read(&Cell::NodeLabels);
    let inputs = reader.read(&Cell::AdminPolicy(key.clone()));
    let policy = inputs.admin_policy(key);
    if inputs.has_admin_policies() && policy.is_some_and(|policy| is_usable(inputs, policy)) {
        let reason = "the Northbound database has no tiers of ACLs (OVN before 23.06), so no rule \
                      applies";
        rows.report(vec![ObjectProblem::new(key, FieldProblem::of_object(reason))]);
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
            Owner::Part(Part::Policy(AdminPolicyKey { kind, name: name.into() }))
        }
        _ => Owner::Unowned,
    }
}
