//! Conversion of pods.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use patchbay_model::{
    AddressRequest, ContainerPort, DEFAULT_NETWORK_SELECTION, EndpointState, FieldProblem,
    NETWORK_SELECTIONS, NetworkSelection, OPEN_PORTS, OpenPort, POD_NETWORKS, PRIMARY_IPAM_CLAIM,
    Pod, PodKey, PodNetworks, Protocol, VIRTUAL_MACHINE_NAME, VirtualMachine,
};
use serde::Deserialize;
use serde_json::Value;

use crate::object::{self, Object};

/// Label of the pods of virtual machines, with its value.
const MACHINE_LABEL: (&str, &str) = ("kubevirt.io", "virt-launcher");
/// Annotation that shows that a live migration has reached the pod.
const MIGRATION_READY: &str = "kubevirt.io/migration-target-ready-timestamp";
/// Namespace and name of the definition that the annotation [`DEFAULT_NETWORK_SELECTION`] names.
const DEFAULT_DEFINITION: (&str, &str) = ("ovn-kubernetes", "default");

/// A pod with its networks and addresses. Fields that cannot be used are its problems.
pub fn pod(object: &object::Pod) -> Pod {
    let mut problems = Vec::new();
    let spec = object.spec.as_ref();
    let status = object.status.as_ref();
    let phase = status.and_then(|status| status.phase.as_deref());
    let pod_ips = status.and_then(|status| status.pod_ips.as_ref());
    let namespace = object.namespace().unwrap_or_default();
    let node = spec.and_then(|spec| spec.node_name.as_deref());
    Pod {
        key: PodKey::new(&namespace, &object.name_any()),
        uid: object.metadata.uid.as_deref().unwrap_or_default().into(),
        created: object.creation_timestamp().map(|time| time.0),
        node: node.filter(|node| !node.is_empty()).map(Arc::from),
        labels: object.labels().clone(),
        has_host_network: spec.is_some_and(|spec| spec.host_network == Some(true)),
        is_completed: phase.is_some_and(|phase| matches!(phase, "Succeeded" | "Failed")),
        endpoint_state: endpoint_state(object),
        container_ports: container_ports(spec, &mut problems),
        default_addresses: (pod_ips.into_iter().flatten())
            .filter_map(|address| address.ip.parse().ok())
            .collect(),
        networks: networks(object, &mut problems),
        selections: selections(object, &namespace, &mut problems),
        primary_request: primary_request(object, &namespace),
        machine: machine(object, &mut problems),
        open_ports: open_ports(object, &mut problems),
        problems,
    }
}

/// State of a pod as an endpoint, with the conditions that Kubernetes' controller of
/// `EndpointSlice`s sets.
fn endpoint_state(pod: &object::Pod) -> EndpointState {
    let conditions = pod.status.as_ref().and_then(|it| it.conditions.as_ref());
    let is_ready = conditions.is_none_or(|conditions| {
        let mut conditions = conditions.iter();
        conditions.any(|one| one.kind == "Ready" && one.status == "True")
    });
    let is_terminating = pod.metadata.deletion_timestamp.is_some();
    EndpointState::from_conditions(
        Some(is_ready && !is_terminating),
        Some(is_ready),
        Some(is_terminating),
    )
}

fn annotation<'a>(object: &'a object::Pod, key: &str) -> Option<&'a str> {
    let value = object.annotations().get(key)?;
    Some(value.as_str()).filter(|value| !value.is_empty())
}

fn problem(annotation: &'static str, reason: &impl ToString) -> FieldProblem {
    FieldProblem::of_annotation(annotation, reason.to_string())
}

fn networks(object: &object::Pod, problems: &mut Vec<FieldProblem>) -> PodNetworks {
    let text = annotation(object, POD_NETWORKS).unwrap_or("{}");
    PodNetworks::parse(text).unwrap_or_else(|error| {
        problems.push(problem(POD_NETWORKS, &error));
        PodNetworks::default()
    })
}

fn container_ports(
    spec: Option<&object::PodSpec>,
    problems: &mut Vec<FieldProblem>,
) -> Vec<ContainerPort> {
    let mut read = Vec::new();
    let containers = spec.into_iter().flat_map(|spec| &spec.containers);
    for (container, ports) in containers.map(|one| &one.ports).enumerate() {
        let mut fail = |reason: String| {
            let field = format!("spec.containers[{container}].ports");
            problems.push(FieldProblem::new(field, reason));
        };
        for port in ports.iter().flatten() {
            let protocol = port.protocol.as_deref().unwrap_or("TCP");
            let number = u16::try_from(port.container_port);
            match (protocol.parse::<Protocol>(), number.ok().filter(|one| *one > 0)) {
                (Ok(protocol), Some(number)) => read.push(ContainerPort {
                    name: port.name.clone().unwrap_or_default(),
                    protocol,
                    number,
                }),
                (Err(unknown), _) => fail(unknown.to_string()),
                (_, None) => fail(format!("{} is not in 1..=65535", port.container_port)),
            }
        }
    }
    read
}

/// Element of a network selection, of the Network Plumbing Working Group.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Element {
    name: String,
    namespace: Option<String>,
    interface: Option<String>,
    ips: Vec<String>,
    mac: Option<String>,
    #[serde(rename = "default-route")]
    default_route: Vec<IpAddr>,
    #[serde(rename = "ipam-claim-reference")]
    claim: Option<String>,
}

impl Element {
    fn request(&self) -> Result<AddressRequest, String> {
        let addresses = self.ips.iter().map(|text| {
            let net: Result<IpNet, _> = text.parse();
            net.map_err(|_| format!("{text:?} is not an address with the length of its subnet"))
        });
        let mac = self
            .mac
            .as_deref()
            .filter(|mac| !mac.is_empty())
            .map(|text| read_mac(text).ok_or_else(|| format!("{text:?} is not a MAC address")));
        Ok(AddressRequest {
            addresses: addresses.collect::<Result<_, _>>()?,
            mac: mac.transpose()?,
            gateways: self.default_route.clone(),
            claim: self.claim.clone().filter(|claim| !claim.is_empty()),
        })
    }
}

/// Reads a MAC address as OVN-Kubernetes does: octets with colons or dashes between them, or three
/// groups of four digits with dots. The result has colons and small letters.
fn read_mac(text: &str) -> Option<String> {
    let (separator, digits) = match text.chars().find(|c| !c.is_ascii_hexdigit())? {
        '.' => ('.', 4),
        separator @ (':' | '-') => (separator, 2),
        _ => return None,
    };
    let groups: Vec<&str> = text.split(separator).collect();
    let is_group = |group: &&str| {
        group.len() == digits && group.bytes().all(|digit| digit.is_ascii_hexdigit())
    };
    if groups.len() * digits != 12 || !groups.iter().all(is_group) {
        return None;
    }
    let digits = groups.concat().to_ascii_lowercase();
    let octets: Vec<&str> = (0..6).map(|octet| &digits[2 * octet..2 * octet + 2]).collect();
    Some(octets.join(":"))
}

/// Reads a selection: a JSON list, or comma-separated `[<namespace>/]<name>[@<interface>]`.
fn elements(text: &str) -> Result<Vec<Element>, String> {
    if text.contains(['[', '{', '"']) {
        return serde_json::from_str(text).map_err(|error| error.to_string());
    }
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let elements = text.split(',').map(|entry| {
        let entry = entry.trim();
        let (definition, interface) = match entry.split_once('@') {
            Some((definition, interface)) => (definition, Some(interface)),
            None => (entry, None),
        };
        let (namespace, name) = match definition.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, definition),
        };
        let mut parts = [Some(name), namespace, interface].into_iter().flatten();
        if !parts.all(is_dns_label) {
            return Err(format!("{entry:?} is not [<namespace>/]<name>[@<interface>]"));
        }
        Ok(Element {
            name: name.to_owned(),
            namespace: namespace.map(str::to_owned),
            interface: interface.map(str::to_owned),
            ..Element::default()
        })
    });
    elements.collect()
}

/// `true` for lower case letters, digits and dashes, with neither first nor last a dash.
fn is_dns_label(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty()
        && text.bytes().all(is_allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

fn selections(
    object: &object::Pod,
    namespace: &str,
    problems: &mut Vec<FieldProblem>,
) -> Option<Vec<NetworkSelection>> {
    let text = annotation(object, NETWORK_SELECTIONS).unwrap_or_default();
    let elements = match elements(text) {
        Ok(elements) => elements,
        Err(reason) => {
            problems.push(problem(NETWORK_SELECTIONS, &reason));
            return None;
        }
    };
    let selections = elements.into_iter().map(|element| NetworkSelection {
        request: element.request().map_err(Into::into),
        namespace: element
            .namespace
            .filter(|namespace| !namespace.is_empty())
            .unwrap_or_else(|| namespace.to_owned()),
        interface: element.interface.filter(|name| !name.is_empty()),
        name: element.name,
    });
    Some(selections.collect())
}

/// Request of the pod in its primary network. The only element names the default network.
fn primary_request(object: &object::Pod, namespace: &str) -> Result<AddressRequest, Box<str>> {
    let text = annotation(object, DEFAULT_NETWORK_SELECTION).unwrap_or_default();
    let mut request = match &elements(text)?[..] {
        [] => AddressRequest::default(),
        [element] => {
            let found = element.namespace.as_deref().unwrap_or(namespace);
            let (expected, name) = DEFAULT_DEFINITION;
            if found != expected {
                let reason =
                    format!("unexpected default NSE namespace {found:?}, expected {expected:?}");
                return Err(reason.into());
            }
            if element.name != name {
                let found = &element.name;
                let reason = format!("unexpected default NSE name {found:?}, expected {name:?}");
                return Err(reason.into());
            }
            element.request()?
        }
        _ => return Err(format!("more than one default network is specified: {text}").into()),
    };
    if request.claim.is_none() {
        request.claim = annotation(object, PRIMARY_IPAM_CLAIM).map(str::to_owned);
    }
    Ok(request)
}

fn machine(object: &object::Pod, problems: &mut Vec<FieldProblem>) -> Option<VirtualMachine> {
    let (label, value) = MACHINE_LABEL;
    object.labels().get(label).filter(|one| *one == value)?;
    let Some(name) = annotation(object, VIRTUAL_MACHINE_NAME) else {
        let reason = "the pod has the label of a virtual machine, but not its name";
        problems.push(problem(VIRTUAL_MACHINE_NAME, &reason));
        return None;
    };
    Some(VirtualMachine {
        name: name.into(),
        is_target_ready: annotation(object, MIGRATION_READY).is_some(),
    })
}

#[derive(Deserialize)]
struct OpenPortEntry {
    protocol: String,
    /// A number: OVN-Kubernetes refuses text.
    port: Option<Value>,
}

fn open_ports(object: &object::Pod, problems: &mut Vec<FieldProblem>) -> Vec<OpenPort> {
    let Some(text) = annotation(object, OPEN_PORTS) else {
        return Vec::new();
    };
    let entries: Result<Vec<OpenPortEntry>, _> = serde_saphyr::from_str(text);
    let read = entries.map_err(|error| error.to_string()).and_then(|entries| {
        let ports = entries.into_iter().map(|entry| {
            let OpenPortEntry { protocol, port } = entry;
            match (protocol.as_str(), port) {
                ("icmp", None) => Ok(OpenPort::Icmp),
                ("icmp", Some(port)) => Err(format!("icmp has no port, but {port} is given")),
                (name, port) => {
                    let mut protocols = Protocol::ALL.into_iter();
                    let protocol =
                        protocols.find(|one| one.to_string().to_ascii_lowercase() == name);
                    let protocol = protocol.ok_or_else(|| format!("invalid protocol {name}"))?;
                    let port = port.ok_or_else(|| format!("protocol {name} needs a port"))?;
                    let number = port
                        .as_u64()
                        .and_then(|port| u16::try_from(port).ok())
                        .ok_or_else(|| format!("invalid port {port}"))?;
                    Ok(OpenPort::Port(protocol, number))
                }
            }
        });
        ports.collect::<Result<Vec<_>, String>>()
    });
    read.unwrap_or_else(|reason| {
        problems.push(problem(OPEN_PORTS, &reason));
        Vec::new()
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Ports that an annotation opens, and the number of its problems.
    fn opened(text: &str) -> (Vec<OpenPort>, usize) {
        let metadata = json!({"namespace": "blue", "name": "a", "annotations": {OPEN_PORTS: text}});
        let object = serde_json::from_value(json!({"metadata": metadata, "spec": {}})).unwrap();
        let pod = pod(&object);
        (pod.open_ports, pod.problems.len())
    }

    #[test]
    fn mac_addresses_have_three_forms() {
        for text in ["0A:58:0a:01:00:02", "0a-58-0A-01-00-02", "0A58.0a01.0002"] {
            assert_eq!(read_mac(text).unwrap(), "0a:58:0a:01:00:02", "{text}");
        }
        for text in [
            "",
            "0a580a010002",
            "0a:58:0a:01:00",
            "0a:58-0a:01:00:02",
            "0a58.0a01",
            "a:58:0a:01:00:02",
            "0g:58:0a:01:00:02",
        ] {
            assert_eq!(read_mac(text), None, "{text}");
        }
    }

    #[test]
    fn selections_have_the_name_of_the_interface() {
        let interfaces = |text: &str| {
            let metadata = json!({"name": "a", "annotations": {NETWORK_SELECTIONS: text}});
            let object = serde_json::from_value(json!({"metadata": metadata, "spec": {}}));
            let selections = pod(&object.unwrap()).selections.unwrap();
            let names = selections.into_iter().map(|one| (one.name, one.interface));
            names.collect::<Vec<_>>()
        };
        let selected =
            |name: &str, interface: Option<&str>| (name.to_owned(), interface.map(str::to_owned));
        assert_eq!(
            interfaces("alpha/net@eth1, net"),
            [selected("net", Some("eth1")), selected("net", None)]
        );
        assert_eq!(
            interfaces(r#"[{"name": "net", "interface": "eth1"}, {"name": "net"}]"#),
            [selected("net", Some("eth1")), selected("net", None)]
        );
    }

    #[test]
    fn ports_are_opened_by_protocols_in_lower_case() {
        let text = "[{protocol: tcp, port: 80, comment: web}, {protocol: icmp}]";
        let ports = vec![OpenPort::Port(Protocol::Tcp, 80), OpenPort::Icmp];
        assert_eq!(opened(text), (ports, 0));
        let ports = vec![OpenPort::Port(Protocol::Udp, 0)];
        assert_eq!(opened("[{protocol: udp, port: 0}]"), (ports, 0));
        for text in [
            "[{protocol: tcp, port: '80'}]",
            "[{protocol: tcp, port: -1}]",
            "[{protocol: tcp, port: 80}, {protocol: UDP, port: 53}]",
            "[{protocol: sctp}]",
            "[{protocol: icmp, port: 8}]",
            "[{protocol: tcp, port: 65536}]",
            "tcp",
        ] {
            assert_eq!(opened(text), (Vec::new(), 1), "{text}");
        }
    }
}
