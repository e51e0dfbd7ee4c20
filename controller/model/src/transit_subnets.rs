//! Transit subnets of primary layer2 networks that configure none.

use std::convert::Infallible;

use ipnet::IpNet;

use super::arithmetic::{overlap, subnet_beside};
use super::network::IpFamily;
use super::settings::DEFAULT_TRANSIT_SUBNETS;

/// Returns a transit subnet for each family of the pod subnets, in their order. It is the default,
/// or the next subnet of that length that overlaps neither with pod nor with join subnets.
///
/// OVN-Kubernetes also compares with the ranges of the cluster. Those are beside the default unless
/// the administrator moves them.
pub(crate) fn derived_transit_subnets(pod_subnets: &[IpNet], join_subnets: &[IpNet]) -> Vec<IpNet> {
    let mut families: Vec<IpFamily> = Vec::new();
    for family in pod_subnets.iter().map(|subnet| IpFamily::of_net(*subnet)) {
        if !families.contains(&family) {
            families.push(family);
        }
    }
    let mut others = pod_subnets.to_vec();
    others.extend(join_subnets);
    let defaults = families.into_iter().filter_map(|family| {
        let mut defaults = DEFAULT_TRANSIT_SUBNETS.into_iter();
        defaults.find(|subnet| IpFamily::of_net(*subnet) == family)
    });
    defaults.map(|default| beside(default, &others).unwrap_or(default)).collect()
}

/// The subnet, or one behind it that overlaps with no other. `None`: there is none nearby.
fn beside(subnet: IpNet, others: &[IpNet]) -> Option<IpNet> {
    let overlapping = |candidate| {
        let mut others = others.iter().copied();
        Ok::<_, Infallible>(others.find(|other| overlap(*other, candidate)))
    };
    subnet_beside(subnet, overlapping).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn derived(pods: &[&str], joins: &[&str]) -> Vec<String> {
        let nets = |texts: &[&str]| -> Vec<IpNet> {
            let nets = texts.iter().map(|text| text.parse().unwrap());
            nets.collect()
        };
        let found = derived_transit_subnets(&nets(pods), &nets(joins));
        found.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn transit_subnets_have_the_order_of_the_pod_subnets() {
        assert_eq!(derived(&["10.1.0.0/16"], &[]), ["100.88.0.0/16"]);
        assert_eq!(
            derived(&["fd20::/64", "10.1.0.0/16", "10.2.0.0/16"], &[]),
            ["fd97::/64", "100.88.0.0/16"]
        );
        assert_eq!(derived(&[], &["100.65.0.0/16"]), [""; 0]);
    }

    #[test]
    fn transit_subnets_lie_beside_the_subnets_of_the_network() {
        for (pods, joins, expected) in [
            ("100.88.0.0/16", "100.65.0.0/16", "100.89.0.0/16"),
            ("100.88.7.0/24", "100.65.0.0/16", "100.89.0.0/16"),
            ("100.88.0.0/14", "100.65.0.0/16", "100.92.0.0/16"),
            ("100.88.0.0/16", "100.89.0.0/16", "100.90.0.0/16"),
            ("fd97::/64", "fd99::/64", "fd97:0:0:1::/64"),
            // There is no other one.
            ("0.0.0.0/0", "100.65.0.0/16", "100.88.0.0/16"),
        ] {
            assert_eq!(derived(&[pods], &[joins]), [expected], "{pods} {joins}");
        }
    }
}
