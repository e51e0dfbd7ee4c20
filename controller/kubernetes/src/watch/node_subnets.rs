//! Compact storage of the nodes' subnets.
//!
//! Each node has a subnet of every network of the cluster, and a zone needs those of a few
//! networks. As text they take about 45 bytes each: 225 MB in every zone for 5,000 nodes and 1,000
//! networks. Packed they take 6 or 7 bytes each: a number for the network's name, the prefix
//! length, and the bytes of the prefix.

use std::any::Any;
use std::collections::{BTreeMap, HashMap};
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::{Arc, Mutex, PoisonError};

use ipnet::IpNet;
use patchbay_model::{NODE_CHASSIS_ID, NODE_ID, NODE_SUBNETS};
use patchbay_resources::conversion;
use patchbay_resources::manifests::{Inventory, ObjectKey, Origin, Sourced};
use patchbay_resources::object::{Node, ObjectMeta, Time};
use serde_json::json;

use crate::watch::kept_fields::created_second;
use crate::watch::watched::{AnyObject, ConnectedParts, WatchedObject};
use crate::write::write_outcome::Written;

/// Annotations of a node from which rows of connects follow.
const OVN_ANNOTATIONS: [&str; 3] = [NODE_ID, NODE_CHASSIS_ID, NODE_SUBNETS];

/// Added to the prefix length of IPv6 subnets, so that one byte holds both families. IPv4
/// lengths end at 32.
const IPV6_LENGTH_OFFSET: u8 = 64;

/// Numbers for network names. A name keeps its number even after its network is deleted.
#[derive(Clone, Debug, Default)]
pub(crate) struct NetworkNumbers(Arc<Mutex<HashMap<String, u32>>>);

/// The subnets of one node by network, packed.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
struct PackedSubnets(Box<[u8]>);

impl NetworkNumbers {
    /// Packs the subnets of a node, by network name.
    fn pack(&self, subnets: &BTreeMap<String, Vec<IpNet>>) -> PackedSubnets {
        // A poisoned lock is harmless, because each statement leaves the map consistent.
        let mut numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut bytes = Vec::with_capacity(subnets.len() * 8);
        for (network, subnets) in subnets {
            let next = numbers.len() as u32;
            let number = match numbers.get(network) {
                Some(number) => *number,
                None => *numbers.entry(network.clone()).or_insert(next),
            };
            for subnet in subnets {
                put_number(number, &mut bytes);
                put_subnet(*subnet, &mut bytes);
            }
        }
        PackedSubnets(bytes.into())
    }

    /// The numbers of the given networks, without networks of which no node has had a subnet.
    pub(crate) fn numbers_of<'a>(
        &self,
        networks: impl IntoIterator<Item = &'a String>,
    ) -> NumberedNetworks {
        let numbers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let numbered = |network: &String| Some((*numbers.get(network)?, network.clone()));
        NumberedNetworks(networks.into_iter().filter_map(numbered).collect())
    }

    /// A node with what rows of connects follow from, and its subnets packed. A node with subnets
    /// that cannot be read keeps the text.
    pub(crate) fn pack_node(&self, mut sourced: Sourced<Node>) -> WatchedObject {
        let (node, errors) = conversion::node(&sourced.object);
        let meta = mem::take(&mut sourced.object.metadata);
        let mut annotations = meta.annotations.unwrap_or_default();
        if errors.iter().any(|error| error.annotation == NODE_SUBNETS) {
            annotations.retain(|key, _| OVN_ANNOTATIONS.contains(&&**key));
            sourced.object.metadata = ObjectMeta {
                name: meta.name,
                uid: meta.uid,
                creation_timestamp: meta.creation_timestamp,
                annotations: Some(annotations),
                ..ObjectMeta::default()
            };
            return WatchedObject::new(sourced);
        }
        let mut text = |key| annotations.remove(key).map(String::into_boxed_str);
        WatchedObject::packed(PackedNode {
            uid: meta.uid.map(String::into_boxed_str),
            created: meta.creation_timestamp,
            id: text(NODE_ID),
            chassis: text(NODE_CHASSIS_ID),
            subnets: text(NODE_SUBNETS).map(|_| self.pack(&node.subnets)),
        })
    }
}

/// Networks by their numbers.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub(crate) struct NumberedNetworks(HashMap<u32, String>);

/// A node of the API server. The subnets are packed in place of their annotation.
#[derive(Clone, Debug, PartialEq)]
struct PackedNode {
    uid: Option<Box<str>>,
    created: Option<Time>,
    id: Option<Box<str>>,
    chassis: Option<Box<str>>,
    /// `None`: there is no annotation.
    subnets: Option<PackedSubnets>,
}

impl AnyObject for PackedNode {
    fn meta(&self) -> Option<&ObjectMeta> {
        None
    }

    fn uid(&self) -> Option<&str> {
        self.uid.as_deref()
    }

    fn created(&self) -> Option<&Time> {
        self.created.as_ref()
    }

    fn insert_into(
        self: Arc<Self>,
        key: &ObjectKey,
        inventory: &mut Inventory,
        connected: &ConnectedParts,
    ) {
        let subnets =
            self.subnets.as_ref().map(|one| json!(one.unpack(&connected.networks)).to_string());
        let annotations = [
            (NODE_ID, self.id.as_ref().map(ToString::to_string)),
            (NODE_CHASSIS_ID, self.chassis.as_ref().map(ToString::to_string)),
            (NODE_SUBNETS, subnets),
        ]
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), value?)));
        let metadata = ObjectMeta {
            name: Some(key.name.clone()),
            uid: self.uid.as_ref().map(ToString::to_string),
            creation_timestamp: self.created.clone(),
            annotations: Some(annotations.collect()),
            ..ObjectMeta::default()
        };
        inventory.nodes.insert(Sourced {
            position: created_second(&metadata),
            object: Node { metadata, ..Node::default() },
            origin: Origin::Cluster,
        });
    }

    fn after(&self, _: &Written) -> Arc<dyn AnyObject> {
        // Nodes are packed only if they are not written.
        Arc::new(self.clone())
    }

    fn is_equal(&self, other: &dyn Any) -> bool {
        other.downcast_ref() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl PackedSubnets {
    /// All subnets, each with the number of its network.
    fn entries(&self) -> impl Iterator<Item = (u32, IpNet)> {
        let mut rest = &*self.0;
        std::iter::from_fn(move || take_entry(&mut rest))
    }

    /// Unpacks the subnets of `networks`, by network name.
    fn unpack(&self, networks: &NumberedNetworks) -> BTreeMap<String, Vec<IpNet>> {
        let mut found = BTreeMap::<String, Vec<IpNet>>::new();
        for (number, subnet) in self.entries() {
            if let Some(network) = networks.0.get(&number) {
                found.entry(network.clone()).or_default().push(subnet);
            }
        }
        found
    }
}

/// Appends a number in LEB128: seven bits per byte, the lowest first; the highest bit marks that
/// more bytes follow.
fn put_number(mut number: u32, bytes: &mut Vec<u8>) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn put_subnet(subnet: IpNet, bytes: &mut Vec<u8>) {
    let length = subnet.prefix_len();
    let significant = usize::from(length.div_ceil(8));
    match subnet.network() {
        IpAddr::V4(address) => {
            bytes.push(length);
            bytes.extend(&address.octets()[..significant]);
        }
        IpAddr::V6(address) => {
            bytes.push(IPV6_LENGTH_OFFSET + length);
            bytes.extend(&address.octets()[..significant]);
        }
    }
}

/// Takes the next entry. `None`: the end.
fn take_entry(rest: &mut &[u8]) -> Option<(u32, IpNet)> {
    let mut number = 0;
    for shift in (0..32).step_by(7) {
        let byte = *rest.split_off_first()?;
        number |= u32::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            break;
        }
    }
    let length = *rest.split_off_first()?;
    let subnet = if length < IPV6_LENGTH_OFFSET {
        IpNet::new(Ipv4Addr::from(octets(rest, length)?).into(), length)
    } else {
        let length = length - IPV6_LENGTH_OFFSET;
        IpNet::new(Ipv6Addr::from(octets(rest, length)?).into(), length)
    };
    Some((number, subnet.ok()?))
}

/// Takes the bytes of a prefix of `length` bits, padded with zeros.
fn octets<const N: usize>(rest: &mut &[u8], length: u8) -> Option<[u8; N]> {
    let significant = rest.split_off(..usize::from(length.div_ceil(8)))?;
    let mut octets = [0; N];
    octets.get_mut(..significant.len())?.copy_from_slice(significant);
    Some(octets)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_subnet() -> impl Strategy<Value = IpNet> {
        let v4 = (any::<u32>(), 0..=32_u8)
            .prop_map(|(bits, length)| IpNet::new(Ipv4Addr::from(bits).into(), length));
        let v6 = (any::<u128>(), 0..=128_u8)
            .prop_map(|(bits, length)| IpNet::new(Ipv6Addr::from(bits).into(), length));
        prop_oneof![v4, v6].prop_map(|net| net.unwrap().trunc())
    }

    proptest! {
        #[test]
        fn unpacked_subnets_equal_the_packed_ones(
            subnets in prop::collection::btree_map(
                "[a-z]{1,3}",
                prop::collection::vec(any_subnet(), 1..3),
                0..200,
            ),
        ) {
            let names = NetworkNumbers::default();
            names.pack(&[("before".to_owned(), vec!["10.0.0.0/24".parse().unwrap()])].into());
            let packed = names.pack(&subnets);
            prop_assert_eq!(&packed.unpack(&names.numbers_of(subnets.keys())), &subnets);
            let first: Vec<&String> = subnets.keys().take(1).collect();
            let found = packed.unpack(&names.numbers_of(first.iter().copied()));
            prop_assert_eq!(found.keys().collect::<Vec<_>>(), first);
        }
    }

    #[test]
    fn a_packed_subnet_takes_less_than_six_bytes() {
        let names = NetworkNumbers::default();
        let subnets = (0..1000).map(|network| {
            let subnet: IpNet = "10.1.2.0/24".parse().unwrap();
            (format!("cluster_udn_network-{network}"), vec![subnet])
        });
        let packed = names.pack(&subnets.collect());
        assert!(packed.0.len() < 6000, "{}", packed.0.len());
    }
}
