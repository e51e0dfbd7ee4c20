//! Rules C and F: chart values and ranges of the cluster.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_resources::manifests::ObjectKey;
use serde_json::Value;

use crate::cluster::{Cluster, interfaces, name_of, objects};
use crate::ranges::{nets_overlap, read_net, read_nets};
use crate::report::{Draft, Report, reference};
use crate::values::{FlannelValues, KubeOvnValues};

use super::metallb::node_networks;

/// Name of the subnet of the nodes' own ports.
const JOIN_SUBNET: &str = "join";
/// Namespace and name of Flannel's `ConfigMap`, and its key.
const FLANNEL_CONFIG: (&str, &str, &str) = ("kube-flannel", "kube-flannel-cfg", "net-conf.json");

/// Values of Kube-OVN, if it is enabled.
fn kube_ovn<'a>(cluster: &Cluster<'a>) -> Option<&'a KubeOvnValues> {
    let values = cluster.facts.values.as_ref()?.kube_ovn.as_ref()?;
    values.enabled.then_some(values)
}

/// Values of Flannel, if it is enabled.
fn flannel<'a>(cluster: &Cluster<'a>) -> Option<&'a FlannelValues> {
    let values = cluster.facts.values.as_ref()?.flannel.as_ref()?;
    values.enabled.then_some(values)
}

/// A finding about chart values.
fn values<'r>(report: &'r mut Report, field: &str) -> Draft<'r> {
    report.about_text("values").field(format!("network.{field}"))
}

pub(super) fn required_values(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(kube_ovn) = kube_ovn(cluster) else {
        return;
    };
    if kube_ovn.tunnel_interface.is_empty() {
        values(report, "kubeOvn.tunnelInterface").found(
            "The value tunnelInterface is required; it has no default.",
            "Set it to the NIC of each node that carries traffic between nodes.",
        );
    }
    let multus = cluster.facts.values.as_ref().and_then(|values| values.multus.as_ref());
    if flannel(cluster).is_some() && multus.is_some_and(|multus| !multus.enabled) {
        values(report, "multus.enabled").found(
            "Multus is required, because Kube-OVN is secondary to Flannel.",
            "Set network.multus.enabled: true.",
        );
    }
}

pub(super) fn other_service_range(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(kube_ovn) = kube_ovn(cluster) else {
        return;
    };
    let ranges = cluster.service_ranges();
    let own = read_nets(&kube_ovn.svc_cidr);
    let differs = own.iter().any(|net| !ranges.contains(net));
    if !ranges.is_empty() && differs {
        let ranges: Vec<String> = ranges.iter().map(ToString::to_string).collect();
        let ranges = ranges.join(",");
        values(report, "kubeOvn.svcCidr").found(
            format!("svcCidr is {}, the range of the API server is {ranges}.", kube_ovn.svc_cidr),
            format!("Set svcCidr: {ranges}."),
        );
    }
}

pub(super) fn other_join_range(cluster: &Cluster<'_>, report: &mut Report) {
    let (Some(kube_ovn), Some(join)) = (kube_ovn(cluster), cluster.subnet(JOIN_SUBNET)) else {
        return;
    };
    let own = read_nets(&kube_ovn.join_cidr);
    if !own.is_empty() && !join.cidrs.is_empty() && own.iter().any(|net| !join.cidrs.contains(net))
    {
        let is = &join.spec.cidr_block;
        values(report, "kubeOvn.joinCidr").other(join.sourced).found(
            format!(
                "joinCidr is {}, but nodes are on {is}; after the next start the default route has no path, and \
                 pods lose their nodes.",
                kube_ovn.join_cidr
            ),
            format!("Set joinCidr: {is}."),
        );
    }
}

/// A range with its name, and the path of its chart value.
struct Named {
    net: IpNet,
    name: String,
    field: Option<&'static str>,
    /// Ranges of one group are compared by other rules.
    group: Option<&'static str>,
}

pub(super) fn overlapping_ranges(cluster: &Cluster<'_>, report: &mut Report) {
    let mut ranges = Vec::new();
    let mut add = |text: &str, name: &str, field, group| {
        let nets = read_nets(text).into_iter();
        ranges.extend(nets.map(|net| Named { net, name: format!("{name} {net}"), field, group }));
    };
    if let Some(flannel) = flannel(cluster) {
        add(&flannel.pod_cidr, "flannel.podCidr", Some("flannel.podCidr"), None);
    }
    if let Some(kube_ovn) = kube_ovn(cluster) {
        add(&kube_ovn.pod_cidr, "kubeOvn.podCidr", Some("kubeOvn.podCidr"), None);
        add(&kube_ovn.svc_cidr, "svcCidr", Some("kubeOvn.svcCidr"), Some("services"));
        add(&kube_ovn.join_cidr, "joinCidr", Some("kubeOvn.joinCidr"), None);
    }
    for range in cluster.service_ranges() {
        add(&range.to_string(), "the API server's range", None, Some("services"));
    }
    for subnet in cluster.external_subnets() {
        let name = reference(subnet.sourced);
        add(&subnet.spec.cidr_block, &name, None, Some("subnets"));
    }
    for node in &cluster.nodes {
        for address in &node.node.addresses {
            add(&address.to_string(), &reference(node.sourced), None, Some("nodes"));
        }
    }
    for (place, one) in ranges.iter().enumerate() {
        for other in &ranges[..place] {
            let is_same_group = one.group.is_some() && one.group == other.group;
            if is_same_group || !nets_overlap(&one.net, &other.net) {
                continue;
            }
            let draft = report.about_text("values");
            let draft = match other.field.or(one.field) {
                Some(field) => draft.field(format!("network.{field}")),
                None => draft,
            };
            draft.found(
                format!("{} overlaps {}.", other.name, one.name),
                "Use ranges without common addresses.",
            );
        }
    }
}

pub(super) fn subnet_in_service_range(cluster: &Cluster<'_>, report: &mut Report) {
    let mut ranges = cluster.service_ranges();
    ranges.extend(kube_ovn(cluster).into_iter().flat_map(|values| read_nets(&values.svc_cidr)));
    for vpc in cluster.custom_vpcs() {
        for subnet in cluster.overlays_of(vpc) {
            let mut pairs = subnet
                .cidrs
                .iter()
                .flat_map(|net| ranges.iter().map(move |range| (net, range)))
                .filter(|(net, range)| nets_overlap(net, range));
            if let Some((net, range)) = pairs.next() {
                let message = format!(
                    "{} {net} lies in the service range {range}: machines of {} cannot be told from services.",
                    subnet.name, vpc.name
                );
                let draft = report.about(subnet.sourced).field("spec.cidrBlock");
                draft.found(message, "Use a range outside of the service range.");
            }
        }
    }
}

pub(super) fn unfit_values(cluster: &Cluster<'_>, report: &mut Report) {
    let Some(kube_ovn) = kube_ovn(cluster) else {
        return;
    };
    let pods = read_nets(&kube_ovn.pod_cidr);
    let gateways = kube_ovn.pod_gateway.split(',').map(str::trim);
    for gateway in gateways.filter(|text| !text.is_empty() && !pods.is_empty()) {
        let address: Option<IpAddr> = gateway.parse().ok();
        let is_inside = |address: IpAddr| pods.iter().any(|net| net.contains(&address));
        if !address.is_some_and(is_inside) {
            values(report, "kubeOvn.podGateway").found(
                format!("{gateway} does not fit {}.", kube_ovn.pod_cidr),
                "Use an address of podCidr.",
            );
        }
    }
    // One address of each node, beside network, gateway and broadcast.
    let needed = cluster.nodes.len() + 3;
    for net in read_nets(&kube_ovn.join_cidr) {
        let bits = u32::from(net.max_prefix_len() - net.prefix_len());
        if bits < usize::BITS && (1 << bits) < needed {
            values(report, "kubeOvn.joinCidr").found(
                format!("{} nodes do not fit {net}.", cluster.nodes.len()),
                "Use a larger range for joinCidr.",
            );
        }
    }
}

pub(super) fn tunnel_on_provider_nic(cluster: &Cluster<'_>, report: &mut Report) {
    let default = kube_ovn(cluster).map(|values| &*values.tunnel_interface);
    for network in objects(&cluster.inventory.provider_networks) {
        let spec = &network.object.spec;
        if spec.exchange_link_name {
            continue;
        }
        let name = name_of(network);
        let message = |nic: &str| {
            format!(
                "{nic} becomes a port of br-{name}; tunnels lose it on nodes without exchangeLinkName."
            )
        };
        let repair = "Use another NIC for tunnels, or exchangeLinkName: true.";
        let is_nic = |wanted: &str| interfaces(spec).any(|(_, nic)| nic == wanted);
        if let Some(nic) = default.filter(|nic| is_nic(nic)) {
            let draft = values(report, "kubeOvn.tunnelInterface").other(network);
            draft.found(message(nic), repair);
        }
        for node in &cluster.nodes {
            let own = node.node.tunnel_interface.as_deref();
            if let Some(nic) = own.filter(|nic| is_nic(nic)) {
                let draft = report.about(node.sourced).other(network);
                draft.field("metadata.annotations").found(message(nic), repair);
            }
        }
    }
}

pub(super) fn vxlan(cluster: &Cluster<'_>, report: &mut Report) {
    if kube_ovn(cluster).is_some_and(|values| values.tunnel_type == "vxlan") {
        values(report, "kubeOvn.tunnelType").found(
            "With vxlan OVN has 4,096 networks and 2,048 ports each, and ACLs cannot see the ingress port; \
             tunnel keys above that are refused.",
            "Use tunnelType: geneve.",
        );
    }
}

pub(super) fn missing_nic(cluster: &Cluster<'_>, report: &mut Report) {
    let default = kube_ovn(cluster).map(|values| &*values.tunnel_interface);
    for node in &cluster.nodes {
        let Some(nics) = cluster.facts.node_interfaces.get(&*node.node.name) else {
            continue;
        };
        let wanted = node
            .node
            .tunnel_interface
            .as_deref()
            .or(default)
            .filter(|nic| !nic.is_empty() && !nics.iter().any(|one| one == nic));
        if let Some(nic) = wanted {
            let message =
                format!("Node {} has no {nic}, the interface of tunnels.", node.node.name);
            report.about(node.sourced).found(
                message,
                "Create the interface, or name another one in the annotation ovn.kubernetes.io/tunnel_interface.",
            );
        }
    }
}

pub(super) fn two_primary_networks(cluster: &Cluster<'_>, report: &mut Report) {
    if let (Some(_), Some(kube_ovn), Some(false)) =
        (flannel(cluster), kube_ovn(cluster), cluster.flags.is_secondary)
    {
        values(report, "flannel.enabled").found(
            format!(
                "Kube-OVN allocates an address of {} for every pod that Flannel wires; which CNI wins depends on \
                 file names.",
                kube_ovn.pod_cidr
            ),
            "Run Kube-OVN with --non-primary-cni-mode=true, or disable Flannel.",
        );
    }
}

pub(super) fn host_gateways(cluster: &Cluster<'_>, report: &mut Report) {
    if flannel(cluster).is_none_or(|flannel| flannel.backend != "host-gw") {
        return;
    }
    let networks = node_networks(cluster);
    for is_ipv4 in [true, false] {
        let mut nets = networks.iter().filter(|net| net.addr().is_ipv4() == is_ipv4);
        if let (Some(one), Some(other)) = (nets.next(), nets.next()) {
            values(report, "flannel.backend").found(
                format!(
                    "host-gw needs all nodes in one layer 2 network; {one} and {other} are not."
                ),
                "Use the backend vxlan.",
            );
        }
    }
}

pub(super) fn other_flannel_network(cluster: &Cluster<'_>, report: &mut Report) {
    let (namespace, name, entry) = FLANNEL_CONFIG;
    let config = cluster.inventory.config_maps.get(&ObjectKey::namespaced(namespace, name));
    let (Some(flannel), Some(config)) = (flannel(cluster), config) else {
        return;
    };
    let text = config.object.data.as_ref().and_then(|data| data.get(entry));
    let json: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    let (Some(network), Some(wanted)) =
        (json.as_ref().and_then(|json| json.get("Network")?.as_str()), read_net(&flannel.pod_cidr))
    else {
        return;
    };
    if read_net(network) != Some(wanted) {
        let message =
            format!("Flannel's Network is {network}, network.flannel.podCidr is {wanted}.");
        let draft = report.about(config).field("data[net-conf.json]");
        draft.found(message, "Use one range, that of kube-controller-manager's cluster CIDR.");
    }
}
