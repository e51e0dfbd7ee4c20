//! Flags for the settings of the cluster.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use jiff::SignedDuration;

use super::failure::Failure;
use patchbay_model::{ClusterSettings, Feature, GatewayMode, IpFamily};

/// Settings of the cluster, as OVN-Kubernetes has them. No connect subnet may overlap with the
/// ranges.
#[derive(Clone, Debug, Args)]
pub(super) struct ClusterFlags {
    /// Range of the cluster IPs of services, at most one per IP family. The families of these
    /// ranges are the IP families of the cluster, and connects with connectivity `ServiceNetwork`
    /// allow traffic to the ranges. Default: no range, and both IP families.
    #[arg(long = "service-cidr", value_name = "CIDR", value_parser = range)]
    service: Vec<IpNet>,
    /// Range of the pods on the default network; may be repeated. Default: no range.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_parser = range)]
    pod: Vec<IpNet>,
    /// Join subnet of the default network, at most one per IP family. Default: the default of
    /// OVN-Kubernetes, `100.64.0.0/16` and `fd98::/64`.
    #[arg(long = "join-cidr", value_name = "CIDR", value_parser = range)]
    join: Vec<IpNet>,
    /// Transit subnet between the zones, at most one per IP family. Default: the default of
    /// OVN-Kubernetes, `100.88.0.0/16` and `fd97::/64`.
    #[arg(long = "transit-cidr", value_name = "CIDR", value_parser = range)]
    transit: Vec<IpNet>,
    /// Masquerade subnet between OVN and its host, at most one per IP family. Default: the default
    /// of OVN-Kubernetes, `169.254.0.0/17` and `fd69::/112`.
    #[arg(long = "masquerade-cidr", value_name = "CIDR", value_parser = range)]
    masquerade: Vec<IpNet>,
    /// Way of packets that leave the cluster: `shared`, through the gateway router and the node's
    /// bridge, or `local`, through the management port and the routes of the host.
    #[arg(long, value_name = "MODE", default_value = "shared")]
    gateway_mode: GatewayModeName,
    /// MTU in bytes of networks that configure none.
    #[arg(long, value_name = "BYTES", default_value_t = DEFAULT_MTU, value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    mtu: u32,
    /// First and last local port that NAT gives to connections. Default: `32768-60999`.
    #[arg(long, value_name = "FIRST-LAST", value_parser = port_range)]
    ephemeral_port_range: Option<(u16, u16)>,
    /// Do not forward the node ports of services.
    #[arg(long)]
    no_node_ports: bool,
    /// Services of the default network that primary networks reach, separated by commas. Default:
    /// `default/kubernetes` and `kube-system/kube-dns`.
    #[arg(long, value_name = "NAMESPACE/NAME", value_delimiter = ',', value_parser = service_name)]
    udn_allowed_default_services: Option<Vec<String>>,
    /// Features to switch on, separated by commas.
    #[arg(long, value_name = "FEATURE", value_delimiter = ',', value_parser = PossibleValuesParser::new(Feature::ALL.map(Feature::as_str)).try_map(feature))]
    enable: Vec<Feature>,
    /// Seconds for which a zone keeps a network without users, with `--enable
    /// dynamic-udn-allocation`. Default: 120.
    #[arg(long, value_name = "SECONDS")]
    udn_deletion_grace_period: Option<u32>,
}

/// MTU in bytes that a network has by default.
const DEFAULT_MTU: u32 = 1400;

/// Value of `--gateway-mode`.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
enum GatewayModeName {
    #[default]
    Shared,
    Local,
}

impl ClusterFlags {
    /// Settings of a cluster with these ranges.
    ///
    /// # Errors
    /// Two ranges of one flag are of the same IP family.
    pub(super) fn settings(&self) -> Result<ClusterSettings, Failure> {
        let default = ClusterSettings::default();
        let service_cidrs = at_most_one_per_family("--service-cidr", &self.service)?;
        Ok(ClusterSettings {
            families: families(&service_cidrs),
            service_cidrs,
            cluster_subnets: self.pod.clone(),
            join_subnets: override_per_family(
                &default.join_subnets,
                &at_most_one_per_family("--join-cidr", &self.join)?,
            ),
            transit_subnets: override_per_family(
                &default.transit_subnets,
                &at_most_one_per_family("--transit-cidr", &self.transit)?,
            ),
            masquerade_subnets: override_per_family(
                &default.masquerade_subnets,
                &at_most_one_per_family("--masquerade-cidr", &self.masquerade)?,
            ),
            gateway_mode: match self.gateway_mode {
                GatewayModeName::Shared => GatewayMode::Shared,
                GatewayModeName::Local => GatewayMode::Local,
            },
            mtu: self.mtu,
            ephemeral_ports: self.ephemeral_port_range.or(default.ephemeral_ports),
            node_ports: !self.no_node_ports,
            reachable_default_services: self
                .udn_allowed_default_services
                .clone()
                .unwrap_or(default.reachable_default_services),
            features: self.enable.iter().copied().collect(),
            udn_deletion_grace_period: self
                .udn_deletion_grace_period
                .map_or(default.udn_deletion_grace_period, |seconds| {
                    SignedDuration::from_secs(seconds.into())
                }),
        })
    }
}

fn feature(name: String) -> Result<Feature, String> {
    let mut features = Feature::ALL.into_iter();
    let found = features.find(|feature| feature.as_str() == name);
    found.ok_or(name)
}

fn port_range(text: &str) -> Result<(u16, u16), String> {
    let ports = text.split_once('-');
    let ports = ports.and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    ports
        .filter(|(first, last)| 0 < *first && first <= last)
        .ok_or_else(|| "expected two ports in 1..=65535, such as 32768-60999".to_owned())
}

fn service_name(text: &str) -> Result<String, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => Ok(text.to_owned()),
        _ => Err("expected <namespace>/<name>".to_owned()),
    }
}

fn range(text: &str) -> Result<IpNet, String> {
    let range: IpNet = text.parse().map_err(|error| format!("{error}"))?;
    if range == range.trunc() {
        Ok(range)
    } else {
        Err(format!("host bits are set: use {}", range.trunc()))
    }
}

fn at_most_one_per_family(flag: &str, ranges: &[IpNet]) -> Result<Vec<IpNet>, Failure> {
    for (index, range) in ranges.iter().enumerate() {
        let family = IpFamily::of_net(*range);
        let mut earlier = ranges[..index].iter();
        if let Some(other) = earlier.find(|other| IpFamily::of_net(**other) == family) {
            return Err(Failure::Arguments(format!(
                "{flag} {range}: the IP{family} range is already {other}"
            )));
        }
    }
    Ok(ranges.to_vec())
}

/// IP families of the service ranges. Both families if there is no service range.
fn families(service_cidrs: &[IpNet]) -> Vec<IpFamily> {
    let has = |family: &IpFamily| {
        let mut families = service_cidrs.iter().map(|cidr| IpFamily::of_net(*cidr));
        service_cidrs.is_empty() || families.any(|one| one == *family)
    };
    IpFamily::BOTH.into_iter().filter(has).collect()
}

/// The given range of each IP family, or the default one of that family; IPv4 first.
fn override_per_family(default: &[IpNet], given: &[IpNet]) -> Vec<IpNet> {
    let range_of = |ranges: &[IpNet], family| {
        ranges
            .iter()
            .find(|range| IpFamily::of_net(**range) == family)
            .copied()
    };
    IpFamily::BOTH
        .into_iter()
        .filter_map(|family| range_of(given, family).or_else(|| range_of(default, family)))
        .collect()
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};

    use super::*;

    /// Flags of a command line.
    fn flags(arguments: &[&str]) -> ClusterFlags {
        let command = ClusterFlags::augment_args(Command::new("cluster").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).unwrap();
        ClusterFlags::from_arg_matches(&matches).unwrap()
    }

    #[test]
    fn without_flags_the_settings_are_the_default_ones() {
        assert_eq!(flags(&[]).settings().unwrap(), ClusterSettings::default());
    }

    #[test]
    fn flags_set_what_networks_depend_on() {
        let flags = flags(&[
            "--gateway-mode=local",
            "--mtu=9000",
            "--ephemeral-port-range=40000-50000",
            "--no-node-ports",
            "--udn-allowed-default-services=default/kubernetes,shop/db",
            "--enable=multicast,egress-firewall",
            "--udn-deletion-grace-period=5",
        ]);
        assert_eq!(
            flags.settings().unwrap(),
            ClusterSettings {
                gateway_mode: GatewayMode::Local,
                mtu: 9000,
                ephemeral_ports: Some((40_000, 50_000)),
                node_ports: false,
                reachable_default_services: ["default/kubernetes", "shop/db"]
                    .map(str::to_owned)
                    .to_vec(),
                features: [Feature::Multicast, Feature::EgressFirewall].into(),
                udn_deletion_grace_period: SignedDuration::from_secs(5),
                ..ClusterSettings::default()
            }
        );
    }

    #[test]
    fn values_that_cannot_be_used_are_refused() {
        assert!(port_range("50000-40000").is_err());
        assert!(port_range("0-40000").is_err());
        assert!(service_name("kubernetes").is_err());
        let command = ClusterFlags::augment_args(Command::new("cluster").no_binary_name(true));
        let error = command
            .try_get_matches_from(["--enable=multicat"])
            .unwrap_err();
        assert!(error.to_string().contains("egress-firewall"), "{error}");
    }

    fn ranges(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ranges_have_no_host_bits() {
        assert_eq!(range("10.96.0.0/16"), Ok("10.96.0.0/16".parse().unwrap()));
        assert_eq!(
            range("10.96.0.1/16"),
            Err("host bits are set: use 10.96.0.0/16".to_owned())
        );
        assert!(range("10.96.0.0").is_err());
    }

    #[test]
    fn the_help_names_the_default_ranges() {
        let command = ClusterFlags::augment_args(Command::new("ranges"));
        let help = |flag: &str| {
            let mut arguments = command.get_arguments();
            let argument = arguments.find(|argument| argument.get_long() == Some(flag));
            argument.unwrap().get_help().unwrap().to_string()
        };
        let default = ClusterSettings::default();
        for (flag, ranges) in [
            ("join-cidr", &default.join_subnets),
            ("transit-cidr", &default.transit_subnets),
            ("masquerade-cidr", &default.masquerade_subnets),
        ] {
            for range in ranges {
                assert!(help(flag).contains(&range.to_string()), "{flag}: {range}");
            }
        }
    }

    #[test]
    fn a_flag_has_at_most_one_range_per_family() {
        let settings = |service: &[&str]| {
            let service = ranges(service);
            let ranges = ClusterFlags {
                service,
                ..flags(&[])
            };
            ranges.settings().map_err(|error| error.to_string())
        };
        assert!(settings(&["10.96.0.0/16", "fd00::/112"]).is_ok());
        assert_eq!(
            settings(&["10.96.0.0/16", "fd00::/112", "10.97.0.0/16"]),
            Err("--service-cidr 10.97.0.0/16: the IPv4 range is already 10.96.0.0/16".to_owned())
        );
        assert!(settings(&["10.96.0.0/16", "10.96.0.0/16"]).is_err());
    }

    #[test]
    fn the_ip_families_are_those_of_the_service_ranges() {
        let families = |cidrs: &[&str]| super::families(&ranges(cidrs));
        assert_eq!(families(&[]), IpFamily::BOTH);
        assert_eq!(families(&["10.96.0.0/16"]), [IpFamily::V4]);
        assert_eq!(families(&["fd00:10:96::/112"]), [IpFamily::V6]);
        let both = families(&["fd00:10:96::/112", "10.96.0.0/16"]);
        assert_eq!(both, IpFamily::BOTH);
    }

    #[test]
    fn a_given_range_replaces_the_default_of_its_family() {
        let given = ClusterFlags {
            join: ranges(&["fd77::/64"]),
            pod: ranges(&["10.244.0.0/16"]),
            ..flags(&[])
        };
        let settings = given.settings().unwrap();
        assert_eq!(
            settings.join_subnets,
            ranges(&["100.64.0.0/16", "fd77::/64"])
        );
        assert_eq!(settings.cluster_subnets, ranges(&["10.244.0.0/16"]));
        let default = ClusterSettings::default();
        assert_eq!(settings.transit_subnets, default.transit_subnets);
    }
}
