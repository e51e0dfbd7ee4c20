//! Which subnets the connected networks got, and the annotation that says so.

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

/// The connect subnets of one network: at most one of each family.
///
/// A layer3 network has blocks, a layer2 network a `/31` and a `/127` out of blocks.
#[derive(Clone, Copy, Debug, Default, Deserialize, Eq, PartialEq, Serialize)]
pub struct ConnectSubnets {
    /// The IPv4 subnet.
    #[serde(
        default,
        deserialize_with = "unless_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub ipv4: Option<Ipv4Net>,
    /// The IPv6 subnet.
    #[serde(
        default,
        deserialize_with = "unless_empty",
        skip_serializing_if = "Option::is_none"
    )]
    pub ipv6: Option<Ipv6Net>,
}

/// An empty text says as much as no text: so does Go, which other readers and writers of the annotation are written in.
fn unless_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err: fmt::Display>,
{
    let text = Option::<Cow<'de, str>>::deserialize(deserializer)?;
    let text = text.filter(|text| !text.is_empty());
    text.map(|text| text.parse().map_err(D::Error::custom))
        .transpose()
}

impl ConnectSubnets {
    /// The subnet of a family.
    pub fn of(&self, family: IpFamily) -> Option<IpNet> {
        match family {
            IpFamily::V4 => self.ipv4.map(IpNet::V4),
            IpFamily::V6 => self.ipv6.map(IpNet::V6),
        }
    }

    /// The subnets, IPv4 first.
    pub fn iter(&self) -> impl Iterator<Item = IpNet> {
        IpFamily::BOTH
            .into_iter()
            .filter_map(|family| self.of(family))
    }

    /// The subnet that tunnel keys and MAC addresses are made of: IPv4 if there is one.
    pub fn first(&self) -> Option<IpNet> {
        self.iter().next()
    }

    /// Whether there is no subnet of any family.
    pub const fn is_empty(&self) -> bool {
        self.ipv4.is_none() && self.ipv6.is_none()
    }

    /// Sets the subnet of the family that `subnet` has.
    pub fn set(&mut self, subnet: IpNet) {
        match subnet {
            IpNet::V4(subnet) => self.ipv4 = Some(subnet),
            IpNet::V6(subnet) => self.ipv6 = Some(subnet),
        }
    }
}

impl FromIterator<IpNet> for ConnectSubnets {
    /// Of several subnets of one family the last one counts.
    fn from_iter<I: IntoIterator<Item = IpNet>>(subnets: I) -> Self {
        let mut collected = Self::default();
        for subnet in subnets {
            collected.set(subnet);
        }
        collected
    }
}

/// A subnet annotation that cannot be read.
#[derive(Debug, Error)]
#[error("annotation {}: {}", ConnectSubnetMap::ANNOTATION, self.reason())]
pub struct SubnetAnnotationError {
    #[from]
    source: serde_json::Error,
}

impl SubnetAnnotationError {
    /// What is wrong with the text, without the annotation's name.
    pub fn reason(&self) -> &dyn fmt::Display {
        &self.source
    }
}

/// The subnets of all networks of a connect, by owner key: the value of the subnet annotation.
///
/// `Display` prints the annotation's exact text: keys sorted as strings, no spaces.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct ConnectSubnetMap(BTreeMap<OwnerKey, ConnectSubnets>);

impl ConnectSubnetMap {
    /// The annotation that carries the map.
    pub const ANNOTATION: &str = "k8s.ovn.org/network-connect-subnet";

    /// Reads the annotation's value. `""` and `{}` are the empty map; an entry without a subnet counts for nothing.
    ///
    /// Keys that are not owner keys do not spoil the rest: they are returned beside the map.
    ///
    /// # Errors
    /// The text is not a JSON object of the right form, or one of the CIDRs in it is wrong.
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
                    // Only the network counts, not host bits somebody may have written.
                    map.insert(owner, subnets.iter().map(|net| net.trunc()).collect());
                }
                Err(error) => unknown.push(error),
            }
        }
        Ok((Self(map), unknown))
    }

    /// The subnets of an owner.
    pub fn get(&self, owner: OwnerKey) -> Option<&ConnectSubnets> {
        self.0.get(&owner)
    }

    /// Owners with their subnets, in the order of the annotation.
    pub fn iter(&self) -> impl Iterator<Item = (OwnerKey, &ConnectSubnets)> {
        self.0.iter().map(|(owner, subnets)| (*owner, subnets))
    }

    /// The owners, in the order of the annotation.
    pub fn owners(&self) -> impl Iterator<Item = OwnerKey> {
        self.0.keys().copied()
    }

    /// How many owners there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is no owner.
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
        serializer.collect_map(
            self.0
                .iter()
                .map(|(owner, subnets)| (owner.to_string(), subnets)),
        )
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
    fn nothing_is_the_empty_map() {
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
    fn one_bad_cidr_fails_the_whole_annotation() {
        let error = ConnectSubnetMap::parse(r#"{"layer3_1":{"ipv4":"10.0.0/24"}}"#).unwrap_err();
        assert!(
            error
                .to_string()
                .starts_with("annotation k8s.ovn.org/network-connect-subnet: "),
            "{error}"
        );
        assert!(ConnectSubnetMap::parse("[]").is_err());
        assert!(ConnectSubnetMap::parse(r#"{"layer3_1":{"ipv4":"fd00::/120"}}"#).is_err());
    }

    #[test]
    fn a_bad_owner_key_is_told_and_skipped() {
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
