//! Services of the default network that primary networks reach.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::external_ids::{hashed_name, key, reachable_services_id};
use patchbay_model::{ClusterSettings, IpFamily, ServiceKey};
use patchbay_schemas::nb::AddressSet;
use patchbay_zone::ZoneObjects;

use super::rows::texts;

/// Owner of the address sets.
pub(super) const OWNER: &str = "udn-enabled-svc";
const OWNER_TYPE: &str = "UDNEnabledService";
const NAME: &str = "udn-enabled-svc-cluster-ips";

/// The services that the settings name, by `<namespace>/<name>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DefaultServices(BTreeMap<String, DefaultService>);

/// A service that the settings name.
#[derive(Clone, Debug, PartialEq)]
struct DefaultService {
    cluster_ips: Vec<IpAddr>,
    /// Primary network of the service's namespace. `None`: the default one.
    network: Option<Arc<str>>,
}

/// Keys of the services that the settings name.
pub(super) fn default_services(settings: &ClusterSettings) -> impl Iterator<Item = ServiceKey> {
    let names = settings.reachable_default_services.iter();
    names.filter_map(|name| {
        let (namespace, name) = name.split_once('/')?;
        Some(ServiceKey { namespace: namespace.into(), name: name.into() })
    })
}

impl DefaultServices {
    pub(super) fn of(objects: &ZoneObjects) -> Self {
        let named = default_services(objects.settings()).filter_map(|key| {
            let cluster_ips = &objects.service(&key)?.cluster_ips;
            let service = DefaultService {
                cluster_ips: cluster_ips.clone(),
                network: objects.primary_network_of(&key.namespace).cloned(),
            };
            (!cluster_ips.is_empty()).then(|| (key.to_string(), service))
        });
        Self(named.collect())
    }

    /// `spec.clusterIP` of each service that a network has a route to, with the service's name. As
    /// in OVN-Kubernetes, other networks have none to a service in the namespace of a primary
    /// network.
    pub(super) fn first_addresses<'a>(
        &'a self,
        network: &'a str,
    ) -> impl Iterator<Item = (&'a str, IpAddr)> {
        let reached = self.0.iter().filter(move |(_, service)| {
            let owner = service.network.as_deref();
            owner.is_none_or(|owner| owner == network)
        });
        reached.filter_map(|(name, service)| Some((name.as_str(), *service.cluster_ips.first()?)))
    }

    /// A set for each family of the cluster, with all addresses of the family.
    pub(super) fn address_sets(&self, settings: &ClusterSettings) -> Vec<AddressSet> {
        let families = IpFamily::BOTH.into_iter().filter(|family| settings.has_family(*family));
        families.map(|family| self.address_set(family)).collect()
    }

    fn address_set(&self, family: IpFamily) -> AddressSet {
        let addresses: BTreeSet<String> = self
            .0
            .values()
            .flat_map(|service| &service.cluster_ips)
            .filter(|address| IpFamily::of(**address) == family)
            .map(ToString::to_string)
            .collect();
        let id = reachable_services_id(family);
        AddressSet {
            name: hashed_name(&id),
            addresses,
            external_ids: texts([
                (key::OWNER_CONTROLLER, OWNER),
                (key::OWNER_TYPE, OWNER_TYPE),
                (key::NAME, NAME),
                (key::IP_FAMILY, &family.to_string()),
                (key::ID, &id),
            ]),
            ..AddressSet::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_model::{Network, NetworkId, Role, Service, Topology, Transport};

    use super::*;

    fn service(namespace: &str, name: &str, cluster_ips: [&str; 2]) -> Service {
        Service {
            key: ServiceKey { namespace: namespace.into(), name: name.into() },
            cluster_ips: cluster_ips.map(|ip| ip.parse().unwrap()).to_vec(),
            external_ips: Vec::new(),
            ports: Vec::new(),
            affinity_timeout: None,
            is_internal_local: false,
            is_external_local: false,
            publishes_unready: false,
            selector: BTreeMap::new(),
            problems: Vec::new(),
        }
    }

    #[test]
    fn sets_have_all_services_and_networks_those_that_are_not_of_another() {
        let settings = ClusterSettings::default();
        let mut objects = ZoneObjects::new("n1", &settings);
        objects.put_service(service("default", "kubernetes", ["10.96.0.1", "fd96::1"]));
        objects.put_service(service("kube-system", "kube-dns", ["10.96.0.10", "fd96::a"]));
        objects.put_service(service("kube-system", "other", ["10.96.0.11", "fd96::b"]));
        let network = Network {
            name: "dns_l3".to_owned(),
            id: NetworkId::try_new(1).unwrap(),
            topology: Topology::Layer3,
            role: Role::Primary,
            transport: Transport::Overlay,
            pod_subnets: Vec::new(),
            join_subnets: Vec::new(),
            transit_subnets: Vec::new(),
            namespaces: ["kube-system".to_owned()].into(),
            nads: BTreeSet::new(),
        };
        let networks = [network].into_iter().collect();
        objects.set_networks(&networks, &BTreeMap::new(), &BTreeSet::new());
        let services = DefaultServices::of(&objects);
        let sets = services.address_sets(&settings);
        let names: Vec<_> = sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["a3613486944346402462", "a3613484745323146040"]);
        let addresses = ["fd96::1".to_owned(), "fd96::a".to_owned()];
        assert_eq!(sets[1].addresses, addresses.into());
        let kubernetes = ("default/kubernetes", "10.96.0.1".parse().unwrap());
        let kube_dns = ("kube-system/kube-dns", "10.96.0.10".parse().unwrap());
        let first = |network| services.first_addresses(network).collect::<Vec<_>>();
        assert_eq!(first("dns_l3"), [kubernetes, kube_dns]);
        assert_eq!(first("blue_l3"), [kubernetes]);
    }
}
