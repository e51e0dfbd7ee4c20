//! Route tables and DHCP options.

use std::collections::HashSet;

use super::index::Index;
use super::report::RowReport;

/// Options without which OVN sends no answer (ovn-northd, `build_dhcpv4_action`).
const REQUIRED_DHCP: [&str; 3] = ["server_id", "server_mac", "lease_time"];

pub(super) fn unused_table(index: &Index<'_>, report: &mut RowReport<'_>) {
    for (_, router) in index.routers.iter() {
        let ports = index.router_ports.of(&router.ports);
        let tables: HashSet<&str> = ports
            .filter_map(|(_, port)| port.options.get("route_table"))
            .map(String::as_str)
            .collect();
        for (row, route) in index.routes.of(&router.static_routes) {
            let table = route.route_table.as_str();
            if !table.is_empty() && !tables.contains(table) {
                report.found(
                    row,
                    &[],
                    format!("No port of the router has the route table {table}: no packet looks at the route."),
                    "Set options:route_table of the port by which the packets come, or leave route_table empty.",
                );
            }
        }
    }
}

pub(super) fn incomplete_dhcp(index: &Index<'_>, report: &mut RowReport<'_>) {
    let ports = index.switch_ports.iter();
    let used: HashSet<_> = ports.filter_map(|(_, port)| Some(port.dhcpv4_options?.uuid)).collect();
    for (row, dhcp) in index.dhcp_options.iter() {
        let is_ipv4 = !dhcp.cidr.contains(':');
        let missing: Vec<&str> = REQUIRED_DHCP
            .into_iter()
            .filter(|option| !dhcp.options.contains_key(*option))
            .collect();
        if is_ipv4 && used.contains(&row.uuid) && !missing.is_empty() {
            report.found(
                row,
                &[],
                format!(
                    "The options lack {}: ovn-northd logs it, and machines with them get no answer.",
                    missing.join(", ")
                ),
                "Add the options.",
            );
        }
    }
}
