//! What this crate renders: reviewed as text, and compared with the real `ovn-nbctl` on the same rows.

mod random;
mod real;
mod scenarios;

use patchbay_engine::db::Snapshot;
use patchbay_snapshots::{lr_policy_list, lr_route_list, show, show_named};

use real::RealNorthbound;

/// Everything that can be rendered of a northbound, each text under the command line that asks for it.
fn rendered(northbound: &Snapshot, routers: &[&str]) -> Vec<(Vec<String>, String)> {
    let mut texts = vec![(command(&["show"]), show(northbound))];
    for router in routers {
        texts.push((command(&["show", router]), show_named(northbound, router)));
        texts.push((
            command(&["lr-route-list", router]),
            lr_route_list(northbound, router),
        ));
        texts.push((
            command(&["lr-policy-list", router]),
            lr_policy_list(northbound, router),
        ));
    }
    let texts = texts.into_iter();
    texts
        .map(|(words, text)| (words, text.expect("the routers are there")))
        .collect()
}

fn command(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn is_what_ovn_nbctl_prints(northbound: &Snapshot, routers: &[&str]) {
    let real = RealNorthbound::load(northbound);
    for (words, text) in rendered(northbound, routers) {
        assert_eq!(real.nbctl(&words), Ok(text), "{words:?}");
    }
}

fn reviewed(northbound: &Snapshot, routers: &[&str]) -> String {
    let texts = rendered(northbound, routers).into_iter();
    texts
        .map(|(words, text)| format!("$ ovn-nbctl {}\n{text}\n", words.join(" ")))
        .collect::<Vec<_>>()
        .concat()
}

#[test]
fn ports() {
    let northbound = scenarios::ports();
    insta::assert_snapshot!(reviewed(&northbound, &["lr0"]));
    is_what_ovn_nbctl_prints(&northbound, &["lr0", "lr1"]);
    let real = RealNorthbound::load(&northbound);
    for name in ["sw0", "both", "no such name"] {
        let text = show_named(&northbound, name).unwrap();
        assert_eq!(
            real.nbctl(&command(&["show", name])).unwrap(),
            text,
            "{name}"
        );
    }
}

#[test]
fn a_port_without_networks_has_no_line_for_them() {
    let text = show_named(&scenarios::port_without_networks(), "lr0").unwrap();
    assert!(
        text.ends_with(" (lr0)\n    port rtos\n        mac: \"\"\n"),
        "{text}"
    );
}

#[test]
fn routes() {
    let northbound = scenarios::routes();
    insta::assert_snapshot!(reviewed(&northbound, &["lr0"]));
    is_what_ovn_nbctl_prints(&northbound, &["lr0", "only-ipv6", "empty"]);
}

#[test]
fn addresses_are_read_as_the_program_reads_them() {
    is_what_ovn_nbctl_prints(&scenarios::addresses(), &["lr0"]);
}

#[test]
fn policies() {
    let northbound = scenarios::policies();
    insta::assert_snapshot!(reviewed(&northbound, &["lr0"]));
    is_what_ovn_nbctl_prints(&northbound, &["lr0", "empty"]);
}

#[test]
fn the_order_of_rows_is_that_of_the_program() {
    for (seed, count) in (0..).zip([1, 2, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 40, 150]) {
        is_what_ovn_nbctl_prints(&scenarios::many(seed, count), &[]);
    }
}

#[test]
fn what_cannot_be_found_is_refused_in_the_same_words() {
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
        let refusal = match words {
            ["show", name] => show_named(&northbound, name),
            ["lr-route-list", name] => lr_route_list(&northbound, name),
            [_, name] => lr_policy_list(&northbound, name),
        };
        let refusal = refusal.unwrap_err().to_string();
        assert_eq!(
            real.nbctl(&command(&words)).unwrap_err(),
            format!("ovn-nbctl: {refusal}\n")
        );
    }
}

#[test]
fn a_uuid_names_a_row() {
    let northbound = scenarios::ports();
    let by_name = show_named(&northbound, "lr0").unwrap();
    let uuid = by_name.split(' ').nth(1).unwrap();
    assert_eq!(show_named(&northbound, uuid).unwrap(), by_name);
    assert_eq!(show_named(&northbound, &uuid.replace('-', "")).unwrap(), "");
    assert_eq!(
        lr_route_list(&northbound, uuid).unwrap(),
        lr_route_list(&northbound, "lr0").unwrap()
    );
}
