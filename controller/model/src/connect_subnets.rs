//! Connect subnets of networks, and the annotation that contains them.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use thiserror::Error;

use super::ids::{IdError, OwnerKey};
use super::network::IpFamily;

/// Connect subnets of one network: at most one of each family.
///
/// A layer3 network has whole blocks, a layer2 network a `/31` and a `/127` of shared blocks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ConnectSubnets {
    /// The IPv4 subnet.
    #[serde(default, deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    pub ipv4: Option<Ipv4Net>,
    /// The IPv6 subnet.
    #[serde(default, deserialize_with = "non_empty", skip_serializing_if = "Option::is_none")]
    pub ipv6: Option<Ipv6Net>,
}

/// Reads a subnet; `""` is `None`, because it is the zero value of Go, in which OVN-Kubernetes
/// reads and writes the annotation.
fn non_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    Option::<Cow<'de, str>>::deserialize(deserializer)?
        .filter(|text| !text.is_empty())
        .map(|text| text.parse().map_err(D::Error::custom))
        .transpose()
}

impl ConnectSubnets {
    /// Subnet of a family.
    pub fn of(&self, family: IpFamily) -> Option<IpNet> {
        match family {
            IpFamily::V4 => self.ipv4.map(IpNet::V4),
            IpFamily::V6 => self.ipv6.map(IpNet::V6),
        }
    }

    /// Subnets, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> {
        IpFamily::BOTH.into_iter().filter_map(|family| self.of(family))
    }

    /// Subnet from which tunnel keys and MAC addresses are derived: IPv4 if there is one.
    pub fn first(&self) -> Option<IpNet> {
        self.iter().next()
    }

    /// `true` if there is no subnet of any family.
    pub const fn is_empty(&self) -> bool {
        self.ipv4.is_none() && self.ipv6.is_none()
    }

    /// Sets the subnet of the family of `subnet`.
    pub fn set(&mut self, subnet: IpNet) {
        match subnet {
            IpNet::V4(subnet) => self.ipv4 = Some(subnet),
            IpNet::V6(subnet) => self.ipv6 = Some(subnet),
        }
    }
}

impl FromIterator<IpNet> for ConnectSubnets {
    /// Collects subnets; the last one of each family is used.
    fn from_iter<I: IntoIterator<Item = IpNet>>(subnets: I) -> Self {
        let mut collected = Self::default();
        for subnet in subnets {
            collected.set(subnet);
        }
        collected
    }
}

/// Error of a subnet annotation.
#[derive(Debug, Error)]
#[error("annotation {}: {}", ConnectSubnetMap::ANNOTATION, self.reason())]
pub struct SubnetAnnotationError {
    #[from]
    source: serde_json::Error,
}

impl SubnetAnnotationError {
    /// The error without the name of the annotation.
    pub fn reason(&self) -> &dyn fmt::Display {
        &self.source
    }
}

/// Connect subnets of all networks of a ClusterNetworkConnect, by owner key: the value of the
/// subnet annotation.
///
/// `Display` prints the exact text of the annotation: keys sorted as strings, no spaces.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConnectSubnetMap(BTreeMap<OwnerKey, ConnectSubnets>);

impl ConnectSubnetMap {
    /// Key of the annotation.
    pub const ANNOTATION: &str = "k8s.ovn.org/network-connect-subnet";

    /// Reads the value of the annotation. `""` and `{}` are the empty map; entries without a subnet
    /// are ignored.
    ///
    /// Errors of keys that are not owner keys are returned with the map of the other entries.
    ///
    /// # Errors
    /// The text is not a JSON object of subnets, or a CIDR is invalid.
    pub fn parse(text: &str) -> Result<(Self, Vec<IdError>), SubnetAnnotationError> {
        if text.is_empty() {
            return Ok((Self::default(), Vec::new()));
        }
        let raw: BTreeMap<String, ConnectSubnets> = serde_json::from_str(text)?;
        let mut map = BTreeMap::new();
        let mut unknown = Vec::new();
        for (owner, subnets) in raw {
            if subnets.is_empty() {
                continue;
            }
            match owner.parse() {
                Ok(owner) => {
                    // Host bits have no meaning here and are cleared.
                    map.insert(owner, subnets.iter().map(|net| net.trunc()).collect());
                }
                Err(error) => unknown.push(error),
            }
        }
        Ok((Self(map), unknown))
    }

    /// Subnets of an owner.
    pub fn get(&self, owner: OwnerKey) -> Option<&ConnectSubnets> {
        self.0.get(&owner)
    }

    /// Owners with their subnets, in the order of the annotation.
    pub fn iter(&self) -> impl Iterator<Item = (OwnerKey, &ConnectSubnets)> {
        self.0.iter().map(|(owner, subnets)| (*owner, subnets))
    }

    /// Owners, in the order of the annotation.
    pub fn owners(&self) -> impl Iterator<Item = OwnerKey> {
        self.0.keys().copied()
    }

    /// Number of owners.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// `true` if there is no owner.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(OwnerKey, ConnectSubnets)> for ConnectSubnetMap {
    fn from_iter<I: IntoIterator<Item = (OwnerKey, ConnectSubnets)>>(entries: I) -> Self {
        Self(entries.into_iter().collect())
    }
}

impl Serialize for ConnectSubnetMap {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(owner, subnets)| (owner.to_string(), subnets)))
    }
}

impl fmt::Display for ConnectSubnetMap {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        formatter.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ids::{NetworkId, Topology};

    #[test]
    fn the_annotation_is_sorted_as_text_and_has_no_spaces() {
        let text = r#"{"layer2_3":{"ipv4":"192.168.1.0/31"},"layer3_10":{"ipv4":"192.168.2.0/24","ipv6":"fd01::200/120"},"layer3_2":{"ipv6":"fd01::/120"}}"#;
        let (map, unknown) = ConnectSubnetMap::parse(text).unwrap();
        assert_eq!(map.to_string(), text);
        assert_eq!(map.len(), 3);
        assert!(unknown.is_empty());
    }

    #[test]
    fn texts_without_subnets_are_the_empty_map() {
        for text in [
            "",
            "{}",
            r#"{"layer3_1":{}}"#,
            r#"{"layer3_1":{"ipv4":null}}"#,
            r#"{"layer3_1":{"ipv4":"","ipv6":""}}"#,
        ] {
            let (map, _) = ConnectSubnetMap::parse(text).unwrap();
            assert!(map.is_empty(), "{text}");
        }
        assert_eq!(ConnectSubnetMap::default().to_string(), "{}");
    }

    #[test]
    fn an_owner_without_subnets_is_written_as_an_empty_object() {
        let owner: OwnerKey = "layer3_1".parse().unwrap();
        let map: ConnectSubnetMap = [(owner, ConnectSubnets::default())].into_iter().collect();
        assert_eq!(map.to_string(), r#"{"layer3_1":{}}"#);
    }

    #[test]
    fn one_bad_cidr_makes_the_whole_annotation_an_error() {
        let error = ConnectSubnetMap::parse(r#"{"layer3_1":{"ipv4":"10.0.0/24"}}"#).unwrap_err();
        assert!(
            error.to_string().starts_with("annotation k8s.ovn.org/network-connect-subnet: "),
            "{error}"
        );
        assert!(ConnectSubnetMap::parse("[]").is_err());
        assert!(ConnectSubnetMap::parse(r#"{"layer3_1":{"ipv4":"fd00::/120"}}"#).is_err());
    }

    #[test]
    fn a_bad_owner_key_is_returned_and_skipped() {
        let text = r#"{"layer4_1":{"ipv4":"10.0.0.0/24"},"layer3_1":{"ipv4":"10.0.1.7/24"}}"#;
        let (map, unknown) = ConnectSubnetMap::parse(text).unwrap();
        assert_eq!(map.to_string(), r#"{"layer3_1":{"ipv4":"10.0.1.0/24"}}"#);
        assert_eq!(unknown.len(), 1);
        assert!(unknown[0].to_string().contains("layer4_1"));
    }

    proptest! {
        #[test]
        fn printing_and_parsing_are_inverse(
            entries in proptest::collection::vec((any::<bool>(), 1_i64..4096, any::<u32>(), any::<u128>(), 1_u8..4), 0..20)
        ) {
            let map: ConnectSubnetMap = entries
                .into_iter()
                .map(|(layer3, id, v4, v6, families)| {
                    let owner = OwnerKey {
                        topology: if layer3 { Topology::Layer3 } else { Topology::Layer2 },
                        network_id: NetworkId::try_new(id).unwrap(),
                    };
                    let subnets = ConnectSubnets {
                        ipv4: (families & 1 != 0).then(|| Ipv4Net::new_assert(v4.into(), 24).trunc()),
                        ipv6: (families & 2 != 0).then(|| Ipv6Net::new_assert(v6.into(), 120).trunc()),
                    };
                    (owner, subnets)
                })
                .collect();
            let (parsed, unknown) = ConnectSubnetMap::parse(&map.to_string()).unwrap();
            prop_assert_eq!(parsed, map);
            prop_assert!(unknown.is_empty());
        }
    }
}
