//! Requests with Northbound rows as OVN-Kubernetes writes them for a connect router: the data set
//! "32K" and small transactions.

use std::fmt::Write as _;

use anyhow::{Context as _, Result, ensure};
use uuid::Uuid;

use crate::client::RawClient;

/// Returns a `transact` request that inserts a router with `ports` ports and as many static routes.
pub fn router_transaction(id: u32, ports: usize) -> String {
    let mut out = format!("{{\"id\":{id},\"method\":\"transact\",\"params\":[\"OVN_Northbound\"");
    let (mut port_names, mut route_names) = (String::new(), String::new());
    for i in 0..ports {
        let (network, node) = (i / 2000 + 1, i % 2000 + 2);
        let _ = write!(out, ",{}", port(i, network, node));
        let _ = write!(
            out,
            concat!(
                r#",{{"op":"insert","table":"Logical_Router_Static_Route","uuid-name":"r{}","row":{{"ip_prefix":"10.{}.{}.0/24","#,
                r#""nexthop":"192.168.{}.{}"}}}}"#
            ),
            i,
            network,
            node % 256,
            network,
            node % 128 * 2 + 1
        );
        let separator = if i > 0 { "," } else { "" };
        let _ = write!(port_names, "{separator}[\"named-uuid\",\"p{i}\"]");
        let _ = write!(route_names, "{separator}[\"named-uuid\",\"r{i}\"]");
    }
    let _ = write!(
        out,
        r#",{{"op":"insert","table":"Logical_Router","row":{{"name":"connect_router_connect","ports":["set",[{port_names}]],"static_routes":["set",[{route_names}]]}}}}]}}"#
    );
    out
}

/// Returns the UUID of the row that the last operation of a transaction inserted, from the reply.
///
/// # Errors
/// The transaction failed.
pub fn last_inserted_uuid(reply: &str) -> Result<Uuid> {
    ensure!(
        !reply.contains("\"details\""),
        "the transaction failed: {}",
        &reply[reply.len().saturating_sub(300)..]
    );
    let uuid = reply.rsplit("[\"uuid\",\"").next().and_then(|rest| rest.get(..36));
    Ok(uuid.context("a uuid in the reply")?.parse()?)
}

/// Selects all rows of a table and compares their number with `wanted`.
///
/// # Errors
/// The number differs, because transactions failed.
pub fn ensure_rows(client: &mut RawClient, table: &str, wanted: usize) -> Result<()> {
    let reply = client.call(&format!(
        r#"{{"id":3,"method":"transact","params":["OVN_Northbound",{{"op":"select","table":{table:?},"where":[],"columns":["_uuid"]}}]}}"#
    ))?;
    let found = reply.matches("\"_uuid\"").count();
    ensure!(found == wanted, "{table} has {found} rows instead of {wanted}");
    Ok(())
}

/// Returns a small transaction: a new port of that router.
pub fn add_port_transaction(id: u32, i: usize, router: Uuid) -> String {
    format!(
        r#"{{"id":{id},"method":"transact","params":["OVN_Northbound",{},{}]}}"#,
        port(i, 17, i),
        mutate_ports(router, "insert", &format!("[\"named-uuid\",\"p{i}\"]"))
    )
}

/// Like [`add_port_transaction`], with the UUID that [`update_port_transaction`] and
/// [`remove_port_transaction`] expect.
pub fn add_given_port_transaction(id: u32, i: usize, router: Uuid) -> String {
    let given = format!("\"uuid\":\"{}\"", given_uuid(i));
    let port = format!("[\"uuid\",\"{}\"]", given_uuid(i));
    add_port_transaction(id, i, router)
        .replace(&format!("\"uuid-name\":\"p{i}\""), &given)
        .replace(&format!("[\"named-uuid\",\"p{i}\"]"), &port)
}

/// Returns a small transaction: a new address of such a port.
pub fn update_port_transaction(id: u32, i: usize) -> String {
    format!(
        r#"{{"id":{id},"method":"transact","params":["OVN_Northbound",{{"op":"update","table":"Logical_Router_Port","where":[["_uuid","==",["uuid","{}"]]],"row":{{"mac":"{}"}}}}]}}"#,
        given_uuid(i),
        updated_mac(i)
    )
}

/// Returns a small transaction: such a port is removed from the router.
pub fn remove_port_transaction(id: u32, i: usize, router: Uuid) -> String {
    let port = format!("[\"uuid\",\"{}\"]", given_uuid(i));
    let mutate = mutate_ports(router, "delete", &port);
    format!(r#"{{"id":{id},"method":"transact","params":["OVN_Northbound",{mutate}]}}"#)
}

/// MAC address of a new port.
pub fn port_mac(i: usize) -> String {
    format!("0a:58:c0:a8:{:02x}:{:02x}", i / 256 % 256, i % 256)
}

/// MAC address of a port after [`update_port_transaction`].
pub fn updated_mac(i: usize) -> String {
    format!("0a:58:00:00:{:02x}:{:02x}", i / 256 % 256, i % 256)
}

fn mutate_ports(router: Uuid, mutator: &str, port: &str) -> String {
    format!(
        r#"{{"op":"mutate","table":"Logical_Router","where":[["_uuid","==",["uuid","{router}"]]],"mutations":[["ports","{mutator}",{port}]]}}"#
    )
}

/// UUID of a port of [`add_given_port_transaction`].
pub fn given_uuid(i: usize) -> Uuid {
    Uuid::from_u64_pair(0x9a7c_4ba1_0000_4000, 0x8000_0000_0000_0000 | i as u64)
}

/// Returns a small transaction that depends on no other row: a new address set.
pub fn independent_transaction(id: u32) -> String {
    format!(
        r#"{{"id":{id},"method":"transact","params":["OVN_Northbound",{{"op":"insert","table":"Address_Set","row":{{"name":"as{id}","addresses":["set",["10.0.0.1","10.0.0.2"]],"external_ids":["map",[["owner","bench"],["number","{id}"]]]}}}}]}}"#
    )
}

/// Returns a `monitor_cond` request for the tables of the data set "32K".
pub fn monitor_request(id: u32) -> String {
    let schema = patchbay_schemas::nb::schema();
    let mut tables = Vec::new();
    for name in ["Logical_Router", "Logical_Router_Port", "Logical_Router_Static_Route"] {
        let Some((_, table)) = schema.table_by_name(name) else {
            continue;
        };
        // These columns also exist in OVN 23.03.
        let known = [
            "name",
            "mac",
            "networks",
            "options",
            "external_ids",
            "peer",
            "ports",
            "static_routes",
            "ip_prefix",
            "nexthop",
            "policies",
            "nat",
            "enabled",
        ];
        let columns: Vec<String> = known
            .iter()
            .filter(|name| table.column_id(name).is_some())
            .map(|name| format!("{name:?}"))
            .collect();
        tables.push(format!("{name:?}:[{{\"columns\":[{}]}}]", columns.join(",")));
    }
    format!(
        r#"{{"id":{id},"method":"monitor_cond","params":["OVN_Northbound",["m",{id}],{{{}}}]}}"#,
        tables.join(",")
    )
}

fn port(i: usize, network: usize, node: usize) -> String {
    format!(
        concat!(
            r#"{{"op":"insert","table":"Logical_Router_Port","uuid-name":"p{}","row":{{"name":"crtor-connect_cluster_udn_net{}_node{}","#,
            r#""mac":"{}","networks":"192.168.{}.{}/31","options":["map",[["requested-chassis","#,
            r#""11f6f9b9-82ef-5507-b6b6-{:012x}"],["requested-tnl-key","{}"]]],"external_ids":["map",[["k8s.ovn.org/id","#,
            r#""ovnkube-network-connect-controller:ClusterNetworkConnect:connect:{}:{}:connect_router_connect"],"#,
            r#"["k8s.ovn.org/name","connect"],["k8s.ovn.org/owner-controller","ovnkube-network-connect-controller"],"#,
            r#"["k8s.ovn.org/owner-type","ClusterNetworkConnect"],["network-id","{}"],["node-id","{}"],"#,
            r#"["router-name","connect_router_connect"]]]}}}}"#
        ),
        i,
        network,
        node,
        port_mac(i),
        i / 128 % 256,
        i % 128 * 2,
        node,
        i % 32767 + 1,
        network,
        node,
        network,
        node
    )
}
