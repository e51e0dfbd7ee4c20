//! Scenarios recorded from OVN-Kubernetes, replayed step by step and compared.
//!
//! All `*.json` files of a folder are replayed: of `PATCHBAY_GOLDEN_DIR`, or of `cnc` (connects),
//! `udn`, `udn_further`, `udn_cluster` and `udn_full` (networks: zone controller, cluster manager,
//! both) beside this file. The zone controller of networks has connects, too. There is no list of exceptions. A scenario with a `quirk` records an
//! oddity, as do those that [`QUIRKS`] has beside them. It names the rule by which Patchbay
//! differs, and a snapshot has the resulting rows.

mod cluster;
mod report;
mod rows;
mod scenario;
mod udn;
mod udn_cluster;
mod udn_full;
mod zone;

use std::path::{Path, PathBuf};

use report::{ScenarioResult, Table};
use scenario::{Half, Pace, Scenario};

/// Reason why a scenario with a quirk does not end as recorded.
#[derive(Clone, Copy)]
pub(crate) struct Purpose {
    /// Folder of the scenario.
    pub(crate) folder: &'static str,
    pub(crate) scenario: &'static str,
    /// The rules of the behaviour that we promise.
    pub(crate) rules: &'static str,
    pub(crate) what: &'static str,
    /// The test that shows the better outcome, and that it stays.
    pub(crate) test: &'static str,
}

/// All scenarios with a quirk that we do not show.
const QUIRKS: &[Purpose] = &[
    Purpose {
        folder: "cnc",
        scenario: "zone-inactive-local-l2",
        rules: "W7, W18",
        what: "the policies of a network that is not active here any more go with its ports",
        test: "../connects/tests/zone/inactive.rs",
    },
    Purpose {
        folder: "cnc",
        scenario: "zone-local-node-removed",
        rules: "W7, W19, W20",
        what: "the rows of a node that left go, also those of the zone's own node",
        test: "../connects/tests/zone/inactive.rs",
    },
    Purpose {
        folder: "cnc",
        scenario: "zone-service-lb-late",
        rules: "W5",
        what: "load balancers that are missing are reported and hold nothing back",
        test: "../connects/tests/zone/connecting.rs",
    },
    Purpose {
        folder: "cnc",
        scenario: "zone-service-lb-missing-cnc-deleted",
        rules: "W5, W6",
        what: "what is in the database is looked up there, so a deleted connect leaves nothing behind",
        test: "../connects/tests/zone/connecting.rs",
    },
    Purpose {
        folder: "udn",
        scenario: "advertised-l3",
        rules: "W7",
        what: "NAT of the state before goes when advertising changes",
        test: "../networks/tests/topology/advertised.rs",
    },
    Purpose {
        folder: "udn",
        scenario: "l2-primary-gateway-changes",
        rules: "W7",
        what: "the policy for a former address of the node goes, and the former gateway chassis",
        test: "../networks/tests/topology/gateway_changes.rs",
    },
    Purpose {
        folder: "udn",
        scenario: "l3-primary-gateway-changes",
        rules: "W7",
        what: "a changed MAC or next hop of the gateway annotation is applied at once",
        test: "../networks/tests/topology/gateway_changes.rs",
    },
    Purpose {
        folder: "udn",
        scenario: "l2-primary-vm-v4",
        rules: "W7",
        what: "the DHCP options of a virtual machine go with its last pod",
        test: "../pods/tests/pods/migration.rs",
    },
    Purpose {
        folder: "udn",
        scenario: "l2-secondary-life-v4",
        rules: "W7",
        what: "all ports of a pod go with it, also that of a second attachment",
        test: "../pods/tests/pods/attachments.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "advertised-other-node",
        rules: "W7",
        what: "other nodes that a RouteAdvertisements selects are followed at once",
        test: "../networks/tests/topology/advertised.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l3-subnet-appended",
        rules: "W7",
        what: "an appended subnet has its route and NAT at once",
        test: "../networks/tests/topology/gateway_changes.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "multinetpol-refused-without-ipam",
        rules: "W7",
        what: "a policy that could not be used is applied when it can be",
        test: "tests/zones/policies.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "multinetpol-without-types",
        rules: "the policy's API",
        what: "a policy without types isolates ingress, and egress if it has rules for it",
        test: "../resources/src/conversion/policy.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "egressip-network-gone",
        rules: "W7",
        what: "the address sets of served pods go with their network",
        test: "tests/zones/egress.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-chassis-of-the-zone",
        rules: "W7",
        what: "a changed chassis id of the local node reaches all its ports at once",
        test: "../pods/tests/pods/bindings.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "egressfirewall-names",
        rules: "docs/design/policies.md",
        what: "names are not resolved: their rules are reported and have no ACL",
        test: "tests/zones/firewall.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "connects-active-remote-node",
        rules: "W7",
        what: "a network reaches the nodes on which a connect has made it active at once",
        test: "tests/zones/dynamic_allocation.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "connects-subnet-lost-restart",
        rules: "W7",
        what: "the port to a node that lost its subnets stays at a restart, as its routes do",
        test: "../networks/tests/topology/node_subnets.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "dynamic-gone-at-restart",
        rules: "W7",
        what: "a network without users goes with all its rows",
        test: "tests/zones/dynamic_allocation.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "dynamic-host-network-pods",
        rules: "docs/design/networks.md",
        what: "pods on the network of their node use no other network",
        test: "tests/zones/dynamic_allocation.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-gateway-disabled",
        rules: "docs/design/networks.md",
        what: "pods have the way to the host without a gateway",
        test: "../networks/tests/topology/gateway_changes.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-migration-source-gone",
        rules: "W7",
        what: "the only living pod of a machine has an enabled port",
        test: "../pods/tests/pods/migration.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-pod-before-definition",
        rules: "W7",
        what: "a pod has its port once its network is defined",
        test: "../pods/tests/pods/attachments.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-vm-without-name-server",
        rules: "W7",
        what: "a machine has DHCP options, with a name server while there is one",
        test: "../pods/tests/pods/migration.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "netpol-named-ports",
        rules: "the policy's API",
        what: "a named port is the number that the receiving pod gives it",
        test: "tests/zones/policy_rules.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "svc-same-external-ip",
        rules: "docs/design/services.md",
        what: "an address and port lead to one service, and the other one is reported",
        test: "../services/tests/services/load_balancers.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-node-id-after-chassis",
        rules: "W7",
        what: "a node is reached once it has all ids, in any order",
        test: "../networks/tests/topology/ids.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-migration-target-deleted",
        rules: "W7",
        what: "the only living pod of a machine has an enabled port",
        test: "../pods/tests/pods/migration.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l3-no-overlay-gone-lgw",
        rules: "W7",
        what: "a network goes with all its rows, the address set after the NAT rows that refer to it",
        test: "../networks/tests/topology/no_overlay.rs",
    },
    Purpose {
        folder: "udn_further",
        scenario: "l2-evpn-dual",
        rules: "OVN's expressions",
        what: "requests of IPv6 are selected by a predicate that OVN has",
        test: "../networks/tests/topology/evpn.rs",
    },
    Purpose {
        folder: "udn_cluster",
        scenario: "cluster-dynamic-count-after-restart",
        rules: "W7",
        what: "a new manager counts the nodes that have users",
        test: "../allocate/src/networks/tests/dynamic.rs",
    },
    Purpose {
        folder: "udn_cluster",
        scenario: "cluster-claim-of-another-network",
        rules: "the claim's API",
        what: "a pod gets no address by the claim of another network",
        test: "tests/zones/claims.rs",
    },
    Purpose {
        folder: "udn_full",
        scenario: "full-primary-network-gone-at-restart",
        rules: "W7",
        what: "pods use the networks to which they are attached, also after a start",
        test: "tests/zones/dynamic_allocation.rs",
    },
];

#[test]
fn scenarios_end_as_recorded() {
    play("cnc", "", |half| !half.is_of_networks());
}

#[test]
fn networks_end_as_recorded() {
    play("udn", "udn_", |half| half == Half::UdnZone);
}

/// Another folder that the environment names is played once, by the test before.
#[test]
fn further_networks_end_as_recorded() {
    if std::env::var_os("PATCHBAY_GOLDEN_DIR").is_none() {
        play("udn_further", "udn_further_", |half| half == Half::UdnZone);
    }
}

#[test]
fn managed_networks_end_as_recorded() {
    play("udn_cluster", "udn_cluster_", |half| {
        half == Half::UdnCluster
    });
}

#[test]
fn networks_of_both_halves_end_as_recorded() {
    play("udn_full", "udn_full_", |half| half == Half::UdnFull);
}

#[test]
fn interrupted_scenarios_end_as_recorded() {
    interrupt("cnc", Half::Zone, &[]);
}

/// The port to a pod or a node elsewhere keeps the chassis that a running controller has given to
/// it. A new controller gives it that of the node. A running one also remembers that advertising
/// has changed, subnets of advertised networks that have gone, and the last address that it gave to
/// a pod.
#[test]
fn interrupted_networks_end_as_recorded() {
    let remembered = [
        "advertised-at-start-l2",
        "advertised-at-start-l3",
        "l2-primary-remote-node-changes",
    ];
    interrupt("udn", Half::UdnZone, &remembered);
    let remembered = [
        "advertised-l3-dual-lgw",
        "advertised-network-gone",
        "l2-evpn-v4",
        "l3-evpn-dual",
        "l3-no-overlay-dual",
        "l3-no-overlay-lgw",
        "l3-nodes-change",
        "l3-pods-complete-v4",
        "l3-pods-made-again-dual",
    ];
    interrupt("udn_further", Half::UdnZone, &remembered);
}

/// Plays the scenarios of a folder with controllers that see one op at a time and are replaced
/// after each transaction. The `remembered` ones end otherwise then, and only they.
fn interrupt(own: &str, half: Half, remembered: &[&str]) {
    let mut played = 0;
    let mut differing = Vec::new();
    for path in files(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/golden")
            .join(own),
    ) {
        let scenario = Scenario::read(&path).expect("the project's scenarios can be read");
        let is_odd =
            scenario.quirk.is_some() || QUIRKS.iter().any(|one| one.scenario == scenario.name);
        if scenario.half != half || is_odd {
            continue;
        }
        played += 1;
        let result = run(scenario, Pace::Interrupted);
        if !result.passed() {
            differing.push(result.name);
        }
    }
    assert!(played > 0);
    assert_eq!(differing, remembered);
}

/// Plays the scenarios of a folder beside this file, or of the one that the environment names, if
/// they are of these controllers.
fn play(own: &str, snapshots: &str, is_played: impl Fn(Half) -> bool) {
    let (directory, is_own) = directory(own);
    let purposes: Vec<Purpose> = QUIRKS
        .iter()
        .filter(|purpose| purpose.folder == own)
        .copied()
        .collect();
    let is_odd = |result: &ScenarioResult| {
        let mut purposes = purposes.iter();
        result.quirk.is_some() || purposes.any(|purpose| purpose.scenario == result.name)
    };
    let mut table = Table::default();
    let mut quirks = Table::default();
    for path in files(&directory) {
        let scenario = Scenario::read(&path);
        if scenario.as_ref().is_ok_and(|one| !is_played(one.half)) {
            continue;
        }
        let result = match scenario {
            Ok(scenario) => run(scenario, Pace::Steady),
            Err(error) => ScenarioResult::unreadable(&path, error),
        };
        if is_odd(&result) {
            quirks.add(result);
        } else {
            table.add(result);
        }
    }
    let (table_text, quirks_text) = (
        table.render("scenarios", &[]),
        quirks.render("scenarios with a quirk", &purposes),
    );
    println!("{table_text}\n{quirks_text}");
    assert!(
        !is_own || table.len() + quirks.len() > 0,
        "no scenarios in {}",
        directory.display()
    );
    let mut complaints = table.complaints(&[]);
    complaints.extend(quirks.complaints(&purposes));
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    if is_own {
        insta::assert_snapshot!(format!("{snapshots}scenarios"), table_text);
        insta::assert_snapshot!(format!("{snapshots}quirks"), quirks_text);
    }
}

#[test]
fn every_purpose_has_a_scenario_and_a_test() {
    for purpose in QUIRKS {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let scenario = format!("tests/golden/{}/{}.json", purpose.folder, purpose.scenario);
        for file in [scenario.as_str(), purpose.test] {
            assert!(root.join(file).is_file(), "{file}");
        }
    }
}

/// Plays one scenario.
fn run(scenario: Scenario, pace: Pace) -> ScenarioResult {
    let steps = match scenario.half {
        Half::Cluster => cluster::run(&scenario),
        Half::Zone => zone::run(&scenario, pace),
        Half::UdnZone => udn::run(&scenario, pace),
        Half::UdnCluster => udn_cluster::run(&scenario),
        Half::UdnFull => udn_full::run(&scenario),
    };
    ScenarioResult {
        name: scenario.name,
        quirk: scenario.quirk,
        steps,
    }
}

/// Folder of the scenarios, and `true` if they are those of this project.
fn directory(own: &str) -> (PathBuf, bool) {
    std::env::var_os("PATCHBAY_GOLDEN_DIR").map_or_else(
        || {
            let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
            (golden.join(own), true)
        },
        |directory| (directory.into(), false),
    )
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut files: Vec<PathBuf> = entries
        .map(|entry| entry.expect("entries of the folder can be read").path())
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "json")
        })
        .collect();
    files.sort();
    files
}
