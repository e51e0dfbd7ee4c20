//! Rules R about objects of a cluster, with their status.

use std::net::IpAddr;

use patchbay_resources::manifests::{InventoryKind, Sourced};
use patchbay_resources::object::kube_ovn::Vlan;

use crate::cluster::{Cluster, name_of, objects};
use crate::nat::NatRule;
use crate::ranges::{read_addresses, read_nets};
use crate::report::Report;

/// Finalizers of Kube-OVN's controller, the older one last.
const FINALIZERS: [&str; 2] = ["kubeovn.io/kube-ovn-controller", "kube-ovn-controller"];

pub(super) fn forgotten_deletion(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    for eip in objects(&inventory.ovn_eips) {
        let name = name_of(eip);
        let is_used = cluster.is_eip_named(name);
        let is_port = cluster.automatic_eip(name).is_some();
        if !is_used && !is_port {
            check_deletion(eip, report);
        }
    }
    objects(&inventory.ovn_snat_rules).for_each(|rule| check_deletion(rule, report));
    objects(&inventory.ovn_dnat_rules).for_each(|rule| check_deletion(rule, report));
    objects(&inventory.ovn_fips).for_each(|rule| check_deletion(rule, report));
}

fn check_deletion<T: InventoryKind>(object: &Sourced<T>, report: &mut Report) {
    let meta = object.object.meta();
    let mut finalizers = meta.finalizers.iter().flatten();
    let finalizer = finalizers.find(|one| FINALIZERS.contains(&&***one));
    if let (Some(time), Some(finalizer)) = (&meta.deletion_timestamp, finalizer) {
        let message = format!(
            "{} {} is being deleted since {time} and nothing holds it; Kube-OVN before 1.17 forgets it when it \
             starts again.",
            T::KIND,
            name_of(object)
        );
        let repair = format!("Change any field of it, or remove finalizer {finalizer}.");
        let draft = report.about(object).field("metadata.deletionTimestamp");
        draft.found(message, repair);
    }
}

pub(super) fn stuck_vlan(cluster: &Cluster<'_>, report: &mut Report) {
    for vlan in objects(&cluster.inventory.vlans) {
        let (name, spec) = (name_of(vlan), &vlan.object.spec);
        let has_conflict = vlan.object.status.as_ref().is_some_and(|status| status.conflict);
        let mut others = objects(&cluster.inventory.vlans).filter(|other| name_of(other) != name);
        let is_equal = |other: &Sourced<Vlan>| {
            let other = &other.object.spec;
            other.provider == spec.provider && other.id == spec.id
        };
        let network = cluster.provider_network(&spec.provider);
        let status = network.and_then(|network| network.object.status.as_ref());
        let is_processed = status.is_none_or(|status| status.vlans.iter().any(|one| one == name));
        let is_named = || cluster.subnets.iter().any(|subnet| subnet.spec.vlan == name);
        let reason = if has_conflict && !others.any(is_equal) {
            format!("it has a conflict, but no other Vlan has id {} of {}", spec.id, spec.provider)
        } else if !is_processed && is_named() {
            format!("ProviderNetwork {} does not list it, and its subnets wait", spec.provider)
        } else {
            continue;
        };
        let message = format!("Vlan {name}: {reason}.");
        let draft = report.about(vlan).field("status");
        draft.found(message, "Change any field of it to make Kube-OVN look again.");
    }
}

/// Addresses that a field of a rule's specification and its status have.
struct Compared<'a> {
    field: &'static str,
    wanted: Vec<IpAddr>,
    row: &'a str,
}

pub(super) fn ignored_change(cluster: &Cluster<'_>, report: &mut Report) {
    let inventory = cluster.inventory;
    for rule in objects(&inventory.ovn_snat_rules) {
        let Some(status) = rule.object.status.as_ref().filter(|status| status.ready) else {
            continue;
        };
        check_eip(cluster, rule, [&status.v4_eip, &status.v6_eip], report);
        let sources = cluster.snat_sources(rule);
        for (is_ipv4, row) in [(true, &status.v4_ip_cidr), (false, &status.v6_ip_cidr)] {
            let wanted: Vec<_> =
                sources.iter().filter(|net| net.addr().is_ipv4() == is_ipv4).collect();
            let has_row = read_nets(row);
            if let ([wanted], [row]) = (&*wanted, &*has_row)
                && *wanted != row
            {
                found(rule, "spec", &row.to_string(), report);
            }
        }
    }
    for rule in objects(&inventory.ovn_dnat_rules) {
        let Some(status) = rule.object.status.as_ref().filter(|status| status.ready) else {
            continue;
        };
        check_eip(cluster, rule, [&status.v4_eip, &status.v6_eip], report);
        let spec = &rule.object.spec;
        check_addresses(rule, [(&spec.v4_ip, &status.v4_ip), (&spec.v6_ip, &status.v6_ip)], report);
        let ports = [
            ("spec.externalPort", &spec.external_port, &status.external_port),
            ("spec.internalPort", &spec.internal_port, &status.internal_port),
        ];
        for (field, wanted, row) in ports {
            if !wanted.is_empty() && !row.is_empty() && wanted != row {
                found(rule, field, row, report);
            }
        }
    }
    for rule in objects(&inventory.ovn_fips) {
        let Some(status) = rule.object.status.as_ref().filter(|status| status.ready) else {
            continue;
        };
        check_eip(cluster, rule, [&status.v4_eip, &status.v6_eip], report);
        let spec = &rule.object.spec;
        check_addresses(rule, [(&spec.v4_ip, &status.v4_ip), (&spec.v6_ip, &status.v6_ip)], report);
    }
}

/// Compares the address of the named EIP with that of the row.
fn check_eip<T: NatRule>(
    cluster: &Cluster<'_>,
    rule: &Sourced<T>,
    rows: [&String; 2],
    report: &mut Report,
) {
    let eip = cluster.eip(rule.object.eip()).map(|eip| &eip.object);
    let eip = eip.map(|eip| (&eip.spec, eip.status.as_ref()));
    let Some((spec, status)) = eip else {
        return;
    };
    let address = |spec: &'_ str, status: Option<&String>| {
        let text = status.filter(|text| !text.is_empty()).map_or(spec, |text| text);
        read_addresses(text)
    };
    let [row_v4, row_v6] = rows;
    let compared = [
        Compared {
            field: "spec.ovnEip",
            wanted: address(&spec.v4_ip, status.map(|status| &status.v4_ip)),
            row: row_v4,
        },
        Compared {
            field: "spec.ovnEip",
            wanted: address(&spec.v6_ip, status.map(|status| &status.v6_ip)),
            row: row_v6,
        },
    ];
    compare(rule, &compared, report);
}

/// Compares addresses of machines with those of the row.
fn check_addresses<T: NatRule>(
    rule: &Sourced<T>,
    pairs: [(&String, &String); 2],
    report: &mut Report,
) {
    let [(v4, row_v4), (v6, row_v6)] = pairs;
    let compared = [
        Compared { field: "spec.v4Ip", wanted: read_addresses(v4), row: row_v4 },
        Compared { field: "spec.v6Ip", wanted: read_addresses(v6), row: row_v6 },
    ];
    compare(rule, &compared, report);
}

fn compare<T: NatRule>(rule: &Sourced<T>, compared: &[Compared<'_>], report: &mut Report) {
    for Compared { field, wanted, row } in compared {
        let rows = read_addresses(row);
        if !wanted.is_empty() && !rows.is_empty() && *wanted != rows {
            found(rule, field, row, report);
        }
    }
}

fn found<T: NatRule>(rule: &Sourced<T>, field: &str, row: &str, report: &mut Report) {
    let message = format!(
        "{} {}: the row still has {row}; Kube-OVN only logs the change.",
        T::KIND,
        name_of(rule)
    );
    report.about(rule).field(field).found(message, "Create the rule anew.");
}
