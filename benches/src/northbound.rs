//! Northbound content of the size and shape that OVN-Kubernetes writes for a connect router.

use std::fmt::Write as _;

/// The transaction that makes a router with `ports` ports and as many static routes, as an OVN-Kubernetes
/// controller writes it: one `transact` request.
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
                r#""nexthop":"192.168.{}.{}","external_ids":["map",[["ip-family","v4"],["k8s.ovn.org/id","#,
                r#""ovnkube-network-connect-controller:ClusterNetworkConnect:connect:{}:{}:v4"],["k8s.ovn.org/name","connect"],"#,
                r#"["k8s.ovn.org/owner-controller","ovnkube-network-connect-controller"],["k8s.ovn.org/owner-type","#,
                r#""ClusterNetworkConnect"],["network-id","{}"],["node-id","{}"]]]}}}}"#
            ),
            i,
            network,
            node % 256,
            network,
            node % 128 * 2 + 1,
            network,
            node,
            network,
            node
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

/// A small transaction: one more port on that router.
pub fn add_port_transaction(id: u32, i: usize) -> String {
    format!(
        concat!(
            r#"{{"id":{},"method":"transact","params":["OVN_Northbound",{},{{"op":"mutate","table":"Logical_Router","#,
            r#""where":[["_uuid","==",["uuid","ROUTER"]]],"mutations":[["ports","insert",["named-uuid","p{}"]]]}}]}}"#
        ),
        id,
        port(i, 17, i),
        i
    )
}

/// A small transaction that touches nothing else: one address set.
pub fn independent_transaction(id: u32) -> String {
    format!(
        r#"{{"id":{id},"method":"transact","params":["OVN_Northbound",{{"op":"insert","table":"Address_Set","row":{{"name":"as{id}","addresses":["set",["10.0.0.1","10.0.0.2"]],"external_ids":["map",[["owner","bench"],["number","{id}"]]]}}}}]}}"#
    )
}

/// The request for all of the northbound's content.
pub fn monitor_request(id: u32) -> String {
    let schema = patchbay_schemas::nb::schema();
    let mut tables = Vec::new();
    for name in [
        "Logical_Router",
        "Logical_Router_Port",
        "Logical_Router_Static_Route",
    ] {
        let Some((_, table)) = schema.table_by_name(name) else {
            continue;
        };
        // Columns that OVN 23.03 has too.
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
        tables.push(format!(
            "{name:?}:[{{\"columns\":[{}]}}]",
            columns.join(",")
        ));
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
            r#""mac":"0a:58:c0:a8:{:02x}:{:02x}","networks":"192.168.{}.{}/31","options":["map",[["requested-chassis","#,
            r#""11f6f9b9-82ef-5507-b6b6-{:012x}"],["requested-tnl-key","{}"]]],"external_ids":["map",[["k8s.ovn.org/id","#,
            r#""ovnkube-network-connect-controller:ClusterNetworkConnect:connect:{}:{}:connect_router_connect"],"#,
            r#"["k8s.ovn.org/name","connect"],["k8s.ovn.org/owner-controller","ovnkube-network-connect-controller"],"#,
            r#"["k8s.ovn.org/owner-type","ClusterNetworkConnect"],["network-id","{}"],["node-id","{}"],"#,
            r#"["router-name","connect_router_connect"]]]}}}}"#
        ),
        i,
        network,
        node,
        i / 256 % 256,
        i % 256,
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
