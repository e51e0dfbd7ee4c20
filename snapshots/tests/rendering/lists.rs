//! Lists of ACLs, NAT, load balancers, DHCP options and whole rows.

use std::collections::{BTreeMap, BTreeSet};

use patchbay_engine::db::Snapshot;
use patchbay_nbctl_text::{
    Release, acl_list, dhcp_options_list, lb_list, list, lr_lb_list, lr_list, lr_nat_list,
    lr_policy_list, ls_lb_list, ls_list, northbound, show,
};
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, AclSeverity, AddressSet, DhcpOptions, LoadBalancer,
    LoadBalancerGroup, LoadBalancerProtocol, LogicalRouter, LogicalRouterPolicy,
    LogicalRouterPolicyAction, LogicalRouterPort, LogicalSwitch, LogicalSwitchPort, Nat, NatType,
    NetworkFunctionGroup, NetworkFunctionGroupMode, PortGroup,
};
use patchbay_schemas::typed::{Ref, TableRow};
use patchbay_schemas::uuids::UuidSource;

use crate::real_northbound::RealNorthbound;
use crate::scenarios::{self, Rows};
use crate::{RELEASES, command};

/// Number of compared databases. They take about eight seconds.
const CASES: u64 = 8;

/// Choices that follow from a seed.
struct Choices(UuidSource);

impl Choices {
    fn below(&mut self, limit: u64) -> u64 {
        self.0.next_uuid().as_u64_pair().1 % limit
    }

    fn one<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize].clone()
    }

    fn maybe<T>(&mut self, item: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| item(self))
    }

    fn text(&mut self, items: &[&str]) -> String {
        self.one(items).to_owned()
    }

    fn some<T: Clone + Ord>(&mut self, items: &[T]) -> BTreeSet<T> {
        items.iter().filter(|_| self.below(3) > 0).cloned().collect()
    }
}

fn acl(of: &mut Choices) -> Acl {
    let names = ["allow-related-name", "NP:blue:x:Egress:0", "ACL \"ä\"", ""];
    Acl {
        action: of.one(&[AclAction::Allow, AclAction::AllowRelated, AclAction::Drop]),
        direction: of.one(&[AclDirection::FromLport, AclDirection::ToLport]),
        priority: of.one(&[0, 7, 1001, 32_767]),
        r#match: of.text(&[
            "ip4",
            "ip4.src == 10.0.0.1",
            "outport == @pg && (arp || nd)",
            "b",
            "inport == \"ü\\\" && ip",
            "",
        ]),
        log: of.below(2) == 0,
        name: of.maybe(|of| of.text(&names)),
        severity: of.maybe(|of| of.one(&[AclSeverity::Info, AclSeverity::Alert])),
        meter: of.maybe(|_| "acl-logging".to_owned()),
        label: of.one(&[0, 0, 17]),
        tier: of.one(&[0, 0, 1, 3]),
        options: match of.below(3) {
            0 => [("apply-after-lb".to_owned(), of.text(&["true", "TRUE", "no"]))].into(),
            _ => BTreeMap::new(),
        },
        ..Acl::default()
    }
}

fn nat(of: &mut Choices, ports: &[Ref<LogicalRouterPort>]) -> Nat {
    let addresses = ["169.254.0.11", "172.18.0.2", "fd69:1:2:3:4:5:6:7", "10.0.0.1"];
    Nat {
        r#type: of.one(&[NatType::Snat, NatType::Dnat, NatType::DnatAndSnat]),
        external_ip: of.text(&addresses),
        logical_ip: of.text(&["10.0.0.0/16", "10.0.0.7", "fd00:1:2:3::/64"]),
        external_port_range: of.text(&["", "32768-60999", "1-65535 and more"]),
        external_mac: of.maybe(|_| "0a:58:0a:00:00:01".to_owned()),
        logical_port: of.maybe(|of| of.text(&["rtos-blue_l3_n1-and-longer", "p"])),
        gateway_port: ports.first().copied().filter(|_| of.below(3) == 0),
        r#match: of.text(&["", "eth.dst == 0a:58:0a:0a:00:02", "ip4"]),
        ..Nat::default()
    }
}

fn load_balancer(of: &mut Choices) -> LoadBalancer {
    let vips = [
        "10.96.0.1:80",
        "10.96.0.10:53",
        "[fd00:10:96::77]:80",
        "10.96.0.1",
        "fd00::9",
        "10.0.0.1:",
        "bad",
        ":80",
        "[fd00::1",
        "[1.2.3.4]:9",
        "1.2.3.4:70000",
        "[fe80::1%lo]:5",
        "[fd00::1]9",
        "^NODEIP_IPv4_0:30080",
        "1.2.3.4: 9",
    ];
    let protocols = [
        None,
        Some(LoadBalancerProtocol::Tcp),
        Some(LoadBalancerProtocol::Udp),
        Some(LoadBalancerProtocol::Sctp),
    ];
    let vips = (0..of.below(4))
        .map(|_| {
            let backends = ["", "10.10.0.3:8080,10.10.1.3:8080", "[fd10::3]:8080"];
            (of.text(&vips), of.text(&backends))
        })
        .collect();
    LoadBalancer {
        name: of.text(&[
            "blue_l3_Service_blue/web_TCP_cluster",
            "lb",
            "b",
            "",
            "blue_l3_Service_x",
            "Größe_von_Diensten_blau",
            "one two\"",
        ]),
        protocol: of.one(&protocols),
        vips,
        options: match of.below(4) {
            0 => [("template".to_owned(), of.text(&["true", "True", "no"]))].into(),
            _ => BTreeMap::new(),
        },
        ..LoadBalancer::default()
    }
}

fn policy(of: &mut Choices) -> LogicalRouterPolicy {
    LogicalRouterPolicy {
        priority: of.one(&[1004, 9001, 100]),
        r#match: of.text(&["ip4", "ip6", "inport == \"rtos\""]),
        action: of.one(&[
            LogicalRouterPolicyAction::Reroute,
            LogicalRouterPolicyAction::Allow,
            LogicalRouterPolicyAction::Drop,
        ]),
        nexthops: ["10.0.0.9".to_owned(), "10.0.0.8".to_owned()].into(),
        chain: of.maybe(|of| of.text(&["one", "two"])),
        ..LogicalRouterPolicy::default()
    }
}

/// Inserts rows, in an order that does not depend on their UUIDs.
fn insert_each<T: TableRow>(rows: &mut Rows, each: &[T]) -> Vec<Ref<T>> {
    each.iter().map(|row| rows.insert(row)).collect()
}

/// Fills a database with a router, a switch, a port group and what they use.
fn fill(rows: &mut Rows, of: &mut Choices) {
    let balancers: Vec<_> = (0..of.below(9)).map(|_| load_balancer(of)).collect();
    let balancers = insert_each(rows, &balancers);
    let groups = ["g1", "g2"].map(|name| LoadBalancerGroup {
        name: name.to_owned(),
        load_balancer: of.some(&balancers),
    });
    let groups = insert_each(rows, &groups);
    let ports = insert_each(
        rows,
        &[LogicalRouterPort {
            name: "rtos-blue".to_owned(),
            mac: of.text(&["0a:58:0a:00:00:01", "not a MAC", "0A:58:64:41:00:02"]),
            networks: ["10.0.0.254/24".to_owned()].into(),
            peer: of.maybe(|_| "other".to_owned()),
            ..LogicalRouterPort::default()
        }],
    );
    let nats: Vec<_> = (0..of.below(9)).map(|_| nat(of, &ports)).collect();
    let policies: Vec<_> = (0..of.below(6)).map(|_| policy(of)).collect();
    let router = LogicalRouter {
        name: "lr0".to_owned(),
        nat: rows.insert_all(&nats),
        policies: rows.insert_all(&policies),
        load_balancer: of.some(&balancers),
        load_balancer_group: groups.iter().copied().collect(),
        ports: ports.into_iter().collect(),
        ..LogicalRouter::default()
    };
    rows.insert(&router);
    let mut acls = |of: &mut Choices| {
        let acls: Vec<_> = (0..of.below(9)).map(|_| acl(of)).collect();
        rows.insert_all(&acls)
    };
    let (of_switch, of_group) = (acls(of), acls(of));
    let ports = rows.insert_all(&[LogicalSwitchPort {
        name: "p1".to_owned(),
        addresses: ["0a:58:0a:00:00:01 10.0.0.1".to_owned()].into(),
        peer: of.maybe(|_| "p2".to_owned()),
        tag: Some(5),
        ..LogicalSwitchPort::default()
    }]);
    rows.insert(&LogicalSwitch {
        name: "sw0".to_owned(),
        acls: of_switch,
        load_balancer: of.some(&balancers),
        load_balancer_group: of.some(&groups),
        ports: ports.clone(),
        ..LogicalSwitch::default()
    });
    rows.insert(&PortGroup {
        name: "a123".to_owned(),
        acls: of_group,
        ports,
        external_ids: [("k8s.ovn.org/id".to_owned(), "x:y".to_owned())].into(),
    });
    for _ in 0..of.below(5) {
        let cidr = of.text(&["10.0.0.0/24", "fd00::/64", "10.1.0.0/16"]);
        rows.insert(&DhcpOptions { cidr, ..DhcpOptions::default() });
    }
    for name in ["a1", "a2", "a3"] {
        let addresses =
            ["10.0.0.1", "fd00::1", "a\"b", "true", "plain-1.x", "_"].map(str::to_owned);
        rows.insert(&AddressSet {
            name: name.to_owned(),
            addresses: of.some(&addresses),
            ..AddressSet::default()
        });
    }
}

fn database(seed: u64) -> Snapshot {
    scenarios::northbound(seed, |rows| {
        fill(rows, &mut Choices(UuidSource::seeded(seed)));
    })
}

/// All lists of a database of [`database`].
fn lists(of: &Snapshot, release: Release) -> Vec<(Vec<String>, String)> {
    let texts = [
        (command(&["acl-list", "sw0"]), acl_list(of, "sw0", release)),
        (command(&["acl-list", "a123"]), acl_list(of, "a123", release)),
        (command(&["lr-nat-list", "lr0"]), lr_nat_list(of, "lr0", release)),
        (command(&["lb-list"]), lb_list(of, None)),
        (command(&["lb-list", "lb"]), lb_list(of, Some("lb"))),
        (command(&["lr-lb-list", "lr0"]), lr_lb_list(of, "lr0")),
        (command(&["ls-lb-list", "sw0"]), ls_lb_list(of, "sw0")),
        (command(&["dhcp-options-list"]), dhcp_options_list(of)),
        (command(&["lr-list"]), lr_list(of)),
        (command(&["ls-list"]), ls_list(of)),
        (command(&["lr-policy-list", "lr0"]), lr_policy_list(of, "lr0", release)),
        (command(&["show"]), show(of, release)),
    ];
    let texts = texts.into_iter();
    texts.map(|(words, text)| (words, text.expect("the rows exist"))).collect()
}

#[test]
fn lists_are_those_of_ovn_nbctl_of_both_releases() {
    for seed in 0..CASES {
        let database = database(seed);
        let real = RealNorthbound::load(&database);
        for release in RELEASES {
            for (words, text) in lists(&database, release) {
                real.assert_prints(&words, &text, release);
            }
        }
        assert_lists_rows(&database, &real);
    }
}

/// Checks the rows of some tables against the newest `ovn-nbctl`. Its schema and the one of
/// `database` each have columns that the other one lacks.
fn assert_lists_rows(database: &Snapshot, real: &RealNorthbound) {
    for table in [
        "Port_Group",
        "Address_Set",
        "NAT",
        "ACL",
        "Load_Balancer",
        "Load_Balancer_Group",
        "Logical_Router",
        "Logical_Router_Policy",
        "Logical_Router_Port",
        "Logical_Switch",
        "Logical_Switch_Port",
        "DHCP_Options",
    ] {
        let Some(printed) = real.newest(&command(&["list", table])) else {
            return;
        };
        let printed = printed.expect("the table exists");
        let made = list(database, table).expect("the table exists");
        let common = |text: &str, other: &str| -> String {
            let columns: BTreeSet<_> = other.lines().map(column_of).collect();
            let lines = text.split_inclusive('\n');
            lines.filter(|line| columns.contains(column_of(line))).collect()
        };
        assert_eq!(common(&made, &printed), common(&printed, &made), "{table}");
    }
}

/// Name of the column in a line.
fn column_of(line: &str) -> &str {
    line.split_once(':').map_or("", |(name, _)| name.trim())
}

#[test]
fn columns_of_new_releases_are_those_of_the_newest_ovn_nbctl() {
    let database = scenarios::northbound(5, |rows| {
        let groups = rows.insert_all(&[NetworkFunctionGroup {
            name: "inspect".to_owned(),
            id: 1,
            mode: NetworkFunctionGroupMode::Inline,
            ..NetworkFunctionGroup::default()
        }]);
        let acls = [Some(groups.first().copied().unwrap()), None].map(|network_function_group| {
            Acl { r#match: "ip4".to_owned(), log: true, network_function_group, ..Acl::default() }
        });
        let acls = rows.insert_all(&acls);
        rows.insert(&LogicalSwitch { name: "sw0".to_owned(), acls, ..LogicalSwitch::default() });
        let jump = |priority, chain: &str| LogicalRouterPolicy {
            priority,
            action: LogicalRouterPolicyAction::Jump,
            jump_chain: Some(chain.to_owned()),
            ..LogicalRouterPolicy::default()
        };
        let policies = rows.insert_all(&[jump(1, "one"), jump(2, ""), jump(3, "a b")]);
        rows.insert(&LogicalRouter {
            name: "lr0".to_owned(),
            policies,
            ..LogicalRouter::default()
        });
    });
    let real = RealNorthbound::load(&database);
    let newest = Release::V26_03;
    let acls = acl_list(&database, "sw0", newest).unwrap();
    assert!(acls.contains("network-function-group=inspect"), "{acls}");
    real.assert_prints(&command(&["acl-list", "sw0"]), &acls, newest);
    let policies = lr_policy_list(&database, "lr0", newest).unwrap();
    assert!(policies.contains(" -> a b\n"), "{policies}");
    real.assert_prints(&command(&["lr-policy-list", "lr0"]), &policies, newest);
}

#[test]
fn errors_of_lists_are_those_of_ovn_nbctl() {
    let both = scenarios::northbound(1, |rows| {
        rows.insert(&LogicalSwitch { name: "both".to_owned(), ..LogicalSwitch::default() });
        rows.insert(&PortGroup { name: "both".to_owned(), ..PortGroup::default() });
    });
    let real = RealNorthbound::load(&both);
    let unknown = "6f1f9a4e-0000-4000-8000-000000000000";
    for (words, result) in [
        (["acl-list", "both"], acl_list(&both, "both", Release::V23_03)),
        (["acl-list", "none"], acl_list(&both, "none", Release::V23_03)),
        (["ls-lb-list", "none"], ls_lb_list(&both, "none")),
        (["ls-lb-list", unknown], ls_lb_list(&both, unknown)),
        (["lr-lb-list", "none"], lr_lb_list(&both, "none")),
        (["lr-nat-list", "none"], lr_nat_list(&both, "none", Release::V23_03)),
    ] {
        let error = result.unwrap_err().to_string();
        let printed = real.nbctl(&command(&words)).unwrap_err();
        assert_eq!(printed, format!("ovn-nbctl: {error}\n"), "{words:?}");
    }
    let error = list(&both, "Nothing").unwrap_err();
    assert_eq!(error.to_string(), "unknown table \"Nothing\"");
}

#[test]
fn a_whole_database_has_names_in_place_of_uuids() {
    let text = |seed| {
        northbound(&scenarios::northbound(seed, |rows| {
            fill(rows, &mut Choices(UuidSource::seeded(3)));
        }))
    };
    insta::assert_snapshot!("northbound", text(1));
    assert_eq!(text(1), text(2), "other UUIDs");
}
