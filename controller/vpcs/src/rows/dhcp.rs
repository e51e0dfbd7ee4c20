//! DHCP options of subnets and of single ports.

use ipnet::IpNet;
use patchbay_model::format_net;
use patchbay_model::vpc::{PortDhcp, WiredDhcp, WiredPort};
use patchbay_rows::{Holding, PartRows};
use patchbay_schemas::nb::DhcpOptions;

use super::ids;
use crate::capability::Vpcs;
use crate::part::Part;
use crate::tables::DHCP_ID;

/// Options of a subnet for the IP family of a range.
fn id_of_subnet(subnet: &str, net: &IpNet) -> String {
    format!("{subnet}/{}", family(net))
}

/// Options of one port for the IP family of a range.
fn id_of_port(port: &str, net: &IpNet) -> String {
    format!("{port}/port/{}", family(net))
}

/// Word of Kube-OVN for the IP family of a range.
fn family(net: &IpNet) -> &'static str {
    if net.addr().is_ipv4() { "IPv4" } else { "IPv6" }
}

/// Adds the options of a subnet.
pub(super) fn put_of_subnet(
    of: &Vpcs,
    (part, subnet): (&Part, &str),
    options: &[WiredDhcp],
    rows: &mut PartRows<()>,
) {
    for options in options {
        let net = &options.net;
        let id = id_of_subnet(subnet, net);
        let external_ids = ids(part, [("ls", subnet), ("protocol", family(net)), (DHCP_ID, &*id)]);
        rows.put(of.tables.dhcp, &DhcpOptions { external_ids, ..row(options) });
    }
}

/// Adds the options that a port has alone. Returns the names of all options of the port, each with
/// its column.
pub(super) fn put_of_port(
    of: &Vpcs,
    (part, name): (&Part, &str),
    port: &WiredPort,
    rows: &mut PartRows<()>,
) -> Vec<(Holding, String)> {
    let column = |net: &IpNet| {
        let tables = &of.tables;
        if net.addr().is_ipv4() { tables.dhcp_v4_of_port } else { tables.dhcp_v6_of_port }
    };
    let held = port.dhcp.iter().map(|options| match options {
        PortDhcp::Subnet(net) => (column(net), id_of_subnet(&port.subnet, net)),
        PortDhcp::Own(options) => {
            let net = &options.net;
            let id = id_of_port(name, net);
            let external_ids = ids(
                part,
                [("ls", &*port.subnet), ("port", name), ("protocol", family(net)), (DHCP_ID, &*id)],
            );
            rows.put(of.tables.dhcp, &DhcpOptions { external_ids, ..row(options) });
            (column(net), id)
        }
    });
    held.collect()
}

fn row(options: &WiredDhcp) -> DhcpOptions {
    DhcpOptions {
        cidr: format_net(options.net),
        options: options.options.0.clone(),
        ..DhcpOptions::default()
    }
}
