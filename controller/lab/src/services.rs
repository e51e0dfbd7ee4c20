//! Services of the manifests, as pods reach them.

use std::net::IpAddr;

use patchbay_model::{IpFamily, Service, ServiceKey, ServicePort};
use patchbay_reconcile::Cluster;
use patchbay_resources::conversion::{endpoint_slice, network_service};

use super::lab::Lab;
use super::pods::{Pod, PodName};
use super::questions::{Answer, Protocol, QuestionError, similar};

/// Service with the pods that answer for it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ServiceTarget {
    /// Namespace and name.
    pub key: ServiceKey,
    /// Cluster IPs.
    pub cluster_ips: Vec<IpAddr>,
    /// Pods that its EndpointSlices name, or that its selector selects if it has none.
    pub endpoints: Vec<PodName>,
    /// Ports.
    pub ports: Vec<ServicePort>,
}

impl ServiceTarget {
    /// Reasons of the service itself why no pod gets its packets, one line each.
    pub fn reasons(&self, protocol: Protocol) -> Vec<String> {
        let key = &self.key;
        let mut reasons = Vec::new();
        if self.endpoints.is_empty() {
            reasons.push(format!("Service {key} has no pod as endpoint"));
        }
        let ports: Vec<String> = self
            .ports
            .iter()
            .map(|port| format!("{} {}", port.protocol, port.port).to_lowercase())
            .collect();
        let asked = protocol.to_string();
        if !ports.contains(&asked) {
            let known = ports.join(", ");
            reasons.push(format!("Service {key} has no port {asked}, but {known}"));
        }
        reasons
    }
}

impl Lab {
    /// Finds a service by `NAMESPACE/NAME`, or by its name if that is unique.
    ///
    /// # Errors
    /// There is no such service; the error names similar ones.
    pub fn find_service(
        &self,
        cluster: &Cluster,
        name: &str,
    ) -> Result<ServiceTarget, QuestionError> {
        let services: Vec<Service> = cluster
            .inventory
            .services
            .iter()
            .map(|(_, service)| network_service(&service.object))
            .collect();
        let exact = services.iter().find(|one| one.key.to_string() == name);
        let mut same = services.iter().filter(|one| *one.key.name == *name);
        let found = exact.or_else(|| same.next().filter(|_| same.next().is_none()));
        let Some(service) = found else {
            let names = services.iter().map(|one| one.key.to_string());
            return Err(QuestionError::NoSuchService {
                name: name.to_owned(),
                similar: similar(name, names),
            });
        };
        Ok(ServiceTarget {
            key: service.key.clone(),
            cluster_ips: service.cluster_ips.clone(),
            endpoints: self.endpoints(cluster, service),
            ports: service.ports.clone(),
        })
    }

    fn endpoints(&self, cluster: &Cluster, service: &Service) -> Vec<PodName> {
        let mut slices = cluster
            .inventory
            .endpoint_slices
            .iter()
            .filter_map(|(_, slice)| endpoint_slice(&slice.object))
            .filter(|slice| slice.service == service.key)
            .peekable();
        if slices.peek().is_some() {
            let endpoints = slices.flat_map(|slice| slice.endpoints);
            let addresses: Vec<IpAddr> = endpoints.flat_map(|one| one.addresses).collect();
            let has_one = |pod: &&Pod| pod.ips().any(|ip| addresses.contains(&ip));
            return self.pods().filter(has_one).map(|pod| pod.name.clone()).collect();
        }
        let Some(pods) = cluster.zone_pods("").filter(|_| !service.selector.is_empty()) else {
            return Vec::new();
        };
        let selected = pods.pods().filter(|pod| {
            let mut labels = service.selector.iter();
            pod.key.namespace == service.key.namespace
                && labels.all(|(key, value)| pod.labels.get(key) == Some(value))
        });
        selected.map(|pod| PodName::of(&pod.key)).collect()
    }

    /// Asks the cluster IP of a service. It is reached if one of its endpoints answers. `family`:
    /// IP family; `None`: the first one that the pod and the service have.
    ///
    /// # Errors
    /// There is no such pod, or the service has no cluster IP of the family.
    pub async fn ask_service(
        &self,
        from: &PodName,
        service: &ServiceTarget,
        protocol: Protocol,
        family: Option<IpFamily>,
    ) -> Result<Answer, QuestionError> {
        let (source, asker) = self.asker(from).ok_or_else(|| QuestionError::NoSuchPod {
            name: from.to_string(),
            similar: Vec::new(),
        })?;
        let mut addresses = service.cluster_ips.iter().copied().filter(|ip| {
            family.is_none_or(|family| IpFamily::of(*ip) == family)
                && source.ips().any(|own| own.is_ipv4() == ip.is_ipv4())
        });
        let address = addresses.next().ok_or_else(|| QuestionError::NoClusterIp {
            from: from.clone(),
            service: service.key.to_string(),
        })?;
        let outcome = asker.ask(address, protocol.into()).await;
        let targets: Vec<&PodName> = service.endpoints.iter().collect();
        Ok(self.judge(address, &targets, outcome))
    }
}
