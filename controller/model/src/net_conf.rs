//! The CNI configuration inside of a `NetworkAttachmentDefinition`.

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use thiserror::Error;

use super::host_subnets::{HostSubnetError, check_host_subnets};
use super::ids::Topology;
use super::network::{IpFamily, PodSubnet, Role, Transport};

/// The CNI plugin whose configurations describe our networks.
const CNI_TYPE: &str = "ovn-k8s-cni-overlay";
/// Join subnets, by family, of a primary network that names none of the family.
const DEFAULT_JOIN_SUBNETS: [(IpFamily, &str); 2] =
    [(IpFamily::V4, "100.65.0.0/16"), (IpFamily::V6, "fd99::/64")];
/// Transit subnets, by family, of a primary layer2 network that names none.
const DEFAULT_TRANSIT_SUBNETS: [(IpFamily, &str); 2] =
    [(IpFamily::V4, "100.88.0.0/16"), (IpFamily::V6, "fd97::/64")];

/// A CNI configuration that cannot be understood.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NetConfError {
    /// The definition has no configuration at all.
    #[error("there is no spec.config")]
    Missing,
    /// The text is not JSON of the right form.
    #[error("spec.config: {0}")]
    Json(#[from] serde_json::Error),
    /// The configuration has no network name.
    #[error("spec.config has no name")]
    NoName,
    /// A field has a value that is not known.
    #[error("spec.config: {field} {value:?} is not known")]
    Unknown {
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: String,
    },
    /// A field should be a comma-separated list of subnets and is not.
    #[error("spec.config: {field}: {value:?} is not a subnet")]
    Subnet {
        /// Name of the field.
        field: &'static str,
        /// The entry that is wrong.
        value: String,
    },
    /// Nodes cannot get subnets out of these.
    #[error("spec.config: subnets: {0}")]
    HostSubnet(#[from] HostSubnetError),
    /// The network replaces the default one, so its pods need addresses.
    #[error(
        "spec.config: the subnet attribute must be defined for layer2 primary user defined networks"
    )]
    NoSubnets,
}

/// What a CNI configuration says about a network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct NetConf {
    /// Name of the network.
    pub name: String,
    /// How it is built.
    pub topology: Topology,
    /// What it is to its pods.
    pub role: Role,
    /// How packets travel.
    pub transport: Transport,
    /// Pod subnets, in order.
    pub pod_subnets: Vec<PodSubnet>,
    /// Join subnets: given or default; primary networks only.
    pub join_subnets: Vec<IpNet>,
    /// Transit subnets: given or default; primary layer2 networks only.
    pub transit_subnets: Vec<IpNet>,
    /// The attachment definition that it says it is in: `<namespace>/<name>`.
    pub definition: String,
    /// What else makes it a network of its own.
    pub others: OtherFields,
}

/// Fields that matter only in so far as all definitions of a network say the same.
#[derive(Clone, Debug, Default, Deserialize, Eq, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct OtherFields {
    #[serde(deserialize_with = "unless_default")]
    mtu: Value,
    #[serde(rename = "allowPersistentIPs", deserialize_with = "unless_default")]
    allow_persistent_ips: Value,
    #[serde(rename = "defaultGatewayIPs", deserialize_with = "unless_default")]
    default_gateway_ips: Value,
    #[serde(deserialize_with = "unless_default")]
    exclude_subnets: Value,
    #[serde(deserialize_with = "unless_default")]
    infrastructure_subnets: Value,
    #[serde(deserialize_with = "unless_default")]
    reserved_subnets: Value,
}

/// A value; null for those that say as much as no value.
fn unless_default<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Value, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let is_default = match &value {
        Value::Bool(value) => !value,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    Ok(if is_default { Value::Null } else { value })
}

/// The fields we read. Others belong to other readers of the same text.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawNetConf {
    #[serde(default)]
    name: String,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    topology: String,
    #[serde(default)]
    role: String,
    #[serde(default)]
    transport: String,
    #[serde(default)]
    subnets: String,
    join_subnet: Option<String>,
    transit_subnet: Option<String>,
    #[serde(default, rename = "netAttachDefName")]
    definition: String,
    #[serde(flatten)]
    others: OtherFields,
}

impl NetConf {
    /// Reads a configuration. `None` if it is not about a layer2 or layer3 network of ours.
    ///
    /// # Errors
    /// The configuration cannot be understood.
    pub fn parse(config: &str) -> Result<Option<Self>, NetConfError> {
        let raw: RawNetConf = serde_json::from_str(config)?;
        if raw.kind != CNI_TYPE {
            return Ok(None);
        }
        let topology = match raw.topology.as_str() {
            "layer2" => Topology::Layer2,
            "layer3" => Topology::Layer3,
            // A VLAN beside the overlay, and the default network's own definition: nothing to connect.
            "localnet" | "" => return Ok(None),
            _ => return Err(unknown("topology", raw.topology)),
        };
        if raw.name.is_empty() {
            return Err(NetConfError::NoName);
        }
        let role = match raw.role.as_str() {
            "primary" => Role::Primary,
            "secondary" | "" => Role::Secondary,
            _ => return Err(unknown("role", raw.role)),
        };
        let transport = match raw.transport.as_str() {
            "" => Transport::Overlay,
            "no-overlay" => Transport::NoOverlay,
            "evpn" => Transport::Evpn,
            _ => return Err(unknown("transport", raw.transport)),
        };
        let pod_subnets = entries(&raw.subnets)
            .map(|entry| pod_subnet(entry, topology).ok_or_else(|| bad_subnet("subnets", entry)))
            .collect::<Result<Vec<_>, _>>()?;
        check_host_subnets(
            pod_subnets
                .iter()
                .filter_map(|subnet| Some((subnet.cidr, subnet.host_prefix?.into()))),
        )?;
        if (role, topology) == (Role::Primary, Topology::Layer2) && pod_subnets.is_empty() {
            return Err(NetConfError::NoSubnets);
        }
        let join_subnets = match role {
            Role::Primary => join_subnets(raw.join_subnet.as_deref().unwrap_or_default())?,
            Role::Secondary => Vec::new(),
        };
        let transit_subnet = raw.transit_subnet.filter(|given| !given.is_empty());
        let transit_subnets = match (role, topology, transit_subnet) {
            (Role::Primary, Topology::Layer2, Some(given)) => subnets("transitSubnet", &given)?,
            (Role::Primary, Topology::Layer2, None) => default_transit_subnets(&pod_subnets)?,
            _ => Vec::new(),
        };
        Ok(Some(Self {
            name: raw.name,
            topology,
            role,
            transport,
            pod_subnets,
            join_subnets,
            transit_subnets,
            definition: raw.definition,
            others: raw.others,
        }))
    }
}

fn unknown(field: &'static str, value: String) -> NetConfError {
    NetConfError::Unknown { field, value }
}

fn bad_subnet(field: &'static str, entry: &str) -> NetConfError {
    NetConfError::Subnet {
        field,
        value: entry.to_owned(),
    }
}

/// The entries of a comma-separated list.
fn entries(list: &str) -> impl Iterator<Item = &str> {
    list.split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
}

fn subnets(field: &'static str, list: &str) -> Result<Vec<IpNet>, NetConfError> {
    entries(list)
        .map(|entry| {
            let net: IpNet = entry.parse().map_err(|_| bad_subnet(field, entry))?;
            Ok(net.trunc())
        })
        .collect()
}

/// Reads `cidr` or, for layer3, `cidr/<host prefix>`, whose default depends on the family.
fn pod_subnet(entry: &str, topology: Topology) -> Option<PodSubnet> {
    let (cidr, host_prefix) = match entry.match_indices('/').nth(1) {
        Some((at, _)) => (&entry[..at], Some(entry[at + 1..].parse::<u8>().ok()?)),
        None => (entry, None),
    };
    let cidr = cidr.parse::<IpNet>().ok()?.trunc();
    let host_prefix = match topology {
        Topology::Layer2 if host_prefix.is_some() => return None,
        Topology::Layer2 => None,
        Topology::Layer3 => {
            let default = match cidr {
                IpNet::V4(_) => 24,
                IpNet::V6(_) => 64,
            };
            Some(host_prefix.unwrap_or(default))
        }
    };
    Some(PodSubnet { cidr, host_prefix })
}

/// One join subnet for each family: the last that is given, or the default.
fn join_subnets(given: &str) -> Result<Vec<IpNet>, NetConfError> {
    let given = subnets("joinSubnet", given)?;
    let of_family = |(family, default): &(IpFamily, &str)| {
        let mut given = given.iter().rev();
        match given.find(|subnet| IpFamily::of_net(**subnet) == *family) {
            Some(subnet) => Ok(vec![*subnet]),
            None => subnets("joinSubnet", default),
        }
    };
    let by_family: Vec<_> = DEFAULT_JOIN_SUBNETS
        .iter()
        .map(of_family)
        .collect::<Result<_, _>>()?;
    Ok(by_family.concat())
}

fn default_transit_subnets(pod_subnets: &[PodSubnet]) -> Result<Vec<IpNet>, NetConfError> {
    let wanted = DEFAULT_TRANSIT_SUBNETS
        .iter()
        .filter(|(family, _)| {
            pod_subnets
                .iter()
                .any(|subnet| IpFamily::of_net(subnet.cidr) == *family)
        })
        .map(|(_, subnet)| *subnet)
        .collect::<Vec<_>>();
    subnets("transitSubnet", &wanted.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(config: &str) -> NetConf {
        NetConf::parse(config).unwrap().unwrap()
    }

    fn texts<T: ToString>(items: &[T]) -> Vec<String> {
        items.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_said_as_much_as_not_said_is_the_same() {
        let others = |more: &str| {
            let text =
                format!(r#"{{"name":"a","type":"ovn-k8s-cni-overlay","topology":"layer2"{more}}}"#);
            parse(&text).others
        };
        let defaults =
            r#","mtu":0,"allowPersistentIPs":false,"excludeSubnets":"","reservedSubnets":null"#;
        assert_eq!(others(defaults), others(""));
        for other in [r#","mtu":1400"#, r#","allowPersistentIPs":true"#] {
            assert_ne!(others(other), others(""));
        }
    }

    #[test]
    fn a_primary_layer3_network() {
        let conf = parse(
            r#"{"cniVersion":"1.1.0","joinSubnet":"100.65.0.0/16,fd99::/64","name":"blue_l3","netAttachDefName":"blue/l3","role":"primary","subnets":"10.10.0.0/16/24,fd10::/48","topology":"layer3","type":"ovn-k8s-cni-overlay"}"#,
        );
        assert_eq!(conf.name, "blue_l3");
        assert_eq!(conf.topology, Topology::Layer3);
        assert_eq!(conf.role, Role::Primary);
        assert_eq!(conf.transport, Transport::Overlay);
        assert_eq!(
            texts(&conf.pod_subnets),
            ["10.10.0.0/16/24", "fd10::/48/64"]
        );
        assert_eq!(texts(&conf.join_subnets), ["100.65.0.0/16", "fd99::/64"]);
        assert!(conf.transit_subnets.is_empty());
    }

    #[test]
    fn a_primary_layer2_network_has_transit_subnets_of_its_families() {
        let config = |subnets: &str| {
            parse(&format!(
                r#"{{"name":"n","role":"primary","subnets":"{subnets}","topology":"layer2","type":"ovn-k8s-cni-overlay"}}"#
            ))
        };
        let conf = config("10.20.0.0/16");
        assert_eq!(texts(&conf.pod_subnets), ["10.20.0.0/16/0"]);
        assert_eq!(texts(&conf.join_subnets), ["100.65.0.0/16", "fd99::/64"]);
        assert_eq!(texts(&conf.transit_subnets), ["100.88.0.0/16"]);
        let conf = config("10.20.0.0/16,fd20::/64");
        assert_eq!(texts(&conf.transit_subnets), ["100.88.0.0/16", "fd97::/64"]);
        assert!(NetConf::parse(r#"{"name":"n","subnets":"10.0.0.0/16/24","topology":"layer2","type":"ovn-k8s-cni-overlay"}"#).is_err());
    }

    #[test]
    fn a_join_subnet_of_one_family_leaves_the_default_of_the_other() {
        for (given, expected) in [
            ("10.99.0.0/20", ["10.99.0.0/20", "fd99::/64"]),
            ("fd77::/64", ["100.65.0.0/16", "fd77::/64"]),
            ("fd77::/64,10.99.0.0/20", ["10.99.0.0/20", "fd77::/64"]),
            ("", ["100.65.0.0/16", "fd99::/64"]),
        ] {
            let conf = parse(&format!(
                r#"{{"name":"n","role":"primary","joinSubnet":"{given}","subnets":"10.0.0.0/16","topology":"layer3","type":"ovn-k8s-cni-overlay"}}"#
            ));
            assert_eq!(texts(&conf.join_subnets), expected, "{given}");
        }
    }

    #[test]
    fn other_definitions_are_not_ours() {
        for config in [
            r#"{"type":"bridge","name":"n"}"#,
            r#"{"type":"ovn-k8s-cni-overlay","name":"n","topology":"localnet"}"#,
            r#"{"type":"ovn-k8s-cni-overlay","name":"default"}"#,
        ] {
            assert_eq!(NetConf::parse(config).unwrap(), None, "{config}");
        }
    }

    #[test]
    fn mistakes_name_their_field() {
        let message = |rest: &str| {
            let config =
                format!(r#"{{"type":"ovn-k8s-cni-overlay","name":"n","topology":"layer3"{rest}}}"#);
            NetConf::parse(&config).unwrap_err().to_string()
        };
        assert_eq!(
            message(r#","subnets":"10.0.0.0/16,10.1.0.0/33""#),
            r#"spec.config: subnets: "10.1.0.0/33" is not a subnet"#
        );
        for (subnets, expected) in [
            (
                "10.0.0.0/16/8",
                "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet \
                 length: 8, cluster subnet length: 16",
            ),
            (
                "10.7.0.0/24",
                "cannot use a host subnet length mask shorter than or equal to the cluster subnet mask. host subnet \
                 length: 24, cluster subnet length: 24",
            ),
            ("10.0.0.0/16/32", "HostSubnet must < 32 for ipv4 CIDR"),
            ("fd10::/48/80", "IPv6 only supports /64 host subnets"),
            (
                "10.5.0.0/16/25,10.6.0.0/16",
                "all IPv4 cluster subnet entries must have the same host subnet length; found 25 and 24",
            ),
        ] {
            assert_eq!(
                message(&format!(r#","subnets":"{subnets}""#)),
                format!("spec.config: subnets: {expected}")
            );
        }
        let layer2 =
            r#"{"type":"ovn-k8s-cni-overlay","name":"n","topology":"layer2","role":"primary"}"#;
        assert_eq!(
            NetConf::parse(layer2).unwrap_err().to_string(),
            "spec.config: the subnet attribute must be defined for layer2 primary user defined networks"
        );
        assert_eq!(
            message(r#","role":"tertiary""#),
            r#"spec.config: role "tertiary" is not known"#
        );
        // What is there without a word has none.
        assert_eq!(
            message(r#","transport":"geneve""#),
            r#"spec.config: transport "geneve" is not known"#
        );
        assert!(
            NetConf::parse("{")
                .unwrap_err()
                .to_string()
                .starts_with("spec.config: ")
        );
    }
}
