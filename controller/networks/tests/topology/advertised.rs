//! Networks that routers outside of the cluster know: rows while RouteAdvertisements come, change
//! and go.

use std::collections::BTreeMap;

use patchbay_model::Feature;
use patchbay_schemas::nb::{Acl, AddressSet, LogicalSwitch, Nat, PortGroup};
use patchbay_zone::ZoneObjects;

use crate::support::{
    BY_RA, TWO_NODES, Zone, ipv4_settings, remove_networks, route_advertisements, zone_networks,
};

const NETWORK: &str = "
- apiVersion: k8s.ovn.org/v1
  kind: UserDefinedNetwork
  metadata: {name: l3, namespace: blue}
  spec: {topology: Layer3, layer3: {role: Primary, subnets: [{cidr: 10.10.0.0/16, hostSubnet: 24}]}}
";

/// The network with these RouteAdvertisements, which the annotation of its definition names.
fn networks(annotation: Option<&str>, advertisements: &str, features: &[Feature]) -> ZoneObjects {
    let yaml = [TWO_NODES, NETWORK.trim_start(), advertisements].concat();
    zone_networks(&yaml, &ipv4_settings(features), annotation)
}

impl Zone {
    /// Number of NAT rows for some destinations only, and of those for all.
    fn nats(&self) -> (usize, usize) {
        let nats = self.rows::<Nat>();
        let is_limited =
            |nat: &&Nat| nat.allowed_ext_ips.is_some() || nat.r#match.contains("ip4.dst == $");
        let limited = nats.iter().filter(is_limited).count();
        (limited, nats.len() - limited)
    }

    /// Addresses of the sets whose name begins like this.
    fn set(&self, name: &str) -> Vec<String> {
        let sets = self
            .rows::<AddressSet>()
            .into_iter()
            .filter(|set| set.external_ids["k8s.ovn.org/name"] == name);
        sets.flat_map(|set| set.addresses).collect()
    }

    fn isolated_ports(&self) -> BTreeMap<String, usize> {
        let groups = self
            .rows::<PortGroup>()
            .into_iter()
            .filter(|group| group.external_ids["k8s.ovn.org/owner-type"] == "AdvertisedNetwork");
        groups.map(|group| (group.name, group.ports.len())).collect()
    }

    fn pass_acls(&self) -> usize {
        let acls = self.rows::<Acl>();
        acls.iter().filter(|acl| acl.priority == 1100).count()
    }
}

#[test]
fn rows_follow_what_is_advertised_on_the_node() {
    let mut zone = Zone::new();
    let features = [Feature::RouteAdvertisements];
    let on_rack = |rack: &str, accepted| {
        let spec = format!(
            "advertisements: [PodNetwork], nodeSelector: {{matchLabels: {{rack: {rack}}}}}"
        );
        networks(BY_RA, &route_advertisements(&spec, accepted), &features)
    };
    let without = networks(None, "", &features);
    let only_egress = route_advertisements("advertisements: [EgressIP]", "True");
    // Those that are not accepted, not known or not readable change nothing.
    let steps = [
        ("none", without.clone(), false),
        ("not accepted yet", on_rack("a", "False"), false),
        ("on another node", on_rack("b", "True"), false),
        ("accepted", on_rack("a", "True"), true),
        ("not accepted any more", on_rack("a", "False"), true),
        ("not known", networks(BY_RA, "", &features), true),
        ("not readable", networks(Some("ra"), "", &features), true),
        ("egress IPs only", networks(BY_RA, &only_egress, &features), false),
        ("accepted again", on_rack("a", "True"), true),
        ("none again", without, false),
    ];
    for (step, inputs, is_advertised) in steps {
        zone.settle(&inputs);
        let (nats, acls) = if is_advertised { ((3, 1), 1) } else { ((0, 3), 0) };
        assert_eq!(zone.nats(), nats, "{step}");
        assert_eq!(zone.pass_acls(), acls, "{step}");
        let ports: Vec<usize> = zone.isolated_ports().into_values().collect();
        assert_eq!(ports, [acls], "{step}");
        let subnets: &[&str] = if is_advertised { &["10.10.0.0/16"] } else { &[] };
        assert_eq!(zone.set("advertised-network-subnets"), subnets, "{step}");
    }
    assert_eq!(zone.set("node-ips"), ["172.18.0.2", "172.18.0.3", "192.168.5.2"]);
}

/// As in OVN-Kubernetes, which makes the switch again when advertising changes, but not the port of
/// the node itself.
#[test]
fn the_switch_excludes_the_nodes_address_after_advertising_has_changed() {
    let features = [Feature::RouteAdvertisements];
    let accepted = route_advertisements("advertisements: [PodNetwork]", "True");
    let excluded = |zone: &Zone| {
        let mut switches =
            zone.rows::<LogicalSwitch>().into_iter().filter(|switch| switch.name == "blue_l3_n1");
        let config = switches.next().unwrap().other_config;
        config.get("exclude_ips").cloned()
    };
    let (off, on) = (networks(None, "", &features), networks(BY_RA, &accepted, &features));
    let mut zone = Zone::new();
    zone.settle(&off);
    assert_eq!(excluded(&zone), None);
    let mut known = off.clone();
    for next in [on.clone(), off, on.clone()] {
        let mut next = next;
        next.follow(&known);
        zone.settle(&next);
        assert_eq!(excluded(&zone).as_deref(), Some("10.10.0.2"));
        known = next;
    }
    // A new controller knows nothing of the change.
    zone.settle(&on);
    assert_eq!(excluded(&zone), None);
}

#[test]
fn subnets_of_a_network_that_has_gone_stay_until_the_controller_starts_again() {
    let features = [Feature::RouteAdvertisements];
    let accepted = route_advertisements("advertisements: [PodNetwork]", "True");
    let known = networks(BY_RA, &accepted, &features);
    let gone = zone_networks(TWO_NODES, &ipv4_settings(&features), None);
    let mut zone = Zone::new();
    zone.settle(&known);
    let mut following = gone.clone();
    following.follow(&known);
    let mut removed = known;
    remove_networks(&mut removed);
    for left in [following, removed] {
        zone.settle(&left);
        assert_eq!(zone.set("advertised-network-subnets"), ["10.10.0.0/16"]);
    }
    zone.settle(&gone);
    assert_eq!(zone.set("advertised-network-subnets"), [""; 0]);
}

#[test]
fn without_the_feature_nothing_is_advertised() {
    let mut zone = Zone::new();
    let accepted = route_advertisements("advertisements: [PodNetwork]", "True");
    zone.settle(&networks(BY_RA, &accepted, &[]));
    let none = (zone.nats(), zone.pass_acls(), zone.isolated_ports());
    assert_eq!(none, ((0, 3), 0, BTreeMap::new()));
    let is_on = networks(BY_RA, &accepted, &[Feature::RouteAdvertisements]);
    zone.settle(&is_on);
    assert_eq!(zone.nats(), (3, 1));
    zone.settle(&networks(BY_RA, &accepted, &[]));
    let off = (zone.nats(), zone.pass_acls(), zone.isolated_ports());
    assert_eq!(off, none);
}

#[test]
fn address_sets_of_nodes_are_there_before_the_first_network_is() {
    let mut zone = Zone::new();
    let nodes = ["172.18.0.2", "172.18.0.3", "192.168.5.2"];
    for (features, addresses) in
        [(&[][..], &[][..]), (&[Feature::RouteAdvertisements], &[]), (&[Feature::EgressIp], &nodes)]
    {
        let settings = ipv4_settings(features);
        zone.settle(&zone_networks(TWO_NODES, &settings, None));
        assert_eq!(zone.set("node-ips"), addresses, "{features:?}");
    }
}
