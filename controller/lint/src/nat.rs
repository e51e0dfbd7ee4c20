//! Rules that translate addresses, and the external addresses that they name.

use std::net::IpAddr;

use ipnet::IpNet;
use patchbay_resources::manifests::{InventoryKind, ObjectKey, Objects, Sourced};
use patchbay_resources::object::Object as _;
use patchbay_resources::object::kube_ovn::{
    OvnDnatRule, OvnEip, OvnFip, OvnSnatRule, RouterLBRule,
};

use crate::cluster::{Cluster, SubnetView, VpcView, name_of, objects};
use crate::ranges::{read_addresses, read_nets};

/// Label of an external address: name of the VPC that uses it.
const VPC_LABEL: &str = "ovn.kubernetes.io/vpc";

/// A rule about an external address.
pub(crate) trait NatRule: InventoryKind {
    /// Name of the external address.
    fn eip(&self) -> &str;
    /// Name of the VPC. Empty: that of the subnet or of the machine.
    fn vpc(&self) -> &str;
    /// Name of the subnet. `None`: another source.
    fn subnet(&self) -> Option<&str> {
        None
    }
    /// Name of the machine's `IP` object. `None`: another source.
    fn ip_name(&self) -> Option<&str> {
        None
    }
}

/// Name in a field. An empty field names nothing.
fn named(field: &str) -> Option<&str> {
    (!field.is_empty()).then_some(field)
}

impl NatRule for OvnSnatRule {
    fn eip(&self) -> &str {
        &self.spec.ovn_eip
    }

    fn vpc(&self) -> &str {
        &self.spec.vpc
    }

    fn subnet(&self) -> Option<&str> {
        named(&self.spec.vpc_subnet)
    }

    fn ip_name(&self) -> Option<&str> {
        named(&self.spec.ip_name)
    }
}

impl NatRule for OvnDnatRule {
    fn eip(&self) -> &str {
        &self.spec.ovn_eip
    }

    fn vpc(&self) -> &str {
        &self.spec.vpc
    }

    fn ip_name(&self) -> Option<&str> {
        named(&self.spec.ip_name)
    }
}

impl NatRule for OvnFip {
    fn eip(&self) -> &str {
        &self.spec.ovn_eip
    }

    fn vpc(&self) -> &str {
        &self.spec.vpc
    }

    fn ip_name(&self) -> Option<&str> {
        named(&self.spec.ip_name)
    }
}

impl NatRule for RouterLBRule {
    fn eip(&self) -> &str {
        &self.spec.ovn_eip
    }

    fn vpc(&self) -> &str {
        &self.spec.vpc
    }
}

/// An external address that exists, or that a VPC will make.
pub(crate) struct EipView<'c, 'a> {
    /// External subnet. `None`: it does not exist.
    pub(crate) external: Option<&'c SubnetView<'a>>,
    /// Name of the VPC that the address belongs to. `None`: any.
    pub(crate) owner: Option<&'c str>,
}

impl<'a> Cluster<'a> {
    /// External address with this name. `None`: there is none.
    pub(crate) fn eip_view(&self, name: &str) -> Option<EipView<'_, 'a>> {
        let automatic = self.automatic_eip(name);
        let Some(eip) = self.eip(name) else {
            return automatic.map(|(vpc, external)| EipView {
                external: Some(external),
                owner: Some(vpc.name),
            });
        };
        let label = eip.object.labels().get(VPC_LABEL).map(String::as_str);
        let label = label.filter(|label| !label.is_empty());
        Some(EipView {
            external: self.external_of(eip),
            owner: label.or(automatic.map(|(vpc, _)| vpc.name)),
        })
    }

    /// `true` if a rule names an external address.
    pub(crate) fn is_eip_named(&self, name: &str) -> bool {
        fn names<T: NatRule>(rules: &Objects<T>, name: &str) -> bool {
            objects(rules).any(|rule| rule.object.eip() == name)
        }
        let inventory = self.inventory;
        names(&inventory.ovn_snat_rules, name)
            || names(&inventory.ovn_dnat_rules, name)
            || names(&inventory.ovn_fips, name)
            || names(&inventory.router_lb_rules, name)
    }

    /// External subnet of an external address.
    pub(crate) fn external_of(&self, eip: &Sourced<OvnEip>) -> Option<&SubnetView<'a>> {
        match &*eip.object.spec.external_subnet {
            "" => self.subnet(self.external_subnet()),
            name => self.subnet(name),
        }
    }

    /// VPC that an external address belongs to: by its label or name, or by a rule that names it.
    pub(crate) fn owner_of_eip(&self, eip: &Sourced<OvnEip>) -> Option<&VpcView<'a>> {
        let name = name_of(eip);
        let owner = self.eip_view(name)?.owner;
        self.vpc(owner.or(self.eip_users.get(name).copied())?)
    }

    /// VPC of a rule: the named one, that of the subnet, or that of the machine. `None`: unknown.
    pub(crate) fn vpc_of_rule<T: NatRule>(&self, rule: &Sourced<T>) -> Option<&VpcView<'a>> {
        let rule = &rule.object;
        if !rule.vpc().is_empty() {
            return self.vpc(rule.vpc());
        }
        let subnet = match rule.subnet() {
            Some(name) => self.subnet(name)?,
            None => self.subnet_of_port(rule.ip_name()?)?,
        };
        self.vpc(subnet.vpc)
    }

    /// Subnet of a machine's port, by the name of its `IP` object.
    pub(crate) fn subnet_of_port(&self, ip_name: &str) -> Option<&SubnetView<'a>> {
        if let Some(ip) = self.inventory.ips.get(&ObjectKey::cluster(ip_name)) {
            return self.subnet(&ip.object.spec.subnet);
        }
        // `<pod>.<namespace>.<provider>`, where the provider has three fields.
        let mut fields = ip_name.rsplit('.');
        let (ovn, namespace, name) = (fields.next()?, fields.next()?, fields.next()?);
        self.with_provider(&format!("{name}.{namespace}.{ovn}")).next()
    }

    /// Sources of a rule: its ranges, or those of its subnet or machine.
    pub(crate) fn snat_sources(&self, rule: &Sourced<OvnSnatRule>) -> Vec<IpNet> {
        let spec = &rule.object.spec;
        let mut explicit = read_nets(&spec.v4_ip_cidr);
        explicit.extend(read_nets(&spec.v6_ip_cidr));
        if !explicit.is_empty() {
            return explicit;
        }
        if let Some(subnet) = self.subnet(&spec.vpc_subnet) {
            return subnet.cidrs.clone();
        }
        let addresses = self.addresses_of_port(&spec.ip_name).into_iter();
        addresses.map(IpNet::from).collect()
    }

    /// Addresses of a machine's port, as far as they are known, by the name of its `IP` object.
    fn addresses_of_port(&self, ip_name: &str) -> Vec<IpAddr> {
        let ip = self.inventory.ips.get(&ObjectKey::cluster(ip_name));
        let texts = ip.map(|ip| [&ip.object.spec.v4_ip_address, &ip.object.spec.v6_ip_address]);
        texts.into_iter().flatten().flat_map(|text| read_addresses(text)).collect()
    }
}
