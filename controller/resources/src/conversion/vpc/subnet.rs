//! Subnets, from their objects.

use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net};
use patchbay_model::vpc::{
    AddressRange, DEFAULT_VPC, DhcpOptions, SubnetAcl, SubnetDhcp, SubnetNet, SubnetProvider,
    VpcSubnet,
};
use patchbay_model::{FieldProblem, IpFamily};

use super::expression;
use crate::manifests::Inventory;
use crate::object::Object as _;
use crate::object::kube_ovn::{Subnet, SubnetSpec};

/// Subnet of the nodes in the default VPC, as Kube-OVN names it.
const NODE_SUBNET: &str = "join";
/// MTU of Ethernet.
const ETHERNET_MTU: i64 = 1500;
/// Bytes that Geneve adds to a frame, as Kube-OVN counts them.
const TUNNEL_HEADER_BYTES: i64 = 100;
/// Least MTU of IPv4 (RFC 791).
const MIN_MTU_V4: i64 = 68;
/// Least MTU of IPv6 (RFC 8200).
const MIN_MTU_V6: i64 = 1280;
/// Limit of the option `mtu`.
const MAX_MTU: i64 = u16::MAX as i64;
/// Range of the nodes without an object of the subnet: Kube-OVN's default.
const DEFAULT_NODE_RANGE: IpNet =
    IpNet::V4(Ipv4Net::new_assert(std::net::Ipv4Addr::new(100, 64, 0, 0), 16));

/// Ranges of the nodes' addresses in OVN.
pub(super) fn node_ranges(inventory: &Inventory) -> Vec<IpNet> {
    let object = inventory.subnets.named(NODE_SUBNET);
    let nets = object.map(|object| SubnetNet::read(&object.spec.cidr_block, ""));
    match nets {
        Some(Ok(nets)) if !nets.is_empty() => nets.iter().map(|net| net.net).collect(),
        _ => vec![DEFAULT_NODE_RANGE],
    }
}

/// A subnet. Entries of ACLs that cannot be used are its problems; the rest is used. `nodes`: ranges
/// of the nodes' addresses in OVN.
pub(super) fn subnet(
    object: &Subnet,
    position: u64,
    nodes: &[IpNet],
) -> Result<VpcSubnet, FieldProblem> {
    let spec = &object.spec;
    let provider = SubnetProvider::parse(&spec.provider);
    let nets = SubnetNet::read(&spec.cidr_block, &spec.gateway)?;
    if nets.is_empty() && spec.vlan.is_empty() {
        let reason = "a range is required without spec.vlan";
        return Err(FieldProblem::new("spec.cidrBlock", reason));
    }
    let excluded = spec.exclude_ips.iter().enumerate().map(|(index, text)| {
        let reason = "is neither an address nor a range a..b";
        let field = format!("spec.excludeIps[{index}]");
        AddressRange::parse(text).ok_or_else(|| FieldProblem::of_text(field, text, reason))
    });
    let name = object.name_any();
    let vpc = Some(&*spec.vpc).filter(|vpc| !vpc.is_empty());
    let mut problems = Vec::new();
    let virtual_ips = virtual_ips(spec, &nets, &mut problems);
    let excluded: Result<Vec<_>, _> = excluded.collect();
    let reserved = virtual_ips.iter().map(|ip| AddressRange::of(*ip));
    Ok(VpcSubnet {
        vpc: vpc.unwrap_or(DEFAULT_VPC).into(),
        name: name.as_str().into(),
        provider,
        vlan: Some(&*spec.vlan).filter(|vlan| !vlan.is_empty()).map(Into::into),
        excluded: excluded?.into_iter().chain(reserved).collect(),
        virtual_ips,
        namespaces: spec.namespaces.clone(),
        has_logical_gateway: spec.logical_gateway,
        has_load_balancers: spec.enable_lb.unwrap_or(true),
        route_table: spec.route_table.clone(),
        is_private: spec.private,
        acls: acls(spec, &nets, nodes, &mut problems),
        dhcp: dhcp(spec, &mut problems),
        advertised: advertised(spec, &nets, &mut problems),
        mtu: mtu(spec, &nets, &mut problems),
        nets,
        problems,
        position,
    })
}

/// Virtual addresses of a subnet, each of which is in one of its ranges.
fn virtual_ips(
    spec: &SubnetSpec,
    nets: &[SubnetNet],
    problems: &mut Vec<FieldProblem>,
) -> Vec<IpAddr> {
    let mut found = Vec::new();
    for (index, text) in spec.vips.iter().enumerate() {
        let inside =
            |ip: &IpAddr| nets.iter().any(|net| net.net.contains(ip) && net.gateway != *ip);
        match text.trim().parse::<IpAddr>().ok().filter(inside) {
            Some(ip) if !found.contains(&ip) => found.push(ip),
            Some(_) => {}
            None => {
                let field = format!("spec.vips[{index}]");
                let reason = "is no address of machines of the subnet";
                problems.push(FieldProblem::of_text(&field, text, reason));
            }
        }
    }
    found
}

/// ACLs of a subnet. Those of a private one come before the listed ones.
fn acls(
    spec: &SubnetSpec,
    nets: &[SubnetNet],
    nodes: &[IpNet],
    problems: &mut Vec<FieldProblem>,
) -> Vec<SubnetAcl> {
    let mut acls = Vec::new();
    if spec.private {
        let allowed = allowed_ranges(spec, problems);
        acls.extend(SubnetAcl::of_private(nets, &allowed, nodes));
    }
    if spec.allow_ew_traffic && !spec.acls.is_empty() {
        acls.extend(SubnetAcl::of_own_traffic(nets));
    }
    for (index, entry) in spec.acls.iter().enumerate() {
        let field = format!("spec.acls[{index}]");
        let place = (&*entry.direction, entry.priority);
        let read = SubnetAcl::read(&field, place, &entry.match_, &entry.action).and_then(|acl| {
            expression::check(&format!("{field}.match"), &acl.expression)?;
            Ok(acl)
        });
        match read {
            Ok(acl) => match acls.iter().find(|other| other.is_same_row(&acl)) {
                Some(other) if other.verdict != acl.verdict => {
                    let reason = "another ACL has this direction, priority and match";
                    problems.push(FieldProblem::new(field, reason));
                }
                Some(_) => {}
                None => acls.push(acl),
            },
            Err(problem) => problems.push(problem),
        }
    }
    acls
}

fn dhcp(spec: &SubnetSpec, problems: &mut Vec<FieldProblem>) -> Option<SubnetDhcp> {
    spec.enable_dhcp.then(|| {
        let (v4, v6) = (&spec.dhcp_v4_options, &spec.dhcp_v6_options);
        SubnetDhcp {
            v4: DhcpOptions::read("spec.dhcpV4Options", v4, IpFamily::V4, problems),
            v6: DhcpOptions::read("spec.dhcpV6Options", v6, IpFamily::V6, problems),
        }
    })
}

fn advertised(
    spec: &SubnetSpec,
    nets: &[SubnetNet],
    problems: &mut Vec<FieldProblem>,
) -> Option<DhcpOptions> {
    if !spec.enable_ipv6_ra {
        return None;
    }
    if !nets.iter().any(|net| net.net.addr().is_ipv6()) {
        let reason = "has no effect: spec.cidrBlock has no range of IPv6";
        problems.push(FieldProblem::new("spec.enableIPv6RA", reason));
        return None;
    }
    let text = &spec.ipv6_ra_configs;
    Some(DhcpOptions::read_advertised("spec.ipv6RAConfigs", text, problems))
}

/// MTU of machines. That of a subnet without one is the usual one of Ethernet, without the headers of
/// tunnels.
fn mtu(spec: &SubnetSpec, nets: &[SubnetNet], problems: &mut Vec<FieldProblem>) -> i64 {
    let default =
        if spec.vlan.is_empty() { ETHERNET_MTU - TUNNEL_HEADER_BYTES } else { ETHERNET_MTU };
    let has_ipv6 = nets.iter().any(|net| net.net.addr().is_ipv6());
    let least = if has_ipv6 { MIN_MTU_V6 } else { MIN_MTU_V4 };
    match spec.mtu {
        None | Some(0) => default,
        Some(mtu) if (least..=MAX_MTU).contains(&mtu) => mtu,
        Some(mtu) => {
            let reason = format!("{mtu} is not in {least}..={MAX_MTU}");
            problems.push(FieldProblem::new("spec.mtu", reason));
            default
        }
    }
}

/// Ranges of the field `allowSubnets`. An address is a range of one.
fn allowed_ranges(spec: &SubnetSpec, problems: &mut Vec<FieldProblem>) -> Vec<IpNet> {
    let mut ranges: Vec<IpNet> = Vec::new();
    for (index, text) in spec.allow_subnets.iter().enumerate() {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        let address = text.parse().ok().map(|address: std::net::IpAddr| IpNet::from(address));
        match address.or_else(|| Some(text.parse::<IpNet>().ok()?.trunc())) {
            Some(range) if ranges.contains(&range) => {}
            Some(range) => ranges.push(range),
            None => {
                let field = format!("spec.allowSubnets[{index}]");
                let reason = "is neither a range nor an address";
                problems.push(FieldProblem::of_text(field, text, reason));
            }
        }
    }
    ranges
}
