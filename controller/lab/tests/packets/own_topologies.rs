//! Packets where ovn-trace does not follow OVN, or where a release of OVN decides: templates,
//! forwarding groups, sources that stay, load balancers without state.

use patchbay_engine::txn::{BuildError, TxnBuilder};
use patchbay_lab::Protocol;
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, ChassisTemplateVar, ForwardingGroup, LoadBalancer, Nat, NatType,
};
use patchbay_schemas::typed::Ref;

use crate::own_rows::{CHASSIS, OwnRows, Written, map};

const WEB: Protocol = Protocol::Tcp(80);

#[tokio::test(flavor = "multi_thread")]
async fn a_template_gets_the_variables_of_its_chassis() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, backend) = own.address("green-1");
    let backends = format!("{backend}:8080");
    let mut variables = [
        (CHASSIS, map(&[("VIP", "10.96.0.1"), ("PORT", "80")])),
        ("c2", map(&[("OTHER", "10.96.0.1")])),
    ];
    variables[0].1.insert("BACKENDS".to_owned(), backends);
    // ovn-controller 26.03 ends if it gets variables a second time.
    let mut variables = Some(variables);
    for (vip, family, to) in [
        ("^VIP:^PORT", Some("ipv4"), Some("green-1")),
        ("^VIP:^PORT", None, Some("green-1")),
        ("^VIP:^PORT", Some("ipv6"), None),
        ("^OTHER:^PORT", None, None),
    ] {
        own.write(|txn, written| {
            for (chassis, variables) in variables.take().into_iter().flatten() {
                txn.insert(&ChassisTemplateVar {
                    chassis: chassis.to_owned(),
                    variables,
                    ..ChassisTemplateVar::default()
                })?;
            }
            let mut options = map(&[("template", "true")]);
            options.extend(family.map(|family| ("address-family".to_owned(), family.to_owned())));
            let balancer = txn.insert(&LoadBalancer {
                name: "lb".to_owned(),
                vips: map(&[(vip, "^BACKENDS")]),
                options,
                ..LoadBalancer::default()
            })?;
            written.switches[0].load_balancer.insert(balancer);
            Ok(())
        })
        .await;
        own.assert_arrival("blue-1", "10.96.0.1", WEB, to).await;
        own.assert_arrival("blue-1", "10.96.0.1", Protocol::Tcp(81), None).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_forwarding_group_leads_to_its_ports_if_it_knows_them_all() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (mac, address) = own.address("blue-2");
    let address = address.to_string();
    for (children, to) in
        [(&["blue-2"][..], Some("blue-2")), (&["blue-2", "nobody"][..], None), (&[][..], None)]
    {
        own.write(|txn, written| {
            // Only the group knows the addresses of the machine.
            written.ports.get_mut("blue-2").unwrap().addresses.clear();
            let name_of = |pod: &&str| match written.ports.get(pod) {
                Some(port) => port.name.clone(),
                None => (*pod).to_owned(),
            };
            if !children.is_empty() {
                let group = txn.insert(&ForwardingGroup {
                    name: "group".to_owned(),
                    vip: address.clone(),
                    vmac: mac.clone(),
                    child_port: children.iter().map(name_of).collect(),
                    ..ForwardingGroup::default()
                })?;
                written.switches[0].forwarding_groups.insert(group);
            }
            Ok(())
        })
        .await;
        own.assert_arrival("blue-1", &address, WEB, to).await;
        own.assert_arrival("green-1", &address, WEB, to).await;
    }
}

/// Adds an ACL that drops packets that a switch, from 0, gives to machines.
fn drop_packets(
    txn: &mut TxnBuilder,
    written: &mut Written,
    switch: usize,
    packets: &str,
) -> Result<(), BuildError> {
    let acl = txn.insert(&Acl {
        action: AclAction::Drop,
        direction: AclDirection::ToLport,
        r#match: packets.to_owned(),
        priority: 1,
        ..Acl::default()
    })?;
    written.switches[switch].acls.insert(acl);
    Ok(())
}

fn snat(txn: &mut TxnBuilder, external: &str, logical: &str) -> Result<Ref<Nat>, BuildError> {
    txn.insert(&Nat {
        r#type: NatType::Snat,
        external_ip: external.to_owned(),
        logical_ip: logical.to_owned(),
        ..Nat::default()
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_packet_that_could_be_an_answer_to_another_gateway_port_keeps_its_source() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, target) = own.address("green-1");
    let target = target.to_string();
    for (other, to) in
        [(None, None), (Some("10.2.0.0/17"), Some("green-1")), (Some("10.0.0.0/8"), None)]
    {
        own.write(|txn, written| {
            for port in 0..written.router_ports.len() {
                written.make_gateway_port(txn, port)?;
            }
            let rule = snat(txn, "10.2.9.9", "10.1.0.0/16")?;
            written.router.nat.insert(rule);
            if let Some(logical) = other {
                let rule = snat(txn, "10.1.9.9", logical)?;
                written.router.nat.insert(rule);
            }
            drop_packets(txn, written, 1, "ip4.src == 10.2.9.9")
        })
        .await;
        own.assert_arrival("blue-1", &target, WEB, to).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_gateway_router_that_commits_all_keeps_the_sources_of_large_networks() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, target) = own.address("green-1");
    let target = target.to_string();
    for (commits, logical, to) in [
        ("true", "10.0.0.0/8", Some("green-1")),
        ("true", "10.1.0.0/16", None),
        ("false", "10.0.0.0/8", None),
    ] {
        own.write(|txn, written| {
            written.router.options = map(&[("chassis", CHASSIS), ("ct-commit-all", commits)]);
            let rule = snat(txn, "10.2.9.9", logical)?;
            written.router.nat.insert(rule);
            drop_packets(txn, written, 1, "ip4.src == 10.2.9.9")
        })
        .await;
        own.assert_arrival("blue-1", &target, WEB, to).await;
    }
}

/// The second rule has a higher priority. The first one only makes a distributed router track.
#[tokio::test(flavor = "multi_thread")]
async fn a_rule_for_sources_sees_whether_the_router_has_tracked_the_packet() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, target) = own.address("green-1");
    let target = target.to_string();
    let gateway = |commits| map(&[("chassis", CHASSIS), ("ct-commit-all", commits)]);
    for (options, first, second, is_translated) in [
        (gateway("false"), None, "ct.new", false),
        (gateway("false"), None, "!ct.trk", true),
        (gateway("true"), None, "ct.new", true),
        (map(&[]), None, "ip4", true),
        (map(&[]), None, "ct.new", false),
        (map(&[]), None, "!ct.trk", false),
        (map(&[]), Some("!ct.trk"), "ct.new", true),
    ] {
        own.write(|txn, written| {
            written.router.options = options;
            if written.router.options.is_empty() {
                written.make_gateway_port(txn, 1)?;
            }
            let rules = [(first, "10.2.9.8", 1), (Some(second), "10.2.9.9", 2)];
            for (text, external, priority) in rules {
                let Some(text) = text else { continue };
                let rule = txn.insert(&Nat {
                    r#type: NatType::Snat,
                    external_ip: external.to_owned(),
                    logical_ip: "10.1.0.0/16".to_owned(),
                    r#match: text.to_owned(),
                    priority,
                    ..Nat::default()
                })?;
                written.router.nat.insert(rule);
            }
            drop_packets(txn, written, 1, "ip4.src == 10.2.9.9")
        })
        .await;
        let to = (!is_translated).then_some("green-1");
        own.assert_arrival("blue-1", &target, WEB, to).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_router_does_not_balance_new_connections_without_state() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, backend) = own.address("green-1");
    for (is_stateless, to) in [("true", None), ("false", Some("green-1"))] {
        own.write(|txn, written| {
            written.router.options = map(&[("chassis", CHASSIS)]);
            let balancer = txn.insert(&LoadBalancer {
                name: "lb".to_owned(),
                vips: map(&[("10.96.0.1:80", &format!("{backend}:80"))]),
                options: map(&[("use_stateless_nat", is_stateless)]),
                ..LoadBalancer::default()
            })?;
            written.router.load_balancer.insert(balancer);
            Ok(())
        })
        .await;
        own.assert_arrival("blue-1", "10.96.0.1", WEB, to).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn vips_of_a_router_without_ports_serve_packets_that_its_switch_tracks() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, backend) = own.address("blue-2");
    let with_port = format!("{backend}:80");
    let backend = backend.to_string();
    for (action, vip, backend, to) in [
        (AclAction::AllowRelated, "10.96.0.1", &backend, None),
        (AclAction::Allow, "10.96.0.1", &backend, Some("blue-2")),
        (AclAction::AllowRelated, "10.96.0.1:80", &with_port, Some("blue-2")),
    ] {
        own.write(|txn, written| {
            written.global_options = map(&[("install_ls_lb_from_router", "true")]);
            written.router.options = map(&[("chassis", CHASSIS)]);
            let balancer = txn.insert(&LoadBalancer {
                name: "lb".to_owned(),
                vips: map(&[(vip, backend)]),
                ..LoadBalancer::default()
            })?;
            written.router.load_balancer.insert(balancer);
            // It drops what the switch has balanced, not what the router balances.
            let address = backend.split(':').next().unwrap_or_default();
            let sender = &written.ports["blue-1"].name;
            let acls = [
                Acl {
                    action: AclAction::Drop,
                    r#match: format!("inport == \"{sender}\" && ip4.dst == {address}"),
                    options: map(&[("apply-after-lb", "true")]),
                    ..Acl::default()
                },
                Acl { action, r#match: "ip4".to_owned(), ..Acl::default() },
            ];
            for acl in acls {
                let acl =
                    txn.insert(&Acl { direction: AclDirection::FromLport, priority: 1, ..acl })?;
                written.switches[0].acls.insert(acl);
            }
            Ok(())
        })
        .await;
        own.assert_arrival("blue-1", "10.96.0.1", WEB, to).await;
    }
}

/// ovn-trace keeps the state, so that the answer leaves a choice.
#[tokio::test(flavor = "multi_thread")]
async fn a_switch_forgets_the_state_of_a_packet_whose_connection_it_commits() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, target) = own.address("green-1");
    let target = target.to_string();
    for (text, to) in [("ct.new", Some("green-1")), ("!ct.trk", None)] {
        own.write(|txn, written| {
            let rows = [
                (AclDirection::FromLport, AclAction::AllowRelated, "ip4".to_owned()),
                (
                    AclDirection::ToLport,
                    AclAction::Drop,
                    format!("outport == \"rp1-sp\" && ip4 && {text}"),
                ),
            ];
            for (direction, action, text) in rows {
                let acl = txn.insert(&Acl {
                    action,
                    direction,
                    r#match: text,
                    priority: 1,
                    ..Acl::default()
                })?;
                written.switches[0].acls.insert(acl);
            }
            Ok(())
        })
        .await;
        own.assert_arrival("blue-1", &target, WEB, to).await;
    }
}

/// ACLs stop ARP as well. A pod that knew its neighbour would send without it.
#[tokio::test(flavor = "multi_thread")]
async fn a_pod_asks_for_its_neighbours_again_after_a_change_of_rows() {
    let Some(mut own) = OwnRows::start().await else {
        return;
    };
    let (_, neighbour) = own.address("blue-2");
    let neighbour = neighbour.to_string();
    for (text, to) in [("udp", Some("blue-2")), ("arp", None)] {
        own.write(|txn, written| drop_packets(txn, written, 0, text)).await;
        own.assert_arrival("blue-1", &neighbour, WEB, to).await;
    }
}
