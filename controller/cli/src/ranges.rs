//! Flags: the ranges that a cluster uses itself.

use clap::Args;
use ipnet::IpNet;

use super::failure::Failure;
use patchbay_model::{ClusterSettings, IpFamily};

/// The ranges of a cluster. Connect subnets must keep clear of all of them.
#[derive(Debug, Default, Args)]
pub(super) struct ClusterRanges {
    /// A range of cluster IPs, once per IP family: it says which families the cluster runs, and service-only connects let
    /// traffic to it through. Default: none, and both families.
    #[arg(long = "service-cidr", value_name = "CIDR", value_parser = range)]
    service: Vec<IpNet>,
    /// A range of pods on the default network; as often as there are ranges. Default: none.
    #[arg(long = "pod-cidr", value_name = "CIDR", value_parser = range)]
    pod: Vec<IpNet>,
    /// The range between the routers of the default network; once per IP family. Default: OVN-Kubernetes' own choice,
    /// `100.64.0.0/16` and `fd98::/64`.
    #[arg(long = "join-cidr", value_name = "CIDR", value_parser = range)]
    join: Vec<IpNet>,
    /// The range of the switches between the zones; once per IP family. Default: OVN-Kubernetes' own choice,
    /// `100.88.0.0/16` and `fd97::/64`.
    #[arg(long = "transit-cidr", value_name = "CIDR", value_parser = range)]
    transit: Vec<IpNet>,
    /// The range between OVN and its host; once per IP family. Default: OVN-Kubernetes' own choice, `169.254.0.0/17` and
    /// `fd69::/112`.
    #[arg(long = "masquerade-cidr", value_name = "CIDR", value_parser = range)]
    masquerade: Vec<IpNet>,
}

impl ClusterRanges {
    /// The settings of a cluster with these ranges.
    pub(super) fn settings(&self) -> Result<ClusterSettings, Failure> {
        let default = ClusterSettings::default();
        let service_cidrs = one_of_each_family("--service-cidr", &self.service)?;
        Ok(ClusterSettings {
            families: families(&service_cidrs),
            service_cidrs,
            cluster_subnets: self.pod.clone(),
            join_subnets: in_place_of(
                &default.join_subnets,
                &one_of_each_family("--join-cidr", &self.join)?,
            ),
            transit_subnets: in_place_of(
                &default.transit_subnets,
                &one_of_each_family("--transit-cidr", &self.transit)?,
            ),
            masquerade_subnets: in_place_of(
                &default.masquerade_subnets,
                &one_of_each_family("--masquerade-cidr", &self.masquerade)?,
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
        Err(format!("host bits are set: {} is the range", range.trunc()))
    }
}

fn one_of_each_family(flag: &str, ranges: &[IpNet]) -> Result<Vec<IpNet>, Failure> {
    for (place, range) in ranges.iter().enumerate() {
        let family = IpFamily::of_net(*range);
        let mut before = ranges[..place].iter();
        if let Some(other) = before.find(|other| IpFamily::of_net(**other) == family) {
            return Err(Failure::Arguments(format!(
                "{flag} {range}: {other} is the IP{family} range already"
            )));
        }
    }
    Ok(ranges.to_vec())
}

/// The IP families of a cluster: it has a service range of each. Where none is given, nobody knows, and it is both.
fn families(service_cidrs: &[IpNet]) -> Vec<IpFamily> {
    let has = |family: &IpFamily| {
        let mut families = service_cidrs.iter().map(|cidr| IpFamily::of_net(*cidr));
        service_cidrs.is_empty() || families.any(|one| one == *family)
    };
    IpFamily::BOTH.into_iter().filter(has).collect()
}

/// The default ranges of the families that are not given, and those that are; IPv4 first.
fn in_place_of(default: &[IpNet], given: &[IpNet]) -> Vec<IpNet> {
    let of = |ranges: &[IpNet], family| {
        let mut ranges = ranges.iter();
        ranges
            .find(|range| IpFamily::of_net(**range) == family)
            .copied()
    };
    let families = IpFamily::BOTH.into_iter();
    families
        .filter_map(|family| of(given, family).or_else(|| of(default, family)))
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
            Err("host bits are set: 10.96.0.0/16 is the range".to_owned())
        );
        assert!(range("10.96.0.0").is_err());
    }

    #[test]
    fn the_help_tells_the_defaults() {
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
    fn there_is_one_range_of_a_family() {
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
            Err("--service-cidr 10.97.0.0/16: 10.96.0.0/16 is the IPv4 range already".to_owned())
        );
        assert!(settings(&["10.96.0.0/16", "10.96.0.0/16"]).is_err());
    }

    #[test]
    fn families_are_those_of_the_service_ranges() {
        let families = |cidrs: &[&str]| super::families(&ranges(cidrs));
        assert_eq!(families(&[]), IpFamily::BOTH);
        assert_eq!(families(&["10.96.0.0/16"]), [IpFamily::V4]);
        assert_eq!(families(&["fd00:10:96::/112"]), [IpFamily::V6]);
        let both = families(&["fd00:10:96::/112", "10.96.0.0/16"]);
        assert_eq!(both, IpFamily::BOTH);
    }

    #[test]
    fn what_is_given_takes_the_place_of_the_default_of_its_family() {
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
