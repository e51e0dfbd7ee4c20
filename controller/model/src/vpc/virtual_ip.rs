//! Virtual addresses, which several machines may have in turn.

use std::collections::{BTreeMap, HashMap};
use std::net::IpAddr;
use std::sync::Arc;

use crate::FieldProblem;

use super::DEFAULT_VPC;
use super::problem::VirtualIpProblem;
use super::scene::{VpcScene, port_addresses};
use super::subnet::VpcSubnet;

/// Use of a virtual address.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum VirtualIpKind {
    /// Address that machines have in turn.
    Machines,
    /// Address of a load balancer, for which the router answers.
    Balancer,
    /// Address of a virtual machine on the network of its node.
    Host,
}

impl VirtualIpKind {
    /// Kind of a word of the field `type`. `None`: there is no such word.
    pub fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "" => Self::Machines,
            "switch_lb_vip" => Self::Balancer,
            "kube_host_vm_vip" => Self::Host,
            _ => return None,
        })
    }
}

/// Virtual address, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VirtualIp {
    /// Name of the object.
    pub name: Arc<str>,
    /// Name of the subnet.
    pub subnet: Arc<str>,
    /// Use.
    pub kind: VirtualIpKind,
    /// Namespace of the machines. Empty: none, so that the address is reserved only.
    pub namespace: Arc<str>,
    /// Wished addresses, at most one of each family.
    pub wishes: Vec<IpAddr>,
    /// MAC address, wished or allocated. `None`: any.
    pub mac: Option<String>,
    /// Allocated addresses, one of each family of the subnet. Empty: none yet.
    pub addresses: Vec<IpAddr>,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
}

/// Virtual address with its machines resolved.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct WiredVirtualIp {
    /// Subnet of the address.
    pub subnet: Arc<str>,
    /// The address with the names of the ports that may have it. `None`: no machine may.
    pub shared: Option<(IpAddr, Vec<String>)>,
    /// Port of a virtual machine on the network of its node. `None`: another kind.
    pub host: Option<HostPort>,
}

/// Port of a virtual machine on the network of its node.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct HostPort {
    /// Name.
    pub name: String,
    /// Namespace and name of the machine.
    pub machine: String,
    /// `true`: the VPC of the subnet is the default one.
    pub is_in_default_vpc: bool,
    /// MAC address and addresses, with blanks between them.
    pub addresses: String,
}

/// Names of the ports that may have a virtual address, by its name.
type Holders = HashMap<Arc<str>, Vec<String>>;

impl VpcScene {
    /// A virtual address that can be used, with its subnet.
    ///
    /// # Errors
    /// It cannot be used: the text is one for messages.
    pub fn virtual_ip(&self, name: &str) -> Result<(&VirtualIp, &VpcSubnet), VirtualIpProblem> {
        let found = self.objects.virtual_ips.get(name).ok_or(VirtualIpProblem::Unknown)?;
        let found = found.as_ref().map_err(Clone::clone)?;
        let subnet = self
            .usable_subnet(&found.subnet)
            .map_err(|reason| VirtualIpProblem::Subnet { subnet: found.subnet.clone(), reason })?;
        Ok((found, subnet))
    }

    /// Virtual addresses with rows.
    pub fn wired_virtual_ips(&self) -> BTreeMap<Arc<str>, WiredVirtualIp> {
        let mut holders = Holders::new();
        for request in self.objects.requests.iter().filter(|one| !one.virtual_ips.is_empty()) {
            let Ok(subnet) = self.subnet_of(request) else {
                continue;
            };
            for name in &request.virtual_ips {
                let is_here = self.virtual_ip(name).is_ok_and(|(of, _)| of.subnet == subnet.name);
                let ports = holders.entry(name.clone()).or_default();
                let port = request.port();
                if is_here && !ports.contains(&port) {
                    ports.push(port);
                }
            }
        }
        let names = self.objects.virtual_ips.keys();
        names
            .filter_map(|name| Some((name.clone(), self.wired_virtual_ip(name, &holders)?)))
            .collect()
    }

    fn wired_virtual_ip(&self, name: &Arc<str>, holders: &Holders) -> Option<WiredVirtualIp> {
        let (virtual_ip, subnet) = self.virtual_ip(name).ok()?;
        let is_served = subnet.provider.is_of_ovn() && !virtual_ip.namespace.is_empty();
        let address = virtual_ip.addresses.first().filter(|_| is_served)?;
        let is_host = virtual_ip.kind == VirtualIpKind::Host;
        let ports = || match virtual_ip.kind {
            VirtualIpKind::Machines => holders.get(name).cloned().unwrap_or_default(),
            VirtualIpKind::Balancer | VirtualIpKind::Host => Vec::new(),
        };
        let mac = virtual_ip.mac.as_ref();
        let host = mac.filter(|_| is_host).map(|mac| HostPort {
            name: subnet.provider.port_name(name, &virtual_ip.namespace),
            machine: format!("{}/{name}", virtual_ip.namespace),
            is_in_default_vpc: &*subnet.vpc == DEFAULT_VPC,
            addresses: port_addresses(mac, &virtual_ip.addresses),
        });
        Some(WiredVirtualIp {
            subnet: subnet.name.clone(),
            shared: (!is_host).then(|| (*address, ports())),
            host,
        })
    }

    /// Names of the ports that may have a virtual address, by its subnet.
    pub(super) fn holders_of_addresses(&self) -> HashMap<(&Arc<str>, IpAddr), Vec<String>> {
        let mut found: HashMap<_, Vec<String>> = HashMap::new();
        for request in self.objects.requests.iter().filter(|one| !one.virtual_ips.is_empty()) {
            let Ok(subnet) = self.subnet_of(request) else {
                continue;
            };
            for address in self.shared_addresses(&request.virtual_ips, subnet) {
                let ports = found.entry((&subnet.name, address)).or_default();
                let port = request.port();
                if !ports.contains(&port) {
                    ports.push(port);
                }
            }
        }
        found
    }

    /// Virtual addresses that a port may have, beside its own.
    pub(super) fn shared_addresses(&self, names: &[Arc<str>], subnet: &VpcSubnet) -> Vec<IpAddr> {
        let usable = names.iter().filter_map(|name| self.virtual_ip(name).ok());
        let here = usable.filter(|(virtual_ip, _)| virtual_ip.subnet == subnet.name);
        here.flat_map(|(virtual_ip, _)| virtual_ip.addresses.iter().copied()).collect()
    }

    /// Addresses of load balancers for which the routers answer, by subnet.
    pub(super) fn answered_addresses(&self) -> BTreeMap<&Arc<str>, Vec<IpAddr>> {
        let mut found: BTreeMap<_, Vec<IpAddr>> = BTreeMap::new();
        let all = self.objects.virtual_ips.values().flatten();
        for virtual_ip in all.filter(|one| one.kind == VirtualIpKind::Balancer) {
            found.entry(&virtual_ip.subnet).or_default().extend(&virtual_ip.addresses);
        }
        found
    }
}
