use patchbay_model::{Attachment, ConnectRange, NetworkId, NodeId, port_tunnel_key};
use proptest::prelude::*;

use super::*;

fn ranges(entries: &[(&str, i32)]) -> ConnectRanges {
    entries
        .iter()
        .map(|(cidr, prefix)| ConnectRange::try_new(cidr.parse().unwrap(), *prefix).unwrap())
        .collect()
}

fn allocator(entries: &[(&str, i32)]) -> ConnectAllocator {
    ConnectAllocator::new(ranges(entries))
}

fn owner(text: &str) -> OwnerKey {
    text.parse().unwrap()
}

fn allocate(allocator: &mut ConnectAllocator, owners: &[&str]) {
    for text in owners {
        allocator.allocate(owner(text)).unwrap();
    }
}

#[test]
fn blocks_of_both_topologies_come_from_one_range() {
    let mut allocator = allocator(&[("192.168.0.0/16", 24)]);
    allocate(&mut allocator, &["layer3_1", "layer2_3", "layer2_4", "layer3_2"]);
    assert_eq!(
        allocator.to_map().to_string(),
        r#"{"layer2_3":{"ipv4":"192.168.1.0/31"},"layer2_4":{"ipv4":"192.168.1.2/31"},"layer3_1":{"ipv4":"192.168.0.0/24"},"layer3_2":{"ipv4":"192.168.2.0/24"}}"#
    );
}

#[test]
fn both_families_are_numbered_alike() {
    let mut allocator = allocator(&[("192.168.0.0/16", 24), ("fd01::/112", 120)]);
    allocate(&mut allocator, &["layer3_1", "layer2_3"]);
    assert_eq!(
        allocator.to_map().to_string(),
        r#"{"layer2_3":{"ipv4":"192.168.1.0/31","ipv6":"fd01::100/127"},"layer3_1":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/120"}}"#
    );
}

#[test]
fn each_family_continues_after_its_own_last_block() {
    let entries = [("192.168.0.0/22", 24), ("fd01::/112", 120)];
    let mut allocator = allocator(&entries);
    allocate(&mut allocator, &["layer3_1", "layer3_2", "layer3_3", "layer3_4"]);
    allocator.release(owner("layer3_2"));
    allocate(&mut allocator, &["layer3_5"]);
    let entry = r#"{"layer3_5":{"ipv4":"192.168.1.0/24","ipv6":"fd01::400/120"}}"#;
    assert_eq!(allocator.entry(owner("layer3_5")).unwrap().to_string(), entry);
    // A restart restores the same subnets.
    let annotated = allocator.to_map();
    let mut restarted = ConnectAllocator::new(ranges(&entries));
    for (owner, subnets) in annotated.iter() {
        assert!(restarted.restore(owner, subnets));
    }
    assert_eq!(restarted.to_map(), annotated);
}

#[test]
fn a_shared_block_is_released_with_its_last_pair() {
    let mut allocator = allocator(&[("192.168.0.0/29", 30)]);
    allocate(&mut allocator, &["layer2_1", "layer2_2", "layer2_3"]);
    assert_eq!(allocator.allocate(owner("layer3_9")), Err(NoSubnets));
    allocator.release(owner("layer2_1"));
    assert_eq!(allocator.allocate(owner("layer3_9")), Err(NoSubnets));
    allocator.release(owner("layer2_2"));
    allocate(&mut allocator, &["layer3_9"]);
    assert_eq!(
        allocator.to_map().to_string(),
        r#"{"layer2_3":{"ipv4":"192.168.0.4/31"},"layer3_9":{"ipv4":"192.168.0.0/30"}}"#
    );
}

#[test]
fn a_layer2_network_moves_when_a_place_before_it_becomes_free() {
    let mut allocator = allocator(&[("192.168.0.0/28", 30)]);
    allocate(&mut allocator, &["layer2_1", "layer2_2", "layer2_3"]);
    allocator.release(owner("layer2_1"));
    let subnet = |allocator: &ConnectAllocator, text: &str| {
        let subnets = allocator.to_map().get(owner(text)).copied();
        subnets.and_then(|subnets| subnets.first()).unwrap().to_string()
    };
    assert_eq!(subnet(&allocator, "layer2_3"), "192.168.0.4/31");
    allocate(&mut allocator, &["layer2_3"]);
    assert_eq!(subnet(&allocator, "layer2_3"), "192.168.0.0/31");
    // It stays there, and the former pair stays reserved.
    allocate(&mut allocator, &["layer2_3", "layer2_4"]);
    assert_eq!(subnet(&allocator, "layer2_3"), "192.168.0.0/31");
    assert_eq!(subnet(&allocator, "layer2_4"), "192.168.0.6/31");
}

#[test]
fn a_vacated_pair_is_used_if_no_other_is_free() {
    let mut allocator = allocator(&[("192.168.0.0/29", 30)]);
    allocate(&mut allocator, &["layer2_1", "layer2_2", "layer2_3"]);
    allocator.release(owner("layer2_1"));
    allocate(&mut allocator, &["layer2_3", "layer2_4"]);
    assert_eq!(
        allocator.to_map().to_string(),
        r#"{"layer2_2":{"ipv4":"192.168.0.2/31"},"layer2_3":{"ipv4":"192.168.0.0/31"},"layer2_4":{"ipv4":"192.168.0.6/31"}}"#
    );
    allocator.release(owner("layer2_4"));
    // The second block contains only a former pair, so a layer3 network can have it.
    allocate(&mut allocator, &["layer3_5"]);
    assert_eq!(
        allocator.to_map().get(owner("layer3_5")).and_then(ConnectSubnets::first),
        Some("192.168.0.4/30".parse().unwrap())
    );
}

#[test]
fn released_networks_that_have_moved_leave_no_block() {
    let mut allocator = allocator(&[("192.168.0.0/29", 30), ("fd01::/125", 126)]);
    allocate(&mut allocator, &["layer2_1", "layer2_2", "layer2_3"]);
    allocator.release(owner("layer2_1"));
    allocate(&mut allocator, &["layer2_3"]);
    allocator.release(owner("layer2_2"));
    allocator.release(owner("layer2_3"));
    assert!(allocator.blocks.values().all(SubnetPool::is_unused));
    assert!(allocator.shared.is_empty() && allocator.former.is_empty());
    allocate(&mut allocator, &["layer3_1", "layer3_2"]);
}

#[test]
fn a_failed_allocation_changes_nothing() {
    // The second family has one block less.
    let mut allocator = allocator(&[("192.168.0.0/22", 24), ("fd01::/119", 120)]);
    allocate(&mut allocator, &["layer3_1", "layer3_2"]);
    for _ in 0..3 {
        assert_eq!(allocator.allocate(owner("layer3_3")), Err(NoSubnets));
        assert_eq!(allocator.allocate(owner("layer2_3")), Err(NoSubnets));
    }
    assert_eq!(allocator.owners().count(), 2);
    allocator.release(owner("layer3_1"));
    allocate(&mut allocator, &["layer3_3"]);
    assert!(allocator.has(owner("layer3_3")));
}

#[test]
fn annotated_subnets_are_restored() {
    let annotated = r#"{"layer2_3":{"ipv4":"192.168.1.2/31","ipv6":"fd01::102/127"},"layer2_4":{"ipv4":"192.168.1.4/31","ipv6":"fd01::204/127"},"layer3_1":{"ipv4":"192.168.0.0/24","ipv6":"fd01::/120"}}"#;
    let (map, _) = ConnectSubnetMap::parse(annotated).unwrap();
    let mut allocator = allocator(&[("192.168.0.0/16", 24), ("fd01::/112", 120)]);
    for (owner, subnets) in map.iter() {
        assert!(allocator.restore(owner, subnets), "{owner}");
    }
    assert_eq!(allocator.to_map(), map);
    allocate(&mut allocator, &["layer3_1", "layer2_3"]);
    assert_eq!(allocator.to_map(), map);
    // Blocks of families that were combined differently are released once each.
    for owner in map.owners() {
        allocator.release(owner);
    }
    assert!(allocator.blocks.values().all(SubnetPool::is_unused));
    assert!(allocator.shared.is_empty());
}

#[test]
fn networks_move_to_the_same_blocks_after_a_restart() {
    let entries = [("192.168.0.0/28", 30)];
    let mut allocator = allocator(&entries);
    // The blocks are opened in another order than that of the owners.
    allocate(&mut allocator, &["layer2_8", "layer2_9", "layer2_1", "layer2_2", "layer2_3"]);
    allocator.release(owner("layer2_9"));
    let mut restarted = ConnectAllocator::new(ranges(&entries));
    for (owner, subnets) in allocator.to_map().iter() {
        assert!(restarted.restore(owner, subnets));
    }
    for allocator in [&mut allocator, &mut restarted] {
        allocate(allocator, &["layer2_8", "layer2_1", "layer2_2", "layer2_3"]);
        assert_eq!(
            allocator.to_map().to_string(),
            r#"{"layer2_1":{"ipv4":"192.168.0.2/31"},"layer2_2":{"ipv4":"192.168.0.6/31"},"layer2_3":{"ipv4":"192.168.0.8/31"},"layer2_8":{"ipv4":"192.168.0.0/31"}}"#
        );
    }
}

#[test]
fn subnets_that_cannot_be_restored_are_skipped() {
    let mut allocator = allocator(&[("172.16.0.0/12", 20)]);
    let mut restore = |text: &str, subnet: &str| {
        let subnets = std::iter::once(subnet.parse::<IpNet>().unwrap()).collect();
        allocator.restore(owner(text), &subnets)
    };
    assert!(restore("layer3_1", "172.16.16.0/20"));
    assert!(!restore("layer3_2", "172.16.16.0/20"), "belongs to another");
    assert!(!restore("layer2_2", "172.16.16.2/31"), "inside of another's");
    assert!(!restore("layer3_3", "172.17.0.0/20"), "no tunnel keys there");
    assert!(!restore("layer3_4", "10.0.0.0/20"), "not from the range");
    assert!(!restore("layer3_5", "fd00::/120"), "no such family");
    assert_eq!(allocator.owners().count(), 1);
}

#[test]
fn every_allocated_block_has_a_tunnel_key() {
    let cases = [
        (("192.168.0.0/16", 24), 256),
        (("172.16.0.0/12", 20), 16),
        (("10.0.0.0/8", 18), 7),
        (("fd01::/64", 96), 6),
    ];
    for (entry, networks) in cases {
        let mut allocator = allocator(&[entry]);
        let ranges = ranges(&[entry]);
        for id in 1..=networks {
            let text = format!("layer3_{id}");
            allocator.allocate(owner(&text)).unwrap();
            let subnets = *allocator.to_map().get(owner(&text)).unwrap();
            let attachment = Attachment::Layer3(NodeId::try_new(2).unwrap());
            assert!(port_tunnel_key(&ranges, &subnets, attachment).is_ok(), "{entry:?} {id}");
        }
        assert_eq!(allocator.allocate(owner("layer3_999")), Err(NoSubnets), "{entry:?}");
    }
}

#[test]
fn every_allocated_pair_has_a_tunnel_key() {
    // One block of 8192 pairs, of which a stride of 5000 covers 5000.
    let entry = ("10.0.0.0/17", 18);
    let mut allocator = allocator(&[entry]);
    let ranges = ranges(&[entry]);
    let (map, _) = ConnectSubnetMap::parse(r#"{"layer3_1":{"ipv4":"10.0.64.0/18"}}"#).unwrap();
    assert!(allocator.restore(owner("layer3_1"), map.get(owner("layer3_1")).unwrap()));
    for id in 1..=4095 {
        let owner =
            OwnerKey { topology: Topology::Layer2, network_id: NetworkId::try_new(id).unwrap() };
        allocator.allocate(owner).unwrap();
        let subnets = allocator.owners[&owner];
        assert!(port_tunnel_key(&ranges, &subnets, Attachment::Layer2).is_ok(), "{subnets:?}");
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Allocate(bool, i64),
    Release(bool, i64),
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => (any::<bool>(), 1_i64..24).prop_map(|(layer3, id)| Step::Allocate(layer3, id)),
        4 => (any::<bool>(), 1_i64..24).prop_map(|(layer3, id)| Step::Release(layer3, id)),
        1 => Just(Step::Restart),
    ];
    proptest::collection::vec(step, 1..80)
}

proptest! {
    #[test]
    fn subnets_never_overlap_and_other_owners_never_move(steps in steps(), dual: bool) {
        let mut entries = vec![("192.168.0.0/27", 30)];
        if dual {
            entries.push(("fd01::/123", 126));
        }
        let key = |layer3, id| OwnerKey {
            topology: if layer3 { Topology::Layer3 } else { Topology::Layer2 },
            network_id: NetworkId::try_new(id).unwrap(),
        };
        let mut allocator = allocator(&entries);
        for step in steps {
            let before = allocator.to_map();
            let touched = match step {
                Step::Allocate(layer3, id) => {
                    let _ = allocator.allocate(key(layer3, id));
                    Some(key(layer3, id))
                }
                Step::Release(layer3, id) => {
                    allocator.release(key(layer3, id));
                    Some(key(layer3, id))
                }
                Step::Restart => {
                    let (map, _) = ConnectSubnetMap::parse(&before.to_string()).unwrap();
                    allocator = ConnectAllocator::new(ranges(&entries));
                    for (owner, subnets) in map.iter() {
                        prop_assert!(allocator.restore(owner, subnets));
                    }
                    None
                }
            };
            let after = allocator.to_map();
            for (owner, subnets) in before.iter().filter(|(owner, _)| Some(*owner) != touched) {
                prop_assert_eq!(after.get(owner), Some(subnets));
            }
            let all: Vec<IpNet> = after.iter().flat_map(|(_, subnets)| subnets.iter()).collect();
            for (index, subnet) in all.iter().enumerate() {
                for other in &all[index + 1..] {
                    prop_assert!(!subnet.contains(other) && !other.contains(subnet));
                }
            }
        }
        let owners: Vec<_> = allocator.owners().collect();
        for owner in owners {
            allocator.release(owner);
        }
        prop_assert!(allocator.blocks.values().all(SubnetPool::is_unused));
    }
}
