//! Flags for the address ranges of the cluster.

use clap::Args;
use ipnet::IpNet;

use super::failure::Failure;
use patchbay_model::{ClusterSettings, IpFamily};

/// Address ranges of the cluster. No connect subnet may overlap with them.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ClusterRanges {
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
}

impl ClusterRanges {
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
            ..ClusterSettings::default()
        })
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
    use clap::Command;

    use super::*;

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
        let command = ClusterRanges::augment_args(Command::new("ranges"));
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
            let ranges = ClusterRanges {
                service,
                ..ClusterRanges::default()
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
        let given = ClusterRanges {
            join: ranges(&["fd77::/64"]),
            pod: ranges(&["10.244.0.0/16"]),
            ..ClusterRanges::default()
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
