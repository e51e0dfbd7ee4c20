//! Subnets, as their objects have them.

use std::net::IpAddr;
use std::sync::Arc;

use ipnet::IpNet;

use crate::arithmetic::nth_address;

use super::acl::SubnetAcl;
use super::dhcp::DhcpOptions;
use super::pool::AddressRange;
use super::provider::SubnetProvider;
use crate::FieldProblem;

/// A subnet, as its object has it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct VpcSubnet {
    /// Name.
    pub name: Arc<str>,
    /// Name of the VPC.
    pub vpc: Arc<str>,
    /// Which pods are in the subnet.
    pub provider: SubnetProvider,
    /// VLAN of an underlay subnet. `None`: an overlay subnet.
    pub vlan: Option<Arc<str>>,
    /// Ranges, at most one of each family, IPv4 first. Empty: machines have MAC addresses only.
    pub nets: Vec<SubnetNet>,
    /// Virtual addresses of machines, which are not allocated.
    pub virtual_ips: Vec<IpAddr>,
    /// Addresses that are not allocated.
    pub excluded: Vec<AddressRange>,
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// `true`: the gateway of an underlay subnet is a port of the router.
    pub has_logical_gateway: bool,
    /// `true`: load balancers of the VPC are on the switch.
    pub has_load_balancers: bool,
    /// Route table of packets from the subnet; empty: the main one.
    pub route_table: String,
    /// `true`: only machines of the subnet, and allowed ranges, reach it.
    pub is_private: bool,
    /// ACLs of the switch.
    pub acls: Vec<SubnetAcl>,
    /// DHCP options of machines. `None`: OVN does not answer their requests.
    pub dhcp: Option<SubnetDhcp>,
    /// Router advertisements. `None`: none.
    pub advertised: Option<DhcpOptions>,
    /// MTU of machines that get options by DHCP.
    pub mtu: i64,
    /// Entries that cannot be used, and are left out.
    pub problems: Vec<FieldProblem>,
    /// Position among the objects: of two subnets with one address, the first one has it.
    pub position: u64,
}

impl VpcSubnet {
    /// `true` for an underlay subnet.
    pub fn is_underlay(&self) -> bool {
        self.vlan.is_some()
    }

    /// `true` if the router of the VPC has a port in the subnet that machines use as gateway.
    pub fn has_router_port(&self) -> bool {
        (!self.is_underlay() || self.has_logical_gateway) && !self.nets.is_empty()
    }
}

/// DHCP options of a subnet, as its object has them.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct SubnetDhcp {
    /// Options of `DHCPv4`.
    pub v4: DhcpOptions,
    /// Options of `DHCPv6`.
    pub v6: DhcpOptions,
}

impl SubnetDhcp {
    /// Options for a range.
    pub fn of(&self, net: &SubnetNet) -> &DhcpOptions {
        if net.net.addr().is_ipv4() { &self.v4 } else { &self.v6 }
    }
}

/// Range of a subnet with its gateway.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct SubnetNet {
    /// The range, without host bits.
    pub net: IpNet,
    /// The gateway.
    pub gateway: IpAddr,
}

impl SubnetNet {
    /// The gateway with the length of the range.
    pub fn gateway_net(&self) -> IpNet {
        with_length(self.gateway, self.net)
    }

    /// An address with the length of the range.
    pub fn host(&self, address: IpAddr) -> IpNet {
        with_length(address, self.net)
    }

    /// Reads the fields `cidrBlock` and `gateway`.
    ///
    /// # Errors
    /// A range or a gateway cannot be used.
    pub fn read(cidrs: &str, gateways: &str) -> Result<Vec<Self>, FieldProblem> {
        const CIDR: &str = "spec.cidrBlock";
        const GATEWAY: &str = "spec.gateway";
        let mut nets: Vec<Self> = Vec::new();
        for text in texts(cidrs) {
            let net: IpNet = text
                .parse()
                .map_err(|_| FieldProblem::of_text(CIDR, text, "is not a range with its length"))?;
            let net = net.trunc();
            if nets.iter().any(|other| other.net.addr().is_ipv4() == net.addr().is_ipv4()) {
                return Err(FieldProblem::of_text(CIDR, cidrs, "has two ranges of one family"));
            }
            if net.prefix_len() == net.max_prefix_len() {
                return Err(FieldProblem::of_text(CIDR, text, "has one address only"));
            }
            // A range of two addresses has no network address.
            let first = u128::from(net.max_prefix_len() - net.prefix_len() > 1);
            let gateway = nth_address(net, first).unwrap_or(net.addr());
            nets.push(Self { net, gateway });
        }
        for text in texts(gateways) {
            let address: IpAddr = text
                .parse()
                .map_err(|_| FieldProblem::of_text(GATEWAY, text, "is not an address"))?;
            let of_family =
                nets.iter_mut().find(|net| net.net.addr().is_ipv4() == address.is_ipv4());
            let Some(net) = of_family.filter(|net| is_host(net.net, address)) else {
                let reason = format!("is not an address of a machine in {cidrs}");
                return Err(FieldProblem::of_text(GATEWAY, text, &reason));
            };
            net.gateway = address;
        }
        nets.sort_by_key(|net| net.net.addr().is_ipv6());
        Ok(nets)
    }
}

/// Texts between commas, without blanks.
fn texts(list: &str) -> impl Iterator<Item = &str> {
    let texts = list.split(',').map(str::trim);
    texts.filter(|text| !text.is_empty())
}

/// `true` for an address of the range that a machine may have.
fn is_host(net: IpNet, address: IpAddr) -> bool {
    let is_pair = net.max_prefix_len() - net.prefix_len() == 1;
    let is_broadcast = address.is_ipv4() && address == net.broadcast();
    net.contains(&address) && (is_pair || address != net.network() && !is_broadcast)
}

fn with_length(address: IpAddr, net: IpNet) -> IpNet {
    // The length is one of the address's family.
    IpNet::new(address, net.prefix_len()).unwrap_or(net)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(cidrs: &str, gateways: &str) -> Result<Vec<String>, String> {
        let nets = SubnetNet::read(cidrs, gateways).map_err(|problem| problem.to_string())?;
        Ok(nets.iter().map(|net| net.gateway_net().to_string()).collect())
    }

    #[test]
    fn the_gateway_is_the_first_address_unless_it_is_given() {
        assert_eq!(read("10.0.0.5/24", "").unwrap(), ["10.0.0.1/24"]);
        assert_eq!(read("10.0.0.0/31", "").unwrap(), ["10.0.0.0/31"]);
        assert_eq!(
            read("fd00::/64, 10.0.0.0/24", "10.0.0.254,fd00::a").unwrap(),
            ["10.0.0.254/24", "fd00::a/64"]
        );
        assert_eq!(read("", "").unwrap(), Vec::<String>::new());
    }

    #[test]
    fn ranges_and_gateways_that_cannot_be_used_are_refused() {
        for (cidrs, gateways, expected) in [
            ("10.0.0.0", "", "spec.cidrBlock: \"10.0.0.0\" is not a range with its length"),
            ("10.0.0.0/32", "", "spec.cidrBlock: \"10.0.0.0/32\" has one address only"),
            (
                "10.0.0.0/24,10.0.1.0/24",
                "",
                "spec.cidrBlock: \"10.0.0.0/24,10.0.1.0/24\" has two ranges of one family",
            ),
            (
                "10.0.0.0/24",
                "10.0.1.1",
                "spec.gateway: \"10.0.1.1\" is not an address of a machine in 10.0.0.0/24",
            ),
            (
                "10.0.0.0/24",
                "10.0.0.255",
                "spec.gateway: \"10.0.0.255\" is not an address of a machine in 10.0.0.0/24",
            ),
            ("", "10.0.0.1", "spec.gateway: \"10.0.0.1\" is not an address of a machine in "),
        ] {
            assert_eq!(read(cidrs, gateways).unwrap_err(), expected);
        }
    }
}
