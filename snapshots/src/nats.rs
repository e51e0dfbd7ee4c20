//! Text of `ovn-nbctl lr-nat-list`.

use patchbay_engine::db::Snapshot;
use patchbay_schemas::nb::{LogicalRouterPort, Nat};

use crate::lookup::{RenderError, find_router};
use crate::output::{Output, sorted_pairs};
use crate::release::Release;

/// Renders the NAT of a router, sorted by type, gateway port, match (since 24.03) and external
/// address.
///
/// `router_id` is a name or UUID.
///
/// # Errors
/// No router or several routers have the name, or a row holds a value that OVN does not define.
pub fn lr_nat_list(
    snapshot: &Snapshot,
    router_id: &str,
    release: Release,
) -> Result<String, RenderError> {
    let router = find_router(snapshot, router_id)?;
    let (nats, ports) = (snapshot.typed::<Nat>(), snapshot.typed::<LogicalRouterPort>());
    let mut pairs = Vec::new();
    for row in &router.nat {
        let Some(nat) = nats.get(row.uuid)? else {
            continue;
        };
        let gateway = match &nat.gateway_port {
            Some(port) => ports.get(port.uuid)?.map(|port| port.name),
            None => None,
        };
        pairs.push((key(&nat, &gateway.unwrap_or_default(), release), value(&nat)));
    }
    let mut output = Output::default();
    if pairs.is_empty() {
        return Ok(output.finish());
    }
    print_title(release, &mut output);
    let (width, length) = match release {
        Release::V23_03 => (58, 54),
        Release::V26_03 => (80, 86),
    };
    for (key, value) in sorted_pairs(pairs) {
        output.put_left(width, length, &key);
        output.line(format_args!("{value}"));
    }
    Ok(output.finish())
}

fn print_title(release: Release, output: &mut Output) {
    output.put_left(17, 13, "TYPE");
    output.put_left(22, 18, "GATEWAY_PORT");
    if release == Release::V26_03 {
        output.put_left(22, 18, "MATCH");
    }
    output.put_left(19, 15, "EXTERNAL_IP");
    output.put_left(17, 13, "EXTERNAL_PORT");
    output.put_left(20, 16, "LOGICAL_IP");
    output.put_left(21, 17, "EXTERNAL_MAC");
    output.line(format_args!("LOGICAL_PORT"));
}

/// The columns by which rows are sorted.
fn key(nat: &Nat, gateway: &str, release: Release) -> String {
    let mut key = Output::default();
    key.put_left(17, 13, nat.r#type.as_str());
    key.put_left(22, 18, gateway);
    match release {
        Release::V23_03 => key.put(format_args!("{}", nat.external_ip)),
        Release::V26_03 => {
            key.put_left(22, 18, &nat.r#match);
            key.put_left(19, 15, &nat.external_ip);
        }
    }
    key.finish()
}

/// The other columns.
fn value(nat: &Nat) -> String {
    let mut value = Output::default();
    value.put_left(17, 13, &nat.external_port_range);
    if let (Some(mac), Some(port)) = (&nat.external_mac, &nat.logical_port) {
        value.put_left(20, 16, &nat.logical_ip);
        value.put_left(21, 17, mac);
        value.put(format_args!("{port}"));
    } else {
        value.put(format_args!("{}", nat.logical_ip));
    }
    value.finish()
}
