//! Rows of a Northbound database, from a short notation.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::{Database, Snapshot};
use patchbay_engine::txn::TxnBuilder;
use patchbay_schemas::nb::{
    self, GatewayChassis, LoadBalancer, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPolicyAction, LogicalRouterPort, LogicalRouterStaticRoute,
    LogicalRouterStaticRoutePolicy, LogicalSwitch, Nat, NatType,
};
use serde::Deserialize;

type Texts = BTreeMap<String, String>;

/// Rows of a database.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Rows {
    routers: Vec<Router>,
    switches: Vec<Switch>,
    load_balancers: Vec<String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Router {
    name: String,
    external_ids: Texts,
    /// Prefix and next hop of routes by source.
    source_routes: Texts,
    policies: Vec<Policy>,
    /// Type, external and logical address.
    nat: Vec<[String; 3]>,
    load_balancers: Vec<String>,
    /// Gateway chassis of ports.
    ports: BTreeMap<String, Vec<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Switch {
    name: String,
    external_ids: Texts,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Policy {
    priority: i64,
    r#match: String,
    external_ids: Texts,
}

impl Rows {
    /// A database with the rows.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        for router in &self.routers {
            let row = router.row(&mut txn);
            txn.insert(&row).unwrap();
        }
        for switch in &self.switches {
            let row = LogicalSwitch {
                name: switch.name.clone(),
                external_ids: switch.external_ids.clone(),
                ..Default::default()
            };
            txn.insert(&row).unwrap();
        }
        for name in &self.load_balancers {
            insert_balancer(&mut txn, name);
        }
        database.transact(txn.finish().operations()).unwrap();
        database.snapshot()
    }
}

fn insert_balancer(txn: &mut TxnBuilder, name: &str) -> patchbay_schemas::typed::Ref<LoadBalancer> {
    let row = LoadBalancer { name: name.to_owned(), ..Default::default() };
    txn.insert(&row).unwrap()
}

impl Router {
    fn row(&self, txn: &mut TxnBuilder) -> LogicalRouter {
        let mut row = LogicalRouter {
            name: self.name.clone(),
            external_ids: self.external_ids.clone(),
            ..Default::default()
        };
        for (prefix, hop) in &self.source_routes {
            let route = LogicalRouterStaticRoute {
                ip_prefix: prefix.clone(),
                nexthop: hop.clone(),
                policy: Some(LogicalRouterStaticRoutePolicy::SrcIp),
                ..Default::default()
            };
            row.static_routes.insert(txn.insert(&route).unwrap());
        }
        for policy in &self.policies {
            let policy = LogicalRouterPolicy {
                priority: policy.priority,
                r#match: policy.r#match.clone(),
                action: LogicalRouterPolicyAction::Drop,
                external_ids: policy.external_ids.clone(),
                ..Default::default()
            };
            row.policies.insert(txn.insert(&policy).unwrap());
        }
        for [kind, external, logical] in &self.nat {
            let nat = Nat {
                r#type: match &**kind {
                    "snat" => NatType::Snat,
                    _ => NatType::DnatAndSnat,
                },
                external_ip: external.clone(),
                logical_ip: logical.clone(),
                ..Default::default()
            };
            row.nat.insert(txn.insert(&nat).unwrap());
        }
        for name in &self.load_balancers {
            row.load_balancer.insert(insert_balancer(txn, name));
        }
        for (name, chassis) in &self.ports {
            let mut rows = BTreeSet::new();
            for (priority, chassis_name) in (1..).zip(chassis) {
                let chassis = GatewayChassis {
                    name: format!("{name}-{chassis_name}"),
                    chassis_name: chassis_name.clone(),
                    priority,
                    ..Default::default()
                };
                rows.insert(txn.insert(&chassis).unwrap());
            }
            let port = LogicalRouterPort {
                name: name.clone(),
                mac: "0a:58:0a:00:00:01".to_owned(),
                networks: ["10.0.0.1/24".to_owned()].into(),
                gateway_chassis: rows,
                ..Default::default()
            };
            row.ports.insert(txn.insert(&port).unwrap());
        }
        row
    }
}
