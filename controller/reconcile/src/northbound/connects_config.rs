//! The part of a Northbound database on which connects depend.

use patchbay_engine::client::{Config, Filter, Remotes};
use patchbay_model::external_ids::{self, key};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::{Datum, Map};
use patchbay_schemas::nb::{AddressSet, LoadBalancerGroup};
use patchbay_schemas::wire::Function;

use super::{BULK_ROWS, DATABASE};

/// Tables of which connects read their own rows only. Such a row is identified in its part, so no
/// row of another owner can be taken for it. There are many others: a network has two routes for
/// each node.
const OWN_ROWS: [(&str, &[&str]); 3] = [
    (
        "Logical_Router_Static_Route",
        &[
            "ip_prefix",
            "nexthop",
            "policy",
            "output_port",
            "route_table",
            "options",
            "external_ids",
        ],
    ),
    (
        "Logical_Router_Policy",
        &["priority", "match", "action", "nexthop", "nexthops", "external_ids"],
    ),
    (
        "ACL",
        &[
            "priority",
            "direction",
            "match",
            "action",
            "tier",
            "log",
            "meter",
            "name",
            "severity",
            "options",
            "label",
            "external_ids",
        ],
    ),
];

/// Returns the configuration of a client whose replica has what
/// [`ZoneController`](patchbay_connects::ZoneController) reads, and little else.
pub fn connects_config(remotes: Remotes) -> Config {
    let mut config = Config::new(remotes, DATABASE);
    config.bulk_rows = Some(BULK_ROWS);
    let all_rows = config
        .with_table::<AddressSet>()
        .with_table::<LoadBalancerGroup>()
        .with_columns("Load_Balancer", ["name", "external_ids"])
        .with_columns("Copp", ["name"])
        .with_columns(
            "Logical_Router",
            [
                "name",
                "options",
                "external_ids",
                "copp",
                "enabled",
                "ports",
                "static_routes",
                "policies",
            ],
        )
        // Names of ports are unique in the database, whoever owns them.
        .with_columns(
            "Logical_Router_Port",
            ["name", "mac", "networks", "peer", "options", "external_ids", "enabled"],
        )
        .with_columns("Logical_Switch", ["name", "external_ids", "acls", "load_balancer_group"]);
    OWN_ROWS.into_iter().fold(all_rows, |config, (table, columns)| {
        config.with_columns(table, columns.iter().copied()).with_filter(table, own_rows())
    })
}

/// Rows with the owner of connects.
fn own_rows() -> Filter {
    let owner: Map =
        [(Atom::from(key::OWNER_CONTROLLER), Atom::from(external_ids::OWNER_CONTROLLER))]
            .into_iter()
            .collect();
    Filter::column("external_ids", Function::Includes, Datum::Map(owner))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use patchbay_engine::client::Client;
    use patchbay_engine::txn::TxnBuilder;
    use patchbay_schemas::nb::{LogicalRouter, LogicalRouterPort, LogicalRouterStaticRoute};

    use super::*;
    use crate::northbound::{Embedded, Northbound as _};

    #[tokio::test]
    async fn routes_of_others_are_not_read_and_ports_of_others_are() {
        let mut northbound = Embedded::new(1).unwrap();
        let mut txn = TxnBuilder::new(&northbound.snapshot());
        let (mut ports, mut static_routes) = (Vec::new(), Vec::new());
        for owner in [external_ids::OWNER_CONTROLLER, "other"] {
            let external_ids =
                BTreeMap::from([(key::OWNER_CONTROLLER.to_owned(), owner.to_owned())]);
            let port = LogicalRouterPort {
                name: owner.to_owned(),
                mac: "0a:58:00:00:00:01".to_owned(),
                networks: ["10.0.0.1/24".to_owned()].into(),
                external_ids: external_ids.clone(),
                ..Default::default()
            };
            let route = LogicalRouterStaticRoute {
                ip_prefix: owner.to_owned(),
                external_ids,
                ..Default::default()
            };
            ports.push(txn.insert(&port).unwrap());
            static_routes.push(txn.insert(&route).unwrap());
        }
        let router = LogicalRouter {
            name: "router".to_owned(),
            ports: ports.into_iter().collect(),
            static_routes: static_routes.into_iter().collect(),
            ..Default::default()
        };
        txn.insert(&router).unwrap();
        northbound.commit(txn.finish()).await.unwrap();

        let remotes = northbound.sim().connector().into();
        let client = Client::connect(connects_config(remotes)).await.unwrap();
        let snapshot = client.snapshot();
        let routes = snapshot.typed::<LogicalRouterStaticRoute>();
        let prefixes: Vec<String> = routes.iter().map(|row| row.unwrap().1.ip_prefix).collect();
        assert_eq!(prefixes, [external_ids::OWNER_CONTROLLER]);
        assert_eq!(snapshot.typed::<LogicalRouterPort>().iter().count(), 2);
    }
}
