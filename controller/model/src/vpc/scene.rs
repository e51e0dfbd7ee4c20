//! Objects of all VPCs together, with their references resolved.

use std::collections::{BTreeMap, HashSet};
use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;
use sha2::{Digest, Sha256};

use crate::arithmetic::overlap;
use crate::pod::PodKey;
use crate::{FieldProblem, IpFamily};

use super::balancer::{Balancer, BalancerKey};
use super::dhcp::DhcpOptions;
use super::eip::{Eip, EipKind};
use super::group::SecurityGroup;
use super::ip_pool::{AddressSource, IpPool};
use super::nat::{NatKey, NatRule};
use super::node::VpcNode;
use super::problem::{ConnectionProblem, NatProblem, PortProblem, SubnetProblem};
use super::router::{ExternalSubnets, Vpc};
use super::scene_nat::{self, ResolvedRules};
use super::subnet::{SubnetNet, VpcSubnet};
use super::virtual_ip::VirtualIp;
use super::wiring::{
    ExternalPort, Localnet, PortDhcp, WiredDhcp, WiredEip, WiredNat, WiredPort, WiredRouter,
    WiredSubnet,
};
use super::{DEFAULT_EXTERNAL_SUBNET, DEFAULT_VPC};

/// A VLAN of a provider network.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VpcVlan {
    /// Name of the provider network.
    pub provider: Arc<str>,
    /// VLAN id; 0: frames have no tag.
    pub id: i64,
    /// Reason why subnets cannot use the VLAN. `None`: they can.
    pub problem: Option<String>,
}

/// Request of a pod for a port, by an attachment definition of Kube-OVN.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PortRequest {
    /// The pod.
    pub pod: PodKey,
    /// Name of the machine in the name of the port: that of the pod, or of the virtual machine in it,
    /// whose pods have one port.
    pub machine: Arc<str>,
    /// Node of the pod. `None`: it is not scheduled.
    pub node: Option<Arc<str>>,
    /// Provider of the definition, with the interface if the pod selects the definition again.
    pub provider: String,
    /// Subnet of the port.
    pub subnet: Result<Arc<str>, PortProblem>,
    /// The only family of the addresses. `None`: all families of the subnet.
    pub family: Option<IpFamily>,
    /// Wished addresses.
    pub wishes: Vec<IpAddr>,
    /// Addresses of which the port gets one of each family. `None`: those of the subnet that no pool
    /// has.
    pub source: Option<AddressSource>,
    /// Wished MAC address. `None`: any.
    pub mac: Option<String>,
    /// `true`: the port may send with its own addresses only.
    pub has_port_security: bool,
    /// DHCP options of the port alone. `None`: those of the subnet.
    pub dhcp_v4: Option<DhcpOptions>,
    /// DHCP options of the port alone, for IPv6. `None`: those of the subnet.
    pub dhcp_v6: Option<DhcpOptions>,
    /// Security groups.
    pub groups: Vec<Arc<str>>,
    /// Virtual addresses that the machine may have.
    pub virtual_ips: Vec<Arc<str>>,
    /// Annotations that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
}

impl PortRequest {
    /// Name of the port.
    pub fn port(&self) -> String {
        format!("{}.{}.{}", self.machine, self.pod.namespace, self.provider)
    }
}

/// A port with its addresses, as the record has them.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VpcPort {
    /// Subnet of the port.
    pub subnet: Arc<str>,
    /// Addresses, one of each family of the subnet.
    pub addresses: Vec<IpAddr>,
    /// MAC address.
    pub mac: Arc<str>,
}

/// Objects of all VPCs.
#[derive(Clone, Debug, Default)]
pub struct VpcObjects {
    /// Custom VPCs by name.
    pub vpcs: BTreeMap<Arc<str>, Vpc>,
    /// Subnets by name.
    pub subnets: BTreeMap<Arc<str>, Result<VpcSubnet, FieldProblem>>,
    /// VLANs by name.
    pub vlans: BTreeMap<Arc<str>, VpcVlan>,
    /// External addresses by name.
    pub eips: BTreeMap<Arc<str>, Eip>,
    /// Rules about external addresses.
    pub nats: BTreeMap<NatKey, Result<NatRule, FieldProblem>>,
    /// Load balancers of services and rules.
    pub balancers: BTreeMap<BalancerKey, Result<Balancer, FieldProblem>>,
    /// Security groups by name.
    pub groups: BTreeMap<Arc<str>, Result<SecurityGroup, FieldProblem>>,
    /// Virtual addresses by name.
    pub virtual_ips: BTreeMap<Arc<str>, Result<VirtualIp, FieldProblem>>,
    /// Pools of addresses by name.
    pub ip_pools: BTreeMap<Arc<str>, Result<IpPool, FieldProblem>>,
    /// Records of addresses, by name of the port.
    pub ports: BTreeMap<Arc<str>, VpcPort>,
    /// Requests of pods, in the order of the pods' objects.
    pub requests: Vec<PortRequest>,
    /// Nodes.
    pub nodes: Vec<VpcNode>,
}

/// Objects of all VPCs, with a verdict about each subnet.
#[derive(Clone, Debug, Default)]
pub struct VpcScene {
    /// The objects.
    pub objects: VpcObjects,
    standings: BTreeMap<Arc<str>, Result<(), SubnetProblem>>,
    /// Names of the usable subnets that OVN serves, by VPC.
    served: BTreeMap<Arc<str>, Vec<Arc<str>>>,
}

/// Connection of a VPC with an external subnet.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Connection {
    /// The external subnet.
    pub subnet: Arc<str>,
    /// Chassis that may host the port, in their order; or the reason why there is no port.
    pub chassis: Result<Vec<Arc<str>>, ConnectionProblem>,
}

impl VpcScene {
    /// Judges the subnets of the objects.
    pub fn new(objects: VpcObjects) -> Self {
        let mut scene = Self { objects, ..Self::default() };
        scene.standings = scene.judge_all();
        let mut served: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for name in scene.objects.subnets.keys() {
            if let Ok(subnet) = scene.usable_subnet(name)
                && subnet.provider.is_of_ovn()
            {
                served.entry(subnet.vpc.clone()).or_default().push(name.clone());
            }
        }
        scene.served = served;
        scene
    }

    fn judge_all(&self) -> BTreeMap<Arc<str>, Result<(), SubnetProblem>> {
        let mut ordered: Vec<&VpcSubnet> = self.objects.subnets.values().flatten().collect();
        ordered.sort_by_key(|subnet| subnet.position);
        let mut standings = BTreeMap::new();
        let mut accepted: BTreeMap<_, Vec<&VpcSubnet>> = BTreeMap::new();
        for subnet in ordered {
            let place = accepted.entry((&subnet.vpc, &subnet.vlan)).or_default();
            let standing = self.judge(subnet, place);
            if standing.is_ok() {
                place.push(subnet);
            }
            standings.insert(subnet.name.clone(), standing);
        }
        standings
    }

    fn judge(&self, subnet: &VpcSubnet, others: &[&VpcSubnet]) -> Result<(), SubnetProblem> {
        if let Some(vlan) = &subnet.vlan {
            let known = self
                .objects
                .vlans
                .get(vlan)
                .ok_or_else(|| SubnetProblem::Vlan(format!("there is no Vlan {vlan}")))?;
            if let Some(problem) = &known.problem {
                return Err(SubnetProblem::Vlan(format!("Vlan {vlan}: {problem}")));
            }
        }
        if &*subnet.vpc != DEFAULT_VPC {
            let Some(vpc) = self.objects.vpcs.get(&subnet.vpc) else {
                return Err(SubnetProblem::NoVpc(subnet.vpc.clone()));
            };
            let mut namespaces = subnet.namespaces.iter();
            let foreign = namespaces.find(|one| !vpc.namespaces.contains(one));
            if let Some(namespace) = foreign {
                return Err(SubnetProblem::Namespace {
                    namespace: namespace.clone(),
                    vpc: vpc.name.clone(),
                });
            }
        }
        let own = || subnet.nets.iter();
        for other in others {
            let overlapping =
                other.nets.iter().find(|net| own().any(|own| overlap(own.net, net.net)));
            if let Some(net) = overlapping {
                return Err(SubnetProblem::Overlap { other: other.name.clone(), range: net.net });
            }
        }
        Ok(())
    }

    /// A subnet that can be used.
    ///
    /// # Errors
    /// It does not exist, or has a problem: the text is one for messages.
    pub fn usable_subnet(&self, name: &str) -> Result<&VpcSubnet, String> {
        match self.objects.subnets.get(name) {
            None => Err("there is no such Subnet".to_owned()),
            Some(Err(problem)) => Err(problem.to_string()),
            Some(Ok(subnet)) => match self.standings.get(name) {
                Some(Err(problem)) => Err(problem.to_string()),
                _ => Ok(subnet),
            },
        }
    }

    /// Verdict about a subnet that was read.
    pub fn standing(&self, name: &str) -> Option<&Result<(), SubnetProblem>> {
        self.standings.get(name)
    }

    /// Usable subnets of a VPC that OVN serves, in the order of their names.
    pub fn subnets_of(&self, vpc: &str) -> impl Iterator<Item = &VpcSubnet> {
        let names = self.served.get(vpc).into_iter().flatten();
        names.filter_map(|name| self.usable_subnet(name).ok())
    }

    /// Connections that a VPC should have, whether there are addresses or not.
    pub fn connections(&self, vpc: &Vpc) -> Vec<Connection> {
        let subnets = match &vpc.external {
            ExternalSubnets::None => Vec::new(),
            ExternalSubnets::Default => vec![Arc::from(DEFAULT_EXTERNAL_SUBNET)],
            ExternalSubnets::Listed(listed) => {
                let mut listed = listed.clone();
                listed.sort_unstable();
                listed.dedup();
                listed
            }
        };
        let connections = subnets.into_iter().map(|subnet| Connection {
            chassis: self.external_subnet(&subnet).and_then(|_| self.chassis_of(&vpc.name)),
            subnet,
        });
        connections.collect()
    }

    fn external_subnet(&self, name: &Arc<str>) -> Result<&VpcSubnet, ConnectionProblem> {
        let problem = |reason: String| ConnectionProblem::Subnet { subnet: name.clone(), reason };
        let subnet = self.usable_subnet(name).map_err(problem)?;
        let reason = if !subnet.is_underlay() {
            "it has no spec.vlan"
        } else if subnet.has_logical_gateway {
            "it has spec.logicalGateway"
        } else if subnet.nets.is_empty() {
            "it has no spec.cidrBlock"
        } else {
            return Ok(subnet);
        };
        Err(problem(reason.to_owned()))
    }

    /// Chassis of the gateway nodes, in the order for a VPC: that of the SHA-256 of both names, as
    /// in Kube-OVN, so that the active gateways of VPCs are spread over the nodes.
    fn chassis_of(&self, vpc: &str) -> Result<Vec<Arc<str>>, ConnectionProblem> {
        let gateways = || self.objects.nodes.iter().filter(|node| node.is_gateway);
        let mut chassis: Vec<Arc<str>> = gateways().filter_map(|one| one.chassis.clone()).collect();
        if let (true, Some(node)) = (chassis.is_empty(), gateways().next()) {
            return Err(ConnectionProblem::NoChassis(format!("Node {}", node.name)));
        }
        if chassis.is_empty() {
            return Err(ConnectionProblem::NoGatewayNode);
        }
        chassis.sort_by_cached_key(|chassis| Sha256::digest(format!("{vpc}{chassis}")));
        chassis.dedup();
        Ok(chassis)
    }

    /// Port of a VPC on an external subnet.
    ///
    /// # Errors
    /// The VPC has no port there.
    pub fn external_port(
        &self,
        vpc: &str,
        connection: Connection,
    ) -> Result<ExternalPort, ConnectionProblem> {
        let Connection { subnet, chassis } = connection;
        let chassis = chassis?;
        let external = self.external_subnet(&subnet)?;
        let name = port_name(vpc, &subnet);
        let problem = |reason: &str| ConnectionProblem::NoAddress {
            eip: name.clone(),
            reason: reason.to_owned(),
        };
        let eip = self.objects.eips.get(&*name).ok_or_else(|| problem("it has no address yet"))?;
        if let Some(of_eip) = &eip.problem {
            return Err(problem(&of_eip.to_string()));
        }
        if eip.subnet != subnet {
            return Err(problem(&format!("it is of Subnet {}", eip.subnet)));
        }
        let networks: Vec<IpNet> = hosts(external, &eip.addresses).collect();
        let (Some(mac), false) = (&eip.mac, networks.is_empty()) else {
            return Err(problem("it has no address yet"));
        };
        Ok(ExternalPort { subnet, networks, mac: mac.as_str().into(), chassis })
    }

    /// External ports that a VPC has.
    pub fn external_ports(&self, vpc: &Vpc) -> Vec<ExternalPort> {
        let connections = self.connections(vpc).into_iter();
        connections
            .filter_map(|connection| self.external_port(&vpc.name, connection).ok())
            .collect()
    }

    /// Routers of all custom VPCs.
    pub fn routers(&self) -> impl Iterator<Item = (&Arc<str>, WiredRouter)> {
        self.objects.vpcs.iter().map(|(name, vpc)| {
            let router = WiredRouter {
                routes: vpc.routes.clone(),
                policies: vpc.policies.clone(),
                peerings: vpc.peerings.clone(),
                external: self.external_ports(vpc),
                learns_from_requests: vpc.external != ExternalSubnets::None
                    || !vpc.peerings.is_empty(),
            };
            (name, router)
        })
    }

    /// Switches of all usable subnets that OVN serves.
    pub fn switches(&self) -> impl Iterator<Item = (&Arc<str>, WiredSubnet)> {
        let usable = self
            .objects
            .subnets
            .keys()
            .filter_map(|name| Some((name, self.usable_subnet(name).ok()?)))
            .filter(|(_, subnet)| subnet.provider.is_of_ovn());
        let mut answered = self.answered_addresses();
        let mut holders = self.holders_of_addresses();
        usable.map(move |(name, subnet)| {
            let vlan = subnet.vlan.as_ref();
            let vlan = vlan.and_then(|vlan| self.objects.vlans.get(vlan));
            let switch = WiredSubnet {
                vpc: subnet.vpc.clone(),
                is_in_default_vpc: &*subnet.vpc == DEFAULT_VPC,
                nets: subnet.nets.clone(),
                localnet: vlan.map(|vlan| Localnet {
                    network: vlan.provider.clone(),
                    tag: Some(vlan.id).filter(|id| *id != 0),
                }),
                has_router_port: subnet.has_router_port(),
                has_load_balancers: subnet.has_load_balancers,
                route_table: subnet.route_table.clone(),
                acls: subnet.acls.clone(),
                virtual_ips: subnet
                    .virtual_ips
                    .iter()
                    .map(|ip| (*ip, holders.remove(&(name, *ip)).unwrap_or_default()))
                    .collect(),
                answered: answered.remove(name).unwrap_or_default(),
                dhcp: subnet_dhcp(subnet),
                advertised: subnet.advertised.clone(),
            };
            (name, switch)
        })
    }

    /// Rules about external addresses: what their rows follow from, or why they have none.
    pub fn nats(&self) -> BTreeMap<NatKey, Result<WiredNat, NatProblem>> {
        self.rules().nats
    }

    /// Rules about external addresses, and load balancers.
    pub fn rules(&self) -> ResolvedRules {
        scene_nat::resolve(self)
    }

    /// Ports of pods whose addresses are recorded. Pods of one virtual machine have one port, which is
    /// as the first of them requests it.
    pub fn wired_ports(&self) -> impl Iterator<Item = (String, WiredPort)> {
        let mut known = HashSet::new();
        self.objects.requests.iter().filter_map(move |request| {
            let name = request.port();
            let is_alone = *request.machine == *request.pod.name;
            if !is_alone && !known.insert(name.clone()) {
                return None;
            }
            let subnet = self.subnet_of(request).ok()?;
            let port = self.objects.ports.get(&*name);
            let port = port.filter(|port| port.subnet == subnet.name)?;
            let PodKey { namespace, .. } = &request.pod;
            let wired = WiredPort {
                subnet: subnet.name.clone(),
                machine: format!("{namespace}/{}", request.machine).into(),
                is_in_default_vpc: &*subnet.vpc == DEFAULT_VPC,
                addresses: port_addresses(&port.mac, &port.addresses),
                has_port_security: request.has_port_security,
                dhcp: port_dhcp(subnet, request, &port.addresses),
                groups: request.groups.clone(),
                ips: port.addresses.clone(),
                shared: self.shared_addresses(&request.virtual_ips, subnet),
            };
            Some((name, wired))
        })
    }

    /// Subnet of a pod's port.
    ///
    /// # Errors
    /// The pod has no port there.
    pub fn subnet_of(&self, request: &PortRequest) -> Result<&VpcSubnet, PortProblem> {
        let name = request.subnet.as_ref().map_err(Clone::clone)?;
        let subnet = self
            .usable_subnet(name)
            .map_err(|reason| PortProblem::Subnet { subnet: name.clone(), reason })?;
        let namespace = &request.pod.namespace;
        let vpc = self.objects.vpcs.get(&subnet.vpc);
        let is_foreign = |vpc: &&Vpc| !vpc.namespaces.iter().any(|one| **one == **namespace);
        match vpc.filter(is_foreign) {
            Some(vpc) => Err(PortProblem::Namespace {
                subnet: subnet.name.clone(),
                vpc: vpc.name.clone(),
                namespace: namespace.clone(),
            }),
            None => match request.family {
                Some(family) if !has_family(subnet, family) => {
                    let subnet = subnet.name.clone();
                    Err(PortProblem::Family { subnet, family })
                }
                _ => Ok(subnet),
            },
        }
    }

    /// Ports of nodes on external subnets.
    pub fn wired_eips(&self) -> impl Iterator<Item = (&Arc<str>, WiredEip)> {
        let of_nodes = self.objects.eips.iter().filter(|(_, eip)| eip.kind == EipKind::NodePort);
        of_nodes.filter_map(|(name, eip)| {
            let mac = eip.mac.as_ref()?;
            self.external_subnet(&eip.subnet).ok()?;
            let is_ready = eip.problem.is_none() && !eip.addresses.is_empty();
            let wired = WiredEip {
                subnet: eip.subnet.clone(),
                addresses: port_addresses(mac, &eip.addresses),
            };
            is_ready.then_some((name, wired))
        })
    }
}

/// Name of the port of a router: that of the VPC, and that of the subnet or the other VPC. The
/// external address of the port has this name, too.
pub(super) fn port_name(vpc: &str, other: &str) -> String {
    format!("{vpc}-{other}")
}

fn has_family(subnet: &VpcSubnet, family: IpFamily) -> bool {
    subnet.nets.iter().any(|net| IpFamily::of_net(net.net) == family)
}

/// DHCP options of a subnet, for each of its ranges.
fn subnet_dhcp(subnet: &VpcSubnet) -> Vec<WiredDhcp> {
    let options = subnet.dhcp.as_ref();
    let nets = options
        .into_iter()
        .flat_map(|options| subnet.nets.iter().map(move |net| (net, options.of(net))));
    nets.map(|(net, options)| wired_dhcp(subnet, net, options)).collect()
}

fn wired_dhcp(subnet: &VpcSubnet, net: &SubnetNet, options: &DhcpOptions) -> WiredDhcp {
    let options = options.complete(&subnet.name, net, subnet.mtu);
    WiredDhcp { net: net.net, options }
}

/// DHCP options of a port, for each of its addresses.
fn port_dhcp(subnet: &VpcSubnet, request: &PortRequest, addresses: &[IpAddr]) -> Vec<PortDhcp> {
    let has_address = |net: &&SubnetNet| addresses.iter().any(|address| net.net.contains(address));
    let of_net = |net: &SubnetNet| {
        let own = if net.net.addr().is_ipv4() { &request.dhcp_v4 } else { &request.dhcp_v6 };
        match own {
            Some(own) => Some(PortDhcp::Own(wired_dhcp(subnet, net, own))),
            None => subnet.dhcp.as_ref().map(|_| PortDhcp::Subnet(net.net)),
        }
    };
    subnet.nets.iter().filter(has_address).filter_map(of_net).collect()
}

/// Addresses with the lengths of the ranges of a subnet.
fn hosts<'a>(subnet: &'a VpcSubnet, addresses: &'a [IpAddr]) -> impl Iterator<Item = IpNet> + 'a {
    subnet.nets.iter().filter_map(|net| {
        let mut addresses = addresses.iter();
        let address = addresses.find(|one| net.net.contains(*one))?;
        Some(net.host(*address))
    })
}

/// Column `addresses` of a port.
pub(super) fn port_addresses(mac: &str, addresses: &[IpAddr]) -> String {
    let addresses = addresses.iter().map(ToString::to_string);
    let all: Vec<String> = [mac.to_owned()].into_iter().chain(addresses).collect();
    all.join(" ")
}
