//! EgressIPs by the pods that they serve. A change costs time in proportion to the pods concerned.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use imbl::OrdMap;
use ipnet::IpNet;
use patchbay_model::{EgressAssignment, EgressIp, Pod, PodKey, PodPlace};

use super::problem::{EgressProblem, EgressProblemReason};

type Labels = BTreeMap<String, String>;

/// A pod of a network that an EgressIP serves.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct ServedPod {
    /// `true` if the pod is on the zone's node.
    pub(super) is_local: bool,
    pub(super) addresses: Vec<IpAddr>,
    /// The EgressIPs that select the pod and have nodes, by name. One of them serves it.
    pub(super) servers: Vec<Server>,
}

/// An EgressIP that may serve a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Server {
    pub(super) egress_ip: Arc<str>,
    /// `None`: packets cannot be marked.
    pub(super) mark: Option<u32>,
    /// The nodes that the packets leave through, with the addresses that they get there. Not empty.
    pub(super) assignments: Vec<EgressAssignment>,
}

/// A pod in a primary network.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Candidate {
    pod: Arc<Pod>,
    network: Arc<str>,
    addresses: Box<[IpAddr]>,
}

impl Candidate {
    pub(super) fn new(pod: &Arc<Pod>, place: &PodPlace) -> Self {
        let addresses = place.addresses.addresses.iter();
        Self {
            pod: pod.clone(),
            network: place.network.name.clone(),
            addresses: addresses.map(IpNet::addr).collect(),
        }
    }
}

/// An EgressIP, and what of it can be used.
#[derive(Clone, Debug)]
struct Usable {
    object: EgressIp,
    /// Assignments to known nodes, with addresses of their bridges.
    assignments: Vec<EgressAssignment>,
    problems: Vec<EgressProblem>,
}

/// EgressIPs, the pods that they may serve, and those that they serve.
#[derive(Clone, Debug, Default)]
pub(super) struct Serving {
    zone: Arc<str>,
    egress_ips: OrdMap<Arc<str>, Arc<Usable>>,
    /// Subnets of the nodes' bridges.
    subnets: OrdMap<Arc<str>, Arc<[IpNet]>>,
    namespaces: OrdMap<Arc<str>, Arc<Labels>>,
    candidates: OrdMap<PodKey, Arc<Candidate>>,
    served: OrdMap<(Arc<str>, PodKey), Arc<ServedPod>>,
}

impl Serving {
    pub(super) fn new(zone: &str) -> Self {
        Self {
            zone: zone.into(),
            ..Self::default()
        }
    }

    /// The served pods, by network.
    pub(super) fn served(&self) -> &OrdMap<(Arc<str>, PodKey), Arc<ServedPod>> {
        &self.served
    }

    /// Reasons why EgressIPs do not apply as their objects specify, as far as the objects alone
    /// show them.
    pub(super) fn problems(&self) -> impl Iterator<Item = &EgressProblem> {
        self.egress_ips.values().flat_map(|one| &one.problems)
    }

    /// Sets a pod. `None`: it is gone, or in no primary network.
    pub(super) fn set_pod(&mut self, key: &PodKey, candidate: Option<Candidate>) {
        let former = match candidate {
            Some(candidate) => self.candidates.insert(key.clone(), Arc::new(candidate)),
            None => self.candidates.remove(key),
        };
        let network = self.candidates.get(key).map(|candidate| &candidate.network);
        if let Some(former) = former.filter(|former| Some(&former.network) != network) {
            self.served.remove(&(former.network.clone(), key.clone()));
        }
        self.serve(key);
    }

    /// Sets the labels of a namespace. `None`: it is gone.
    pub(super) fn set_labels(&mut self, namespace: &str, labels: Option<&Labels>) {
        let former = match labels {
            Some(labels) => self
                .namespaces
                .insert(namespace.into(), Arc::new(labels.clone())),
            None => self.namespaces.remove(namespace),
        };
        if former.as_deref() != labels {
            let first = PodKey::new(namespace, "");
            let pods = self.candidates.range(first..).map(|(key, _)| key);
            let pods = pods.take_while(|key| &*key.namespace == namespace);
            let pods: Vec<PodKey> = pods.cloned().collect();
            self.serve_all(&pods);
        }
    }

    /// Sets the subnets of a node's bridge. `None`: the node is gone.
    pub(super) fn set_subnets(&mut self, node: &str, subnets: Option<&[IpNet]>) {
        let former = match subnets {
            Some(subnets) => self.subnets.insert(node.into(), subnets.into()),
            None => self.subnets.remove(node),
        };
        if former.as_deref() == subnets {
            return;
        }
        let assigned = self.egress_ips.values().filter(|one| {
            let mut assignments = one.object.assignments.iter();
            assignments.any(|assignment| &*assignment.node == node)
        });
        let assigned: Vec<EgressIp> = assigned.map(|one| one.object.clone()).collect();
        for object in assigned {
            self.put_egress_ip(object);
        }
    }

    /// Adds an EgressIP, or replaces the one of its name.
    pub(super) fn put_egress_ip(&mut self, object: EgressIp) {
        let mut pods = self.selected(&object.name);
        let name = object.name.clone();
        let usable = self.usable(object);
        self.egress_ips.insert(name.clone(), Arc::new(usable));
        pods.extend(self.selected(&name));
        self.serve_all(&pods);
    }

    /// Removes an EgressIP.
    pub(super) fn remove_egress_ip(&mut self, name: &str) {
        let pods = self.selected(name);
        self.egress_ips.remove(name);
        self.serve_all(&pods);
    }

    /// Pods that an EgressIP selects.
    fn selected(&self, egress_ip: &str) -> Vec<PodKey> {
        let Some(usable) = self.egress_ips.get(egress_ip) else {
            return Vec::new();
        };
        let pods = self.candidates.iter();
        let pods = pods.filter(|(_, candidate)| self.selects(&usable.object, candidate));
        pods.map(|(key, _)| key.clone()).collect()
    }

    fn selects(&self, object: &EgressIp, candidate: &Candidate) -> bool {
        let no_labels = Labels::new();
        let namespace = self.namespaces.get(&candidate.pod.key.namespace);
        let namespace = namespace.map_or(&no_labels, |labels| &**labels);
        object.selects(namespace, &candidate.pod.labels)
    }

    fn usable(&self, object: EgressIp) -> Usable {
        let mut problems = Vec::new();
        let mut problem = |reason| {
            let egress_ip = object.name.clone();
            problems.push(EgressProblem { egress_ip, reason });
        };
        for reason in &object.problems {
            problem(EgressProblemReason::Selector(reason.clone()));
        }
        let assignments = object.assignments.iter().filter(|assignment| {
            let Some(subnets) = self.subnets.get(&assignment.node) else {
                return false;
            };
            let mut subnets = subnets.iter();
            let is_usable = subnets.any(|subnet| subnet.contains(&assignment.address));
            if !is_usable {
                problem(EgressProblemReason::SecondaryInterface {
                    address: assignment.address,
                    node: assignment.node.clone(),
                });
            }
            is_usable
        });
        Usable {
            assignments: assignments.cloned().collect(),
            problems,
            object,
        }
    }

    fn serve_all(&mut self, pods: &[PodKey]) {
        for pod in pods {
            self.serve(pod);
        }
    }

    /// Finds the EgressIPs that may serve a pod.
    fn serve(&mut self, key: &PodKey) {
        let Some(candidate) = self.candidates.get(key).cloned() else {
            return;
        };
        let place = (candidate.network.clone(), key.clone());
        match self.served_pod(&candidate) {
            Some(served) => {
                self.served.insert(place, Arc::new(served));
            }
            None => {
                self.served.remove(&place);
            }
        }
    }

    /// `None`: the zone does not serve the pod.
    fn served_pod(&self, candidate: &Candidate) -> Option<ServedPod> {
        let objects = self.egress_ips.values().filter(|usable| {
            !usable.assignments.is_empty() && self.selects(&usable.object, candidate)
        });
        let servers: Vec<Server> = objects
            .map(|usable| Server {
                egress_ip: usable.object.name.clone(),
                mark: usable.object.mark,
                assignments: usable.assignments.clone(),
            })
            .collect();
        let is_local = candidate.pod.node.as_ref() == Some(&self.zone);
        let mut assignments = servers.iter().flat_map(|server| &server.assignments);
        let leaves_here = assignments.any(|one| one.node == self.zone);
        let is_served = (is_local || leaves_here) && !servers.is_empty();
        is_served.then(|| ServedPod {
            is_local,
            addresses: candidate.addresses.to_vec(),
            servers,
        })
    }
}

#[cfg(test)]
mod tests {
    use patchbay_model::{AddressRequest, EndpointState, PodNetworks, Selector};

    use super::*;

    fn candidate(network: &str) -> Candidate {
        let pod = Pod {
            key: PodKey::new("blue", "p"),
            uid: "".into(),
            created: None,
            node: Some("n1".into()),
            labels: Labels::new(),
            has_host_network: false,
            is_completed: false,
            endpoint_state: EndpointState::Ready,
            container_ports: Vec::new(),
            default_addresses: Vec::new(),
            networks: PodNetworks::default(),
            selections: None,
            primary_request: Ok(AddressRequest::default()),
            machine: None,
            open_ports: Vec::new(),
            problems: Vec::new(),
        };
        Candidate {
            pod: Arc::new(pod),
            network: network.into(),
            addresses: ["10.10.0.3".parse().unwrap()].into(),
        }
    }

    #[test]
    fn a_pod_is_served_in_the_network_that_it_is_in() {
        let mut serving = Serving::new("n1");
        serving.set_subnets("n1", Some(&["172.18.0.0/16".parse().unwrap()]));
        serving.put_egress_ip(EgressIp {
            name: "eip".into(),
            mark: Some(1),
            namespaces: Some(Selector::default()),
            pods: Some(Selector::default()),
            assignments: vec![EgressAssignment {
                node: "n1".into(),
                address: "172.18.0.9".parse().unwrap(),
            }],
            problems: Vec::new(),
        });
        let key = PodKey::new("blue", "p");
        for network in [Some("blue_l3"), Some("blue_l2"), None] {
            serving.set_pod(&key, network.map(candidate));
            let served = serving.served().keys();
            let networks: Vec<&str> = served.map(|(network, _)| &**network).collect();
            assert_eq!(networks, Vec::from_iter(network));
        }
    }
}
