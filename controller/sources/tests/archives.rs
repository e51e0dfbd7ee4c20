//! Archives as collectors and as attackers make them.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use lzma_rust2::{XzOptions, XzWriter};
use ovsdb_sim::Sim;
use patchbay_schemas::nb::{LogicalSwitch, NbGlobal};
use patchbay_sources::{
    Gathered, ObjectFiles, SourceError, SourceKind, Wanted, gather, kind_of, open_log,
};
use tempfile::TempDir;

/// Content of the file of a Northbound database. `zone`: `NB_Global.name`.
fn database(zone: &str) -> Vec<u8> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("nb.db");
    let sim = Sim::builder().journal(&path).build().unwrap();
    let northbound = sim.database("OVN_Northbound").unwrap();
    let mut txn = northbound.txn();
    txn.insert(&NbGlobal { name: zone.to_owned(), ..NbGlobal::default() }).unwrap();
    txn.insert(&LogicalSwitch { name: "sw0".to_owned(), ..LogicalSwitch::default() }).unwrap();
    northbound.transact(&txn.finish()).unwrap();
    fs::read(path).unwrap()
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn xz(content: &[u8]) -> Vec<u8> {
    let mut writer = XzWriter::new(Vec::new(), XzOptions::with_preset(1)).unwrap();
    writer.write_all(content).unwrap();
    writer.finish().unwrap()
}

/// A tar archive. Names are written as they are.
fn tar(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut builder = tar::Builder::new(Vec::new());
    for (name, content) in members {
        let mut header = tar::Header::new_gnu();
        header.as_old_mut().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_size(content.len() as u64);
        header.set_entry_type(tar::EntryType::Regular);
        header.set_cksum();
        builder.append(&header, *content).unwrap();
    }
    builder.into_inner().unwrap()
}

fn written(content: &[u8]) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("archive");
    fs::write(&path, content).unwrap();
    (folder, path)
}

/// Zones of an archive with their members, and its problems.
fn gathered(content: &[u8]) -> (Vec<(String, String)>, Vec<String>) {
    let (_folder, path) = written(content);
    zones(gather(&path, Wanted::default()).unwrap())
}

fn zones(gathered: Gathered) -> (Vec<(String, String)>, Vec<String>) {
    let zones = gathered.zones.into_iter().map(|found| {
        assert_eq!(found.state.snapshot.row_count(), 2);
        (found.zone, found.member)
    });
    (zones.collect(), gathered.problems)
}

fn pair(zone: &str, member: &str) -> (String, String) {
    (zone.to_owned(), member.to_owned())
}

#[test]
fn a_zone_is_named_by_its_database_its_pod_or_its_member() {
    let pods = b"apiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: ovnkube-node-x1}\n  spec: {nodeName: worker-1}\n";
    let pod = b"kind: Pod\nmetadata: {name: ovnkube-node-x2}\nspec: {nodeName: worker-2}\n";
    let store = gzip(&tar(&[
        ("ovnk_database_store/ovnkube-node-x1_nbdb", &database("")),
        ("ovnk_database_store/ovnkube-node-x2_nbdb", &database("")),
        ("ovnk_database_store/ovnkube-node-x3_nbdb", &database("node-3")),
        ("ovnk_database_store/ovnkube-node-x4_nbdb", &database("")),
        ("ovnk_database_store/ovnkube-node-x1_sbdb", b"text"),
    ]));
    let outer = tar(&[
        ("mg/network_logs/ovnk_database_store.tar.gz", &store),
        ("mg/namespaces/ovn/core/pods.yaml", pods),
        ("mg/namespaces/ovn/pods/ovnkube-node-x2/ovnkube-node-x2.yaml", pod),
    ]);
    let inner = "archive/mg/network_logs/ovnk_database_store.tar.gz/ovnk_database_store";
    let expected = [
        pair("worker-1", &format!("{inner}/ovnkube-node-x1_nbdb")),
        pair("worker-2", &format!("{inner}/ovnkube-node-x2_nbdb")),
        pair("node-3", &format!("{inner}/ovnkube-node-x3_nbdb")),
        pair(&format!("{inner}/ovnkube-node-x4_nbdb"), &format!("{inner}/ovnkube-node-x4_nbdb")),
    ];
    assert_eq!(gathered(&outer), (expected.to_vec(), Vec::new()));
}

#[test]
fn every_packing_is_removed() {
    let plain = database("z");
    for packed in [plain.clone(), gzip(&plain), xz(&plain), gzip(&xz(&plain))] {
        let (_folder, path) = written(&packed);
        let mut log = open_log(&path).unwrap().log;
        log.replay().unwrap();
        assert_eq!(log.snapshot().row_count(), 2);
        assert_eq!(zones(gather(&path, Wanted::default()).unwrap()).0, [pair("z", "archive")]);
    }
    let five = (0..5).fold(plain, |packed, _| gzip(&packed));
    let (_folder, path) = written(&five);
    let error = open_log(&path).unwrap_err().to_string();
    assert!(error.ends_with("packed more than 4 times"), "{error}");
}

#[test]
fn names_that_lead_upward_are_only_shown() {
    let archive = tar(&[("../../etc/nbdb", &database("z")), ("/nbdb", b"text")]);
    assert_eq!(gathered(&archive).0, [pair("z", "archive/../../etc/nbdb")]);
}

#[test]
fn a_cut_or_lying_member_is_a_problem_and_all_others_are_read() {
    let whole = database("a");
    let cut = database("b");
    let archive = tar(&[("a", &whole), ("b", &gzip(&cut)[..60]), ("c", &database("c"))]);
    let (zones, problems) = gathered(&archive);
    assert_eq!(zones, [pair("a", "archive/a"), pair("c", "archive/c")]);
    assert!(problems.len() == 1 && problems[0].starts_with("archive/b: "), "{problems:?}");

    // A member that is longer in its header than in the archive.
    let mut lying = tar(&[("a", &whole)]);
    lying.truncate(512 + whole.len());
    let mut header = tar::Header::new_gnu();
    header.set_path("huge").unwrap();
    header.set_size(1 << 40);
    header.set_cksum();
    lying.resize(lying.len().next_multiple_of(512), 0);
    lying.extend(header.as_bytes());
    let (zones, problems) = gathered(&lying);
    assert_eq!(zones, [pair("a", "archive/a")]);
    assert_eq!(problems, ["unexpected EOF during skip"]);
}

#[test]
fn links_devices_and_deep_archives_are_passed_over() {
    let mut builder = tar::Builder::new(Vec::new());
    for kind in [tar::EntryType::Symlink, tar::EntryType::Link, tar::EntryType::Block] {
        let mut header = tar::Header::new_gnu();
        header.set_path("nbdb").unwrap();
        header.set_entry_type(kind);
        header.set_link_name("/etc/passwd").unwrap();
        header.set_size(0);
        header.set_cksum();
        builder.append(&header, &[][..]).unwrap();
    }
    let (_folder, path) = written(&builder.into_inner().unwrap());
    assert!(matches!(
        gather(&path, Wanted::default()),
        Err(SourceError::Nothing { members: 1, .. })
    ));
    let deep = (0..6).fold(database("z"), |content, _| tar(&[("in", &content)]));
    let (_folder, path) = written(&deep);
    let error = gather(&path, Wanted::default()).unwrap_err().to_string();
    assert!(error.contains("more than 4 archives in archives"), "{error}");
}

#[test]
fn folders_are_read_without_links() {
    let folder = tempfile::tempdir().unwrap();
    let store = folder.path().join("network_logs/ovnk_database_store");
    fs::create_dir_all(&store).unwrap();
    fs::write(store.join("p_nbdb"), database("z")).unwrap();
    std::os::unix::fs::symlink(folder.path(), store.join("loop")).unwrap();
    std::os::unix::fs::symlink(store.join("p_nbdb"), store.join("q_nbdb")).unwrap();
    let found = zones(gather(folder.path(), Wanted::default()).unwrap());
    let member = "network_logs/ovnk_database_store/p_nbdb";
    assert_eq!(found, (vec![pair("z", member)], Vec::new()));
    assert!(matches!(
        gather(Path::new("/missing"), Wanted::default()),
        Err(SourceError::Io { .. })
    ));
}

/// Files with objects, as their reader gets them.
#[derive(Default)]
struct Read(Vec<(String, Vec<u8>)>);

impl ObjectFiles for Read {
    fn has_resource(&self, group: &str, resource: &str) -> bool {
        (group, resource) == ("", "pods") || group == "k8s.ovn.org"
    }

    fn read(&mut self, member: &str, content: Vec<u8>) {
        self.0.push((member.to_owned(), content));
    }
}

/// Names of the files with objects in an archive, and its problems.
fn objects(path: &Path) -> (Vec<String>, Vec<String>) {
    let mut read = Read::default();
    let wanted = Wanted { no_databases: true, objects: Some(&mut read), ..Wanted::default() };
    let problems = gather(path, wanted).unwrap().problems;
    (read.0.into_iter().map(|(member, _)| member).collect(), problems)
}

#[test]
fn objects_are_read_by_their_paths() {
    let inner = tar(&[
        ("namespaces/shop/core/pods.yaml", b"x"),
        ("namespaces/shop/core/secrets.yaml", b"x"),
        ("namespaces/shop/pods/web/web/web/logs/current.log", b"x"),
    ]);
    let outer = tar(&[
        ("mg/cluster-scoped-resources/k8s.ovn.org/egressips/out.yaml", b"x"),
        ("mg/inner.tar.gz", &gzip(&inner)),
        ("mg/nb", &database("node-1")),
        ("mg/namespaces/shop/core/../core/pods.yaml", b"x"),
        ("/mg/namespaces/blue/core/pods.yaml.gz", b"x"),
    ]);
    let (_folder, path) = written(&outer);
    let expected = [
        "archive/mg/cluster-scoped-resources/k8s.ovn.org/egressips/out.yaml",
        "archive/mg/inner.tar.gz/namespaces/shop/core/pods.yaml",
    ];
    assert_eq!(objects(&path), (expected.map(str::to_owned).to_vec(), Vec::new()));

    let folder = tempfile::tempdir().unwrap();
    let pods = folder.path().join("namespaces/shop/core");
    fs::create_dir_all(&pods).unwrap();
    fs::write(pods.join("pods.yaml"), "x").unwrap();
    std::os::unix::fs::symlink("/etc/passwd", pods.join("pods.json")).unwrap();
    let expected = vec!["namespaces/shop/core/pods.yaml".to_owned()];
    assert_eq!(objects(folder.path()), (expected, Vec::new()));
    assert_eq!(kind_of(folder.path()).unwrap(), SourceKind::Archive);
}

#[test]
fn files_with_objects_are_bounded_and_stop_no_others() {
    let large = gzip(&vec![b' '; (64 << 20) + 1]);
    let mut cut = gzip(b"kind: Pod");
    cut.truncate(cut.len() - 6);
    let archive = tar(&[
        ("namespaces/a/core/pods.yaml", &large),
        ("namespaces/b/core/pods.yaml", &cut),
        ("namespaces/c/core/pods.yaml", b"kind: Pod"),
    ]);
    let (_folder, path) = written(&archive);
    let (members, problems) = objects(&path);
    assert_eq!(members, ["archive/namespaces/c/core/pods.yaml"]);
    let large = "archive/namespaces/a/core/pods.yaml: objects of more than 64 MiB in a file";
    assert!(problems[0].starts_with(large), "{problems:?}");
    assert!(problems[1].starts_with("archive/namespaces/b/core/pods.yaml: "), "{problems:?}");
    assert_eq!(problems.len(), 2);
}

#[test]
fn an_archive_without_what_is_wanted_is_an_error() {
    let (_folder, path) = written(&tar(&[("nb", &database("z"))]));
    let mut read = Read::default();
    let wanted = Wanted { no_databases: true, objects: Some(&mut read), ..Wanted::default() };
    let error = gather(&path, wanted).unwrap_err().to_string();
    assert!(error.ends_with("archive: no object of a cluster in it (files: 2)"), "{error}");
}
