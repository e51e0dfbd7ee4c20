//! Flags for the settings of the cluster.

use std::net::IpAddr;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use patchbay_model::{ClusterSettings, Databases, Feature, IpFamily};
use patchbay_resources::manifests::{Inventory, describe};
use patchbay_resources::settings::{
    ClusterFamily, ClusterSettingsSpec, GatewayModeName, TopologyName, is_service_name, port_range,
    second_of_family,
};

use super::failure::Failure;

/// Settings of the cluster, as OVN-Kubernetes has them. No connect subnet may overlap with the
/// ranges. Each flag replaces a field of the `ClusterSettings` of the manifests.
#[derive(Clone, Debug, Args)]
pub(super) struct ClusterFlags {
    /// Northbound databases: `zone`, one for each node, or `central`, one for all nodes. VPCs are in
    /// a central one only, and layer3 networks in zones only. Default: `central` if the manifests
    /// have objects of VPCs and no user-defined networks or connects, else `zone`.
    #[arg(long, value_name = "TOPOLOGY")]
    topology: Option<TopologyFlag>,
    /// Range of the cluster IPs of services, at most one per IP family. Connects with connectivity
    /// `ServiceNetwork` allow traffic to the ranges. Without `--pod-cidr` their families are the IP
    /// families of the cluster. Default: no range.
    #[arg(long = "service-cidr", value_name = "CIDR", value_parser = range)]
    service: Vec<IpNet>,
    /// Range of the pods on the default network; may be repeated. The families of these ranges are
    /// the IP families of the cluster. Default: no range, and the families of `--service-cidr`, or
    /// those that manifests show, or both.
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
    /// bridge, or `local`, through the management port and the routes of the host. Default:
    /// `shared`.
    #[arg(long, value_name = "MODE")]
    gateway_mode: Option<GatewayModeFlag>,
    /// MTU in bytes of networks that configure none. Default: 1400.
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1280..=65_535))]
    mtu: Option<u32>,
    /// First and last local port that NAT gives to connections. Default: `32768-60999`.
    #[arg(long, value_name = "FIRST-LAST", value_parser = ports)]
    ephemeral_port_range: Option<String>,
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

/// Value of `--topology`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum TopologyFlag {
    Zone,
    Central,
}

/// Value of `--gateway-mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum GatewayModeFlag {
    Shared,
    Local,
}

impl ClusterFlags {
    /// Settings of a cluster with these objects: those of the flags, and for the rest those of the
    /// objects.
    ///
    /// # Errors
    /// Two ranges of one flag are of the same IP family, or those of pods and of services are not
    /// of the same families. Or ranges overlap, or are too small.
    pub(super) fn settings(&self, inventory: &Inventory) -> Result<ClusterSettings, Failure> {
        let mut settings = self.given()?.or(inventory.settings());
        if settings.topology.is_none() {
            settings.topology = Some(default_topology(inventory)?);
        }
        if settings.has_other_families() {
            let message = "the IP families of --service-cidr are not those of --pod-cidr";
            return Err(Failure::Arguments(message.to_owned()));
        }
        if let Some(violation) = settings.range_violations().first() {
            let message = violation.message(|kind| kind.flag);
            let (flag, range) = (violation.kind.flag, violation.range);
            return Err(Failure::Arguments(format!("{flag} {range}: {message}")));
        }
        Ok(settings.settings_with(inventory))
    }

    /// IP families of a cluster with these objects, with the reasons.
    ///
    /// # Errors
    /// Two ranges of one flag are of the same IP family.
    pub(super) fn families(&self, inventory: &Inventory) -> Result<Vec<ClusterFamily>, Failure> {
        Ok(self.given()?.or(inventory.settings()).families(inventory))
    }

    /// The flags with the feature that `--dynamic-udn` stands for.
    #[cfg(feature = "kubernetes")]
    #[must_use]
    pub(super) fn with_dynamic_udn(&self, is_given: bool) -> Self {
        let feature = Some(Feature::DynamicUdnAllocation);
        let added = feature.filter(|feature| is_given && !self.enable.contains(feature));
        Self { enable: self.enable.iter().copied().chain(added).collect(), ..self.clone() }
    }

    /// As [`settings`](Self::settings), for a command that knows zones only.
    ///
    /// # Errors
    /// Also: all nodes have one database.
    pub(super) fn zone_settings(&self, inventory: &Inventory) -> Result<ClusterSettings, Failure> {
        let settings = self.settings(inventory)?;
        if settings.databases == Databases::Central {
            let message = "this command has no --topology central, which VPCs need";
            return Err(Failure::Topology(message.to_owned()));
        }
        Ok(settings)
    }

    /// The flags as arguments of a command.
    #[cfg(feature = "kubernetes")]
    pub(super) fn arguments(&self) -> Vec<String> {
        // Every flag is named, so that a new one is not forgotten.
        let Self {
            topology,
            service,
            pod,
            join,
            transit,
            masquerade,
            gateway_mode,
            mtu,
            ephemeral_port_range,
            no_node_ports,
            udn_allowed_default_services,
            enable,
            udn_deletion_grace_period,
        } = self;
        let ranges = [
            ("service-cidr", service),
            ("pod-cidr", pod),
            ("join-cidr", join),
            ("transit-cidr", transit),
            ("masquerade-cidr", masquerade),
        ];
        let ranges = ranges.into_iter().flat_map(|(flag, ranges)| {
            let ranges = ranges.iter();
            ranges.map(move |range| (flag, range.to_string()))
        });
        let services = udn_allowed_default_services.as_ref();
        let features: Vec<&str> = enable.iter().map(|feature| feature.as_str()).collect();
        let gateway_mode = gateway_mode.and_then(|mode| mode.to_possible_value());
        let topology = topology.and_then(|one| one.to_possible_value());
        let values = [
            ("topology", topology.map(|one| one.get_name().to_owned())),
            ("gateway-mode", gateway_mode.map(|mode| mode.get_name().to_owned())),
            ("mtu", mtu.map(|bytes| bytes.to_string())),
            ("ephemeral-port-range", ephemeral_port_range.clone()),
            ("udn-allowed-default-services", services.map(|names| names.join(","))),
            ("enable", (!features.is_empty()).then(|| features.join(","))),
            (
                "udn-deletion-grace-period",
                udn_deletion_grace_period.map(|seconds| seconds.to_string()),
            ),
        ];
        let values = values.into_iter().filter_map(|(flag, value)| Some((flag, value?)));
        let arguments = ranges.chain(values).map(|(flag, value)| format!("--{flag}={value}"));
        let switch = no_node_ports.then(|| "--no-node-ports".to_owned());
        arguments.chain(switch).collect()
    }

    /// Settings that the flags give.
    fn given(&self) -> Result<ClusterSettingsSpec, Failure> {
        Ok(ClusterSettingsSpec {
            topology: self.topology.map(|topology| match topology {
                TopologyFlag::Zone => TopologyName::Zone,
                TopologyFlag::Central => TopologyName::Central,
            }),
            service_cidrs: at_most_one_per_family("--service-cidr", &self.service)?,
            pod_cidrs: self.pod.clone(),
            join_cidrs: at_most_one_per_family("--join-cidr", &self.join)?,
            transit_cidrs: at_most_one_per_family("--transit-cidr", &self.transit)?,
            masquerade_cidrs: at_most_one_per_family("--masquerade-cidr", &self.masquerade)?,
            gateway_mode: self.gateway_mode.map(|mode| match mode {
                GatewayModeFlag::Shared => GatewayModeName::Shared,
                GatewayModeFlag::Local => GatewayModeName::Local,
            }),
            mtu: self.mtu,
            ephemeral_port_range: self.ephemeral_port_range.clone(),
            node_ports: self.no_node_ports.then_some(false),
            udn_allowed_default_services: self.udn_allowed_default_services.clone(),
            features: self.enable.iter().map(ToString::to_string).collect(),
            udn_deletion_grace_period: self.udn_deletion_grace_period,
        })
    }
}

/// Topology of manifests that name none.
///
/// # Errors
/// The manifests have objects of both topologies.
fn default_topology(inventory: &Inventory) -> Result<TopologyName, Failure> {
    let Some(vpc) = inventory.kube_ovn_objects().next() else {
        return Ok(TopologyName::Zone);
    };
    let udns = inventory.user_defined_networks.iter();
    let cudns = inventory.cluster_user_defined_networks.iter();
    let connects = inventory.cluster_network_connects.iter();
    let mut others = udns
        .map(|(_, object)| describe(&object.object))
        .chain(cudns.map(|(_, object)| describe(&object.object)))
        .chain(connects.map(|(_, object)| describe(&object.object)));
    match others.next() {
        None => Ok(TopologyName::Central),
        Some(other) => Err(Failure::Topology(format!(
            "--topology is required: {vpc} needs central, and {other} may need zone"
        ))),
    }
}

fn feature(name: String) -> Result<Feature, String> {
    let mut features = Feature::ALL.into_iter();
    let found = features.find(|feature| feature.as_str() == name);
    found.ok_or(name)
}

fn ports(text: &str) -> Result<String, String> {
    let ports = port_range(text).map(|_| text.to_owned());
    ports.ok_or_else(|| "expected two ports in 1..=65535, such as 32768-60999".to_owned())
}

fn service_name(text: &str) -> Result<String, String> {
    if is_service_name(text) {
        Ok(text.to_owned())
    } else {
        Err("expected <namespace>/<name>".to_owned())
    }
}

fn range(text: &str) -> Result<IpNet, String> {
    let range = text.parse::<IpNet>().map_err(|error| match text.parse::<IpAddr>() {
        Ok(_) => format!("the length is missing: expected {text}/LENGTH"),
        Err(_) => error.to_string(),
    })?;
    if range == range.trunc() {
        Ok(range)
    } else {
        Err(format!("host bits are set: use {}", range.trunc()))
    }
}

fn at_most_one_per_family(flag: &str, ranges: &[IpNet]) -> Result<Vec<IpNet>, Failure> {
    for (index, range) in ranges.iter().enumerate() {
        if let Some(other) = second_of_family(&ranges[..index], *range) {
            let family = IpFamily::of_net(*range);
            return Err(Failure::Arguments(format!(
                "{flag} {range}: the IP{family} range is already {other}"
            )));
        }
    }
    Ok(ranges.to_vec())
}

#[cfg(test)]
mod tests {
    use clap::{Command, FromArgMatches};
    use jiff::SignedDuration;
    use patchbay_model::GatewayMode;
    use patchbay_resources::manifests::read_manifests;

    use super::*;

    /// Flags of a command line.
    fn flags(arguments: &[&str]) -> ClusterFlags {
        let command = ClusterFlags::augment_args(Command::new("cluster").no_binary_name(true));
        let matches = command.try_get_matches_from(arguments).unwrap();
        ClusterFlags::from_arg_matches(&matches).unwrap()
    }

    /// Settings of a command line and of manifests.
    fn settings(arguments: &[&str], manifests: &str) -> ClusterSettings {
        let inventory = read_manifests(&["-".into()], &mut manifests.as_bytes()).unwrap();
        flags(arguments).settings(&inventory).unwrap()
    }

    #[test]
    fn flags_win_over_the_object_of_the_manifests() {
        let manifests = "
apiVersion: patchbay/v1
kind: ClusterSettings
metadata: {name: cluster}
spec:
  podCIDRs: [10.244.0.0/16]
  joinCIDRs: [100.99.0.0/16]
  gatewayMode: local
  mtu: 8900
  ephemeralPortRange: 1-9
  nodePorts: false
  udnAllowedDefaultServices: []
  features: [multicast]
  udnDeletionGracePeriod: 7
";
        let given = settings(&[], manifests);
        let expected = ClusterSettings {
            families: vec![IpFamily::V4],
            cluster_subnets: ranges(&["10.244.0.0/16"]),
            join_subnets: ranges(&["100.99.0.0/16", "fd98::/64"]),
            gateway_mode: GatewayMode::Local,
            mtu: 8900,
            ephemeral_ports: Some((1, 9)),
            node_ports: false,
            reachable_default_services: Vec::new(),
            features: [Feature::Multicast].into(),
            udn_deletion_grace_period: SignedDuration::from_secs(7),
            ..ClusterSettings::default()
        };
        assert_eq!(given, expected);
        let flags = ["--gateway-mode=shared", "--mtu=1500", "--enable=egress-ip"];
        let expected = ClusterSettings {
            gateway_mode: GatewayMode::Shared,
            mtu: 1500,
            features: [Feature::EgressIp].into(),
            ..expected
        };
        assert_eq!(settings(&flags, manifests), expected);
    }

    #[test]
    fn without_flags_the_settings_are_the_default_ones() {
        let settings = flags(&[]).settings(&Inventory::default()).unwrap();
        assert_eq!(settings, ClusterSettings::default());
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
            flags.settings(&Inventory::default()).unwrap(),
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
    #[cfg(feature = "kubernetes")]
    fn flags_as_arguments_are_the_same_flags() {
        assert!(flags(&[]).arguments().is_empty());
        let arguments = [
            "--service-cidr=10.96.0.0/16",
            "--service-cidr=fd00:10:96::/112",
            "--pod-cidr=10.244.0.0/16",
            "--pod-cidr=fd00:10:244::/48",
            "--join-cidr=100.99.0.0/16",
            "--transit-cidr=100.98.0.0/16",
            "--masquerade-cidr=169.254.0.0/16",
            "--gateway-mode=local",
            "--mtu=9000",
            "--ephemeral-port-range=40000-50000",
            "--udn-allowed-default-services=default/kubernetes,shop/db",
            "--enable=multicast,egress-firewall",
            "--udn-deletion-grace-period=5",
            "--no-node-ports",
        ];
        assert_eq!(flags(&arguments).arguments(), arguments);
    }

    #[test]
    fn values_that_cannot_be_used_are_refused() {
        assert!(ports("50000-40000").is_err());
        assert!(ports("0-40000").is_err());
        assert!(service_name("kubernetes").is_err());
        let command = ClusterFlags::augment_args(Command::new("cluster").no_binary_name(true));
        let error = command.try_get_matches_from(["--enable=multicat"]).unwrap_err();
        assert!(error.to_string().contains("egress-firewall"), "{error}");
    }

    fn ranges(texts: &[&str]) -> Vec<IpNet> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn ranges_have_no_host_bits() {
        assert_eq!(range("10.96.0.0/16"), Ok("10.96.0.0/16".parse().unwrap()));
        assert_eq!(range("10.96.0.1/16"), Err("host bits are set: use 10.96.0.0/16".to_owned()));
        assert_eq!(
            range("10.96.0.0"),
            Err("the length is missing: expected 10.96.0.0/LENGTH".to_owned())
        );
        assert!(range("10.96.0").is_err());
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
            let ranges = ClusterFlags { service, ..flags(&[]) };
            let settings = ranges.settings(&Inventory::default());
            settings.map_err(|error| error.to_string())
        };
        assert!(settings(&["10.96.0.0/16", "fd00::/112"]).is_ok());
        assert_eq!(
            settings(&["10.96.0.0/16", "fd00::/112", "10.97.0.0/16"]),
            Err("--service-cidr 10.97.0.0/16: the IPv4 range is already 10.96.0.0/16".to_owned())
        );
        assert!(settings(&["10.96.0.0/16", "10.96.0.0/16"]).is_err());
    }

    #[test]
    fn pods_and_services_have_the_same_families() {
        let flags = flags(&["--pod-cidr=10.244.0.0/16", "--service-cidr=fd00:10:96::/112"]);
        let error = flags.settings(&Inventory::default()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the IP families of --service-cidr are not those of --pod-cidr"
        );
    }
}
