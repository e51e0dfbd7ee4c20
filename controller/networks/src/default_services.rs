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

/// Cluster IPs of the services that the settings name, by `<namespace>/<name>`.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct DefaultServices(BTreeMap<String, Vec<IpAddr>>);

impl DefaultServices {
    pub(super) fn read(services: &[ServiceObject<'_>], settings: &ClusterSettings) -> Self {
        let named = services.iter().filter_map(|service| {
            let name = format!("{}/{}", service.namespace, service.name);
            let is_reachable = settings.reachable_default_services.contains(&name);
            (is_reachable && !service.cluster_ips.is_empty())
                .then(|| (name, service.cluster_ips.clone()))
        });
        Self(named.collect())
    }

    /// `spec.clusterIP` of each service, with its name.
    pub(super) fn first_addresses(&self) -> impl Iterator<Item = (&str, IpAddr)> {
        let services = self.0.iter();
        services.filter_map(|(name, addresses)| Some((name.as_str(), *addresses.first()?)))
    }

    /// A set for each family of the cluster, with all addresses of the family.
    pub(super) fn address_sets(&self, settings: &ClusterSettings) -> Vec<AddressSet> {
        let families = IpFamily::BOTH
            .into_iter()
            .filter(|family| settings.has_family(*family));
        families.map(|family| self.address_set(family)).collect()
    }

    fn address_set(&self, family: IpFamily) -> AddressSet {
        let addresses = self.0.values().flatten();
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
    fn address_sets_are_named_after_their_ids() {
        let settings = ClusterSettings::default();
        let service = |name, cluster_ips: [&str; 2]| ServiceObject {
            namespace: "kube-system",
            name,
            cluster_ips: cluster_ips.iter().map(|ip| ip.parse().unwrap()).collect(),
        };
        let services = [
            service("kube-dns", ["10.96.0.10", "fd96::a"]),
            service("other", ["10.96.0.11", "fd96::b"]),
        ];
        let services = DefaultServices::read(&services, &settings);
        let sets = services.address_sets(&settings);
        let names: Vec<_> = sets.iter().map(|set| set.name.as_str()).collect();
        assert_eq!(names, ["a3613486944346402462", "a3613484745323146040"]);
        assert_eq!(sets[1].addresses, ["fd96::a".to_owned()].into());
        let first: Vec<_> = services.first_addresses().collect();
        assert_eq!(
            first,
            [("kube-system/kube-dns", "10.96.0.10".parse().unwrap())]
        );
    }
}
