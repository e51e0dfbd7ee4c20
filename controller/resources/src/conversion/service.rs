//! Conversion of services and their endpoints.

use std::net::IpAddr;

use patchbay_model::{
    ENDPOINT_NETWORK, Endpoint, EndpointPort, EndpointSlice, EndpointState, FieldProblem,
    HEADLESS_LABEL, MIRRORED_SERVICE_LABEL, Protocol, SERVICE_PROXY_LABEL,
    Service as NetworkService, ServiceKey, ServicePort as NetworkServicePort, TargetPort,
    UnknownProtocol,
};
use serde_json::Value;

use crate::object::{
    self, EndpointSlice as SliceObject, Object, Service, ServicePort, ServiceSpec,
};

/// Session affinity of a service whose object names no time, in seconds.
const DEFAULT_AFFINITY_TIMEOUT: u32 = 10_800;
/// Value of `spec.clusterIP` of a headless service.
const HEADLESS: &str = "None";
/// Value of both traffic policies for endpoints on the same node.
const LOCAL: &str = "Local";
/// Label of a slice of the built-in controller: name of its service.
const SERVICE: &str = "kubernetes.io/service-name";

/// A service with its addresses and ports. Fields that cannot be used are its problems. A service of
/// another service proxy has neither addresses nor ports.
pub fn network_service(service: &Service) -> NetworkService {
    let mut no_spec = ServiceSpec::default();
    let spec = service.spec.as_ref().filter(|_| is_forwarded(service));
    if !is_forwarded(service) {
        no_spec.cluster_ip = Some(HEADLESS.to_owned());
    }
    let spec = spec.unwrap_or(&no_spec);
    let mut problems = Vec::new();
    let is_local = |policy: &Option<String>| policy.as_deref() == Some(LOCAL);
    let has_affinity = spec.session_affinity.as_deref() == Some("ClientIP");
    NetworkService {
        key: ServiceKey {
            namespace: service.namespace().unwrap_or_default().into(),
            name: service.name_any().into(),
        },
        cluster_ips: own_cluster_ips(spec, &mut problems),
        external_ips: external_ips(service, spec, &mut problems),
        ports: ports(spec, &mut problems),
        affinity_timeout: has_affinity.then(|| affinity_timeout(spec)),
        is_internal_local: is_local(&spec.internal_traffic_policy),
        is_external_local: is_local(&spec.external_traffic_policy),
        publishes_unready: spec.publish_not_ready_addresses == Some(true),
        selector: spec.selector.clone().unwrap_or_default(),
        problems,
    }
}

/// The endpoints of a slice. Addresses and ports that cannot be read are left out. `None`: the
/// slice belongs to no service, or to a headless one.
pub fn endpoint_slice(slice: &SliceObject) -> Option<EndpointSlice> {
    let labels = slice.labels();
    if labels.contains_key(HEADLESS_LABEL) {
        return None;
    }
    let network = slice.annotations().get(ENDPOINT_NETWORK);
    let label = if network.is_some() { MIRRORED_SERVICE_LABEL } else { SERVICE };
    Some(EndpointSlice {
        service: ServiceKey {
            namespace: slice.namespace().unwrap_or_default().into(),
            name: labels.get(label)?.as_str().into(),
        },
        name: slice.name_any().into(),
        network: network.cloned(),
        endpoints: (slice.endpoints.iter().flatten()).map(endpoint).collect(),
        ports: (slice.ports.iter().flatten()).filter_map(endpoint_port).collect(),
    })
}

/// Returns `true` if the cluster's service proxy forwards the service, and not another program. As
/// for kube-proxy, an empty name of the program is one, too.
fn is_forwarded(service: &Service) -> bool {
    !service.labels().contains_key(SERVICE_PROXY_LABEL)
}

fn endpoint(endpoint: &object::Endpoint) -> Endpoint {
    let conditions = endpoint.conditions.unwrap_or_default();
    let addresses = endpoint.addresses.iter();
    Endpoint {
        addresses: addresses.filter_map(|text| text.parse().ok()).collect(),
        node: endpoint.node_name.as_deref().map(Into::into),
        state: EndpointState::from_conditions(
            conditions.ready,
            conditions.serving,
            conditions.terminating,
        ),
    }
}

fn endpoint_port(port: &object::EndpointPort) -> Option<EndpointPort> {
    Some(EndpointPort {
        name: port.name.clone().unwrap_or_default(),
        protocol: port.protocol.as_deref().unwrap_or("TCP").parse().ok()?,
        port: port.port?.try_into().ok().filter(|port| *port != 0)?,
    })
}

/// The API server sets the default `TCP`; manifests may omit the protocol.
fn protocol_name(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn cluster_ips(spec: &ServiceSpec, problems: &mut Vec<FieldProblem>) -> Vec<IpAddr> {
    let first = spec.cluster_ip.iter();
    let all = first.chain(spec.cluster_ips.iter().flatten());
    let texts = all.filter(|text| !text.is_empty() && *text != HEADLESS);
    let mut found = Vec::new();
    for address in addresses("spec.clusterIPs", texts, problems) {
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

/// Cluster IPs of a service that forwards them.
fn own_cluster_ips(spec: &ServiceSpec, problems: &mut Vec<FieldProblem>) -> Vec<IpAddr> {
    if spec.type_.as_deref() == Some("ExternalName") {
        return Vec::new();
    }
    let is_headless = spec.cluster_ip.as_deref() == Some(HEADLESS);
    let found = cluster_ips(spec, problems);
    if found.is_empty() && !is_headless {
        let reason = "the service has no cluster IP, so it has no load balancer";
        problems.push(FieldProblem::new("spec.clusterIP", reason));
    }
    found
}

fn external_ips(
    service: &Service,
    spec: &ServiceSpec,
    problems: &mut Vec<FieldProblem>,
) -> Vec<IpAddr> {
    let texts = spec.external_ips.iter().flatten();
    let mut found = addresses("spec.externalIPs", texts, problems);
    if spec.type_.as_deref() == Some("LoadBalancer") {
        let ingress = service.status.as_ref();
        let ingress = ingress
            .and_then(|status| status.pointer("/loadBalancer/ingress"))
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let texts: Vec<String> = ingress
            .filter_map(|entry| entry.get("ip")?.as_str().map(str::to_owned))
            .filter(|text| !text.is_empty())
            .collect();
        found.extend(addresses("status.loadBalancer.ingress", &texts, problems));
    }
    found
}

fn addresses<'a>(
    field: &'static str,
    texts: impl IntoIterator<Item = &'a String>,
    problems: &mut Vec<FieldProblem>,
) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for text in texts {
        if let Ok(address) = text.parse() {
            found.push(address);
        } else {
            let reason = format!("{text:?} is not an IP address");
            problems.push(FieldProblem::new(field, reason));
        }
    }
    found
}

fn ports(spec: &ServiceSpec, problems: &mut Vec<FieldProblem>) -> Vec<NetworkServicePort> {
    let mut found = Vec::new();
    for (index, port) in spec.ports.iter().flatten().enumerate() {
        match service_port(index, port) {
            Ok(port) => found.push(port),
            Err(problem) => problems.push(problem),
        }
    }
    found
}

fn service_port(index: usize, port: &ServicePort) -> Result<NetworkServicePort, FieldProblem> {
    let problem = |field: &str, reason: String| {
        FieldProblem::new(format!("spec.ports[{index}].{field}"), reason)
    };
    let number = |field, value: i32| {
        let number = u16::try_from(value).ok().filter(|number| *number != 0);
        number.ok_or_else(|| problem(field, format!("{value} is not in 1..=65535")))
    };
    let protocol: Result<Protocol, UnknownProtocol> = protocol_name(port).parse();
    let own = number("port", port.port)?;
    let node_port = port.node_port.filter(|port| *port != 0);
    Ok(NetworkServicePort {
        name: port.name.clone().unwrap_or_default(),
        protocol: protocol.map_err(|unknown| problem("protocol", unknown.to_string()))?,
        port: own,
        node_port: node_port.map(|port| number("nodePort", port)).transpose()?,
        target: match &port.target_port {
            None => TargetPort::Number(own),
            Some(Value::String(name)) => TargetPort::Name(name.clone()),
            Some(value) => {
                let value = value.as_i64().and_then(|value| value.try_into().ok());
                TargetPort::Number(number("targetPort", value.unwrap_or_default())?)
            }
        },
    })
}

fn affinity_timeout(spec: &ServiceSpec) -> u32 {
    let config = spec.session_affinity_config.and_then(|all| all.client_ip);
    let timeout = config.and_then(|config| config.timeout_seconds);
    let timeout = timeout.and_then(|timeout| u32::try_from(timeout).ok());
    timeout.unwrap_or(DEFAULT_AFFINITY_TIMEOUT)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(spec: &Value, status: &Value) -> NetworkService {
        let object = json!({
            "metadata": {"name": "web", "namespace": "red"}, "spec": spec, "status": status,
        });
        network_service(&serde_json::from_value(object).unwrap())
    }

    #[test]
    fn services_with_cluster_ip_need_a_load_balancer_for_each_protocol() {
        let ports =
            json!([{"port": 80}, {"port": 81, "protocol": "TCP"}, {"port": 53, "protocol": "UDP"}]);
        let count = |spec: &Value| read(spec, &json!({})).load_balancer_count();
        assert_eq!(count(&json!({"clusterIP": "10.96.0.10", "ports": ports})), 2);
        assert_eq!(count(&json!({"clusterIP": "None", "ports": ports})), 0);
        assert_eq!(count(&json!({"ports": ports})), 0);
    }

    #[test]
    fn services_of_another_service_proxy_are_left_out() {
        for (labels, is_forwarded) in [
            (json!({}), true),
            (json!({SERVICE_PROXY_LABEL: "mesh"}), false),
            (json!({SERVICE_PROXY_LABEL: ""}), false),
        ] {
            let object = json!({
                "metadata": {"name": "web", "namespace": "red", "labels": labels},
                "spec": {
                    "type": "LoadBalancer", "clusterIP": "10.96.0.10",
                    "externalIPs": ["1.2.3.4"], "ports": [{"port": 80}],
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}]}},
            });
            let object: Service = serde_json::from_value(object).unwrap();
            let service = network_service(&object);
            assert_eq!(service.cluster_ips.len(), usize::from(is_forwarded));
            assert_eq!(service.external_ips.is_empty(), !is_forwarded);
            assert_eq!(service.ports.is_empty(), !is_forwarded);
            assert_eq!(service.problems, []);
        }
    }

    #[test]
    fn the_defaults_of_the_api_server_are_those_of_missing_fields() {
        let spec = json!({
            "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10", "fd00::a"],
            "sessionAffinity": "ClientIP", "ports": [{"port": 80}],
        });
        let service = read(&spec, &Value::Null);
        assert_eq!(service.cluster_ips.len(), 2);
        assert_eq!(service.affinity_timeout, Some(10_800));
        assert!(!service.is_internal_local && !service.is_external_local);
        let port = &service.ports[0];
        assert_eq!((port.protocol, port.node_port), (Protocol::Tcp, None));
        assert_eq!(port.target, TargetPort::Number(80));
        assert_eq!(service.problems, []);
    }

    #[test]
    fn only_load_balancers_have_addresses_in_their_status() {
        let status = json!({"loadBalancer": {"ingress": [{"ip": "5.6.7.8"}, {"hostname": "x"}]}});
        let spec =
            |type_| json!({"type": type_, "clusterIP": "10.96.0.1", "externalIPs": ["1.2.3.4"]});
        let addresses = |type_| read(&spec(type_), &status).external_ips.len();
        assert_eq!(addresses("LoadBalancer"), 2);
        assert_eq!(addresses("NodePort"), 1);
    }

    #[test]
    fn fields_that_cannot_be_used_are_named_and_the_rest_is_used() {
        let spec = json!({"clusterIP": "10.96.0", "externalIPs": ["x", "1.2.3.4"], "ports": [
            {"port": 80, "protocol": "ICMP"}, {"port": 0}, {"port": 81},
            {"port": 82, "nodePort": 70_000},
        ]});
        let service = read(&spec, &Value::Null);
        assert_eq!(service.ports.len(), 1);
        assert_eq!(service.external_ips.len(), 1);
        let problems: Vec<String> = service.problems.iter().map(ToString::to_string).collect();
        let expected = [
            "spec.clusterIPs: \"10.96.0\" is not an IP address",
            "spec.clusterIP: the service has no cluster IP, so it has no load balancer",
            "spec.externalIPs: \"x\" is not an IP address",
            "spec.ports[0].protocol: \"ICMP\" is none of TCP, UDP and SCTP",
            "spec.ports[1].port: 0 is not in 1..=65535",
            "spec.ports[3].nodePort: 70000 is not in 1..=65535",
        ];
        assert_eq!(problems, expected);
    }

    #[test]
    fn a_mirrored_slice_names_its_network() {
        let slice = |metadata: &Value| {
            let object = json!({
                "metadata": metadata, "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.10.0.3"], "nodeName": "n1"}],
                "ports": [{"name": "", "port": 8080, "protocol": "TCP"}, {"name": "all"}],
            });
            endpoint_slice(&serde_json::from_value(object).unwrap())
        };
        let mirrored = slice(&json!({
            "name": "web-x", "namespace": "blue", "labels": {MIRRORED_SERVICE_LABEL: "web"},
            "annotations": {ENDPOINT_NETWORK: "blue_l3"},
        }))
        .unwrap();
        assert_eq!(mirrored.network.as_deref(), Some("blue_l3"));
        assert_eq!(mirrored.service.to_string(), "blue/web");
        assert_eq!((mirrored.endpoints.len(), mirrored.ports.len()), (1, 1));
        let own = slice(&json!({"name": "web-x", "labels": {SERVICE: "web"}})).unwrap();
        assert_eq!(own.network, None);
        assert_eq!(slice(&json!({"name": "web-x"})), None);
        let headless = json!({SERVICE: "web", HEADLESS_LABEL: ""});
        assert_eq!(slice(&json!({"name": "web-x", "labels": headless})), None);
    }
}
