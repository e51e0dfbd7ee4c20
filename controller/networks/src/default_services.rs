//! Services of the default network that primary networks reach.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use patchbay_model::external_ids::{hashed_name, key, reachable_services_id};
use patchbay_model::{ClusterSettings, IpFamily, ServiceObject};
use patchbay_schemas::nb::AddressSet;

use super::rows::texts;

/// Owner of the address sets.
pub(super) const OWNER: &str = "udn-enabled-svc";
const OWNER_TYPE: &str = "UDNEnabledService";
const NAME: &str = "udn-enabled-svc-cluster-ips";

/// The services that the settings name, by `<namespace>/<name>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DefaultServices(BTreeMap<String, DefaultService>);

/// A service that the settings name.
#[derive(Clone, Debug, PartialEq)]
struct DefaultService {
    cluster_ips: Vec<IpAddr>,
    /// Primary network of the service's namespace. `None`: the default one.
    network: Option<String>,
}

impl DefaultServices {
    /// `primary`: names of the primary networks of namespaces.
    pub(super) fn read(
        services: &[ServiceObject<'_>],
        settings: &ClusterSettings,
        primary: &BTreeMap<String, String>,
    ) -> Self {
        let named = services.iter().filter_map(|object| {
            let name = format!("{}/{}", object.namespace, object.name);
            let is_reachable = settings.reachable_default_services.contains(&name);
            let service = || DefaultService {
                cluster_ips: object.cluster_ips.clone(),
                network: primary.get(object.namespace).cloned(),
            };
            (is_reachable && !object.cluster_ips.is_empty()).then(|| (name, service()))
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
        let families = IpFamily::BOTH
            .into_iter()
            .filter(|family| settings.has_family(*family));
        families.map(|family| self.address_set(family)).collect()
    }

    fn address_set(&self, family: IpFamily) -> AddressSet {
        let addresses = self.0.values().flat_map(|service| &service.cluster_ips);
        let addresses = addresses.filter(|address| IpFamily::of(**address) == family);
        let addresses: BTreeSet<String> = addresses.map(ToString::to_string).collect();
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
    use super::*;

    #[test]
    fn sets_have_all_services_and_networks_those_that_are_not_of_another() {
        let settings = ClusterSettings::default();
        let service = |namespace, name, cluster_ips: [&str; 2]| ServiceObject {
            namespace,
            name,
            cluster_ips: cluster_ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        let services = [
            service("default", "kubernetes", ["10.96.0.1", "fd96::1"]),
            service("kube-system", "kube-dns", ["10.96.0.10", "fd96::a"]),
            service("kube-system", "other", ["10.96.0.11", "fd96::b"]),
        ];
        let primary = [("kube-system".to_owned(), "dns_l3".to_owned())].into();
        let services = DefaultServices::read(&services, &settings, &primary);
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
