//! Load balancers of VPCs, and those of `RouterLBRule`s.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_model::Protocol;
use patchbay_model::vpc::{BalancedVips, VpcVips, WiredBalancer};
use patchbay_rows::{PartRows, Reader};
use patchbay_schemas::atom::Atom;
use patchbay_schemas::nb::LoadBalancerHealthCheck;
use patchbay_schemas::schema::Constraint;

use super::{ids, map};
use crate::capability::Vpcs;
use crate::part::Part;
use crate::tables::{BalancerRow, VpcBalancerRow};

/// Seconds for which a client keeps its backend with session affinity, as in Kube-OVN.
const AFFINITY_SECONDS: &str = "10800";

/// Options of health checks, as in Kube-OVN.
const CHECK_OPTIONS: [(&str, &str); 4] =
    [("interval", "5"), ("timeout", "20"), ("success_count", "3"), ("failure_count", "3")];

/// Protocol, affinity and name of each load balancer of a VPC.
pub(super) fn names(vpc: &str) -> impl Iterator<Item = (Protocol, bool, String)> {
    let kinds =
        Protocol::ALL.into_iter().flat_map(|protocol| [(protocol, false), (protocol, true)]);
    kinds.map(move |(protocol, has_affinity)| {
        let kind = if has_affinity { "sess-load" } else { "load" };
        (protocol, has_affinity, format!("vpc-{vpc}-{}-{kind}", word(protocol)))
    })
}

/// Word of OVN for a protocol.
fn word(protocol: Protocol) -> String {
    protocol.as_str().to_ascii_lowercase()
}

/// Adds the load balancers of a VPC.
pub(super) fn put_of_vpc(
    of: &Vpcs,
    (part, vpc): (&Part, &str),
    vips: Option<&VpcVips>,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let fields = affinity_fields(reader);
    for (protocol, has_affinity, name) in names(vpc) {
        let of_kind = vips.and_then(|vips| vips.get(&(protocol, has_affinity)));
        let row_name = name.clone();
        let mut options = map([("prefer_local_backend", "false")]);
        options.extend(kept_clients(protocol, has_affinity));
        let row = VpcBalancerRow {
            name: name.into(),
            protocol: Some(word(protocol).into()),
            vips: of_kind.map(|of| of.vips.clone()).unwrap_or_default(),
            ip_port_mappings: of_kind.map(|of| of.sources.clone()).unwrap_or_default(),
            selection_fields: if has_affinity { fields.clone() } else { BTreeSet::new() },
            options,
            external_ids: ids(part, []),
        };
        rows.put(of.tables.vpc_balancers, &row);
        for check in of_kind.iter().flat_map(|of| health_checks(part, of)) {
            let mut check = rows.put(of.tables.health_checks, &check);
            check.held_by(of.tables.checks_of_balancer, &*row_name);
        }
    }
}

/// Health checks of a load balancer.
fn health_checks(part: &Part, of: &BalancedVips) -> Vec<LoadBalancerHealthCheck> {
    let checks = of.checks.iter().map(|(vip, subnet)| LoadBalancerHealthCheck {
        vip: vip.clone(),
        options: map(CHECK_OPTIONS),
        external_ids: ids(part, [("switch_lb_subnet", &**subnet)]),
    });
    checks.collect()
}

/// Adds the load balancers of a `RouterLBRule`, one for each protocol.
pub(crate) fn put_of_rule(
    of: &Vpcs,
    (part, rule): (&Part, &str),
    balancer: &WiredBalancer,
    reader: &Reader<'_, Vpcs>,
    rows: &mut PartRows<()>,
) {
    let protocols: BTreeSet<Protocol> = balancer.vips.iter().map(|vip| vip.protocol).collect();
    let has_one = protocols.len() == 1;
    for protocol in protocols {
        let name =
            if has_one { format!("rlr-{rule}") } else { format!("rlr-{rule}-{}", word(protocol)) };
        let mut vips = BalancedVips::default();
        for vip in balancer.vips.iter().filter(|vip| vip.protocol == protocol) {
            vips.add(vip);
        }
        let checks = health_checks(part, &vips);
        let has_affinity = balancer.has_affinity;
        let row = BalancerRow {
            name: name.as_str().into(),
            protocol: Some(word(protocol).into()),
            vips: vips.vips,
            ip_port_mappings: vips.sources,
            selection_fields: if has_affinity { affinity_fields(reader) } else { BTreeSet::new() },
            options: kept_clients(protocol, has_affinity),
            external_ids: ids(part, []),
        };
        let mut added = rows.put(of.tables.balancers, &row);
        added.held_by(of.tables.balancers_of_router, &*balancer.vpc);
        for switch in &balancer.switches {
            added.held_by(of.tables.rules_of_switch, &**switch);
        }
        for check in checks {
            let mut check = rows.put(of.tables.health_checks, &check);
            check.held_by(of.tables.checks_of_rule, name.as_str());
        }
    }
}

/// Options for clients that keep their machine, and for those that do not.
fn kept_clients(protocol: Protocol, has_affinity: bool) -> BTreeMap<String, String> {
    match (protocol, has_affinity) {
        (_, true) => map([("affinity_timeout", AFFINITY_SECONDS)]),
        (Protocol::Udp, false) => map([("ct_flush", "true")]),
        _ => BTreeMap::new(),
    }
}

/// Fields of a client's address, as far as the schema knows them: that of IPv6 is newer.
fn affinity_fields(reader: &Reader<'_, Vpcs>) -> BTreeSet<String> {
    let known = |field: &str| {
        let (_, table) = reader.schema().table_by_name("Load_Balancer")?;
        let column = table.column_id("selection_fields")?;
        match &table.column_type(column).key.constraint {
            Constraint::Enum(values) => Some(values.contains(&Atom::from(field))),
            _ => Some(true),
        }
    };
    let fields = ["ip_src", "ipv6_src"].into_iter().filter(|field| known(field) == Some(true));
    fields.map(str::to_owned).collect()
}
