//! Requests of pods for ports in subnets of VPCs.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::vpc::{
    AttachmentProvider, DhcpOptions, KubeOvnConfig, PortProblem, PortRequest, SubnetProvider,
};
use patchbay_model::{FieldProblem, IpFamily, NetworkSelection, Pod};

use super::ip_pools::{self, NamespacePools};
use super::virtual_ips;
use crate::conversion::pod;
use crate::manifests::{Inventory, ObjectKey};
use crate::object;
use crate::object::{Object as _, OwnerReference};

/// Kind of `KubeVirt`'s virtual machines, which own their pods.
const INSTANCE_KIND: &str = "VirtualMachineInstance";
/// Beginning of the API versions of `KubeVirt`.
const INSTANCE_GROUP: &str = "kubevirt.io/";

/// Subnets by the provider of an attachment definition. Of several with one provider, the first one
/// by name has it.
type Providers = BTreeMap<AttachmentProvider, Arc<str>>;

/// Requests of all pods that use definitions of Kube-OVN, in the order of the pods' objects.
pub fn port_requests(inventory: &Inventory) -> Vec<PortRequest> {
    let mut providers = Providers::new();
    for (key, sourced) in inventory.subnets.iter() {
        let provider = SubnetProvider::parse(&sourced.object.spec.provider);
        if let SubnetProvider::Attachment(provider) = provider {
            let name = || Arc::from(&*key.name);
            providers.entry(provider).or_insert_with(name);
        }
    }
    let pools = NamespacePools::new(inventory);
    let pods = inventory.pods.in_order();
    let requests = pods.into_iter().flat_map(|(_, sourced)| {
        let object = &sourced.object;
        let read = pod(object);
        let is_wired = !read.has_host_network && !read.is_completed;
        let selections = read.selections.iter().flatten().filter(|_| is_wired);
        let served = selections.filter(|one| is_served(inventory, one));
        let mut requests: Vec<PortRequest> =
            served.map(|one| request(&providers, inventory, object, (&read, one))).collect();
        let (virtual_ips, mut problems) = virtual_ips::of_pod(inventory, object, &read);
        for request in &mut requests {
            if let (Ok(subnet), None, []) = (&request.subnet, &request.source, &*request.wishes) {
                request.source = pools.source(subnet, &request.pod.namespace);
            }
            request.virtual_ips.clone_from(&virtual_ips);
            request.problems.append(&mut problems);
        }
        requests
    });
    requests.collect()
}

/// `true` if the selected definition is one of Kube-OVN.
fn is_served(inventory: &Inventory, selection: &NetworkSelection) -> bool {
    let key = ObjectKey::namespaced(&*selection.namespace, &*selection.name);
    let definition = inventory.network_attachment_definitions.get(&key);
    let config =
        definition.and_then(|one| one.object.spec.config.as_deref()).map(KubeOvnConfig::from_json);
    matches!(config, Some(Ok(Some(config))) if !config.is_ipam_only)
}

/// Name of the virtual machine that owns a pod, which outlives its pods. `None`: none does.
pub fn machine_name(object: &object::Pod) -> Option<&str> {
    let mut owners = object.owner_references().iter();
    let is_machine = |owner: &&OwnerReference| {
        owner.kind == INSTANCE_KIND && owner.api_version.starts_with(INSTANCE_GROUP)
    };
    Some(&owners.find(is_machine)?.name)
}

fn request(
    providers: &Providers,
    inventory: &Inventory,
    object: &object::Pod,
    (pod, selection): (&Pod, &NetworkSelection),
) -> PortRequest {
    let definition = AttachmentProvider::new(&selection.namespace, &selection.name);
    let selections = pod.selections.iter().flatten();
    let same = selections
        .filter(|one| (&one.namespace, &one.name) == (&selection.namespace, &selection.name));
    let interface = selection.interface.as_ref().filter(|_| same.count() > 1);
    let provider = match interface {
        Some(interface) => format!("{definition}.{interface}"),
        None => definition.to_string(),
    };
    // Kube-OVN knows both forms of the key for an interface.
    let of_interface = selection.interface.as_ref().map(|interface| {
        let AttachmentProvider { namespace, name } = &definition;
        (format!("{name}.{namespace}"), interface)
    });
    let annotation = |name: &str| {
        let plain = format!("{provider}.kubernetes.io/{name}");
        let of_interface = of_interface
            .iter()
            .map(|(of, interface)| format!("{of}.kubernetes.io/{name}.{interface}"));
        let mut keys = [plain].into_iter().chain(of_interface);
        keys.find_map(|key| {
            let value = object.annotations().get(&key)?;
            (!value.is_empty()).then(|| (key, value.clone()))
        })
    };
    let pool = annotation("ip_pool");
    let pool = pool.map(|(key, text)| ip_pools::annotated(inventory, (&key, &text)));
    let (source, of_pool) = match pool {
        Some(Ok((source, subnet))) => (Some(source), subnet.map(Ok)),
        Some(Err(problem)) => (None, Some(Err(problem))),
        None => (None, None),
    };
    let subnet = match annotation("logical_switch") {
        Some((_, subnet)) if inventory.subnets.named(&subnet).is_some() => Ok(Arc::from(subnet)),
        Some((annotation, subnet)) => Err(PortProblem::UnknownSubnet { annotation, subnet }),
        None => of_pool.unwrap_or_else(|| {
            providers.get(&definition).cloned().ok_or_else(|| {
                PortProblem::NoSubnet(format!("{}/{}", selection.namespace, selection.name))
            })
        }),
    };
    let mut wishes = Vec::new();
    let mut problem = None;
    if let Some((key, text)) = annotation("ip_address") {
        for text in text.split(',').map(str::trim) {
            match text.parse::<IpAddr>() {
                Ok(address) => wishes.push(address),
                Err(_) => {
                    problem = Some(PortProblem::Wish {
                        annotation: key.clone(),
                        reason: format!("{text:?} is not an address"),
                    });
                }
            }
        }
    }
    let mut family = None;
    if let Some((key, text)) = annotation("ip_family") {
        family = match &*text {
            "ipv4" => Some(IpFamily::V4),
            "ipv6" => Some(IpFamily::V6),
            _ => {
                let reason = format!("{text:?} is neither ipv4 nor ipv6");
                problem = Some(PortProblem::Wish { annotation: key.clone(), reason });
                None
            }
        };
        let mut others =
            wishes.iter().filter(|one| family.is_some_and(|of| IpFamily::of(**one) != of));
        if let Some(address) = others.next() {
            let reason = format!("{text} excludes the wished address {address}");
            problem = Some(PortProblem::Wish { annotation: key, reason });
        }
    }
    let mut problems = Vec::new();
    let mut options = |name: &str, family| {
        let (key, text) = annotation(name)?;
        Some(DhcpOptions::read(
            &FieldProblem::of_annotation(&key, "").field,
            &text,
            family,
            &mut problems,
        ))
    };
    let dhcp_v4 = options("dhcp-v4-options", IpFamily::V4);
    let dhcp_v6 = options("dhcp-v6-options", IpFamily::V6);
    let named = annotation("security_groups").map(|(_, text)| text).unwrap_or_default();
    let mut groups: Vec<Arc<str>> = named
        .split(',')
        .map(|name| name.replace(char::is_whitespace, ""))
        .filter(|name| !name.is_empty())
        .map(Arc::from)
        .collect();
    groups.dedup();
    let is_true = |value: Option<(String, String)>| value.is_some_and(|(_, value)| value == "true");
    PortRequest {
        pod: pod.key.clone(),
        machine: machine_name(object).map_or_else(|| pod.key.name.clone(), Arc::from),
        node: pod.node.clone(),
        subnet: problem.map_or(subnet, Err),
        family,
        wishes,
        source,
        mac: annotation("mac_address").map(|(_, mac)| mac.to_ascii_lowercase()),
        has_port_security: is_true(annotation("port_security")),
        dhcp_v4,
        dhcp_v6,
        groups,
        virtual_ips: Vec::new(),
        problems,
        provider,
    }
}
