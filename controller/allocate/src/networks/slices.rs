//! Mirrored EndpointSlices: the endpoints of services with their addresses in primary networks.

use std::collections::BTreeMap;

use ipnet::IpNet;
use patchbay_model::{
    ENDPOINT_NETWORK, HEADLESS_LABEL, IpFamily, MIRRORED_SERVICE_LABEL, NadKey, Networks,
};
use patchbay_resources::conversion;
use patchbay_resources::manifests::{Inventory, ObjectKey, Objects, Origin, Problem, Sourced};
use patchbay_resources::object::{Endpoint, EndpointSlice, Object, ObjectMeta};
use sha2::{Digest, Sha256};
use thiserror::Error;

use super::pods::PodAddresses;

/// Label of a slice: the program that manages it.
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Manager of the slices of services with selectors.
const SOURCE_MANAGER: &str = "endpointslice-controller.k8s.io";
/// Manager of mirrored slices.
const MIRROR_MANAGER: &str = "endpointslice-mirror-controller.k8s.ovn.org";
/// Label of a slice: its service.
const SOURCE_SERVICE: &str = "kubernetes.io/service-name";
/// Annotation of a mirrored slice: the slice that it mirrors.
const SOURCE: &str = "k8s.ovn.org/source-endpointslice";
/// Annotation of a mirrored slice: the version of the slice that it mirrors.
const SOURCE_VERSION: &str = "k8s.ovn.org/source-endpointslice-version";
/// Type of the addresses of a slice that has names.
const FQDN: &str = "FQDN";
/// Bytes of a hash at the end of the name of a mirrored slice.
const NAME_BYTES: usize = 3;

/// EndpointSlices with the mirrored ones.
#[derive(Debug)]
pub(super) struct MirroredSlices {
    slices: Objects<EndpointSlice>,
    /// Slices that are not mirrored.
    warnings: Vec<Problem>,
}

impl MirroredSlices {
    /// Writes the slices. Warnings become those of the inventory.
    pub(super) fn write(self, inventory: &mut Inventory) {
        inventory.endpoint_slices = self.slices;
        inventory.warnings.extend(self.warnings);
    }
}

/// Mirrors the slices in namespaces with a primary network. A slice waits until all its pods have
/// addresses there, and one without endpoints gets no new mirror. Slices of headless services have
/// none. A mirrored slice goes with the slice that it mirrors, and with further mirrors of it;
/// without a network it stays as it is, as in OVN-Kubernetes.
pub(super) fn mirror_slices(
    inventory: &Inventory,
    networks: &Networks,
    addresses: &PodAddresses,
) -> MirroredSlices {
    let mut mirrors = mirrors(inventory);
    let mut wanted = Vec::new();
    let mut warnings = Vec::new();
    let slices = inventory.endpoint_slices.iter();
    for (key, slice) in slices.filter(|(_, slice)| !is_headless(&slice.object)) {
        let namespace = key.namespace.as_deref().unwrap_or_default();
        let Some(service) = source_service(&slice.object) else {
            let has_network = networks.primary_nad(namespace).is_some();
            warnings.extend(unmirrored(slice).filter(|_| has_network));
            continue;
        };
        let source = (namespace.to_owned(), key.name.clone());
        let existing = mirrors.remove(&source).unwrap_or_default();
        let Some(definition) = networks.primary_nad(namespace) else {
            continue;
        };
        let Some(network) =
            networks.by_nad(definition).filter(|one| one.namespaces.contains(namespace))
        else {
            continue;
        };
        // Names have no mirrors.
        if slice.object.address_type == FQDN {
            mirrors.insert(source, existing);
            continue;
        }
        let name = match &existing[..] {
            [name] => name.clone(),
            [] if slice.object.endpoints.iter().flatten().next().is_none() => continue,
            _ => mirror_name(service, key),
        };
        let is_other = |one: &String| *one != name;
        mirrors.insert(source, existing.into_iter().filter(is_other).collect());
        let places = PodPlaces { inventory, addresses, definition };
        match places.mirror(&slice.object, service, &network.name) {
            Ok(mirror) => wanted.push((name, slice.position, mirror)),
            // In a cluster the endpoint goes a moment after its pod.
            Err(MirrorError::NoPod(_)) if slice.origin.is_observed() => {}
            Err(error) => warnings.push(slice.problem(error.to_string()).in_field("endpoints")),
        }
    }
    let mut slices = inventory.endpoint_slices.clone();
    for ((namespace, _), names) in mirrors {
        for name in names {
            slices.remove(&ObjectKey::namespaced(namespace.clone(), name));
        }
    }
    for (name, position, mut mirror) in wanted {
        mirror.metadata.name = Some(name);
        put_mirror(&mut slices, mirror, position);
    }
    MirroredSlices { slices, warnings }
}

/// Reason why a slice is not mirrored. Its former mirror stays as it is.
#[derive(Debug, Error)]
enum MirrorError {
    #[error("there is no Pod {0}")]
    NoPod(ObjectKey),
    #[error("Pod {pod} has no {} address of {definition}", family.long_name())]
    NoAddress { pod: ObjectKey, family: IpFamily, definition: NadKey },
}

/// Names of mirrored slices, by namespace and name of the slice that they mirror.
fn mirrors(inventory: &Inventory) -> BTreeMap<(String, String), Vec<String>> {
    let mut mirrors = BTreeMap::<_, Vec<String>>::new();
    for (key, slice) in inventory.endpoint_slices.iter() {
        let manager = slice.object.labels().get(MANAGED_BY);
        let source = slice.object.annotations().get(SOURCE);
        if let Some(source) = source.filter(|_| manager.is_some_and(|one| one == MIRROR_MANAGER)) {
            let namespace = key.namespace.clone().unwrap_or_default();
            let names = mirrors.entry((namespace, source.clone())).or_default();
            names.push(key.name.clone());
        }
    }
    mirrors
}

/// Returns `true` if the service of the slice is a headless one.
fn is_headless(slice: &EndpointSlice) -> bool {
    slice.labels().contains_key(HEADLESS_LABEL)
}

/// The service of a slice that is mirrored.
fn source_service(slice: &EndpointSlice) -> Option<&str> {
    let labels = slice.labels();
    let is_source = labels.get(MANAGED_BY)? == SOURCE_MANAGER;
    let service = labels.get(SOURCE_SERVICE)?;
    is_source.then_some(service)
}

/// Warning about a slice of a manifest that nobody mirrors, because another program or nobody manages
/// it. `None`: it is mirrored, is a mirror, or has no service.
fn unmirrored(slice: &Sourced<EndpointSlice>) -> Option<Problem> {
    let labels = slice.object.labels();
    let manager = labels.get(MANAGED_BY).map_or("", String::as_str);
    let is_known = [SOURCE_MANAGER, MIRROR_MANAGER].contains(&manager);
    let is_manual = labels.contains_key(SOURCE_SERVICE) && !is_known;
    let is_of_manifest = !slice.origin.is_observed();
    (is_manual && is_of_manifest).then(|| {
        let message = format!(
            "is {manager:?}, and only slices of {SOURCE_MANAGER} are mirrored into the primary network, so these endpoints are not used"
        );
        slice
            .problem(message)
            .in_field(format!("metadata.labels[{MANAGED_BY}]"))
    })
}

/// Name of a new mirrored slice. An API server would choose the end at random.
fn mirror_name(service: &str, source: &ObjectKey) -> String {
    let digest = Sha256::digest(source.to_string());
    let digits: Vec<String> =
        digest.iter().take(NAME_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("{service}-{}", digits.concat())
}

/// Start of the name of a mirrored slice: network and start of the source's name, or the latter
/// alone if the former cannot be in a name. Names of user-defined networks have an underscore, so
/// they cannot.
fn generate_name(source: &EndpointSlice, network: &str) -> String {
    let start = source.metadata.generate_name.clone();
    let start = start.filter(|start| !start.is_empty()).unwrap_or_else(|| source.name_any());
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    if network.starts_with(|c: char| c.is_ascii_alphanumeric()) && network.chars().all(is_allowed) {
        format!("{network}-{start}")
    } else {
        start
    }
}

/// Pods with their addresses in the network of a definition.
struct PodPlaces<'a> {
    inventory: &'a Inventory,
    /// Addresses that are not written yet.
    addresses: &'a PodAddresses,
    definition: &'a NadKey,
}

impl PodPlaces<'_> {
    fn mirror(
        &self,
        source: &EndpointSlice,
        service: &str,
        network: &str,
    ) -> Result<EndpointSlice, MirrorError> {
        let family = match source.address_type.as_str() {
            "IPv6" => IpFamily::V6,
            _ => IpFamily::V4,
        };
        let endpoints = source.endpoints.iter().flatten();
        let mirrored = endpoints.map(|endpoint| self.mirrored_endpoint(endpoint, family));
        let version = source.resource_version().unwrap_or_default();
        Ok(EndpointSlice {
            metadata: ObjectMeta {
                generate_name: Some(generate_name(source, network)),
                namespace: source.namespace(),
                labels: Some(BTreeMap::from([
                    (MANAGED_BY.to_owned(), MIRROR_MANAGER.to_owned()),
                    (MIRRORED_SERVICE_LABEL.to_owned(), service.to_owned()),
                ])),
                annotations: Some(BTreeMap::from([
                    (ENDPOINT_NETWORK.to_owned(), network.to_owned()),
                    (SOURCE.to_owned(), source.name_any()),
                    (SOURCE_VERSION.to_owned(), version),
                ])),
                owner_references: source.metadata.owner_references.clone(),
                ..ObjectMeta::default()
            },
            address_type: source.address_type.clone(),
            endpoints: Some(mirrored.collect::<Result<_, _>>()?),
            ports: source.ports.clone(),
            ..EndpointSlice::default()
        })
    }

    /// An endpoint with the address of its pod in the network. Pods on the network of their node
    /// keep theirs.
    fn mirrored_endpoint(
        &self,
        endpoint: &Endpoint,
        family: IpFamily,
    ) -> Result<Endpoint, MirrorError> {
        let target = |field: &str| {
            let target = endpoint.target_ref.as_ref();
            target.and_then(|target| target[field].as_str())
        };
        let (Some("Pod"), Some(name)) = (target("kind"), target("name")) else {
            return Ok(endpoint.clone());
        };
        let namespace = target("namespace").unwrap_or(&self.definition.namespace);
        let key = ObjectKey::namespaced(namespace, name);
        let Some(pod) = self.inventory.pods.get(&key) else {
            return Err(MirrorError::NoPod(key));
        };
        let pod = conversion::pod(&pod.object);
        if pod.has_host_network {
            return Ok(endpoint.clone());
        }
        let networks = self.addresses.networks.get(&key).unwrap_or(&pod.networks);
        let network = networks.get(&self.definition.to_string());
        let mut addresses =
            network.into_iter().flat_map(|network| network.addresses.iter().map(IpNet::addr));
        let Some(address) = addresses.find(|address| IpFamily::of(*address) == family) else {
            return Err(MirrorError::NoAddress {
                pod: key,
                family,
                definition: self.definition.clone(),
            });
        };
        let mut mirrored = endpoint.clone();
        mirrored.addresses = vec![address.to_string()];
        Ok(mirrored)
    }
}

/// Puts a mirrored slice, or updates the fields that differ. One that has the fields is not copied.
fn put_mirror(slices: &mut Objects<EndpointSlice>, mirror: EndpointSlice, position: u64) {
    let key = ObjectKey::of(&mirror.metadata);
    let Some(existing) = slices.get(&key) else {
        slices.insert(Sourced {
            object: mirror,
            origin: Origin::Rendered(format!("EndpointSlice {key}")),
            position,
        });
        return;
    };
    let mut updated = existing.clone();
    let meta = &mut updated.object.metadata;
    let labels = mirror.metadata.labels.unwrap_or_default();
    meta.labels.get_or_insert_default().extend(labels);
    let annotations = mirror.metadata.annotations.unwrap_or_default();
    meta.annotations.get_or_insert_default().extend(annotations);
    meta.owner_references = mirror.metadata.owner_references;
    updated.object.endpoints = mirror.endpoints;
    updated.object.ports = mirror.ports;
    slices.put(updated);
}
