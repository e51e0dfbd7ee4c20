//! Load balancers of services and rules.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use patchbay_model::vpc::{
    Backend, Balancer, BalancerFront, BalancerKey, BalancerKind, BalancerPort,
};
use patchbay_model::{EndpointState, FieldProblem, Pod, Protocol, ServicePort, TargetPort};

use crate::conversion::{endpoint_slice, network_service, pod};
use crate::manifests::Inventory;
use crate::object::kube_ovn::{LBRulePort, RouterLBRuleSpec, SwitchLBRuleSpec};
use crate::object::{Object as _, Service};

/// Annotation of a service or `SwitchLBRule`: name of its VPC.
const ROUTER: &str = "ovn.kubernetes.io/logical_router";
/// Annotations of services that Kube-OVN makes for rules.
const OF_RULES: [&str; 2] = ["ovn.kubernetes.io/switch_lb_vip", "ovn.kubernetes.io/router_lb_vip"];
/// Namespace of the machines of a `RouterLBRule` that names none.
const DEFAULT_NAMESPACE: &str = "default";

/// Result of reading the load balancers, by kind and name.
type ReadBalancers = BTreeMap<BalancerKey, Result<Balancer, FieldProblem>>;

/// Load balancers of all services and rules.
pub(super) fn balancers(inventory: &Inventory) -> ReadBalancers {
    let key = |kind, name: String| BalancerKey { kind, name: name.into() };
    let pods = Pods::new(inventory);
    let mut slices: HashMap<_, Vec<_>> = HashMap::new();
    for (_, slice) in inventory.endpoint_slices.iter() {
        if let Some(slice) = endpoint_slice(&slice.object) {
            slices.entry(slice.service.clone()).or_default().push(slice);
        }
    }
    let services = inventory.services.iter().filter_map(|(of, sourced)| {
        let annotations = sourced.object.annotations();
        if OF_RULES.iter().any(|key| annotations.contains_key(*key)) {
            return None;
        }
        let key = key(BalancerKind::Service, of.to_string());
        let read = service(&sourced.object, &pods, &slices)?;
        Some((key.clone(), Ok(Balancer { key, position: sourced.position, ..read })))
    });
    let switch = inventory.switch_lb_rules.iter().map(|(of, sourced)| {
        let key = key(BalancerKind::SwitchRule, of.name.clone());
        let vpc = annotated_vpc(sourced.object.annotations());
        let read = switch_rule(&sourced.object.spec, vpc, &pods);
        (key.clone(), read.map(|read| Balancer { key, position: sourced.position, ..read }))
    });
    let router = inventory.router_lb_rules.iter().map(|(of, sourced)| {
        let key = key(BalancerKind::RouterRule, of.name.clone());
        let read = router_rule(&sourced.object.spec, &pods);
        (key.clone(), read.map(|read| Balancer { key, position: sourced.position, ..read }))
    });
    services.chain(switch).chain(router).collect()
}

/// Pods that load balancers may select, by namespace, label and value.
struct Pods(HashMap<(String, String, String), Vec<Arc<Pod>>>);

impl Pods {
    /// Pods of the namespaces that have load balancers.
    fn new(inventory: &Inventory) -> Self {
        let services = inventory.services.iter().filter_map(|(key, _)| key.namespace.as_deref());
        let switch = inventory.switch_lb_rules.iter().map(|(_, rule)| &*rule.object.spec.namespace);
        let router =
            inventory.router_lb_rules.iter().map(|(_, rule)| router_namespace(&rule.object.spec));
        let namespaces: BTreeSet<&str> = services.chain(switch).chain(router).collect();
        let mut found: HashMap<_, Vec<_>> = HashMap::new();
        let pods = inventory.pods.iter();
        let pods = pods.filter(|(key, _)| {
            key.namespace.as_deref().is_some_and(|namespace| namespaces.contains(namespace))
        });
        for (_, sourced) in pods {
            let pod = Arc::new(pod(&sourced.object));
            for (label, value) in &pod.labels {
                let place = (pod.key.namespace.to_string(), label.clone(), value.clone());
                found.entry(place).or_default().push(pod.clone());
            }
        }
        Self(found)
    }

    /// Pods with all labels, in the order of their names.
    fn selected(&self, namespace: &str, labels: &BTreeMap<String, String>) -> Vec<&Arc<Pod>> {
        let of_label = labels.iter().map(|(label, value)| {
            let place = (namespace.to_owned(), label.clone(), value.clone());
            self.0.get(&place).map_or(&[][..], Vec::as_slice)
        });
        let fewest = of_label.min_by_key(|pods| pods.len()).unwrap_or_default();
        let selected = fewest.iter().filter(|pod| {
            let mut labels = labels.iter();
            !pod.is_completed && labels.all(|(key, value)| pod.labels.get(key) == Some(value))
        });
        selected.collect()
    }

    /// Machines of a port: the selected pods that take connections.
    fn backends(
        &self,
        namespace: &str,
        labels: &BTreeMap<String, String>,
        (target, protocol): (&TargetPort, Protocol),
        takes_unready: bool,
    ) -> Vec<Backend> {
        let selected = self.selected(namespace, labels).into_iter();
        let ready =
            selected.filter(|pod| takes_unready || pod.endpoint_state == EndpointState::Ready);
        let backends = ready.filter_map(|pod| {
            let number = match target {
                TargetPort::Number(number) => *number,
                TargetPort::Name(name) => pod.named_port(name, protocol)?,
            };
            Some(Backend::Pod(pod.key.clone(), number))
        });
        backends.collect()
    }
}

fn annotated_vpc(annotations: &BTreeMap<String, String>) -> Option<(String, Arc<str>)> {
    let vpc = annotations.get(ROUTER).filter(|vpc| !vpc.is_empty())?;
    Some((format!("metadata.annotations[{ROUTER}]"), vpc.as_str().into()))
}

/// A load balancer without ports.
fn empty(namespace: &str, front: BalancerFront) -> Balancer {
    Balancer {
        key: BalancerKey { kind: BalancerKind::Service, name: "".into() },
        namespace: namespace.into(),
        vpc: None,
        front,
        has_affinity: false,
        ports: Vec::new(),
        problems: Vec::new(),
        position: 0,
    }
}

/// The load balancer of a service. `None`: the service has no cluster IP.
fn service(
    object: &Service,
    pods: &Pods,
    slices: &HashMap<patchbay_model::ServiceKey, Vec<patchbay_model::EndpointSlice>>,
) -> Option<Balancer> {
    let service = network_service(object);
    if service.cluster_ips.is_empty() {
        return None;
    }
    let namespace = &*service.key.namespace;
    let slices = slices.get(&service.key).map_or(&[][..], Vec::as_slice);
    let of_slices = |port: &ServicePort| {
        let mut backends = Vec::new();
        for slice in slices.iter().filter(|slice| slice.network.is_none()) {
            let mut ports = slice.ports.iter();
            let of_port = ports.find(|of| of.protocol == port.protocol && of.name == port.name);
            let ready = slice.endpoints.iter().filter(|endpoint| {
                service.publishes_unready || endpoint.state == EndpointState::Ready
            });
            let addresses = ready.flat_map(|endpoint| &endpoint.addresses);
            backends.extend(addresses.filter_map(|address| {
                Some(Backend::Address(SocketAddr::new(*address, of_port?.port)))
            }));
        }
        backends
    };
    let ports = service.ports.iter().enumerate().map(|(index, port)| BalancerPort {
        field: format!("spec.ports[{index}]"),
        protocol: port.protocol,
        port: port.port,
        backends: if service.selector.is_empty() {
            of_slices(port)
        } else {
            let target = (&port.target, port.protocol);
            pods.backends(namespace, &service.selector, target, service.publishes_unready)
        },
    });
    Some(Balancer {
        vpc: annotated_vpc(object.annotations()),
        has_affinity: service.affinity_timeout.is_some(),
        ports: ports.collect(),
        ..empty(namespace, BalancerFront::Addresses(service.cluster_ips.clone()))
    })
}

fn switch_rule(
    spec: &SwitchLBRuleSpec,
    vpc: Option<(String, Arc<str>)>,
    pods: &Pods,
) -> Result<Balancer, FieldProblem> {
    if spec.namespace.is_empty() {
        let reason = "the namespace of the machines is required";
        return Err(FieldProblem::new("spec.namespace", reason));
    }
    let texts = spec.vip.split(',').map(str::trim).filter(|text| !text.is_empty());
    let addresses: Vec<IpAddr> = texts
        .map(|text| {
            let address = text.parse::<IpAddr>();
            address.map_err(|_| FieldProblem::of_text("spec.vip", text, "is not an address"))
        })
        .collect::<Result<_, _>>()?;
    if addresses.is_empty() {
        return Err(FieldProblem::new("spec.vip", "an address is required"));
    }
    let fields = RuleFields {
        namespace: &spec.namespace,
        selector: &spec.selector,
        endpoints: &spec.endpoints,
        affinity: &spec.session_affinity,
        ports: &spec.ports,
    };
    let balancer = fields.balancer(BalancerFront::Addresses(addresses), pods)?;
    Ok(Balancer { vpc, ..balancer })
}

fn router_namespace(spec: &RouterLBRuleSpec) -> &str {
    if spec.namespace.is_empty() { DEFAULT_NAMESPACE } else { &spec.namespace }
}

fn router_rule(spec: &RouterLBRuleSpec, pods: &Pods) -> Result<Balancer, FieldProblem> {
    if spec.ovn_eip.is_empty() {
        return Err(FieldProblem::new("spec.ovnEip", "the name of an OvnEip is required"));
    }
    if spec.vpc.is_empty() {
        return Err(FieldProblem::new("spec.vpc", "the name of a Vpc is required"));
    }
    let fields = RuleFields {
        namespace: router_namespace(spec),
        selector: &spec.selector,
        endpoints: &spec.endpoints,
        affinity: &spec.session_affinity,
        ports: &spec.ports,
    };
    let balancer = fields.balancer(BalancerFront::Eip(spec.ovn_eip.as_str().into()), pods)?;
    Ok(Balancer { vpc: Some(("spec.vpc".to_owned(), spec.vpc.as_str().into())), ..balancer })
}

/// Fields that rules of both kinds have.
struct RuleFields<'a> {
    namespace: &'a str,
    selector: &'a [String],
    endpoints: &'a [String],
    affinity: &'a str,
    ports: &'a [LBRulePort],
}

impl RuleFields<'_> {
    fn balancer(&self, front: BalancerFront, pods: &Pods) -> Result<Balancer, FieldProblem> {
        let mut problems = Vec::new();
        let (labels, addresses) =
            (read_labels(self.selector, &mut problems), self.addresses(&mut problems));
        if labels.is_empty() && addresses.is_empty() {
            let missing = || FieldProblem::new("spec", "one of selector and endpoints is required");
            return Err(problems.into_iter().next().unwrap_or_else(missing));
        }
        let has_affinity = match self.affinity {
            "" | "None" => false,
            "ClientIP" => true,
            other => {
                let reason = "is neither ClientIP nor None";
                return Err(FieldProblem::of_text("spec.sessionAffinity", other, reason));
            }
        };
        let mut ports = Vec::new();
        for (index, port) in self.ports.iter().enumerate() {
            let field = format!("spec.ports[{index}]");
            match read_port(&field, port) {
                Ok((protocol, number, target)) => {
                    // As in Kube-OVN, addresses take the place of a selector.
                    let backends = if addresses.is_empty() {
                        let target = (&TargetPort::Number(target), protocol);
                        pods.backends(self.namespace, &labels, target, false)
                    } else {
                        let of = addresses.iter().map(|one| SocketAddr::new(*one, target));
                        of.map(Backend::Address).collect()
                    };
                    ports.push(BalancerPort { field, protocol, port: number, backends });
                }
                Err(problem) => problems.push(problem),
            }
        }
        if ports.is_empty() {
            let missing = || FieldProblem::new("spec.ports", "a port is required");
            return Err(problems.into_iter().next().unwrap_or_else(missing));
        }
        Ok(Balancer { has_affinity, ports, problems, ..empty(self.namespace, front) })
    }

    fn addresses(&self, problems: &mut Vec<FieldProblem>) -> Vec<IpAddr> {
        let mut addresses = Vec::new();
        for (index, text) in self.endpoints.iter().enumerate() {
            if let Ok(address) = text.trim().parse() {
                addresses.push(address);
            } else {
                let field = format!("spec.endpoints[{index}]");
                problems.push(FieldProblem::of_text(field, text, "is not an address"));
            }
        }
        addresses
    }
}

/// Labels of the field `selector`: `key:value`.
pub(super) fn read_labels(
    selector: &[String],
    problems: &mut Vec<FieldProblem>,
) -> BTreeMap<String, String> {
    let mut labels = BTreeMap::new();
    for (index, text) in selector.iter().enumerate() {
        let mut parts = text.split(':').map(str::trim);
        match (parts.next(), parts.next(), parts.next()) {
            (Some(key), Some(value), None) if !key.is_empty() => {
                labels.insert(key.to_owned(), value.to_owned());
            }
            _ => {
                let field = format!("spec.selector[{index}]");
                problems.push(FieldProblem::of_text(field, text, "is not key:value"));
            }
        }
    }
    labels
}

/// Protocol, port of the address, and port of the machines.
fn read_port(field: &str, port: &LBRulePort) -> Result<(Protocol, u16, u16), FieldProblem> {
    let number = |name: &str, number: i32| {
        let port = u16::try_from(number).ok().filter(|port| *port > 0);
        let problem = || {
            FieldProblem::new(format!("{field}.{name}"), format!("{number} is not in 1..=65535"))
        };
        port.ok_or_else(problem)
    };
    let protocol = match port.protocol.trim().to_ascii_uppercase().as_str() {
        "" => Protocol::Tcp,
        text => text.parse().map_err(|_| {
            let reason = "is none of TCP, UDP and SCTP";
            FieldProblem::of_text(format!("{field}.protocol"), &port.protocol, reason)
        })?,
    };
    let own = number("port", port.port)?;
    let target = match port.target_port {
        None | Some(0) => own,
        Some(target) => number("targetPort", target)?,
    };
    Ok((protocol, own, target))
}
