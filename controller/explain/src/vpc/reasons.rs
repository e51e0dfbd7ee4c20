//! Reasons why something of an object is not in effect.

use std::collections::BTreeSet;

use patchbay_lint::Finding;
use patchbay_model::vpc::{
    BalancerFront, BalancerKey, BalancerKind, CHASSIS, ConnectionProblem, EipKind, GATEWAY_NODE,
    NatKey, NatProblem, NatTarget, PortProblem, SubnetProblem, SubnetProvider, VirtualIpProblem,
    VpcScene,
};
use patchbay_resources::manifests::Inventory;
use patchbay_resources::object::kube_ovn::{OvnEip, Subnet, Vpc};
use patchbay_resources::object::{Node, Object as _};

use super::{VpcKind, object};
use crate::reasons::{Reason, annotation};

/// Reasons, and the objects on which an object depends.
pub(super) struct Causes<'a> {
    inventory: &'a Inventory,
    scene: &'a VpcScene,
    /// Reasons of the object, and of the objects on which it depends.
    pub(super) found: BTreeSet<Reason>,
    /// Notices that do not prevent anything.
    pub(super) notices: Vec<String>,
    /// The object and the objects on which it depends, as findings name them.
    pub(super) objects: BTreeSet<String>,
}

impl<'a> Causes<'a> {
    pub(super) fn of(
        kind: VpcKind,
        name: &str,
        inventory: &'a Inventory,
        scene: &'a VpcScene,
    ) -> Self {
        let mut causes = Self {
            inventory,
            scene,
            found: BTreeSet::new(),
            notices: Vec::new(),
            objects: BTreeSet::new(),
        };
        match kind {
            VpcKind::Vpc => causes.add_vpc(name),
            VpcKind::Subnet => causes.add_subnet(name),
            VpcKind::Eip => causes.add_eip(name),
            VpcKind::Nat(kind) => causes.add_nat(&NatKey { kind, name: name.into() }),
            VpcKind::SwitchRule => {
                causes.add_balancer(&BalancerKey {
                    kind: BalancerKind::SwitchRule,
                    name: name.into(),
                });
            }
            VpcKind::RouterRule => {
                causes.add_balancer(&BalancerKey {
                    kind: BalancerKind::RouterRule,
                    name: name.into(),
                });
            }
            VpcKind::Group => causes.add_group(name),
            VpcKind::VirtualIp => causes.add_virtual_ip(name),
            VpcKind::IpPool => causes.add_ip_pool(name),
            VpcKind::Ip => causes.add_port(name),
        }
        causes
    }

    /// Adds an object on which the explained one depends. `false`: it is known already.
    fn depends_on(&mut self, kind: &str, name: &str) -> bool {
        self.objects.insert(format!("{kind}/{name}"))
    }

    fn add_vpc(&mut self, name: &str) {
        if !self.depends_on(Vpc::KIND, name) {
            return;
        }
        let Some(vpc) = self.scene.objects.vpcs.get(name) else {
            return;
        };
        let problems = vpc.problems.iter();
        self.found.extend(
            problems
                .map(|problem| Reason::of_text(problem.to_string(), object(VpcKind::Vpc, name))),
        );
        for connection in self.scene.connections(vpc) {
            let subnet = connection.subnet.clone();
            let port = self.scene.external_port(name, connection);
            if self.inventory.subnets.named(&subnet).is_some() {
                self.add_subnet(&subnet);
            }
            if let Err(problem) = port {
                self.add_connection(name, &problem);
            }
        }
    }

    fn add_connection(&mut self, vpc: &str, problem: &ConnectionProblem) {
        let of_vpc = object(VpcKind::Vpc, vpc);
        let reason = match problem {
            ConnectionProblem::Subnet { subnet, reason } => {
                if self.inventory.subnets.named(subnet).is_none() {
                    let object = self.inventory.vpcs.named(vpc);
                    let is_listed =
                        object.is_some_and(|vpc| vpc.spec.extra_external_subnets.is_some());
                    let field =
                        if is_listed { "spec.extraExternalSubnets" } else { "spec.enableExternal" };
                    Reason::new(problem, of_vpc, Some(field.to_owned()))
                } else {
                    let field = reason.strip_prefix("it has no ");
                    let field = field.or_else(|| reason.strip_prefix("it has "));
                    let reason_of = object(VpcKind::Subnet, subnet);
                    match field {
                        Some(field) => Reason::new(reason, reason_of, Some(field.to_owned())),
                        None => Reason::of_text(reason.clone(), reason_of),
                    }
                }
            }
            ConnectionProblem::NoGatewayNode => {
                let field = format!("metadata.labels[{GATEWAY_NODE}]");
                Reason::new(problem, format!("{} of a gateway", Node::KIND), Some(field))
            }
            ConnectionProblem::NoChassis(node) => {
                Reason::new(problem, node.clone(), Some(annotation(CHASSIS)))
            }
            ConnectionProblem::NoAddress { eip, .. } => {
                if self.scene.objects.eips.contains_key(&**eip) {
                    self.add_eip(eip);
                }
                Reason::new(problem, object(VpcKind::Eip, eip), None)
            }
            other => Reason::new(other, of_vpc, None),
        };
        self.found.insert(reason);
    }

    fn add_subnet(&mut self, name: &str) {
        if !self.depends_on(Subnet::KIND, name) {
            return;
        }
        let of_subnet = object(VpcKind::Subnet, name);
        match self.scene.objects.subnets.get(name) {
            None => {}
            Some(Err(problem)) => {
                self.found.insert(Reason::of_text(problem.to_string(), of_subnet));
            }
            Some(Ok(subnet)) => {
                if let Some(vlan) = &subnet.vlan {
                    self.depends_on("Vlan", vlan);
                    if let Some(vlan) = self.scene.objects.vlans.get(vlan) {
                        self.depends_on("ProviderNetwork", &vlan.provider);
                    }
                }
                if let SubnetProvider::Attachment(provider) = &subnet.provider {
                    let definition = format!("{}/{}", provider.namespace, provider.name);
                    self.depends_on("NetworkAttachmentDefinition", &definition);
                } else if subnet.provider == SubnetProvider::Foreign {
                    let spec = self.inventory.subnets.named(name).map(|subnet| &subnet.spec);
                    let provider = spec.map(|spec| &*spec.provider).unwrap_or_default();
                    let message = format!(
                        "{provider:?} is not <definition>.<namespace>.ovn, so that no row follows"
                    );
                    let field = Some("spec.provider".to_owned());
                    self.found.insert(Reason::new(message, of_subnet.clone(), field));
                }
                if let Some(Err(problem)) = self.scene.standing(name) {
                    self.found.insert(match problem {
                        SubnetProblem::Namespace { vpc, namespace } => {
                            let message =
                                format!("it does not list namespace {namespace} of {of_subnet}");
                            let field = Some("spec.namespaces".to_owned());
                            Reason::new(message, object(VpcKind::Vpc, vpc), field)
                        }
                        _ => Reason::of_text(problem.to_string(), of_subnet),
                    });
                }
            }
        }
    }

    fn add_eip(&mut self, name: &str) {
        if !self.depends_on(OvnEip::KIND, name) {
            return;
        }
        let Some(eip) = self.scene.objects.eips.get(name) else {
            return;
        };
        let of_eip = object(VpcKind::Eip, name);
        self.add_subnet(&eip.subnet);
        if self.inventory.subnets.named(&eip.subnet).is_none() {
            let message = format!("there is no Subnet {}", eip.subnet);
            let field = Some("spec.externalSubnet".to_owned());
            self.found.insert(Reason::new(message, of_eip, field));
        } else if let Some(problem) = &eip.problem {
            self.found.insert(Reason::of_text(problem.to_string(), of_eip));
        } else if eip.addresses.is_empty() {
            let conditions = VpcKind::Eip.conditions(self.inventory, name);
            let failed = conditions.into_iter().find(|one| one.status == "False");
            let message = failed.map_or_else(|| "it has no address".to_owned(), |one| one.message);
            self.found.insert(Reason::of_text(message, of_eip));
        } else if eip.kind == EipKind::NodePort && eip.mac.is_none() {
            let field = Some("spec.macAddress".to_owned());
            self.found.insert(Reason::new("it has no MAC address", of_eip, field));
        }
    }

    fn add_nat(&mut self, key: &NatKey) {
        self.depends_on(key.kind.as_str(), &key.name);
        let of_rule = key.to_string();
        if let Some(Ok(rule)) = self.scene.objects.nats.get(key) {
            if self.scene.objects.eips.contains_key(&rule.eip) {
                self.add_eip(&rule.eip);
            }
            match &rule.target {
                NatTarget::Subnet(subnet) => {
                    self.add_subnet(subnet);
                    if let Ok(subnet) = self.scene.usable_subnet(subnet) {
                        self.add_vpc(&subnet.vpc);
                    }
                }
                NatTarget::Addresses { vpc, .. } => self.add_vpc(vpc),
                NatTarget::VirtualIp(name) => self.add_virtual_ip(name),
                NatTarget::Port(port) => {
                    if let Some(port) = self.scene.objects.ports.get(port) {
                        self.add_subnet(&port.subnet);
                        if let Ok(subnet) = self.scene.usable_subnet(&port.subnet) {
                            self.add_vpc(&subnet.vpc);
                        }
                    }
                }
            }
        }
        let mut nats = self.scene.nats();
        if let Some(Err(problem)) = nats.remove(key) {
            self.found.insert(match &problem {
                NatProblem::NotConnected { vpc, .. } => {
                    let field = Some("spec.enableExternal".to_owned());
                    Reason::new(&problem, object(VpcKind::Vpc, vpc), field)
                }
                _ => Reason::of_text(problem.to_string(), of_rule),
            });
        }
    }

    fn add_balancer(&mut self, key: &BalancerKey) {
        self.depends_on(key.kind.as_str(), &key.name);
        let of_rule = key.to_string();
        if let Some(Ok(balancer)) = self.scene.objects.balancers.get(key) {
            if let BalancerFront::Eip(eip) = &balancer.front {
                self.add_eip(eip);
            }
            if let Some((_, vpc)) = &balancer.vpc {
                self.add_vpc(vpc);
            }
        }
        let mut rules = self.scene.rules();
        match rules.balancers.remove(key) {
            Some(Ok(balancer)) => {
                self.depends_on(Vpc::KIND, &balancer.vpc);
                let problems = balancer.problems.iter();
                self.found.extend(
                    problems.map(|problem| Reason::of_text(problem.to_string(), of_rule.clone())),
                );
            }
            Some(Err(problem)) => {
                self.found.insert(Reason::of_text(problem.to_string(), of_rule));
            }
            None => {}
        }
    }

    fn add_group(&mut self, name: &str) {
        self.depends_on(VpcKind::Group.as_str(), name);
        let of_group = object(VpcKind::Group, name);
        let mut groups = self.scene.groups();
        let problems = match groups.remove(name) {
            Some(Ok(group)) => group.problems,
            Some(Err(problem)) => vec![problem],
            None => Vec::new(),
        };
        let problems = problems.iter();
        self.found
            .extend(problems.map(|problem| Reason::of_text(problem.to_string(), of_group.clone())));
    }

    fn add_virtual_ip(&mut self, name: &str) {
        if !self.depends_on(VpcKind::VirtualIp.as_str(), name) {
            return;
        }
        let of_vip = object(VpcKind::VirtualIp, name);
        match self.scene.virtual_ip(name) {
            Err(VirtualIpProblem::Unknown) => {}
            Err(VirtualIpProblem::Subnet { subnet, .. })
                if self.inventory.subnets.named(&subnet).is_some() =>
            {
                self.add_subnet(&subnet);
            }
            Err(problem) => {
                self.found.insert(Reason::of_text(problem.to_string(), of_vip));
            }
            Ok((virtual_ip, subnet)) => {
                let problems = virtual_ip.problems.iter();
                self.found.extend(
                    problems.map(|problem| Reason::of_text(problem.to_string(), of_vip.clone())),
                );
                if virtual_ip.addresses.is_empty() {
                    let message = format!("Subnet {} has no address for it", subnet.name);
                    self.found.insert(Reason::new(message, of_vip, None));
                }
                self.add_subnet(&subnet.name);
                self.add_vpc(&subnet.vpc);
            }
        }
    }

    fn add_ip_pool(&mut self, name: &str) {
        self.depends_on(VpcKind::IpPool.as_str(), name);
        let of_pool = object(VpcKind::IpPool, name);
        let mut pools = self.scene.ip_pools();
        let problems = match pools.remove(name) {
            Some(Ok(pool)) => {
                self.add_subnet(&pool.subnet);
                pool.problems
            }
            Some(Err(problem)) => vec![problem],
            None => Vec::new(),
        };
        let problems = problems.iter();
        self.found
            .extend(problems.map(|problem| Reason::of_text(problem.to_string(), of_pool.clone())));
    }

    fn add_port(&mut self, name: &str) {
        self.depends_on(VpcKind::Ip.as_str(), name);
        let mut requests = self.scene.objects.requests.iter();
        let Some(request) = requests.find(|request| request.port() == name) else {
            self.notices.push("no row follows from a port without a pod".to_owned());
            return;
        };
        let pod = format!("Pod {}", request.pod);
        self.depends_on("Pod", &request.pod.to_string());
        if let Ok(subnet) = &request.subnet {
            self.add_subnet(subnet);
        }
        let reason = match self.scene.subnet_of(request) {
            Ok(subnet) => {
                self.depends_on(Vpc::KIND, &subnet.vpc);
                if self.scene.objects.ports.contains_key(name) {
                    return;
                }
                let message = format!("Subnet {} has no address for it", subnet.name);
                Reason::new(message, pod, None)
            }
            Err(PortProblem::NoSubnet(definition)) => {
                let message = format!("no Subnet has the provider of {definition}");
                let of = format!("NetworkAttachmentDefinition {definition}");
                Reason::new(message, of, Some("spec.config".to_owned()))
            }
            Err(PortProblem::Namespace { vpc, namespace, .. }) => {
                let message = format!("it does not list namespace {namespace} of {pod}");
                let field = Some("spec.namespaces".to_owned());
                Reason::new(message, object(VpcKind::Vpc, &vpc), field)
            }
            // The reasons of the subnet are there.
            Err(PortProblem::Subnet { .. }) => return,
            Err(problem) => Reason::of_text(problem.to_string(), pod),
        };
        self.found.insert(reason);
    }
}

/// A finding of lint that stops an object.
pub(super) fn of_finding(finding: &Finding) -> Reason {
    let message = format!("{}: {} {}", finding.rule, finding.message, finding.repair);
    Reason::new(message, finding.object.replacen('/', " ", 1), finding.field.clone())
}

/// A finding of lint that stops nothing.
pub(super) fn notice(finding: &Finding) -> String {
    format!("{}: {} {}", finding.rule, finding.message, finding.repair)
}
