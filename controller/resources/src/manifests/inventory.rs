//! Inventory of a run: all objects by kind.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use imbl::OrdMap;
use imbl::ordmap::DiffItem;
use patchbay_model::EGRESS_FIREWALL;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::from_json::{UnknownFields, from_json};
use super::located::{self, PlaceError};
use super::{Problem, SourceLocation};
use crate::cnc::ClusterNetworkConnect;
use crate::ipam_claim::IPAMClaim;
use crate::nad::NetworkAttachmentDefinition;
use crate::object::kube_ovn::{
    IP, IPPool, OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, ProviderNetwork, RouterLBRule,
    SecurityGroup, Subnet, SwitchLBRule, Vip, Vlan, Vpc, VpcDns, VpcNatGateway,
};
use crate::object::platform::{
    BGPAdvertisement, BGPPeer, Deployment, IPAddressPool, L2Advertisement, Lease, ServiceCIDR,
};
use crate::object::{
    AdminNetworkPolicy, BaselineAdminNetworkPolicy, ConfigMap, EgressFirewall, EgressIP,
    EndpointSlice, MultiNetworkPolicy, Namespace, NetworkPolicy, Node, Object, ObjectMeta, Pod,
    RouteAdvertisements, Service, VTEP,
};
use crate::settings::{ClusterSettings, ClusterSettingsSpec};
use crate::udn::{ClusterUserDefinedNetwork, UserDefinedNetwork};
use patchbay_model::{FieldProblem, ObjectRef};

/// Namespace and name of an object, which are unique in its kind.
#[derive(Clone, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct ObjectKey {
    /// Namespace. `None`: the kind has no namespaces.
    pub namespace: Option<String>,
    /// Name.
    pub name: String,
}

impl ObjectKey {
    /// Key of an object in a kind without namespaces.
    pub fn cluster(name: impl Into<String>) -> Self {
        Self { namespace: None, name: name.into() }
    }

    /// Key of an object in a namespace.
    pub fn namespaced(namespace: impl Into<String>, name: impl Into<String>) -> Self {
        Self { namespace: Some(namespace.into()), name: name.into() }
    }

    /// Key of the object with this metadata.
    pub fn of(meta: &ObjectMeta) -> Self {
        Self { namespace: meta.namespace.clone(), name: meta.name.clone().unwrap_or_default() }
    }
}

impl From<&ObjectRef> for ObjectKey {
    fn from(object: &ObjectRef) -> Self {
        Self {
            namespace: object.namespace.as_deref().map(str::to_owned),
            name: (*object.name).to_owned(),
        }
    }
}

impl fmt::Display for ObjectKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// Origin of an object.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Origin {
    /// A manifest; the line is the first of the object.
    Manifest(SourceLocation),
    /// A state file of an earlier run.
    State(SourceLocation),
    /// An archive with the objects of a cluster.
    Archive(SourceLocation),
    /// Rendered for another object, whose kind and name this is.
    Rendered(String),
    /// The API server of a cluster.
    Cluster,
}

impl Origin {
    /// `true` for objects of a cluster, as they are there.
    pub fn is_observed(&self) -> bool {
        matches!(self, Self::Cluster | Self::Archive(_))
    }

    /// Location in a file. `None`: the object is not from a file.
    pub fn location(&self) -> Option<&SourceLocation> {
        match self {
            Self::Manifest(location) | Self::State(location) | Self::Archive(location) => {
                Some(location)
            }
            Self::Rendered(_) | Self::Cluster => None,
        }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Manifest(location) | Self::State(location) | Self::Archive(location) => {
                location.fmt(f)
            }
            Self::Rendered(owner) => write!(f, "rendered for {owner}"),
            Self::Cluster => f.write_str("the cluster"),
        }
    }
}

/// An object with its origin.
#[derive(Clone, Debug, PartialEq)]
pub struct Sourced<T> {
    /// The object.
    pub object: T,
    /// Origin of the object.
    pub origin: Origin,
    /// Position among all objects of the run, in input order. New ids are allocated in this order.
    pub position: u64,
}

impl<T: InventoryKind> Sourced<T> {
    /// A problem of the object.
    pub fn problem(&self, message: impl Into<String>) -> Problem {
        Problem {
            location: self.origin.location().cloned(),
            object: Some(describe(&self.object)),
            field: None,
            message: message.into(),
        }
    }
}

/// Objects of one kind by key.
///
/// Clones share the objects, so that the difference of two versions is found at the cost of the
/// difference.
#[derive(Debug)]
pub struct Objects<T>(OrdMap<ObjectKey, Shared<T>>);

/// An object that clones of [`Objects`] share. It is equal to itself without a comparison.
#[derive(Debug)]
struct Shared<T>(Arc<Sourced<T>>);

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for Shared<T> {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

/// Difference of two versions of [`Objects`] in one object.
#[derive(Debug)]
pub struct ObjectChange<'a, T> {
    /// Key of the object.
    pub key: &'a ObjectKey,
    /// The object before. `None`: it is new.
    pub former: Option<&'a Sourced<T>>,
    /// The object now. `None`: it is gone.
    pub current: Option<&'a Sourced<T>>,
}

impl<T> Clone for Objects<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: PartialEq> PartialEq for Objects<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl<T> Default for Objects<T> {
    fn default() -> Self {
        Self(OrdMap::new())
    }
}

impl<T: InventoryKind> Objects<T> {
    /// Object with this key.
    pub fn get(&self, key: &ObjectKey) -> Option<&Sourced<T>> {
        self.0.get(key).map(|shared| &*shared.0)
    }

    /// Mutable object with this key. An object that clones share is copied.
    pub fn get_mut(&mut self, key: &ObjectKey) -> Option<&mut Sourced<T>> {
        let shared = self.0.get_mut(key)?;
        Some(Arc::make_mut(&mut shared.0))
    }

    /// Object with this name, for kinds without namespaces.
    pub fn named(&self, name: &str) -> Option<&T> {
        let sourced = self.get(&ObjectKey::cluster(name))?;
        Some(&sourced.object)
    }

    /// Inserts the object under its own name, in place of an object that was there.
    pub fn insert(&mut self, sourced: Sourced<T>) {
        self.insert_shared(Arc::new(sourced));
    }

    /// Inserts a shared object under its own name, in place of an object that was there.
    pub fn insert_shared(&mut self, sourced: Arc<Sourced<T>>) {
        let key = ObjectKey::of(sourced.object.meta());
        self.0.insert(key, Shared(sourced));
    }

    /// Inserts the object unless it is there as it is, so that clones go on sharing it.
    pub fn put(&mut self, sourced: Sourced<T>) {
        if self.get(&ObjectKey::of(sourced.object.meta())) != Some(&sourced) {
            self.insert(sourced);
        }
    }

    /// Removes the object with this key. Returns `true` if it was there.
    pub fn remove(&mut self, key: &ObjectKey) -> bool {
        self.0.remove(key).is_some()
    }

    /// Objects that differ from an earlier version, in the order of their keys.
    pub fn changes_since<'a>(
        &'a self,
        earlier: &'a Self,
    ) -> impl Iterator<Item = ObjectChange<'a, T>> {
        earlier.0.diff(&self.0).map(|item| {
            let (key, former, current) = match item {
                DiffItem::Add(key, current) => (key, None, Some(current)),
                DiffItem::Remove(key, former) => (key, Some(former), None),
                DiffItem::Update { old, new } => (new.0, Some(old.1), Some(new.1)),
            };
            ObjectChange {
                key,
                former: former.map(|shared| &*shared.0),
                current: current.map(|shared| &*shared.0),
            }
        })
    }

    /// Iterates over all objects in the order of their keys.
    pub fn iter(&self) -> impl Iterator<Item = (&ObjectKey, &Sourced<T>)> {
        self.0.iter().map(|(key, shared)| (key, &*shared.0))
    }

    /// Iterates over the objects of a namespace in the order of their names.
    pub fn in_namespace(&self, namespace: &str) -> impl Iterator<Item = (&ObjectKey, &Sourced<T>)> {
        let first = ObjectKey::namespaced(namespace, "");
        self.0
            .range(first.clone()..)
            .map(|(key, shared)| (key, &*shared.0))
            .take_while(move |(key, _)| key.namespace == first.namespace)
    }

    /// Changes all objects, in the order of their keys.
    pub fn change_each(&mut self, mut change: impl FnMut(&ObjectKey, &mut Sourced<T>)) {
        let keys: Vec<ObjectKey> = self.0.keys().cloned().collect();
        for key in &keys {
            if let Some(sourced) = self.get_mut(key) {
                change(key, sourced);
            }
        }
    }

    /// All objects in input order.
    pub fn in_order(&self) -> Vec<(&ObjectKey, &Sourced<T>)> {
        let mut all: Vec<_> = self.iter().collect();
        all.sort_by_key(|(_, sourced)| sourced.position);
        all
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `true` when there are no objects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// An object of a manifest that cannot be decoded, or that breaks rules of its kind.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedObject {
    /// Kind.
    pub kind: &'static str,
    /// Namespace and name, as far as they can be read.
    pub key: ObjectKey,
    /// The object as the manifest has it.
    pub json: Value,
    /// Position among all objects of the run.
    pub position: u64,
    /// Reasons.
    pub problems: Vec<Problem>,
}

/// All objects of a run, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// Namespaces. Every namespace has the label `kubernetes.io/metadata.name`, as in a cluster.
    pub namespaces: Objects<Namespace>,
    /// Nodes.
    pub nodes: Objects<Node>,
    /// Pods.
    pub pods: Objects<Pod>,
    /// Services.
    pub services: Objects<Service>,
    /// Policies of primary networks.
    pub network_policies: Objects<NetworkPolicy>,
    /// Policies of secondary networks.
    pub multi_network_policies: Objects<MultiNetworkPolicy>,
    /// Policies of administrators that decide before NetworkPolicies.
    pub admin_network_policies: Objects<AdminNetworkPolicy>,
    /// Policies of administrators that decide after NetworkPolicies.
    pub baseline_admin_network_policies: Objects<BaselineAdminNetworkPolicy>,
    /// Firewalls of namespaces.
    pub egress_firewalls: Objects<EgressFirewall>,
    /// Addresses with which packets leave the cluster.
    pub egress_ips: Objects<EgressIP>,
    /// Announcements of networks.
    pub route_advertisements: Objects<RouteAdvertisements>,
    /// VTEPs.
    pub vteps: Objects<VTEP>,
    /// Endpoints of services.
    pub endpoint_slices: Objects<EndpointSlice>,
    /// Claims that keep addresses of pods.
    pub ipam_claims: Objects<IPAMClaim>,
    /// Network attachment definitions.
    pub network_attachment_definitions: Objects<NetworkAttachmentDefinition>,
    /// User-defined networks of single namespaces.
    pub user_defined_networks: Objects<UserDefinedNetwork>,
    /// User-defined networks of any number of namespaces.
    pub cluster_user_defined_networks: Objects<ClusterUserDefinedNetwork>,
    /// `ClusterNetworkConnect` objects.
    pub cluster_network_connects: Objects<ClusterNetworkConnect>,
    /// Physical networks of Kube-OVN.
    pub provider_networks: Objects<ProviderNetwork>,
    /// VLANs of the physical networks.
    pub vlans: Objects<Vlan>,
    /// Subnets of VPCs, and external subnets.
    pub subnets: Objects<Subnet>,
    /// Virtual private clouds.
    pub vpcs: Objects<Vpc>,
    /// Addresses of external subnets.
    pub ovn_eips: Objects<OvnEip>,
    /// Source addresses of connections of VPCs.
    pub ovn_snat_rules: Objects<OvnSnatRule>,
    /// Forwarded ports of external addresses.
    pub ovn_dnat_rules: Objects<OvnDnatRule>,
    /// Floating addresses.
    pub ovn_fips: Objects<OvnFip>,
    /// Records of addresses in subnets.
    pub ips: Objects<IP>,
    /// Load balancers on switches of VPCs.
    pub switch_lb_rules: Objects<SwitchLBRule>,
    /// Load balancers on routers of VPCs.
    pub router_lb_rules: Objects<RouterLBRule>,
    /// Security groups.
    pub security_groups: Objects<SecurityGroup>,
    /// Addresses that move between machines.
    pub vips: Objects<Vip>,
    /// Pools of addresses of subnets.
    pub ip_pools: Objects<IPPool>,
    /// Name servers of VPCs.
    pub vpc_dnses: Objects<VpcDns>,
    /// NAT gateways of VPCs in pods.
    pub vpc_nat_gateways: Objects<VpcNatGateway>,
    /// Pools of addresses of `MetalLB`.
    pub ip_address_pools: Objects<IPAddressPool>,
    /// Announcements of pools by ARP and NDP.
    pub l2_advertisements: Objects<L2Advertisement>,
    /// Announcements of pools by BGP.
    pub bgp_advertisements: Objects<BGPAdvertisement>,
    /// Routers that announcements are sent to.
    pub bgp_peers: Objects<BGPPeer>,
    /// Config maps.
    pub config_maps: Objects<ConfigMap>,
    /// Ranges of cluster IPs.
    pub service_cidrs: Objects<ServiceCIDR>,
    /// Leases of controllers.
    pub leases: Objects<Lease>,
    /// Deployments of Kube-OVN's controller. Other ones are ignored.
    pub deployments: Objects<Deployment>,
    /// Settings of the cluster: at most one object.
    pub cluster_settings: Objects<ClusterSettings>,
    /// Kinds and keys of objects that exist, but are missing here, because they cannot be decoded.
    pub undecoded: BTreeSet<(&'static str, ObjectKey)>,
    /// Objects of manifests that are not used. Those without a former version that is used instead
    /// are in [`undecoded`](Self::undecoded), too.
    pub refused: Vec<RefusedObject>,
    /// Kinds whose objects are missing here, because no list of them has succeeded.
    pub unlisted: BTreeSet<&'static str>,
    /// Warnings, such as objects of ignored kinds.
    pub warnings: Vec<Problem>,
}

impl Inventory {
    /// `true` if objects of one of these kinds may be missing, because they cannot be decoded or
    /// listed.
    pub fn lacks(&self, kinds: &[&str]) -> bool {
        let undecoded = self.undecoded.iter().map(|(kind, _)| kind);
        let mut lacking = undecoded.chain(&self.unlisted);
        lacking.any(|kind| kinds.contains(kind))
    }

    /// Refused objects of a kind that are missing here, because there is no former version.
    pub fn missing(&self, kind: &str) -> impl Iterator<Item = &RefusedObject> {
        let refused = self.refused.iter().filter(move |one| one.kind == kind);
        refused.filter(|one| self.undecoded.contains(&(one.kind, one.key.clone())))
    }

    /// Kinds and names of all objects of Kube-OVN.
    pub fn kube_ovn_objects(&self) -> impl Iterator<Item = String> {
        fn named<T: InventoryKind>(objects: &Objects<T>) -> impl Iterator<Item = String> {
            objects.iter().map(|(key, _)| format!("{} {key}", T::KIND))
        }
        named(&self.provider_networks)
            .chain(named(&self.vlans))
            .chain(named(&self.subnets))
            .chain(named(&self.vpcs))
            .chain(named(&self.ovn_eips))
            .chain(named(&self.ovn_snat_rules))
            .chain(named(&self.ovn_dnat_rules))
            .chain(named(&self.ovn_fips))
            .chain(named(&self.ips))
    }

    /// Settings of the cluster; without an object they are empty.
    pub fn settings(&self) -> ClusterSettingsSpec {
        let mut objects = self.cluster_settings.iter();
        let object = objects.next();
        object.map_or_else(ClusterSettingsSpec::default, |(_, sourced)| sourced.object.spec.clone())
    }

    /// Objects of a kind.
    pub fn objects<T: InventoryKind>(&self) -> &Objects<T> {
        T::objects(self)
    }
}

/// A kind of objects in an [`Inventory`].
///
/// Its objects are decoded by functions of this crate, which are compiled once. Functions that are
/// generic over the deserializer are compiled again in each crate that calls them.
pub trait InventoryKind: Object + Clone + PartialEq + DeserializeOwned {
    /// Decodes a JSON object. Unknown fields are ignored and returned, except in types that deny
    /// them.
    ///
    /// # Errors
    /// A value has the wrong type, or a required field is missing.
    fn decode(json: &Value) -> serde_json::Result<(Self, UnknownFields)>;

    /// [`from_json`](super::from_json) of this kind.
    fn decode_strictly(json: Value) -> (Option<Self>, Vec<FieldProblem>);

    /// Rules that this object breaks. An API server would refuse the object for each of them.
    /// Unknown fields and wrong types are found earlier, by [`from_json`](super::from_json).
    fn violations(&self) -> Vec<FieldProblem>;

    /// Objects of this kind.
    fn objects(inventory: &Inventory) -> &Objects<Self>;

    /// Mutable objects of this kind.
    fn objects_mut(inventory: &mut Inventory) -> &mut Objects<Self>;
}

macro_rules! inventory_kinds {
    ($($kind:ty, $field:ident, $violations:expr;)*) => {
        /// `true` if an inventory has the objects of a resource. The core group is empty.
        pub(super) fn has_resource(group: &str, plural: &str) -> bool {
            let resources = [$((<$kind>::GROUP, <$kind>::PLURAL)),*];
            resources.contains(&(group, plural))
        }

        $(impl InventoryKind for $kind {
            fn decode(json: &Value) -> serde_json::Result<(Self, UnknownFields)> {
                located::decode(json)
                    .map(|(object, ignored)| (object, UnknownFields::new(ignored)))
                    .map_err(PlaceError::into_json_error)
            }

            fn decode_strictly(json: Value) -> (Option<Self>, Vec<FieldProblem>) {
                from_json(json)
            }

            fn violations(&self) -> Vec<FieldProblem> {
                let violations: fn(&Self) -> Vec<FieldProblem> = $violations;
                violations(self)
            }

            fn objects(inventory: &Inventory) -> &Objects<Self> {
                &inventory.$field
            }

            fn objects_mut(inventory: &mut Inventory) -> &mut Objects<Self> {
                &mut inventory.$field
            }
        })*
    };
}

inventory_kinds! {
    Namespace, namespaces, |_| Vec::new();
    Node, nodes, |_| Vec::new();
    Pod, pods, |_| Vec::new();
    Service, services, |_| Vec::new();
    EndpointSlice, endpoint_slices, |_| Vec::new();
    IPAMClaim, ipam_claims, |_| Vec::new();
    NetworkPolicy, network_policies, |policy| policy.spec.violations();
    MultiNetworkPolicy, multi_network_policies, |_| Vec::new();
    AdminNetworkPolicy, admin_network_policies, |_| Vec::new();
    BaselineAdminNetworkPolicy, baseline_admin_network_policies, |_| Vec::new();
    EgressFirewall, egress_firewalls, egress_firewall_violations;
    EgressIP, egress_ips, |_| Vec::new();
    RouteAdvertisements, route_advertisements, |_| Vec::new();
    VTEP, vteps, |_| Vec::new();
    NetworkAttachmentDefinition, network_attachment_definitions, |_| Vec::new();
    UserDefinedNetwork, user_defined_networks, |udn| udn.spec.violations();
    ClusterUserDefinedNetwork, cluster_user_defined_networks, |cudn| cudn.spec.violations();
    ClusterNetworkConnect, cluster_network_connects, |cnc| cnc.spec.violations();
    ProviderNetwork, provider_networks, |network| network.spec.violations();
    Vlan, vlans, |vlan| vlan.spec.violations();
    Subnet, subnets, |_| Vec::new();
    Vpc, vpcs, |_| Vec::new();
    OvnEip, ovn_eips, |_| Vec::new();
    OvnSnatRule, ovn_snat_rules, |_| Vec::new();
    OvnDnatRule, ovn_dnat_rules, |_| Vec::new();
    OvnFip, ovn_fips, |_| Vec::new();
    IP, ips, |_| Vec::new();
    SwitchLBRule, switch_lb_rules, |_| Vec::new();
    RouterLBRule, router_lb_rules, |_| Vec::new();
    SecurityGroup, security_groups, |_| Vec::new();
    Vip, vips, |_| Vec::new();
    IPPool, ip_pools, |_| Vec::new();
    VpcDns, vpc_dnses, |_| Vec::new();
    VpcNatGateway, vpc_nat_gateways, |_| Vec::new();
    IPAddressPool, ip_address_pools, |_| Vec::new();
    L2Advertisement, l2_advertisements, |_| Vec::new();
    BGPAdvertisement, bgp_advertisements, |_| Vec::new();
    BGPPeer, bgp_peers, |_| Vec::new();
    ConfigMap, config_maps, |_| Vec::new();
    ServiceCIDR, service_cidrs, |_| Vec::new();
    Lease, leases, |_| Vec::new();
    Deployment, deployments, |_| Vec::new();
    ClusterSettings, cluster_settings, ClusterSettings::violations;
}

fn egress_firewall_violations(object: &EgressFirewall) -> Vec<FieldProblem> {
    let is_named = object.name_any() == EGRESS_FIREWALL;
    let violation =
        || FieldProblem::new("metadata.name", format!("should match '^{EGRESS_FIREWALL}$'"));
    (!is_named).then(violation).into_iter().collect()
}

/// Kind, namespace and name of an object for messages, such as `UserDefinedNetwork blue/net`.
pub fn describe<T: InventoryKind>(object: &T) -> String {
    format!("{} {}", T::KIND, ObjectKey::of(object.meta()))
}
