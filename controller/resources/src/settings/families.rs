//! IP families of a cluster, and where they come from.

use std::fmt;
use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_model::{CniConfig, IpFamily, Uplink, primary_interface};

use super::ClusterSettingsSpec;
use crate::conversion::network_service;
use crate::manifests::{Inventory, InventoryKind, describe};
use crate::nad::NetworkAttachmentDefinition;
use crate::object::{Node, Service};
use crate::udn::{
    ClusterUserDefinedNetwork, Layer2Config, Layer3Config, NetworkRole, UserDefinedNetwork,
};

/// Type of the addresses in a node's status that the cluster uses.
const INTERNAL_ADDRESS: &str = "InternalIP";

/// IP family of a cluster, with the reason.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ClusterFamily {
    /// The family.
    pub family: IpFamily,
    /// Range or address that shows the family, with its object.
    pub reason: String,
}

/// Family and reason: `IPv4 (range 10.244.0.0/16 of pods)`.
impl fmt::Display for ClusterFamily {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IP{} ({})", self.family, self.reason)
    }
}

/// Address or subnet that shows a family, and a text with its object.
type Evidence = (IpFamily, String);

impl ClusterSettingsSpec {
    /// IP families of a cluster with these objects, IPv4 first: those of the default network's
    /// pods, as in OVN-Kubernetes, or else of cluster IPs. Without such ranges they are those that
    /// the objects show: subnets of primary networks, addresses of nodes and of services. Both, if
    /// nothing shows a family.
    ///
    /// Secondary networks may have families that the cluster does not run, and so may the
    /// annotation `k8s.ovn.org/host-cidrs`.
    ///
    /// ```
    /// use patchbay_resources::manifests::read_manifests;
    /// use patchbay_resources::settings::ClusterSettingsSpec;
    ///
    /// let mut manifest = "{apiVersion: v1, kind: Service, metadata: {name: dns, namespace: \
    ///     kube-system}, spec: {clusterIP: 10.96.0.10}}".as_bytes();
    /// let objects = read_manifests(&["-".into()], &mut manifest).unwrap();
    /// let families = ClusterSettingsSpec::default().families(&objects);
    /// let expected = "IPv4 (address 10.96.0.10 of Service kube-system/dns)";
    /// assert_eq!(families[0].to_string(), expected);
    /// assert_eq!(families.len(), 1);
    /// ```
    pub fn families(&self, objects: &Inventory) -> Vec<ClusterFamily> {
        let ranges = |ranges: &[IpNet], of: &str| {
            let ranges = ranges.iter();
            let evidence: Vec<Evidence> = ranges
                .map(|range| (IpFamily::of_net(*range), format!("range {range} of {of}")))
                .collect();
            first_of_each(&mut evidence.into_iter())
        };
        let pods = ranges(&self.pod_cidrs, "pods");
        if !pods.is_empty() {
            return pods;
        }
        let services = ranges(&self.service_cidrs, "services");
        if !services.is_empty() {
            return services;
        }
        let shown = first_of_each(&mut evidence(objects));
        if !shown.is_empty() {
            return shown;
        }
        let families = IpFamily::BOTH.into_iter().map(|family| ClusterFamily {
            family,
            reason: "neither ranges nor objects show a family".to_owned(),
        });
        families.collect()
    }
}

/// The first evidence of each family, IPv4 first.
fn first_of_each(evidence: &mut dyn Iterator<Item = Evidence>) -> Vec<ClusterFamily> {
    let mut found: Vec<ClusterFamily> = Vec::new();
    for (family, reason) in evidence {
        if found.iter().all(|one| one.family != family) {
            found.push(ClusterFamily { family, reason });
        }
        if found.len() == IpFamily::BOTH.len() {
            break;
        }
    }
    found.sort_by_key(|one| one.family != IpFamily::V4);
    found
}

/// Families that objects show, networks first.
fn evidence(objects: &Inventory) -> impl Iterator<Item = Evidence> {
    let networks = of_kind(objects, |udn: &UserDefinedNetwork| {
        let spec = &udn.spec;
        primary_subnets(spec.layer3.as_ref(), spec.layer2.as_ref())
    });
    let cluster_networks = of_kind(objects, |cudn: &ClusterUserDefinedNetwork| {
        let network = &cudn.spec.network;
        primary_subnets(network.layer3.as_ref(), network.layer2.as_ref())
    });
    networks
        .chain(cluster_networks)
        .chain(of_kind(objects, definition_subnets))
        .chain(of_kind(objects, node_addresses))
        .chain(of_kind(objects, service_addresses))
}

/// Families of texts in the objects of a kind. Objects that break rules count as far as they can be
/// decoded, because their rows stay.
fn of_kind<'a, T: InventoryKind + 'a>(
    objects: &'a Inventory,
    texts: impl Fn(&T) -> Vec<String> + Copy + 'a,
) -> impl Iterator<Item = Evidence> + 'a {
    let evidence = move |object: &T| {
        let found = texts(object).into_iter().filter_map(|text| {
            let (kind, family) = family_of(&text)?;
            Some((family, format!("{kind} {text} of {}", describe(object))))
        });
        found.collect::<Vec<_>>()
    };
    let known = T::objects(objects)
        .in_order()
        .into_iter()
        .flat_map(move |(_, sourced)| evidence(&sourced.object));
    let missing =
        objects.missing(T::KIND).filter_map(|refused| Some(T::decode(&refused.json).ok()?.0));
    known.chain(missing.flat_map(move |object| evidence(&object)))
}

/// Kind of a text, `subnet` or `address`, and its family. `None`: the text is neither.
fn family_of(text: &str) -> Option<(&'static str, IpFamily)> {
    let (address, kind) = match text.split_once('/') {
        Some((address, _)) => (address, "subnet"),
        None => (text, "address"),
    };
    let address: IpAddr = address.parse().ok()?;
    Some((kind, IpFamily::of(address)))
}

/// Subnets of a network that may be the primary one of pods.
fn primary_subnets(layer3: Option<&Layer3Config>, layer2: Option<&Layer2Config>) -> Vec<String> {
    let layer3 = layer3
        .filter(|config| config.role == NetworkRole::Primary)
        .into_iter()
        .flat_map(|config| &config.subnets);
    let layer2 = layer2
        .filter(|config| config.role == NetworkRole::Primary)
        .into_iter()
        .flat_map(|config| &config.subnets);
    let subnets = layer3.map(|subnet| subnet.cidr.clone());
    subnets.chain(layer2.flatten().cloned()).collect()
}

/// Subnets of a primary network that an attachment definition defines by itself.
fn definition_subnets(nad: &NetworkAttachmentDefinition) -> Vec<String> {
    if nad.controlling_cudn().or(nad.controlling_udn()).is_some() {
        return Vec::new();
    }
    let text = nad.spec.config.as_deref().unwrap_or_default();
    let config = CniConfig::from_json(text).ok().flatten();
    let config = config.filter(|config| config.is_primary() && config.is_user_defined());
    let subnets = config.and_then(|config| config.subnets).unwrap_or_default();
    let subnets = subnets.split(',').map(str::trim).filter(|one| !one.is_empty());
    subnets.map(str::to_owned).collect()
}

/// Addresses of a node that the cluster uses.
fn node_addresses(node: &Node) -> Vec<String> {
    let annotations = node.metadata.annotations.as_ref();
    let uplink = Uplink::read(annotations).into_iter();
    let interface =
        uplink.flat_map(|uplink| uplink.addresses).chain(primary_interface(annotations));
    let status = node.status.as_ref();
    let addresses = status
        .and_then(|status| status.get("addresses")?.as_array())
        .into_iter()
        .flatten()
        .filter_map(|address| {
            let text = address.get("address")?.as_str()?;
            (address.get("type")?.as_str()? == INTERNAL_ADDRESS).then(|| text.to_owned())
        });
    let interface = interface.map(|address| address.addr().to_string());
    addresses.chain(interface).collect()
}

fn service_addresses(service: &Service) -> Vec<String> {
    let addresses = network_service(service).cluster_ips.into_iter();
    addresses.map(|address| address.to_string()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifests::read_manifests;

    /// Families that objects show, one object a line.
    fn families(lines: &[&str]) -> Vec<String> {
        let text = lines.join("\n---\n");
        let objects = read_manifests(&["-".into()], &mut text.as_bytes()).unwrap();
        let families = ClusterSettingsSpec::default().families(&objects);
        families.iter().map(ToString::to_string).collect()
    }

    /// A network of a namespace with a role and a subnet.
    fn udn(role: &str, subnet: &str) -> String {
        format!(
            "{{apiVersion: k8s.ovn.org/v1, kind: UserDefinedNetwork, metadata: {{name: net, \
             namespace: blue}}, spec: {{topology: Layer2, layer2: {{role: {role}, subnets: \
             ['{subnet}']}}}}}}"
        )
    }

    fn node(fields: &str) -> String {
        format!("{{apiVersion: v1, kind: Node, metadata: {{name: n1{fields}}}")
    }

    const NONE: [&str; 2] = [
        "IPv4 (neither ranges nor objects show a family)",
        "IPv6 (neither ranges nor objects show a family)",
    ];

    #[test]
    fn primary_networks_show_families() {
        let of_udn = "IPv4 (subnet 10.1.0.0/16 of UserDefinedNetwork blue/net)";
        assert_eq!(families(&[&udn("Primary", "10.1.0.0/16")]), [of_udn]);
        assert_eq!(families(&[&udn("Secondary", "10.1.0.0/16")]), NONE);
        let cudn = "{apiVersion: k8s.ovn.org/v1, kind: ClusterUserDefinedNetwork, metadata: {name: \
                    red}, spec: {namespaceSelector: {}, network: {topology: Layer3, layer3: {role: \
                    Primary, subnets: [{cidr: 'fd01::/48'}]}}}}";
        let of_cudn = "IPv6 (subnet fd01::/48 of ClusterUserDefinedNetwork red)";
        assert_eq!(families(&[cudn]), [of_cudn]);
        let both = families(&[cudn, &udn("Primary", "10.1.0.0/16")]);
        assert_eq!(both, [of_udn, of_cudn]);
    }

    #[test]
    fn definitions_of_primary_networks_show_families() {
        let definition = |role: &str| {
            format!(
                "{{apiVersion: k8s.cni.cncf.io/v1, kind: NetworkAttachmentDefinition, metadata: \
                 {{name: a, namespace: blue}}, spec: {{config: '{{\"name\":\"a\",\"type\":\
                 \"ovn-k8s-cni-overlay\",\"netAttachDefName\":\"blue/a\",\"topology\":\"layer3\",\
                 \"role\":\"{role}\",\"subnets\":\"fd02::/48/64\"}}'}}}}"
            )
        };
        let expected = ["IPv6 (subnet fd02::/48/64 of NetworkAttachmentDefinition blue/a)"];
        assert_eq!(families(&[&definition("primary")]), expected);
        assert_eq!(families(&[&definition("secondary")]), NONE);
    }

    #[test]
    fn nodes_and_services_show_families() {
        let status = node(
            "}, status: {addresses: [{type: Hostname, address: n1}, {type: InternalIP, address: \
             172.18.0.2}, {type: ExternalIP, address: 'fd00::9'}]}",
        );
        assert_eq!(families(&[&status]), ["IPv4 (address 172.18.0.2 of Node n1)"]);
        for annotation in [
            r#"k8s.ovn.org/node-primary-ifaddr: '{"ipv6":"fc00::2/64"}'"#,
            r#"k8s.ovn.org/l3-gateway-config: '{"default":{"ip-addresses":["fc00::2/64"]}}'"#,
        ] {
            let node = node(&format!(", annotations: {{{annotation}}}}}"));
            assert_eq!(families(&[&node]), ["IPv6 (address fc00::2 of Node n1)"]);
        }
        // A host may have addresses of a family that the cluster does not run.
        let hosts = node(r#", annotations: {k8s.ovn.org/host-cidrs: '["fc00::2/64"]'}}"#);
        assert_eq!(families(&[&hosts]), NONE);
        let service = "{apiVersion: v1, kind: Service, metadata: {name: web, namespace: blue}, \
                       spec: {clusterIP: 'fd96::1', clusterIPs: ['fd96::1', 10.96.0.1]}}";
        let expected = [
            "IPv4 (address 10.96.0.1 of Service blue/web)",
            "IPv6 (address fd96::1 of Service blue/web)",
        ];
        assert_eq!(families(&[service]), expected);
    }

    #[test]
    fn an_object_that_breaks_rules_shows_families() {
        let network =
            udn("Primary", "10.1.0.0/16").replace("subnets", "ipam: {lifecycle: Ever}, subnets");
        let broken = udn("Primary", "10.1.0.0/16").replace("topology: Layer2", "topology: Layer3");
        let expected = ["IPv4 (subnet 10.1.0.0/16 of UserDefinedNetwork blue/net)"];
        assert_eq!(families(&[&broken]), expected);
        // A value of an unknown type hides the rest.
        assert_eq!(families(&[&network]), NONE);
    }
}
