//! Decoding of manifest objects into their types.

use std::collections::BTreeMap;
use std::sync::Arc;

use patchbay_model::FieldProblem;
use serde_json::Value;

use super::admission::{fill_in_defaults, has_status_subresource, meta_violations, pruned};
use super::inventory::{
    Inventory, InventoryKind, ObjectKey, Origin, RefusedObject, Sourced, describe,
};
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
    EndpointSlice, MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object as _, Pod,
    RouteAdvertisements, Service, VTEP,
};
use crate::settings::ClusterSettings;
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};

/// Name of the `Deployment` of Kube-OVN's controller, whose arguments are read.
const KUBE_OVN_CONTROLLER: &str = "kube-ovn-controller";
/// Group of `MetalLB`'s resources.
const METALLB_GROUP: &str = "metallb.io";

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
    /// Origin of an object at a location: manifest, state file or archive.
    pub(super) origin: fn(SourceLocation) -> Origin,
    /// `true`: the objects are those of a cluster, which its API server has accepted.
    is_observed: bool,
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
            is_observed: false,
            inventory: Inventory::default(),
            errors: Vec::new(),
            ignored: BTreeMap::new(),
            errors_before: Vec::new(),
            objects: 0,
            files: 0,
        }
    }

    /// A decoder of the objects in an archive of a cluster.
    pub(super) fn of_archive() -> Self {
        Self { is_observed: true, ..Self::new(Origin::Archive) }
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
        if self.is_observed {
            return;
        }
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
            Some(YamlContent::Scalar(Value::Null)) if self.is_observed => {}
            _ => self.errors.push(raw.problem("items", "expected a list")),
        }
    }

    fn decode<T: InventoryKind>(&mut self, raw: &ManifestObject<'_>, version: &str) {
        if self.is_observed {
            return self.observe::<T>(raw, version);
        }
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
pub(super) fn written_key<T: InventoryKind>(raw: &ManifestObject<'_>) -> ObjectKey {
    let name = raw.meta_text("name").unwrap_or_default();
    let namespace = raw.meta_text("namespace").unwrap_or("default");
    if T::NAMESPACED { ObjectKey::namespaced(namespace, name) } else { ObjectKey::cluster(name) }
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
