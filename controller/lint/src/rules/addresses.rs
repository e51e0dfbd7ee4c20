//! Rules N about addresses of machines.

use std::collections::BTreeMap;
use std::net::IpAddr;

use patchbay_resources::manifests::{InventoryKind, Sourced};

use crate::cluster::{Cluster, SubnetView, name_of, objects};
use crate::pods::{PodView, PortView};
use crate::ranges::{Range, is_ipv4, read_addresses, unusable};
use crate::report::{Report, reference};

pub(super) fn wrong_family(cluster: &Cluster<'_>, report: &mut Report) {
    for pod in &cluster.pods {
        for port in &pod.ports {
            let Some((key, family)) = port.annotation(&pod.sourced.object, "ip_family") else {
                continue;
            };
            let Some(reason) = family_problem(cluster, pod, port, family) else {
                continue;
            };
            let message =
                format!("Pod {}/{}: {reason}; it gets no address.", pod.namespace, pod.name);
            let draft = report.about(pod.sourced).field(format!("metadata.annotations[{key}]"));
            draft.found(message, "Use ipv4 or ipv6, a family of the subnet.");
        }
    }
}

/// Reason why a port cannot have one family.
fn family_problem(
    cluster: &Cluster<'_>,
    pod: &PodView<'_>,
    port: &PortView,
    family: &str,
) -> Option<String> {
    let wants_ipv4 = match family {
        "ipv4" => true,
        "ipv6" => false,
        other => {
            return Some(format!("ip_family {other} is not ipv4 or ipv6 in lower case"));
        }
    };
    let subnet = port.subnet(cluster)?;
    if !subnet.cidrs.iter().any(|net| net.addr().is_ipv4() == wants_ipv4) {
        return Some(format!("subnet {} has no {family}", subnet.name));
    }
    let (_, wished) = port.annotation(&pod.sourced.object, "ip_address")?;
    let mut wished = read_addresses(wished).into_iter();
    let other = wished.find(|address| is_ipv4(address) != wants_ipv4)?;
    Some(format!("the static address {other} is not of {family}"))
}

/// Wished addresses so far: object, and the pod that it is for.
#[derive(Default)]
struct Wishes<'a>(BTreeMap<(&'a str, IpAddr), (String, String)>);

impl<'a> Wishes<'a> {
    /// Records a wish. Returns the object of an earlier wish for another machine.
    fn add(
        &mut self,
        subnet: &SubnetView<'a>,
        address: IpAddr,
        object: String,
        machine: &str,
    ) -> Option<String> {
        let wish = self.0.entry((subnet.name, address));
        let (first, owner) = wish.or_insert_with(|| (object, machine.to_owned()));
        (owner != machine).then(|| first.clone())
    }
}

pub(super) fn unusable_wish(cluster: &Cluster<'_>, report: &mut Report) {
    let mut wishes = Wishes::default();
    for pod in &cluster.pods {
        let machine = format!("{}/{}", pod.namespace, pod.name);
        for port in &pod.ports {
            let object = &pod.sourced.object;
            let wish = port.annotation(object, "ip_address");
            let (Some((key, text)), Some(subnet)) = (wish, port.subnet(cluster)) else {
                continue;
            };
            let field = format!("metadata.annotations[{key}]");
            for address in read_addresses(text) {
                let other = wishes.add(subnet, address, reference(pod.sourced), &machine);
                check(pod.sourced, subnet, address, &field, other, report);
            }
        }
    }
    for ip in objects(&cluster.inventory.ips) {
        let spec = &ip.object.spec;
        let Some(subnet) = cluster.subnet(&spec.subnet) else {
            continue;
        };
        let machine = format!("{}/{}", spec.namespace, spec.pod_name);
        let fields =
            [("spec.v4IpAddress", &spec.v4_ip_address), ("spec.v6IpAddress", &spec.v6_ip_address)];
        for (field, text) in fields {
            for address in read_addresses(text) {
                let other = wishes.add(subnet, address, reference(ip), &machine);
                check(ip, subnet, address, field, other, report);
            }
        }
    }
    for pool in objects(&cluster.inventory.ip_pools) {
        let spec = &pool.object.spec;
        let Some(subnet) = cluster.subnet(&spec.subnet) else {
            continue;
        };
        for (index, text) in spec.ips.iter().enumerate() {
            let Some(range) = Range::parse(text, "..") else {
                continue;
            };
            let field = format!("spec.ips[{index}]");
            check(pool, subnet, range.first, &field, None, report);
            if range.first != range.last && !contains(subnet, range.last) {
                check(pool, subnet, range.last, &field, None, report);
            }
        }
    }
}

fn contains(subnet: &SubnetView<'_>, address: IpAddr) -> bool {
    subnet.cidrs.iter().any(|net| net.contains(&address))
}

/// Reports an address that cannot be had. `other`: object that wants it, too.
fn check<T: InventoryKind>(
    object: &Sourced<T>,
    subnet: &SubnetView<'_>,
    address: IpAddr,
    field: &str,
    other: Option<String>,
    report: &mut Report,
) {
    let mut nets = subnet.cidrs.iter();
    let net = nets.find(|net| is_ipv4(&net.addr()) == is_ipv4(&address));
    let reason = match (net, other) {
        _ if subnet.cidrs.is_empty() => return,
        (None, _) => "the subnet has no addresses of the family".to_owned(),
        (Some(net), other) => match (unusable(&address, net, &subnet.gateways), other) {
            (Some(reason), _) => reason.to_owned(),
            (None, Some(other)) => format!("{other} wants it, too"),
            (None, None) => return,
        },
    };
    let message = format!(
        "{} {}: {address} cannot be used in {}: {reason}.",
        T::KIND,
        name_of(object),
        subnet.name
    );
    let draft = report.about(object).other(subnet.sourced).field(field);
    draft.found(message, "Use a free address of the subnet.");
}
