//! Tests of the rendered texts: reviewed as files, and compared with the real `ovn-nbctl` on the
//! same rows.

mod lists;
mod random;
mod real_northbound;
mod scenarios;

use patchbay_engine::db::Snapshot;
use patchbay_nbctl_text::{
    Release, lb_list, lr_lb_list, lr_nat_list, lr_policy_list, lr_route_list, show, show_named,
};

use real_northbound::RealNorthbound;

/// All releases.
const RELEASES: [Release; 2] = [Release::V23_03, Release::V26_03];

/// Commands whose texts are reviewed.
const REVIEWED: [&str; 3] = ["show", "lr-route-list", "lr-policy-list"];

/// All texts of a northbound database, each with the words of its command.
fn render_all(
    northbound: &Snapshot,
    routers: &[&str],
    release: Release,
) -> Vec<(Vec<String>, String)> {
    let mut texts = vec![
        (command(&["show"]), show(northbound, release)),
        (command(&["lb-list"]), lb_list(northbound, None)),
    ];
    for router in routers {
        texts.push((command(&["show", router]), show_named(northbound, router, release)));
        texts.push((command(&["lr-route-list", router]), lr_route_list(northbound, router)));
        texts.push((command(&["lr-nat-list", router]), lr_nat_list(northbound, router, release)));
        texts.push((command(&["lr-lb-list", router]), lr_lb_list(northbound, router)));
        texts.push((
            command(&["lr-policy-list", router]),
            lr_policy_list(northbound, router, release),
        ));
    }
    texts.into_iter().map(|(words, text)| (words, text.expect("the routers exist"))).collect()
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

/// Checks that the real `ovn-nbctl` of 23.03 prints the rendered texts.
fn assert_equals_ovn_nbctl(northbound: &Snapshot, routers: &[&str]) {
    assert_equals_releases(northbound, routers, &[Release::V23_03]);
}

/// Checks that the real `ovn-nbctl` of these releases prints the rendered texts.
fn assert_equals_releases(northbound: &Snapshot, routers: &[&str], releases: &[Release]) {
    let real = RealNorthbound::load(northbound);
    for release in releases {
        for (words, text) in render_all(northbound, routers, *release) {
            real.assert_prints(&words, &text, *release);
        }
    }
}

/// All texts of a northbound database as one text for review.
fn render_for_review(northbound: &Snapshot, routers: &[&str]) -> String {
    let all = render_all(northbound, routers, Release::V23_03);
    all.into_iter()
        .filter(|(words, _)| REVIEWED.contains(&&*words[0]))
        .map(|(words, text)| format!("$ ovn-nbctl {}\n{text}\n", words.join(" ")))
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn switches_and_routers_with_their_ports_are_shown() {
    let northbound = scenarios::ports();
    insta::assert_snapshot!("ports", render_for_review(&northbound, &["lr0"]));
    assert_equals_releases(&northbound, &["lr0", "lr1"], &RELEASES);
    let real = RealNorthbound::load(&northbound);
    for name in ["sw0", "both", "no such name"] {
        let text = show_named(&northbound, name, Release::V23_03).unwrap();
        assert_eq!(real.nbctl(&command(&["show", name])).unwrap(), text, "{name}");
    }
}

#[test]
fn a_port_without_networks_has_no_networks_line() {
    let text = show_named(&scenarios::port_without_networks(), "lr0", Release::V23_03).unwrap();
    assert!(text.ends_with(" (lr0)\n    port rtos\n        mac: \"\"\n"), "{text}");
}

#[test]
fn static_routes_are_listed() {
    let northbound = scenarios::routes();
    insta::assert_snapshot!("routes", render_for_review(&northbound, &["lr0"]));
    assert_equals_releases(&northbound, &["lr0", "only-ipv6", "empty"], &RELEASES);
}

#[test]
fn addresses_are_parsed_as_by_ovn_nbctl() {
    assert_equals_ovn_nbctl(&scenarios::addresses(), &["lr0"]);
}

#[test]
fn routing_policies_are_listed() {
    let northbound = scenarios::policies();
    insta::assert_snapshot!("policies", render_for_review(&northbound, &["lr0"]));
    assert_equals_releases(&northbound, &["lr0", "empty"], &RELEASES);
}

#[test]
fn rows_have_the_order_of_ovn_nbctl() {
    for (seed, count) in (0..).zip([1, 2, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40, 150]) {
        assert_equals_ovn_nbctl(&scenarios::many(seed, count), &[]);
    }
}

#[test]
fn look_ups_that_fail_have_the_errors_of_ovn_nbctl() {
    let northbound = scenarios::ports();
    let real = RealNorthbound::load(&northbound);
    let unknown = "6f1f9a4e-0000-4000-8000-000000000000";
    for words in [
        ["show", "twin"],
        ["lr-route-list", "twin"],
        ["lr-route-list", "no such router"],
        ["lr-policy-list", unknown],
        ["lr-policy-list", "sw0"],
    ] {
        let result = match words {
            ["show", name] => show_named(&northbound, name, Release::V23_03),
            ["lr-route-list", name] => lr_route_list(&northbound, name),
            [_, name] => lr_policy_list(&northbound, name, Release::V23_03),
        };
        let error = result.unwrap_err().to_string();
        assert_eq!(real.nbctl(&command(&words)).unwrap_err(), format!("ovn-nbctl: {error}\n"));
    }
}

#[test]
fn a_row_is_found_by_its_hyphenated_uuid() {
    let northbound = scenarios::ports();
    let by_name = show_named(&northbound, "lr0", Release::V23_03).unwrap();
    let uuid = by_name.split(' ').nth(1).unwrap();
    assert_eq!(show_named(&northbound, uuid, Release::V23_03).unwrap(), by_name);
    assert_eq!(show_named(&northbound, &uuid.replace('-', ""), Release::V23_03).unwrap(), "");
    assert_eq!(
        lr_route_list(&northbound, uuid).unwrap(),
        lr_route_list(&northbound, "lr0").unwrap()
    );
}
