use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;
use crate::ids::NodeId;

fn range(cidr: &str, prefix: i32) -> ConnectRange {
    ConnectRange::try_new(cidr.parse().unwrap(), prefix).unwrap()
}

fn node(id: i64) -> Attachment {
    Attachment::Layer3(NodeId::try_new(id).unwrap())
}

fn key(ranges: &[ConnectRange], subnets: &[&str], attachment: Attachment) -> Option<u16> {
    let ranges = ranges.iter().copied().collect();
    let subnets = subnets.iter().map(|subnet| subnet.parse::<IpNet>().unwrap()).collect();
    port_tunnel_key(&ranges, &subnets, attachment).ok().map(TunnelKey::get)
}

#[test]
fn keys_of_layer3_networks_follow_from_block_and_node_id() {
    let cases = [
        ("192.168.0.0/16", 24, "192.168.0.0/24", 2, Some(3)),
        ("192.168.0.0/16", 24, "192.168.1.0/24", 4, Some(261)),
        ("172.16.0.0/12", 20, "172.16.80.0/20", 100, Some(20_581)),
        ("10.0.16.0/20", 26, "10.0.19.64/26", 30, Some(863)),
        ("fd00:abcd::/108", 116, "fd00:abcd::7000/116", 200, Some(28_873)),
        // Stride capped at 5000: block number 17 would need the key 87501.
        ("10.0.0.0/8", 18, "10.4.64.0/18", 2500, None),
        ("10.0.0.0/8", 18, "10.1.128.0/18", 2766, Some(32_767)),
        ("10.0.0.0/8", 18, "10.1.128.0/18", 2767, None),
        // In capped blocks node 5000 would take the first key of the next block.
        ("10.0.0.0/8", 18, "10.0.0.0/18", 4999, Some(5000)),
        ("10.0.0.0/8", 18, "10.0.0.0/18", 5000, None),
        // Folded: the block at 32768 uses the keys that the block at 0 leaves free.
        ("192.168.0.0/16", 24, "192.168.128.0/24", 0, Some(129)),
        ("192.168.0.0/16", 24, "192.168.255.0/24", 126, Some(32_767)),
        ("192.168.0.0/16", 24, "192.168.255.0/24", 127, None),
        ("172.16.0.0/12", 20, "172.17.0.0/20", 0, None),
        // Wide IPv6 blocks have the capped stride, not one of zero.
        ("fd01::/48", 64, "fd01:0:0:1::/64", 2, Some(5003)),
        // More nodes than the block has pairs.
        ("10.0.16.0/20", 26, "10.0.16.0/26", 32, None),
    ];
    for (cidr, prefix, subnet, id, expected) in cases {
        let found = key(&[range(cidr, prefix)], &[subnet], node(id));
        assert_eq!(found, expected, "{cidr} p{prefix}: {subnet}, node {id}");
    }
}

#[test]
fn keys_of_layer2_networks_follow_from_the_address_pair() {
    let cases = [
        ("172.16.0.0/12", 20, "172.16.17.128/31", Some(4289)),
        ("10.100.0.0/16", 22, "10.100.51.254/31", Some(12_800)),
        ("192.168.0.0/16", 24, "192.168.1.2/31", Some(258)),
        ("fd01::/48", 64, "fd01::270e/127", Some(5000)),
        ("fd01::/48", 64, "fd01::2710/127", None),
    ];
    for (cidr, prefix, subnet, expected) in cases {
        let found = key(&[range(cidr, prefix)], &[subnet], Attachment::Layer2);
        assert_eq!(found, expected, "{cidr} p{prefix}: {subnet}");
    }
}

#[test]
fn the_ipv4_subnet_is_used_if_there_is_one() {
    let ranges = [range("10.50.0.0/16", 20), range("fd00:50::/112", 116)];
    let subnets = ["fd00:50::7064/127", "10.50.96.100/31"];
    assert_eq!(key(&ranges, &subnets, Attachment::Layer2), Some(24_627));
}

#[test]
fn subnets_outside_of_the_ranges_have_no_keys() {
    let v4: ConnectRanges = [range("10.0.0.0/16", 24)].into_iter().collect();
    let subnets = |subnet: &str| -> ConnectSubnets {
        std::iter::once(subnet.parse::<IpNet>().unwrap()).collect()
    };
    let error = |subnets| port_tunnel_key(&v4, &subnets, Attachment::Layer2).unwrap_err();
    assert_eq!(error(ConnectSubnets::default()), TunnelKeyError::NoSubnet);
    assert_eq!(
        error(subnets("fd00::/127")).to_string(),
        "no connect range for the v6 subnet fd00::/127"
    );
    assert_eq!(
        error(subnets("10.1.0.0/31")).to_string(),
        "subnet 10.1.0.0/31 is not inside of the connect range 10.0.0.0/16"
    );
}

#[test]
fn usable_blocks_have_at_least_one_key() {
    let cases = [
        ("192.168.0.0/22", 24, 4),
        ("192.168.0.0/16", 24, 256),
        ("192.168.0.0/16", 26, 1024),
        ("10.0.0.0/8", 24, 256),
        ("172.16.0.0/12", 20, 16),
        ("10.0.0.0/8", 18, 7),
        ("fd01::/64", 96, 7),
        ("fd01::/32", 127, 32_767),
        ("0.0.0.0/0", 1, 2),
    ];
    for (cidr, prefix, expected) in cases {
        assert_eq!(range(cidr, prefix).usable_blocks(), expected, "{cidr} p{prefix}");
    }
    assert_eq!(range("192.168.0.0/16", 24).usable_pairs(254), 128);
    assert_eq!(range("192.168.0.0/16", 24).usable_pairs(255), 127);
    assert_eq!(range("10.0.0.0/8", 18).usable_pairs(0), 5000);
    assert_eq!(range("10.0.0.0/8", 18).usable_pairs(6), 2767);
    assert_eq!(range("10.0.0.0/8", 18).usable_pairs(7), 0);
}

/// All keys of a range with their block and pair. Panics if two pairs have the same key.
fn all_keys(range: ConnectRange) -> BTreeMap<u16, (u32, u32)> {
    let mut keys = BTreeMap::new();
    for block in 0..range.usable_blocks() {
        for pair in 0..range.usable_pairs(block) {
            let key = pair_key(range, block.into(), pair.into()).unwrap();
            let other = keys.insert(key.get(), (block, pair));
            assert_eq!(other, None, "{range:?}: {key} belongs to two pairs");
        }
    }
    keys
}

fn ranges() -> impl Strategy<Value = ConnectRange> {
    let v4 = (0_u8..31).prop_flat_map(|cidr| (Just(32_u8), Just(cidr), cidr + 1..32));
    let v6 = (0_u8..127).prop_flat_map(|cidr| (Just(128_u8), Just(cidr), cidr + 1..128));
    prop_oneof![v4, v6].prop_map(|(bits, cidr, prefix)| {
        let text = if bits == 32 { "10.0.0.0" } else { "fd00::" };
        range(&format!("{text}/{cidr}"), prefix.into())
    })
}

proptest! {
    #[test]
    fn no_two_ports_share_a_key(range in ranges()) {
        let keys = all_keys(range);
        prop_assert!(!keys.is_empty());
        prop_assert!(keys.keys().all(|key| (1..=32_767).contains(key)));
    }

    #[test]
    fn unusable_blocks_and_pairs_have_no_key(range in ranges(), beyond in 0_u128..100_000, pair in 0_u128..100_000) {
        let blocks = u128::from(range.usable_blocks());
        let total = 1_u128 << (range.network_prefix() - range.cidr().prefix_len());
        if blocks + beyond < total {
            prop_assert_eq!(pair_key(range, blocks + beyond, pair), None);
        }
        let last = range.usable_blocks() - 1;
        let pairs = u128::from(range.usable_pairs(last));
        prop_assert_eq!(pair_key(range, last.into(), pairs + beyond), None);
    }

    #[test]
    fn high_block_numbers_do_not_overflow(range in ranges(), block: u128, pair: u128) {
        let _ = pair_key(range, block >> range.host_bits(), pair);
    }
}
