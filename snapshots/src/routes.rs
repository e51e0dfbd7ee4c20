//! Text of `ovn-nbctl lr-route-list`.

use std::cmp::{Ordering, Reverse};
use std::net::IpAddr;

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouterStaticRoute, LogicalRouterStaticRoutePolicy};

use crate::lookup::{RenderError, find_router};
use crate::output::Output;
use crate::prefix::{Prefix, normalize_prefix};

/// Renders the static routes of a router, sorted by address family, route table and precedence.
///
/// `router_id` is a name or UUID. Routes without a valid prefix are omitted.
///
/// # Errors
/// No router or several routers have the name, or a row holds a value that OVN does not define.
pub fn lr_route_list(snapshot: &Snapshot, router_id: &str) -> Result<String, RenderError> {
    let router = find_router(snapshot, router_id)?;
    let table = snapshot.typed::<LogicalRouterStaticRoute>();
    let mut routes = Vec::new();
    for row in &router.static_routes {
        routes.extend(table.get(row.uuid)?.and_then(Route::new));
    }
    routes.sort_by(Route::compare);
    let (ipv4, ipv6): (Vec<_>, Vec<_>) =
        routes.into_iter().partition(|route| route.prefix.address().is_ipv4());
    let mut output = Output::default();
    print_family(&ipv4, "IPv4 Routes", &mut output);
    if !ipv4.is_empty() && !ipv6.is_empty() {
        output.line(format_args!(""));
    }
    print_family(&ipv6, "IPv6 Routes", &mut output);
    Ok(output.finish())
}

/// Prints the sorted routes of one address family.
fn print_family(routes: &[Route], title: &str, output: &mut Output) {
    if !routes.is_empty() {
        output.line(format_args!("{title}"));
    }
    for (place, table) in routes.chunk_by(|a, b| a.row.route_table == b.row.route_table).enumerate()
    {
        let name = match &*table[0].row.route_table {
            "" => "<main>",
            name => name,
        };
        output.line(format_args!("{}Route Table {name}:", if place > 0 { "\n" } else { "" }));
        for equals in table.chunk_by(|a, b| a.precedence() == b.precedence()) {
            for route in equals {
                route.print(equals.len() > 1, output);
            }
        }
    }
}

/// A route with a valid prefix.
struct Route {
    prefix: Prefix,
    row: LogicalRouterStaticRoute,
}

impl Route {
    fn new(row: LogicalRouterStaticRoute) -> Option<Self> {
        Prefix::parse(&row.ip_prefix).map(|prefix| Self { prefix, row })
    }

    /// `true` if the route matches the destination address of a packet, not the source address.
    fn is_by_destination(&self) -> bool {
        self.row.policy != Some(LogicalRouterStaticRoutePolicy::SrcIp)
    }

    /// Sort key of the routes of a table: longer prefixes come first, then destination routes, then
    /// the address with its host bits. Routes with equal keys share the traffic (ECMP).
    fn precedence(&self) -> (Reverse<(u8, bool)>, IpAddr) {
        (Reverse((self.prefix.len(), self.is_by_destination())), self.prefix.address())
    }

    fn compare(&self, other: &Self) -> Ordering {
        let (a, b) = (&self.row, &other.row);
        (a.route_table.cmp(&b.route_table))
            .then_with(|| self.precedence().cmp(&other.precedence()))
            .then_with(|| (&a.nexthop, &a.output_port).cmp(&(&b.nexthop, &b.output_port)))
    }

    fn print(&self, ecmp: bool, output: &mut Output) {
        let nexthop = match &*self.row.nexthop {
            "discard" => "discard".to_owned(),
            nexthop => normalize_prefix(nexthop),
        };
        output.put_right(25, &self.prefix.to_string());
        output.put(format_args!(" "));
        output.put_right(25, &nexthop);
        output.put(format_args!(" {}", if self.is_by_destination() { "dst-ip" } else { "src-ip" }));
        if let Some(port) = &self.row.output_port {
            output.put(format_args!(" {port}"));
        }
        let symmetric = self.row.options.get("ecmp_symmetric_reply");
        let marks = [
            (self.row.external_ids.contains_key("ic-learned-route"), " (learned)"),
            (ecmp, " ecmp"),
            (
                symmetric.is_some_and(|value| value.eq_ignore_ascii_case("true")),
                " ecmp-symmetric-reply",
            ),
            (self.row.bfd.is_some(), " bfd"),
        ];
        for (_, mark) in marks.into_iter().filter(|(set, _)| *set) {
            output.put(format_args!("{mark}"));
        }
        output.line(format_args!(""));
    }
}
