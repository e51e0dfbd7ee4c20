//! Rules of EVPN networks.

use std::net::Ipv4Addr;

use super::rule_checker::RuleChecker;
use super::{CudnTopology, EvpnConfig, NetworkSpec, Transport, VrfConfig};

/// The rules that tie `evpn` to the transport and the topology of its network.
pub(super) fn check(rules: &mut RuleChecker, field: &str, network: &NetworkSpec) {
    let field = format!("{field}.evpn");
    let wanted = network.transport == Some(Transport::Evpn);
    match &network.evpn {
        None => rules.check(!wanted, field, "spec.evpn field is required when transport is 'EVPN'"),
        Some(evpn) => {
            rules.check(
                wanted,
                &field,
                "spec.evpn field is forbidden when transport is not 'EVPN'",
            );
            if wanted {
                check_vrfs_present(rules, &field, network.topology, evpn);
            }
            check_config(rules, &field, evpn);
        }
    }
}

fn check_vrfs_present(
    rules: &mut RuleChecker,
    field: &str,
    topology: CudnTopology,
    evpn: &EvpnConfig,
) {
    rules.check(
        topology != CudnTopology::Layer2 || evpn.mac_vrf.is_some(),
        field,
        "spec.evpn.macVRF field is required for Layer2 topology when transport is 'EVPN'",
    );
    rules.check(
        topology != CudnTopology::Layer3 || evpn.ip_vrf.is_some(),
        field,
        "spec.evpn.ipVRF field is required for Layer3 topology when transport is 'EVPN'",
    );
    rules.check(
        topology != CudnTopology::Layer3 || evpn.mac_vrf.is_none(),
        field,
        "spec.evpn.macVRF field is forbidden for Layer3 topology when transport is 'EVPN'",
    );
}

fn check_config(rules: &mut RuleChecker, field: &str, evpn: &EvpnConfig) {
    rules.check(!evpn.vtep.is_empty(), format!("{field}.vtep"), "should be at least 1 chars long");
    rules.check(
        evpn.mac_vrf.is_some() || evpn.ip_vrf.is_some(),
        field,
        "at least one of macVRF or ipVRF must be specified",
    );
    if let (Some(mac), Some(ip)) = (&evpn.mac_vrf, &evpn.ip_vrf) {
        rules.check(mac.vni != ip.vni, field, "macVRF and ipVRF must use different VNIs");
    }
    for (name, vrf) in [("macVRF", &evpn.mac_vrf), ("ipVRF", &evpn.ip_vrf)] {
        if let Some(vrf) = vrf {
            check_vrf(rules, &format!("{field}.{name}"), vrf);
        }
    }
}

fn check_vrf(rules: &mut RuleChecker, field: &str, vrf: &VrfConfig) {
    rules.range(&format!("{field}.vni"), Some(vrf.vni), 1, 16_777_215);
    if let Some(target) = &vrf.route_target {
        let field = format!("{field}.routeTarget");
        rules.at_most(&field, target, 21);
        for problem in route_target_problems(target) {
            rules.check(false, &field, problem);
        }
    }
}

/// Problems of a route target. Its two parts share six bytes: four for an address, a large AS or a
/// large local number, two for the other part.
fn route_target_problems(target: &str) -> Vec<&'static str> {
    let [global, local] = target.split(':').collect::<Vec<_>>()[..] else {
        return vec!["RT must contain exactly one colon"];
    };
    let (wildcard, address) = (global == "*", global.parse::<Ipv4Addr>().is_ok());
    let mut problems = Vec::new();
    if !wildcard && !address && !is_number(global) {
        problems.push("RT global administrator must be either '*', an IPv4 address, or a number");
    }
    if !is_number(local) {
        problems.push("RT local administrator must be a number");
    }
    if !problems.is_empty() {
        return problems;
    }
    // A number that does not fit in 64 bits is above every limit here.
    let value = |text: &str| text.parse().unwrap_or(u64::MAX);
    let (two_bytes, four_bytes) = (u64::from(u16::MAX), u64::from(u32::MAX));
    if wildcard {
        if value(local) > four_bytes {
            problems.push("RT with wildcard global administrator must have format *:OPQR where OPQR <= 4294967295");
        }
    } else if address {
        if value(local) > two_bytes {
            problems.push(
                "RT with IPv4 global administrator must have format A.B.C.D:MN where MN <= 65535",
            );
        }
    } else if value(global) > two_bytes {
        if value(global) > four_bytes || value(local) > two_bytes {
            problems.push(
                "RT with 4-byte ASN global administrator must have format GHJK:MN where GHJK <= 4294967295 and MN \
                 <= 65535",
            );
        }
    } else if value(local) > four_bytes {
        problems.push(
            "RT with 2-byte ASN global administrator must have format EF:OPQR where EF <= 65535 and OPQR <= \
             4294967295",
        );
    }
    problems
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn route_targets() {
        for good in ["65000:1", "65535:4294967295", "65536:65535", "*:4294967295", "10.0.0.1:65535"]
        {
            assert!(route_target_problems(good).is_empty(), "{good}");
        }
        for (bad, start) in [
            ("65000", "RT must contain"),
            ("1:2:3", "RT must contain"),
            ("x:1", "RT global"),
            ("1:x", "RT local"),
            (":1", "RT global"),
            ("*:4294967296", "RT with wildcard"),
            ("10.0.0.1:65536", "RT with IPv4"),
            ("65536:65536", "RT with 4-byte"),
            ("4294967296:1", "RT with 4-byte"),
            ("1:99999999999999999999999", "RT with 2-byte"),
        ] {
            let problems = route_target_problems(bad);
            assert_eq!(problems.len(), 1, "{bad}");
            assert!(problems[0].starts_with(start), "{bad}: {}", problems[0]);
        }
        assert_eq!(route_target_problems("x:y").len(), 2);
    }
}
