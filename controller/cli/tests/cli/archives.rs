//! Objects of archives: what is wanted, beside the databases there, which have what there is.

use std::fs;
use std::path::{Path, PathBuf};

use ovsdb_sim::Sim;
use patchbay_schemas::nb::{
    Acl, AclAction, AclDirection, LogicalSwitch, LogicalSwitchPort, PortGroup,
};

use crate::collected::Collected;

fn shop() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/shop")
}

/// Lines of a text without the notices.
fn lines_with<'a>(text: &'a str, part: &str) -> Vec<&'a str> {
    text.lines().filter(|line| line.contains(part)).collect()
}

#[test]
fn objects_are_explained_from_an_archive_with_its_databases() {
    let collected = Collected::of(&shop());
    let whole = "explain cnc shop-and-partner --must-gather must-gather";
    let ready = collected.run(whole).succeeded();
    assert_eq!(lines_with(&ready, ": connected").len(), 2, "{ready}");
    for object in ["cudn shop", "pod shop/web", "service shop/web", "networkpolicy shop/db"] {
        let explained =
            collected.run(&format!("explain {object} --must-gather must-gather")).succeeded();
        assert!(explained.contains("ready") && explained.contains("rows: "), "{explained}");
        let alone = collected.run(&format!("explain {object} -f must-gather")).succeeded();
        assert_eq!(alone, explained);
    }

    // The database of a zone from before the connect and the policy.
    let database = collected.database("node-1");
    fs::copy(collected.database("node-2"), collected.folder.path().join("whole")).unwrap();
    let _ = fs::remove_file(&database);
    drop(Sim::builder().journal(&database).build().unwrap());
    let packed = collected.pack();
    assert!(!collected.database("node-1").exists());
    let lacking = collected.run("explain cnc shop-and-partner --must-gather mg.tar.xz");
    assert_eq!(lacking.code, Some(2), "{lacking:?}");
    assert!(lacking.stdout.contains("network cluster_udn_shop: NOT connected"), "{lacking:?}");
    let policy = "explain networkpolicy shop/db --must-gather mg.tar.xz";
    let missing = collected.run(policy);
    assert_eq!(missing.code, Some(2));
    assert!(missing.stdout.contains(" of zone node-1 is missing"), "{}", missing.stdout);
    let other = collected.run(&format!("{policy} --zone node-2"));
    assert_eq!(other.code, Some(0), "{}", other.stdout);
    assert!(packed.exists());
}

#[test]
fn a_damaged_object_is_a_warning_and_nothing_is_written() {
    let collected = Collected::of(&shop());
    collected.write("namespaces/shop/core/services.yaml", "apiVersion: v1\nkind: [");
    collected.write(
        "namespaces/evil/core/pods.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: \"\\e[31m\", namespace: evil, labels: 7}\n",
    );
    let before = listing(collected.folder.path());
    let explained = collected.run("explain networkpolicy shop/db --must-gather must-gather");
    assert_eq!(explained.code, Some(0), "{explained:?}");
    let warnings = lines_with(&explained.stderr, "warning: ");
    assert_eq!(warnings.len(), 2, "{}", explained.stderr);
    assert!(!explained.stderr.contains('\u{1b}'), "{}", explained.stderr);
    let missing = collected.run("explain service shop/web --must-gather must-gather");
    assert!(missing.stderr.contains("error: Service shop/web not found"), "{}", missing.stderr);
    assert_eq!(listing(collected.folder.path()), before);
}

fn listing(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(listing(&path));
        }
        found.push(path);
    }
    found.sort();
    found
}

#[test]
fn archives_that_lack_a_part_say_so() {
    let collected = Collected::of(&shop());
    fs::remove_dir_all(collected.path().join("network_logs")).unwrap();
    let alone = collected.run("explain cnc shop-and-partner --must-gather must-gather");
    let warning = "warning: must-gather: no Northbound database in it: rows are not compared\n";
    assert_eq!((alone.code, &*alone.stderr), (Some(0), warning));
    let reach = collected.run("reach --matrix --must-gather must-gather");
    let error = "error: must-gather: no Northbound database in it\n";
    assert_eq!((reach.code, &*reach.stderr), (Some(1), error));
    let twice = collected.run("explain cnc shop-and-partner -f must-gather other.yaml");
    let error = "error: -f must-gather: an archive is read alone\n";
    assert_eq!((twice.code, &*twice.stderr), (Some(1), error));

    fs::remove_file(
        collected
            .path()
            .join("namespaces/shop/k8s.cni.cncf.io/network-attachment-definitions.yaml"),
    )
    .unwrap();
    fs::remove_file(
        collected
            .path()
            .join("namespaces/partner/k8s.cni.cncf.io/network-attachment-definitions.yaml"),
    )
    .unwrap();
    let defined = collected.run("explain cnc shop-and-partner -f must-gather");
    assert_eq!(defined.code, Some(0), "{defined:?}");
    assert!(
        defined.stderr.starts_with("warning: must-gather: no NetworkAttachmentDefinition in it: "),
        "{}",
        defined.stderr
    );
}

#[test]
fn a_report_on_an_archive_has_the_connects_of_its_objects() {
    let collected = Collected::of(&shop());
    let page = collected.run("report --must-gather must-gather -o -").succeeded();
    assert!(page.contains("shop-and-partner"), "no connect");
    let without = collected.folder.path().join("databases");
    fs::rename(collected.path().join("network_logs"), &without).unwrap();
    let page = collected.run("report --must-gather databases -o -").succeeded();
    assert!(!page.contains("\"accepted\""), "a connect without objects");
}

/// A database of Kube-OVN with a policy that drops what `b` gets.
fn of_kube_ovn(file: &Path) {
    let sim = Sim::builder().journal(file).build().unwrap();
    let northbound = sim.database("OVN_Northbound").unwrap();
    let mut txn = northbound.txn();
    let port = |name: &str, host: u8| LogicalSwitchPort {
        name: name.into(),
        addresses: [format!("02:00:00:00:00:0{host} 10.0.0.{host}")].into(),
        ..LogicalSwitchPort::default()
    };
    let a = txn.insert(&port("a", 1)).unwrap();
    let b = txn.insert(&port("b", 2)).unwrap();
    let switch = LogicalSwitch { name: "s".into(), ports: [a, b].into(), ..Default::default() };
    txn.insert(&switch).unwrap();
    let ids = [("parent".to_owned(), "deny.all.my.shop".to_owned())];
    let acl = txn
        .insert(&Acl {
            priority: 2000,
            direction: AclDirection::ToLport,
            r#match: "outport == @deny.all.my.shop && ip".into(),
            action: AclAction::Drop,
            external_ids: ids.into(),
            ..Acl::default()
        })
        .unwrap();
    let group = PortGroup {
        name: "deny.all.my.shop".into(),
        ports: [b].into(),
        acls: [acl].into(),
        ..PortGroup::default()
    };
    txn.insert(&group).unwrap();
    northbound.transact(&txn.finish()).unwrap();
}

#[test]
fn policies_of_kube_ovn_have_the_names_of_objects() {
    let collected = Collected { folder: tempfile::tempdir().unwrap() };
    fs::create_dir_all(collected.path()).unwrap();
    of_kube_ovn(&collected.path().join("ovnnb_db.db"));
    let ask = "reach --from a --to b --must-gather must-gather";
    let unnamed = collected.run(ask);
    assert_eq!(unnamed.code, Some(2));
    assert!(!unnamed.stdout.contains("NetworkPolicy"), "{}", unnamed.stdout);
    let policy = |name: &str, namespace: &str| {
        format!(
            "{{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {{name: {name}, \
             namespace: {namespace}}}, spec: {{podSelector: {{}}}}}}"
        )
    };
    let folder =
        |namespace: &str| format!("namespaces/{namespace}/networking.k8s.io/networkpolicies");
    collected.write(&format!("{}/a.yaml", folder("my-shop")), &policy("deny-all", "my-shop"));
    let named = collected.run(ask);
    assert!(named.stdout.contains("NetworkPolicy my-shop/deny-all"), "{}", named.stdout);
    // A second policy of the port group.
    collected.write(&format!("{}/b.yaml", folder("my-shop")), &policy("deny.all", "my-shop"));
    let ambiguous = collected.run(ask);
    assert!(!ambiguous.stdout.contains("NetworkPolicy"), "{}", ambiguous.stdout);
}

#[test]
fn objects_of_vpcs_in_an_archive_are_judged() {
    let collected = Collected { folder: tempfile::tempdir().unwrap() };
    // A tag that the interface has already.
    let provider = "apiVersion: kubeovn.io/v1\nkind: ProviderNetwork\nmetadata: {name: provider}\n\
                    spec: {defaultInterface: data.222, later: 1}\n";
    collected
        .write("cluster-scoped-resources/kubeovn.io/provider-networks/provider.yaml", provider);
    let vlan = "apiVersion: kubeovn.io/v1\nkind: Vlan\nmetadata: {name: vlan222}\n\
                spec: {provider: provider, id: 222}\n";
    collected.write("cluster-scoped-resources/kubeovn.io/vlans/vlan222.yaml", vlan);
    let by_file = collected.run("lint -f must-gather");
    assert_eq!(by_file.code, Some(2), "{by_file:?}");
    let place = "cluster-scoped-resources/kubeovn.io/vlans/vlan222.yaml:1: error ";
    assert!(by_file.stdout.starts_with(place), "{}", by_file.stdout);
    let whole = collected.run("lint --must-gather must-gather");
    assert_eq!(
        (whole.code, whole.stdout.lines().count()),
        (Some(2), by_file.stdout.lines().count())
    );
}

#[test]
fn databases_of_an_archive_are_read_at_a_time() {
    let collected = Collected::of(&shop());
    let at = |moment: &str| {
        collected.run(&format!("acls --must-gather must-gather --at {moment} -o name"))
    };
    let whole = collected.run("acls --must-gather must-gather -o name").succeeded();
    assert!(whole.lines().count() > 2, "{whole}");
    assert_eq!(at("2100-01-01T00:00:00Z").succeeded(), whole);
    let early = at("2000-01-01T00:00:00Z");
    assert_eq!(early.code, Some(1));
    assert!(early.stderr.contains("no transaction up to --at: it begins with"), "{early:?}");
    let record = at("3");
    let error =
        "error: --at 3: databases of an archive have records of their own: --at takes a time\n";
    assert_eq!((record.code, &*record.stderr), (Some(1), error));
    let same = collected.run("diff must-gather@2100-01-01T00:00:00Z must-gather");
    assert_eq!(same.code, Some(0), "{same:?}");
    let lost = collected.run("acls --nb unix:/none --at 3");
    assert!(lost.stderr.contains("--at is a moment in the history of --file"), "{lost:?}");
}
