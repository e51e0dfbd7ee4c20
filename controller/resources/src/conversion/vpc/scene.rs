//! The scene of all VPCs, from the objects of an inventory.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use patchbay_model::FieldProblem;
use patchbay_model::vpc::{
    DEFAULT_EXTERNAL_SUBNET, DEFAULT_VPC, Eip, EipKind, ExternalSubnets, Peering, PolicyRoute,
    StaticRoute, Vpc, VpcObjects, VpcPort, VpcScene, VpcVlan,
};

use super::ports::port_requests;
use super::{balancers, expression, groups, ip_pools, node, rules, subnet, virtual_ips};
use crate::manifests::Inventory;
use crate::object::Object as _;
use crate::object::kube_ovn::{self, IP, OvnEip, Vlan};

/// Provider network of VLANs that name none.
const DEFAULT_PROVIDER_NETWORK: &str = "provider";

/// Reads the addresses of external addresses, ports and virtual addresses again, after they were
/// allocated. Verdicts about subnets do not follow from them.
pub fn read_addresses(scene: &mut VpcScene, inventory: &Inventory) {
    scene.objects.eips = eips(inventory);
    scene.objects.ports = ports(inventory);
    scene.objects.virtual_ips = virtual_ips::virtual_ips(inventory);
}

fn eips(inventory: &Inventory) -> BTreeMap<Arc<str>, Eip> {
    let eips = inventory.ovn_eips.iter();
    eips.map(|(key, object)| (Arc::from(&*key.name), eip(&object.object))).collect()
}

fn ports(inventory: &Inventory) -> BTreeMap<Arc<str>, VpcPort> {
    let records = inventory.ips.iter();
    records
        .filter_map(|(key, object)| Some((Arc::from(&*key.name), port(&object.object)?)))
        .collect()
}

/// Objects of all VPCs. Those that are being deleted are left out.
pub fn vpc_scene(inventory: &Inventory) -> VpcScene {
    let custom = inventory.vpcs.iter().filter(|(key, _)| key.name != DEFAULT_VPC);
    let subnets = inventory.subnets.iter();
    let nodes = subnet::node_ranges(inventory);
    VpcScene::new(VpcObjects {
        vpcs: custom.map(|(key, object)| (Arc::from(&*key.name), vpc(&object.object))).collect(),
        subnets: subnets
            .map(|(key, object)| {
                let subnet = subnet::subnet(&object.object, object.position, &nodes);
                (Arc::from(&*key.name), subnet)
            })
            .collect(),
        vlans: vlans(inventory),
        eips: eips(inventory),
        nats: rules::nat_rules(inventory),
        balancers: balancers::balancers(inventory),
        groups: groups::groups(inventory),
        ip_pools: ip_pools::ip_pools(inventory),
        virtual_ips: virtual_ips::virtual_ips(inventory),
        ports: ports(inventory),
        requests: port_requests(inventory),
        nodes: inventory.nodes.iter().map(|(_, object)| node::vpc_node(&object.object)).collect(),
    })
}

/// A VPC. Entries that cannot be used are its problems; the rest is used.
pub fn vpc(object: &kube_ovn::Vpc) -> Vpc {
    let spec = &object.spec;
    let mut problems = Vec::new();
    let mut keep = |problem| problems.push(problem);
    let mut routes: Vec<StaticRoute> = Vec::new();
    for (index, route) in spec.static_routes.iter().enumerate() {
        let field = format!("spec.staticRoutes[{index}]");
        let place = (&*route.policy, &*route.route_table);
        match StaticRoute::read(&field, place, &route.cidr, &route.next_hop_ip) {
            Ok(read) if routes.contains(&read) => {}
            Ok(read) => routes.push(read),
            Err(problem) => keep(problem),
        }
        for (name, text) in [("bfdId", &route.bfd_id), ("ecmpMode", &route.ecmp_mode)] {
            if !text.is_empty() {
                let reason = "has no effect: BFD sessions are not supported";
                keep(FieldProblem::of_text(format!("{field}.{name}"), text, reason));
            }
        }
    }
    let mut policies: Vec<PolicyRoute> = Vec::new();
    for (index, policy) in spec.policy_routes.iter().enumerate() {
        let field = format!("spec.policyRoutes[{index}]");
        let what = (&*policy.match_, &*policy.action);
        let read = PolicyRoute::read(&field, policy.priority, what, &policy.next_hop_ip);
        match read.and_then(|read| {
            expression::check(&format!("{field}.match"), &read.expression)?;
            Ok(read)
        }) {
            Ok(read) => {
                let key = |policy: &PolicyRoute| (policy.priority, policy.expression.clone());
                let first = policies.iter().position(|other| key(other) == key(&read));
                match first {
                    Some(first) if policies[first] != read => {
                        let reason = "another policy has this priority and match";
                        keep(FieldProblem::new(field, reason));
                    }
                    Some(_) => {}
                    None => policies.push(read),
                }
            }
            Err(problem) => keep(problem),
        }
    }
    let mut peerings: Vec<Peering> = Vec::new();
    for (index, peering) in spec.vpc_peerings.iter().enumerate() {
        let field = format!("spec.vpcPeerings[{index}]");
        match Peering::read(&field, &peering.remote_vpc, &peering.local_connect_ip) {
            Ok(read) if peerings.iter().any(|other| other.remote == read.remote) => {
                let reason = "another peering has this remoteVpc";
                keep(FieldProblem::new(field, reason));
            }
            Ok(read) => peerings.push(read),
            Err(problem) => keep(problem),
        }
    }
    let external = match &spec.extra_external_subnets {
        _ if !spec.enable_external => ExternalSubnets::None,
        None => ExternalSubnets::Default,
        Some(listed) => {
            let listed = listed.iter().filter(|name| !name.is_empty());
            ExternalSubnets::Listed(listed.map(|name| Arc::from(&**name)).collect())
        }
    };
    Vpc {
        name: object.name_any().into(),
        namespaces: spec.namespaces.clone(),
        routes,
        policies,
        peerings,
        external,
        problems,
    }
}

/// VLANs. Of several with one provider network and id, the first object has the id.
fn vlans(inventory: &Inventory) -> BTreeMap<Arc<str>, VpcVlan> {
    let mut found = BTreeMap::new();
    let mut used: BTreeMap<(Arc<str>, i64), String> = BTreeMap::new();
    for (key, object) in inventory.vlans.in_order() {
        let Vlan { spec, .. } = &object.object;
        let provider: Arc<str> = Some(&*spec.provider)
            .filter(|provider| !provider.is_empty())
            .unwrap_or(DEFAULT_PROVIDER_NETWORK)
            .into();
        let place = (provider.clone(), spec.id);
        let other = used.get(&place).filter(|_| spec.id != 0);
        let problem = if inventory.provider_networks.named(&provider).is_none() {
            Some(format!("there is no ProviderNetwork {provider}"))
        } else {
            other.map(|other| format!("Vlan {other} has id {} of {provider}, too", spec.id))
        };
        used.entry(place).or_insert_with(|| key.name.clone());
        let vlan = VpcVlan { provider, id: spec.id, problem };
        found.insert(Arc::from(&*key.name), vlan);
    }
    found
}

fn eip(object: &OvnEip) -> Eip {
    let spec = &object.spec;
    let status = object.status.as_ref();
    let mut problem = None;
    let mut wish = |field: &str, text: &str, is_ipv6: bool| {
        if text.is_empty() {
            return None;
        }
        let address = text.parse::<IpAddr>().ok();
        let address = address.filter(|address| address.is_ipv6() == is_ipv6);
        if address.is_none() {
            let family = if is_ipv6 { "IPv6" } else { "IPv4" };
            let reason = format!("is not an {family} address");
            problem = Some(FieldProblem::of_text(field, text, &reason));
        }
        address
    };
    let wishes = [wish("spec.v4Ip", &spec.v4_ip, false), wish("spec.v6Ip", &spec.v6_ip, true)];
    let kind = EipKind::parse(&spec.type_);
    if kind.is_none() {
        let reason = "is none of lrp, nat and lsp";
        problem = Some(FieldProblem::of_text("spec.type", &spec.type_, reason));
    }
    let allocated = status.into_iter().flat_map(|status| [&status.v4_ip, &status.v6_ip]);
    let mac = status.map(|status| &status.mac_address);
    let mac = mac.filter(|mac| !mac.is_empty()).unwrap_or(&spec.mac_address);
    let subnet = Some(&*spec.external_subnet).filter(|subnet| !subnet.is_empty());
    Eip {
        name: object.name_any().into(),
        subnet: subnet.unwrap_or(DEFAULT_EXTERNAL_SUBNET).into(),
        kind: kind.unwrap_or(EipKind::Nat),
        wishes: wishes.into_iter().flatten().collect(),
        mac: Some(mac.clone()).filter(|mac| !mac.is_empty()),
        addresses: allocated.filter_map(|text| text.parse().ok()).collect(),
        problem,
    }
}

/// The record of a port. `None`: it has no address, or names no subnet.
fn port(object: &IP) -> Option<VpcPort> {
    let spec = &object.spec;
    let texts = [&spec.v4_ip_address, &spec.v6_ip_address];
    let addresses: Vec<IpAddr> = texts.iter().filter_map(|text| text.parse().ok()).collect();
    let is_allocated = !spec.mac_address.is_empty();
    (is_allocated && !spec.subnet.is_empty()).then(|| VpcPort {
        subnet: spec.subnet.as_str().into(),
        addresses,
        mac: spec.mac_address.as_str().into(),
    })
}
