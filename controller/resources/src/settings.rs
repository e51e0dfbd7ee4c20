//! `ClusterSettings`: settings of a cluster as an object of manifests.

mod families;
mod ranges;

use ipnet::IpNet;
use jiff::SignedDuration;
use patchbay_model::{ClusterSettings as Settings, Databases, Feature, GatewayMode, IpFamily};
use serde::{Deserialize, Serialize};

use crate::custom_resource;
use crate::manifests::Inventory;
use crate::object::Object as _;
use patchbay_model::FieldProblem;

pub use families::ClusterFamily;
pub use ranges::{RangeKind, RangeViolation};

/// Name of the only object of the kind.
const NAME: &str = "cluster";
/// Lengths in bytes that an MTU may have, as in the flag `--mtu`.
const MTU_RANGE: std::ops::RangeInclusive<u32> = 1280..=65_535;

custom_resource! {
    /// Settings of the cluster, an object of manifests that only Patchbay reads.
    #[derive(Default)]
    ClusterSettings, ClusterSettingsSpec;
    "patchbay", "v1", "clustersettings", namespaced: false
}

/// Specification of [`ClusterSettings`], and what flags set. A field that is missing has the
/// default of OVN-Kubernetes.
///
/// ```
/// use patchbay_model::IpFamily;
/// use patchbay_resources::settings::ClusterSettingsSpec;
///
/// let spec = ClusterSettingsSpec {
///     pod_cidrs: vec!["10.244.0.0/16".parse().unwrap()],
///     ..ClusterSettingsSpec::default()
/// };
/// assert_eq!(spec.settings().families, [IpFamily::V4]);
/// ```
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct ClusterSettingsSpec {
    /// Northbound databases of the nodes.
    pub topology: Option<TopologyName>,
    /// Ranges of cluster IPs, at most one of each family.
    #[serde(rename = "serviceCIDRs")]
    pub service_cidrs: Vec<IpNet>,
    /// Ranges of the pods on the default network.
    #[serde(rename = "podCIDRs")]
    pub pod_cidrs: Vec<IpNet>,
    /// Join subnets of the default network, at most one of each family.
    #[serde(rename = "joinCIDRs")]
    pub join_cidrs: Vec<IpNet>,
    /// Transit subnets between zones, at most one of each family.
    #[serde(rename = "transitCIDRs")]
    pub transit_cidrs: Vec<IpNet>,
    /// Subnets between OVN and its host, at most one of each family.
    #[serde(rename = "masqueradeCIDRs")]
    pub masquerade_cidrs: Vec<IpNet>,
    /// Way of packets that leave the cluster.
    pub gateway_mode: Option<GatewayModeName>,
    /// MTU in bytes of networks that configure none.
    pub mtu: Option<u32>,
    /// First and last local port that NAT gives to connections, such as `32768-60999`.
    pub ephemeral_port_range: Option<String>,
    /// `false`: nodes do not forward the node ports of services.
    pub node_ports: Option<bool>,
    /// Services of the default network that primary networks reach, as `<namespace>/<name>`.
    pub udn_allowed_default_services: Option<Vec<String>>,
    /// Names of the features that are switched on.
    pub features: Vec<String>,
    /// Seconds for which a zone keeps a network without users, with dynamic allocation.
    pub udn_deletion_grace_period: Option<u32>,
}

/// Name of [`Databases`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum TopologyName {
    /// [`Databases::Zone`].
    Zone,
    /// [`Databases::Central`].
    Central,
}

/// Name of a [`GatewayMode`].
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum GatewayModeName {
    /// [`GatewayMode::Shared`].
    Shared,
    /// [`GatewayMode::Local`].
    Local,
}

impl ClusterSettings {
    /// Rules that the object breaks.
    pub(crate) fn violations(&self) -> Vec<FieldProblem> {
        let is_named = self.name_any() == NAME;
        let violation = || FieldProblem::new("metadata.name", format!("should match '^{NAME}$'"));
        let named = (!is_named).then(violation);
        named.into_iter().chain(self.spec.violations()).collect()
    }
}

impl ClusterSettingsSpec {
    /// Fields of `self`, and of `other` where `self` has none.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        fn either<T>(one: Vec<T>, other: Vec<T>) -> Vec<T> {
            if one.is_empty() { other } else { one }
        }
        Self {
            topology: self.topology.or(other.topology),
            service_cidrs: either(self.service_cidrs, other.service_cidrs),
            pod_cidrs: either(self.pod_cidrs, other.pod_cidrs),
            join_cidrs: either(self.join_cidrs, other.join_cidrs),
            transit_cidrs: either(self.transit_cidrs, other.transit_cidrs),
            masquerade_cidrs: either(self.masquerade_cidrs, other.masquerade_cidrs),
            gateway_mode: self.gateway_mode.or(other.gateway_mode),
            mtu: self.mtu.or(other.mtu),
            ephemeral_port_range: self.ephemeral_port_range.or(other.ephemeral_port_range),
            node_ports: self.node_ports.or(other.node_ports),
            udn_allowed_default_services: self
                .udn_allowed_default_services
                .or(other.udn_allowed_default_services),
            features: either(self.features, other.features),
            udn_deletion_grace_period: self
                .udn_deletion_grace_period
                .or(other.udn_deletion_grace_period),
        }
    }

    /// The settings, without regard to the objects of the cluster: see
    /// [`settings_with`](Self::settings_with).
    pub fn settings(&self) -> Settings {
        self.settings_with(&Inventory::default())
    }

    /// The settings of a cluster with these objects. A value that
    /// [`violations`](Self::violations) names counts as missing.
    pub fn settings_with(&self, objects: &Inventory) -> Settings {
        let default = Settings::default();
        let ports = self.ephemeral_port_range.as_deref();
        let grace_period = self.udn_deletion_grace_period;
        Settings {
            databases: match self.topology {
                Some(TopologyName::Central) => Databases::Central,
                Some(TopologyName::Zone) | None => Databases::Zone,
            },
            is_northd_stock: default.is_northd_stock,
            families: self.families(objects).into_iter().map(|one| one.family).collect(),
            mtu: self.mtu.unwrap_or(default.mtu),
            cluster_subnets: self.pod_cidrs.clone(),
            service_cidrs: self.service_cidrs.clone(),
            join_subnets: override_per_family(&default.join_subnets, &self.join_cidrs),
            transit_subnets: override_per_family(&default.transit_subnets, &self.transit_cidrs),
            masquerade_subnets: override_per_family(
                &default.masquerade_subnets,
                &self.masquerade_cidrs,
            ),
            gateway_mode: match self.gateway_mode {
                Some(GatewayModeName::Local) => GatewayMode::Local,
                Some(GatewayModeName::Shared) => GatewayMode::Shared,
                None => default.gateway_mode,
            },
            ephemeral_ports: ports.and_then(port_range).or(default.ephemeral_ports),
            node_ports: self.node_ports.unwrap_or(default.node_ports),
            reachable_default_services: self
                .udn_allowed_default_services
                .clone()
                .unwrap_or(default.reachable_default_services),
            features: self.features.iter().filter_map(|name| feature(name)).collect(),
            udn_deletion_grace_period: grace_period
                .map_or(default.udn_deletion_grace_period, |seconds| {
                    SignedDuration::from_secs(seconds.into())
                }),
        }
    }

    /// Rules that the specification breaks.
    pub fn violations(&self) -> Vec<FieldProblem> {
        let mut found = Vec::new();
        for (field, ranges, is_single) in [
            ("spec.serviceCIDRs", &self.service_cidrs, true),
            ("spec.podCIDRs", &self.pod_cidrs, false),
            ("spec.joinCIDRs", &self.join_cidrs, true),
            ("spec.transitCIDRs", &self.transit_cidrs, true),
            ("spec.masqueradeCIDRs", &self.masquerade_cidrs, true),
        ] {
            for (place, range) in ranges.iter().enumerate() {
                let problem = if *range == range.trunc() {
                    let other = second_of_family(&ranges[..place], *range);
                    other.filter(|_| is_single).map(|other| {
                        let family = IpFamily::of_net(*range);
                        format!("the IP{family} range is already {other}")
                    })
                } else {
                    Some(format!("host bits are set: use {}", range.trunc()))
                };
                let field = format!("{field}[{place}]");
                found.extend(problem.map(|problem| FieldProblem::new(field, problem)));
            }
        }
        found.extend(self.range_violations().into_iter().map(|violation| {
            let message = violation.message(|kind| kind.field);
            FieldProblem::new(violation.kind.field, message)
        }));
        if self.has_other_families() {
            let problem = "the IP families are not those of spec.podCIDRs";
            found.push(FieldProblem::new("spec.serviceCIDRs", problem));
        }
        if self.mtu.is_some_and(|mtu| !MTU_RANGE.contains(&mtu)) {
            let (first, last) = (MTU_RANGE.start(), MTU_RANGE.end());
            found.push(FieldProblem::new("spec.mtu", format!("should be {first}..={last}")));
        }
        let ports = self.ephemeral_port_range.as_deref();
        if ports.is_some_and(|text| port_range(text).is_none()) {
            let rule = "should be two ports in 1..=65535, such as 32768-60999";
            found.push(FieldProblem::new("spec.ephemeralPortRange", rule));
        }
        let services = self.udn_allowed_default_services.iter().flatten();
        for (place, service) in services.enumerate() {
            if !is_service_name(service) {
                let field = format!("spec.udnAllowedDefaultServices[{place}]");
                found.push(FieldProblem::new(field, "should be <namespace>/<name>"));
            }
        }
        for (place, name) in self.features.iter().enumerate() {
            if feature(name).is_none() {
                let known = Feature::ALL.map(Feature::as_str).join(", ");
                let field = format!("spec.features[{place}]");
                found.push(FieldProblem::new(field, format!("should be one of {known}")));
            }
        }
        found
    }

    /// `true` if cluster IPs have other IP families than the default network's pods.
    pub fn has_other_families(&self) -> bool {
        let (pods, services) = (&self.pod_cidrs, &self.service_cidrs);
        !pods.is_empty() && !services.is_empty() && families_of(pods) != families_of(services)
    }
}

/// Families of ranges, IPv4 first. Both families if there are no ranges.
fn families_of(ranges: &[IpNet]) -> Vec<IpFamily> {
    let has = |family: &IpFamily| {
        let mut families = ranges.iter().map(|range| IpFamily::of_net(*range));
        ranges.is_empty() || families.any(|one| one == *family)
    };
    IpFamily::BOTH.into_iter().filter(has).collect()
}

/// Earlier range of the same family.
pub fn second_of_family(earlier: &[IpNet], range: IpNet) -> Option<IpNet> {
    let mut earlier = earlier.iter().copied();
    earlier.find(|other| IpFamily::of_net(*other) == IpFamily::of_net(range))
}

/// The given range of each IP family, or the default one of that family; IPv4 first.
fn override_per_family(default: &[IpNet], given: &[IpNet]) -> Vec<IpNet> {
    let range_of = |ranges: &[IpNet], family| {
        let mut ranges = ranges.iter().copied();
        ranges.find(|range| IpFamily::of_net(*range) == family)
    };
    let families = IpFamily::BOTH.into_iter();
    let ranges =
        families.filter_map(|family| range_of(given, family).or_else(|| range_of(default, family)));
    ranges.collect()
}

/// First and last port of a range. `None`: the text is no range of ports.
///
/// ```
/// use patchbay_resources::settings::port_range;
///
/// assert_eq!(port_range("32768-60999"), Some((32_768, 60_999)));
/// assert_eq!(port_range("60999-32768"), None);
/// ```
pub fn port_range(text: &str) -> Option<(u16, u16)> {
    let (first, last) = text.split_once('-')?;
    let ports = (first.parse().ok()?, last.parse().ok()?);
    Some(ports).filter(|(first, last)| 0 < *first && first <= last)
}

/// `true` for `<namespace>/<name>`.
pub fn is_service_name(text: &str) -> bool {
    let parts = text.split_once('/');
    parts.is_some_and(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
}

fn feature(name: &str) -> Option<Feature> {
    let mut features = Feature::ALL.into_iter();
    features.find(|feature| feature.as_str() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    fn with(pods: &[&str], services: &[&str]) -> ClusterSettingsSpec {
        ClusterSettingsSpec {
            pod_cidrs: ranges(pods),
            service_cidrs: ranges(services),
            ..ClusterSettingsSpec::default()
        }
    }

    #[test]
    fn without_fields_the_settings_are_the_default_ones() {
        let spec = ClusterSettingsSpec::default();
        assert_eq!(spec.settings(), Settings::default());
        assert!(spec.violations().is_empty());
    }

    #[test]
    fn the_ip_families_are_those_of_the_pods_or_else_of_the_services() {
        let families = |pods: &[&str], services: &[&str]| with(pods, services).settings().families;
        let (v4, v6) = ("10.244.0.0/16", "fd00:10:96::/112");
        assert_eq!(families(&[], &[]), IpFamily::BOTH);
        assert_eq!(families(&[v4], &[]), [IpFamily::V4]);
        assert_eq!(families(&[], &[v6]), [IpFamily::V6]);
        assert_eq!(families(&[v6, v4], &[v4, v6]), IpFamily::BOTH);
        let other = with(&[v4], &[v6]).violations();
        assert_eq!(other[0].field, "spec.serviceCIDRs");
    }

    #[test]
    fn a_given_range_replaces_the_default_of_its_family() {
        let spec = ClusterSettingsSpec {
            join_cidrs: ranges(&["fd77::/64"]),
            ..with(&["10.244.0.0/16"], &[])
        };
        let settings = spec.settings();
        let expected = ranges(&["100.64.0.0/16", "fd77::/64"]);
        assert_eq!(settings.join_subnets, expected);
        assert_eq!(settings.transit_subnets, Settings::default().transit_subnets);
    }

    #[test]
    fn values_that_cannot_be_used_are_violations() {
        let spec = ClusterSettingsSpec {
            service_cidrs: ranges(&["10.96.0.0/16", "10.97.0.0/16"]),
            transit_cidrs: ranges(&["10.1.0.1/16"]),
            mtu: Some(100),
            ephemeral_port_range: Some("9-1".to_owned()),
            udn_allowed_default_services: Some(vec!["kubernetes".to_owned()]),
            features: vec!["multicat".to_owned()],
            ..ClusterSettingsSpec::default()
        };
        let violations = spec.violations();
        let fields: Vec<&str> = violations.iter().map(|one| one.field.as_str()).collect();
        let expected = [
            "spec.serviceCIDRs[1]",
            "spec.transitCIDRs[0]",
            "spec.mtu",
            "spec.ephemeralPortRange",
            "spec.udnAllowedDefaultServices[0]",
            "spec.features[0]",
        ];
        assert_eq!(fields, expected);
    }
}
