//! Decoding of manifest objects into their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::FieldProblem;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::inventory::{
    Inventory, InventoryKind, ObjectKey, Origin, RefusedObject, Sourced, describe,
};
use super::located::{self, PlaceError, Segment};
use super::manifest_object::ManifestObject;
use super::misspelled_kind::find_misspelling;
use super::yaml::{self, YamlContent, YamlDocument};
use super::{LoadError, Problem, SourceLocation};
use crate::cnc::ClusterNetworkConnect;
use crate::ipam_claim::IPAMClaim;
use crate::nad::NetworkAttachmentDefinition;
use crate::object::kube_ovn::{
    IP, IPPool, KUBE_OVN_GROUP, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork,
    RouterLBRule, SecurityGroup, Subnet, SwitchLBRule, Vip, Vlan, Vpc, VpcDns, VpcNatGateway,
};
use crate::object::platform::{
    BGPAdvertisement, BGPPeer, Deployment, IPAddressPool, L2Advertisement, Lease, ServiceCIDR,
};
use crate::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, ConfigMap, EgressFirewall, EgressIP,
    EndpointSlice, MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, ObjectMeta,
    Pod, RouteAdvertisements, Service, VTEP,
};
use crate::selector;
use crate::settings::ClusterSettings;
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// Label of every namespace in a cluster; the value is the name of the namespace.
const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Name of the `Deployment` of Kube-OVN's controller, whose arguments are read.
const KUBE_OVN_CONTROLLER: &str = "kube-ovn-controller";
/// Group of `MetalLB`'s resources.
const METALLB_GROUP: &str = "metallb.io";

/// Maximum number of attempts to decode an object, each of which finds an unknown field.
const MAX_DECODE_ATTEMPTS: usize = 20;
/// Maximum number of problems that are kept of one object; the rest is a count.
const MAX_OBJECT_PROBLEMS: usize = 20;

/// Kinds whose controllers make pods in a cluster.
const WORKLOAD_KINDS: [&str; 9] = [
    "CronJob",
    "DaemonSet",
    "Deployment",
    "Job",
    "ReplicaSet",
    "ReplicationController",
    "StatefulSet",
    "VirtualMachine",
    "VirtualMachineInstance",
];

/// Decoder of YAML documents into an inventory, which also collects their errors.
pub(super) struct Decoder {
    /// Origin of an object at a location: manifest or state file.
    origin: fn(SourceLocation) -> Origin,
    pub(super) inventory: Inventory,
    pub(super) errors: Vec<Problem>,
    /// The first object of each kind that is not read, by `apiVersion` and kind, and the number of
    /// the objects.
    ignored: BTreeMap<(String, String), (Problem, usize)>,
    /// Number of errors before each refused object.
    errors_before: Vec<usize>,
    /// Number of objects so far, including invalid and ignored ones.
    pub(super) objects: u64,
    /// Number of files so far.
    files: u32,
}

impl Decoder {
    pub(super) fn new(origin: fn(SourceLocation) -> Origin) -> Self {
        Self {
            origin,
            inventory: Inventory::default(),
            errors: Vec::new(),
            ignored: BTreeMap::new(),
            errors_before: Vec::new(),
            objects: 0,
            files: 0,
        }
    }

    /// Returns the inventory. If there is at least one error, returns all of them, also those of
    /// refused objects.
    pub(super) fn finish(self) -> Result<Inventory, LoadError> {
        if self.errors.is_empty() {
            let mut inventory = self.inventory;
            let ignored = self.ignored.into_iter();
            let warnings = ignored.map(|(kind, ignored)| ignored_warning(kind, ignored));
            inventory.warnings.extend(warnings);
            return Ok(inventory);
        }
        let mut refused = self.errors_before.into_iter().zip(self.inventory.refused);
        let mut next = refused.next();
        let mut problems = Vec::new();
        for (index, error) in self.errors.into_iter().enumerate() {
            while let Some((_, object)) = next.take_if(|(before, _)| *before <= index) {
                problems.extend(object.problems);
                next = refused.next();
            }
            problems.push(error);
        }
        let rest = next.into_iter().chain(refused);
        problems.extend(rest.flat_map(|(_, object)| object.problems));
        Err(LoadError { problems })
    }

    /// Decodes all objects in the text of a file.
    pub(super) fn read(&mut self, file: &str, text: &str) {
        let file: Arc<str> = file.into();
        let place = self.files;
        self.files += 1;
        for YamlDocument { number, content } in yaml::parse_stream(text) {
            match content {
                Ok(node) => self.read_object(&ManifestObject {
                    node: &node,
                    file: &file,
                    place,
                    document: number,
                    item_type: None,
                }),
                Err(error) => self.errors.push(Problem {
                    location: Some(SourceLocation {
                        place,
                        file: file.clone(),
                        document: number,
                        line: error.line,
                    }),
                    message: format!("malformed {}: {}", notation(text), error.message),
                    ..Problem::default()
                }),
            }
        }
    }

    fn read_object(&mut self, raw: &ManifestObject<'_>) {
        let Some((api_version, kind)) = raw.type_meta() else {
            self.objects += 1;
            let message = match &raw.node.content {
                YamlContent::Mapping(_) => {
                    "not a Kubernetes object: apiVersion and kind are required strings"
                }
                _ => "not a Kubernetes object: expected a mapping",
            };
            self.errors.push(raw.problem("", message));
            return;
        };
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        if kind.ends_with("List") && raw.node.get("items").is_some()
            || (group, kind) == ("", "List")
        {
            return self.read_list(raw, api_version, kind);
        }
        self.objects += 1;
        match (group, kind) {
            ("", "Namespace") => self.decode::<Namespace>(raw, version),
            ("", "Node") => self.decode::<Node>(raw, version),
            ("", "Pod") => self.decode::<Pod>(raw, version),
            ("", "Service") => self.decode::<Service>(raw, version),
            ("discovery.k8s.io", "EndpointSlice") => self.decode::<EndpointSlice>(raw, version),
            ("networking.k8s.io", "NetworkPolicy") => self.decode::<NetworkPolicy>(raw, version),
            ("k8s.cni.cncf.io", "MultiNetworkPolicy") => {
                self.decode::<MultiNetworkPolicy>(raw, version);
            }
            ("policy.networking.k8s.io", "AdminNetworkPolicy") => {
                self.decode::<AdminNetworkPolicy>(raw, version);
            }
            ("policy.networking.k8s.io", "BaselineAdminNetworkPolicy") => {
                self.decode::<BaselineAdminNetworkPolicy>(raw, version);
            }
            ("patchbay", "ClusterSettings") => self.decode::<ClusterSettings>(raw, version),
            ("k8s.cni.cncf.io", "IPAMClaim") => self.decode::<IPAMClaim>(raw, version),
            ("k8s.cni.cncf.io", "NetworkAttachmentDefinition") => {
                self.decode::<NetworkAttachmentDefinition>(raw, version);
            }
            ("k8s.ovn.org", "UserDefinedNetwork") => {
                self.decode::<UserDefinedNetwork>(raw, version);
            }
            ("k8s.ovn.org", "ClusterUserDefinedNetwork") => {
                self.decode::<ClusterUserDefinedNetwork>(raw, version);
            }
            ("k8s.ovn.org", "EgressFirewall") => self.decode::<EgressFirewall>(raw, version),
            ("k8s.ovn.org", "EgressIP") => self.decode::<EgressIP>(raw, version),
            ("k8s.ovn.org", "RouteAdvertisements") => {
                self.decode::<RouteAdvertisements>(raw, version);
            }
            ("k8s.ovn.org", "VTEP") => self.decode::<VTEP>(raw, version),
            ("k8s.ovn.org", "ClusterNetworkConnect") => {
                self.decode::<ClusterNetworkConnect>(raw, version);
            }
            ("", "ConfigMap") => self.decode::<ConfigMap>(raw, version),
            ("networking.k8s.io", "ServiceCIDR") => {
                self.decode::<ServiceCIDR>(raw, ServiceCIDR::VERSION);
            }
            ("coordination.k8s.io", "Lease") => self.decode::<Lease>(raw, version),
            ("apps", "Deployment") if raw.meta_text("name") == Some(KUBE_OVN_CONTROLLER) => {
                self.decode::<Deployment>(raw, version);
            }
            (METALLB_GROUP, "IPAddressPool") => self.decode::<IPAddressPool>(raw, version),
            (METALLB_GROUP, "L2Advertisement") => self.decode::<L2Advertisement>(raw, version),
            (METALLB_GROUP, "BGPAdvertisement") => self.decode::<BGPAdvertisement>(raw, version),
            // The fields that are read are equal in all versions.
            (METALLB_GROUP, "BGPPeer") => self.decode::<BGPPeer>(raw, BGPPeer::VERSION),
            (KUBE_OVN_GROUP, _) => self.read_kube_ovn_object(raw, api_version, kind),
            _ => self.report_unread_kind(raw, api_version, group, kind),
        }
    }

    fn read_kube_ovn_object(&mut self, raw: &ManifestObject<'_>, api_version: &str, kind: &str) {
        let version = api_version.rsplit('/').next().unwrap_or_default();
        match kind {
            "ProviderNetwork" => self.decode::<ProviderNetwork>(raw, version),
            "Vlan" => self.decode::<Vlan>(raw, version),
            "Subnet" => self.decode::<Subnet>(raw, version),
            "Vpc" => self.decode::<Vpc>(raw, version),
            "OvnEip" => self.decode::<OvnEip>(raw, version),
            "OvnSnatRule" => self.decode::<OvnSnatRule>(raw, version),
            "OvnDnatRule" => self.decode::<OvnDnatRule>(raw, version),
            "OvnFip" => self.decode::<OvnFip>(raw, version),
            "IP" => self.decode::<IP>(raw, version),
            "SwitchLBRule" => self.decode::<SwitchLBRule>(raw, version),
            "RouterLBRule" => self.decode::<RouterLBRule>(raw, version),
            "SecurityGroup" => self.decode::<SecurityGroup>(raw, version),
            "Vip" => self.decode::<Vip>(raw, version),
            "IPPool" => self.decode::<IPPool>(raw, version),
            "VpcDns" => self.decode::<VpcDns>(raw, version),
            "VpcNatGateway" => self.decode::<VpcNatGateway>(raw, version),
            _ => self.report_unread_kind(raw, api_version, KUBE_OVN_GROUP, kind),
        }
    }

    /// Reports an error for a misspelled kind, and counts the objects of any other kind that is not
    /// read.
    fn report_unread_kind(
        &mut self,
        raw: &ManifestObject<'_>,
        api_version: &str,
        group: &str,
        kind: &str,
    ) {
        if let Some((field, message)) = find_misspelling(group, kind) {
            self.errors.push(raw.problem(field, message));
        } else {
            let key = (api_version.to_owned(), kind.to_owned());
            let ignored = self.ignored.entry(key);
            ignored.or_insert_with(|| (raw.problem("", ""), 0)).1 += 1;
        }
    }

    fn read_list(&mut self, raw: &ManifestObject<'_>, api_version: &str, kind: &str) {
        // API servers leave `apiVersion` and `kind` out of the items of a typed list.
        let item_type = kind
            .strip_suffix("List")
            .filter(|kind| !kind.is_empty())
            .map(|kind| (api_version, kind));
        match raw.node.get("items").map(|items| &items.content) {
            Some(YamlContent::Sequence(items)) => {
                for node in items {
                    self.read_object(&ManifestObject { node, item_type, ..*raw });
                }
            }
            _ => self.errors.push(raw.problem("items", "expected a list")),
        }
    }

    fn decode<T: InventoryKind>(&mut self, raw: &ManifestObject<'_>, version: &str) {
        if T::VERSION != version {
            let message = format!("unsupported version {version:?}, expected {:?}", T::VERSION);
            self.errors.push(raw.problem("apiVersion", message));
            return;
        }
        let origin = (self.origin)(raw.location(""));
        let (mut object, mut violations) = T::decode_strictly(pruned::<T>(raw.to_json()));
        let is_in_status = |violation: &FieldProblem| {
            let rest = violation.field.strip_prefix("status");
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
        };
        if object.is_none()
            && violations.last().is_some_and(is_in_status)
            && has_status_subresource::<T>()
            && matches!(origin, Origin::Manifest(_))
        {
            let json = pruned::<T>(raw.to_json_without_status());
            (object, violations) = T::decode_strictly(json);
        }
        let Some(mut object) = object else {
            let key = written_key::<T>(raw);
            self.refuse::<T>(raw, key, &violations);
            return;
        };
        fill_in_defaults(&mut object);
        violations.extend(meta_violations::<T>(object.meta()));
        violations.extend(object.violations());
        let key = ObjectKey::of(object.meta());
        if let Some(first) = self.first_origin::<T>(&key) {
            let message = format!("duplicate object, first defined at {first}");
            self.errors
                .push(Problem { object: Some(describe(&object)), ..raw.problem("", message) });
        }
        if violations.is_empty() {
            T::objects_mut(&mut self.inventory).insert(Sourced {
                object,
                origin,
                position: self.objects,
            });
        } else {
            self.refuse::<T>(raw, key, &violations);
        }
    }

    /// Origin of the object of a key, be it refused or not. `None`: it is the first one, or has no
    /// name.
    fn first_origin<T: InventoryKind>(&self, key: &ObjectKey) -> Option<String> {
        if let Some(first) = T::objects(&self.inventory).get(key) {
            return Some(first.origin.to_string());
        }
        let mut refused = self.inventory.refused.iter();
        let first = refused.find(|one| one.kind == T::KIND && one.key == *key)?;
        let location = first.problems.first()?.location.as_ref()?;
        (!key.name.is_empty()).then(|| location.to_string())
    }

    /// Refuses an object, with the lines of its first violations. The settings of the cluster and
    /// state files have no other objects that can do without them: their violations are errors.
    fn refuse<T: InventoryKind>(
        &mut self,
        raw: &ManifestObject<'_>,
        key: ObjectKey,
        violations: &[FieldProblem],
    ) {
        let first = violations.iter().take(MAX_OBJECT_PROBLEMS);
        let mut problems: Vec<Problem> =
            first.map(|violation| raw.violation_problem(violation)).collect();
        if let Some(more @ 1..) = violations.len().checked_sub(MAX_OBJECT_PROBLEMS) {
            let message = format!("{more} more errors in this object");
            problems.push(raw.problem("", message));
        }
        let is_manifest = matches!((self.origin)(raw.location("")), Origin::Manifest(_));
        if !is_manifest || T::KIND == ClusterSettings::KIND {
            self.errors.extend(problems);
            return;
        }
        self.errors_before.push(self.errors.len());
        self.inventory.undecoded.insert((T::KIND, key.clone()));
        self.inventory.refused.push(RefusedObject {
            kind: T::KIND,
            key,
            json: raw.to_json(),
            position: self.objects,
            problems,
        });
    }
}

/// Warning about the objects of a kind that is not read.
fn ignored_warning(
    (api_version, kind): (String, String),
    (mut first, count): (Problem, usize),
) -> Problem {
    let pods = if WORKLOAD_KINDS.contains(&&*kind) {
        "; manifests of its pods are needed, as a cluster has them"
    } else {
        ""
    };
    let others = match count - 1 {
        0 => String::new(),
        more => format!(", like {more} more of the kind"),
    };
    first.message =
        format!("ignored{others}: patchbay does not use kind {kind} of {api_version}{pods}");
    first
}

/// Namespace and name of an object that cannot be decoded, as far as they can be read.
fn written_key<T: InventoryKind>(raw: &ManifestObject<'_>) -> ObjectKey {
    let name = raw.meta_text("name").unwrap_or_default();
    let namespace = raw.meta_text("namespace").unwrap_or("default");
    if T::NAMESPACED { ObjectKey::namespaced(namespace, name) } else { ObjectKey::cluster(name) }
}

/// Decodes a JSON object, and returns a violation for each unknown field and for the first value
/// of a wrong type. `None`: the object cannot be decoded, because of the last violation.
///
/// ```
/// use patchbay_resources::manifests::from_json;
/// use patchbay_resources::object::LabelSelector;
///
/// let json = serde_json::json!({"matchLabel": {"network": "blue"}});
/// let (selector, violations) = from_json::<LabelSelector>(json);
/// assert_eq!(selector, Some(LabelSelector::default()));
/// assert_eq!(violations[0].to_string(), "matchLabel: unknown field");
/// ```
pub fn from_json<T: DeserializeOwned>(mut json: Value) -> (Option<T>, Vec<FieldProblem>) {
    let mut violations = Vec::new();
    loop {
        match located::decode(&json) {
            Ok((object, ignored)) => {
                violations.extend(ignored_violations(&ignored));
                return (Some(object), violations);
            }
            Err(error) => {
                violations.push(error_violation(&error));
                // Decode again without the unknown member, to find further violations. Each attempt
                // costs as much as the object is large.
                if violations.len() >= MAX_DECODE_ATTEMPTS || !remove_unknown(&mut json, &error) {
                    return (None, violations);
                }
            }
        }
    }
}

/// Fields of an object that its type does not have.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct UnknownFields(Vec<Vec<Segment>>);

impl UnknownFields {
    pub(super) fn new(fields: Vec<Vec<Segment>>) -> Self {
        Self(fields)
    }

    /// The first field that is a selector or inside one, as a violation. Fields of the status are
    /// left out.
    pub fn in_selectors(&self) -> Option<FieldProblem> {
        let mut fields = self.0.iter();
        let field = fields.find(|field| is_in_selector(field))?;
        Some(unknown_field(format_path(field)))
    }
}

fn is_in_selector(field: &[Segment]) -> bool {
    let mut names = field.iter().filter_map(|segment| match segment {
        Segment::Member(name) => Some(name),
        Segment::Item(_) => None,
    });
    let is_selector = |name: &String| name.to_ascii_lowercase().contains("selector");
    names.next().is_some_and(|first| first != "status") && names.any(is_selector)
}

fn unknown_field(field: String) -> FieldProblem {
    FieldProblem::new(field, "unknown field")
}

/// Violations for ignored members. The type determines `apiVersion` and `kind`. Newer clusters have
/// more fields in the status, which is not used.
fn ignored_violations(ignored: &[Vec<Segment>]) -> impl Iterator<Item = FieldProblem> {
    let fields = ignored.iter().map(|path| format_path(path));
    fields
        .filter(|field| field != "apiVersion" && field != "kind" && !field.starts_with("status."))
        .map(unknown_field)
}

fn error_violation(error: &PlaceError) -> FieldProblem {
    let mut message = error.message();
    let is_plain_scalar = ["boolean", "integer", "floating point"]
        .iter()
        .any(|kind| message.starts_with(&format!("invalid type: {kind}")));
    if is_plain_scalar && message.ends_with("expected a string") {
        message += "; quote the value";
    }
    FieldProblem::new(format_path(error.path()), message)
}

fn format_path(path: &[Segment]) -> String {
    path.iter().fold(String::new(), |parent, segment| match segment {
        Segment::Member(key) => join_member(parent, key),
        Segment::Item(index) => format!("{parent}[{index}]"),
    })
}

/// Path of a member. Keys that are not identifiers, such as label keys, are in brackets.
fn join_member(parent: String, key: &str) -> String {
    if !key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        format!("{parent}[{key}]")
    } else if parent.is_empty() {
        key.to_owned()
    } else {
        parent + "." + key
    }
}

/// Removes the member whose field is unknown. Returns `false` if the error is another one.
fn remove_unknown(json: &mut Value, error: &PlaceError) -> bool {
    let Some((Segment::Member(key), parents)) = error.path().split_last() else {
        return false;
    };
    let mut parents = parents.iter();
    let parent = parents.try_fold(json, |value, segment| match segment {
        Segment::Member(key) => value.get_mut(key),
        Segment::Item(index) => value.get_mut(index),
    });
    error.message().starts_with("unknown field")
        && parent
            .and_then(Value::as_object_mut)
            .is_some_and(|members| members.remove(key).is_some())
}

/// `true` when `status` is a subresource. An API server drops the status of a new object then.
fn has_status_subresource<T: InventoryKind>() -> bool {
    T::GROUP == "k8s.ovn.org" || T::GROUP == KUBE_OVN_GROUP && T::KIND != IP::KIND
}

/// A custom resource of Kube-OVN without its members that are `null`. An API server drops them,
/// because no field of the definitions is nullable.
fn pruned<T: InventoryKind>(mut json: Value) -> Value {
    if T::GROUP == KUBE_OVN_GROUP {
        drop_nulls(&mut json);
    }
    json
}

fn drop_nulls(json: &mut Value) {
    match json {
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// Sets the fields that an API server sets in a new object: default namespace, and name label of
/// a namespace.
fn fill_in_defaults<T: InventoryKind>(object: &mut T) {
    let meta = object.meta_mut();
    if T::NAMESPACED {
        meta.namespace.get_or_insert_with(|| "default".into());
    }
    if let (true, Some(name)) = (T::KIND == "Namespace", &meta.name) {
        meta.labels.get_or_insert_default().insert(NAMESPACE_NAME_LABEL.into(), name.clone());
    }
}

/// Error of an object name as an API server words it. `None`: the name is valid. Names of
/// namespaces are DNS labels, other names are DNS subdomains.
fn name_problem(name: &str, is_label: bool) -> Option<String> {
    let (is_valid, limit, rule) = if is_label {
        (selector::is_dns_label(name), 63, selector::DNS_LABEL_RULE)
    } else {
        let is_valid = selector::is_dns_subdomain(name);
        (is_valid, 253, selector::DNS_SUBDOMAIN_RULE)
    };
    let problem = if name.len() > limit {
        format!("must be no more than {limit} characters")
    } else {
        rule.to_owned()
    };
    (!is_valid).then(|| format!("Invalid value: \"{name}\": {problem}"))
}

/// Violations in the metadata: name, namespace, and keys of labels and annotations.
fn meta_violations<T: InventoryKind>(meta: &ObjectMeta) -> Vec<FieldProblem> {
    let mut found = Vec::new();
    match meta.name.as_deref() {
        None | Some("") => found.push(FieldProblem::new("metadata.name", "Required value")),
        Some(name) => {
            let is_label = T::KIND == "Namespace";
            let problem = name_problem(name, is_label);
            found.extend(problem.map(|problem| FieldProblem::new("metadata.name", problem)));
        }
    }
    match meta.namespace.as_deref() {
        Some(_) if !T::NAMESPACED => {
            found.push(FieldProblem::new(
                "metadata.namespace",
                "Forbidden: not allowed on this kind",
            ));
        }
        Some(namespace) => {
            let problem = name_problem(namespace, true);
            found.extend(problem.map(|problem| FieldProblem::new("metadata.namespace", problem)));
        }
        None => {}
    }
    for (key, value) in meta.labels.iter().flatten() {
        let field = format!("metadata.labels[{key}]");
        let problems = selector::key_problem(key).into_iter().chain(selector::value_problem(value));
        found.extend(problems.map(|problem| FieldProblem::new(&field, problem)));
    }
    for key in meta.annotations.iter().flatten().map(|(key, _)| key) {
        let problem = selector::key_problem(key);
        found.extend(
            problem
                .map(|problem| FieldProblem::new(format!("metadata.annotations[{key}]"), problem)),
        );
    }
    found
}

/// Notation of a text, by its first bytes. The parser reads both. YAML has braces, too, as have
/// templates of YAML.
fn notation(text: &str) -> &'static str {
    let text = text.trim_start();
    let behind = |open, next: &[char]| {
        let content = text.strip_prefix(open).map(str::trim_start);
        content.is_some_and(|content| content.starts_with(next))
    };
    if behind('{', &['"']) || behind('[', &['{', '"']) { "JSON" } else { "YAML" }
}
