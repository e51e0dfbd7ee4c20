//! Files of the real server.

use std::fs;

use patchbay_ovn_programs::testing::{RealServer, ScratchDir};

use super::servers::{SimServer, dump, run, tool};
use super::steps::{execute, schema_file};

#[test]
fn a_file_of_ovsdb_server_has_the_same_content() {
    let dir = ScratchDir::new();
    let file = dir.path().join("d.db");
    let real = RealServer::start([schema_file(dir.path())]);
    execute(real.socket());
    fs::copy(&real.databases()[0], &file).unwrap();
    drop(real);

    let sim = SimServer::load(&file);
    let loaded = dump(sim.socket());
    assert!(loaded.contains("b again"), "{loaded}");
    let before = fs::read(&file).unwrap();
    execute(sim.socket());
    assert_eq!(fs::read(&file).unwrap(), before, "a loaded file stays as it is");
    // After a restart, the real server has lost the ephemeral columns, too.
    assert_eq!(loaded, dump(RealServer::open([&file]).socket()));

    // One record with everything, its values whole.
    let compact = dir.path().join("compact.db");
    run(tool("compact", &file).arg(&compact));
    assert_eq!(dump(SimServer::load(&compact).socket()), loaded);
}

#[test]
fn several_files_are_several_databases() {
    let dir = ScratchDir::new();
    let schema = schema_file(dir.path());
    let text = fs::read_to_string(&schema).unwrap();
    let other = dir.path().join("other.ovsschema");
    fs::write(&other, text.replace("\"D\"", "\"Other\"")).unwrap();
    let files = [schema, other].map(|schema| {
        let file = schema.with_extension("db");
        run(tool("create", &file).arg(&schema));
        file
    });
    let builder = files.iter().fold(ovsdb_sim::Sim::builder(), ovsdb_sim::SimBuilder::load);
    let sim = builder.build().unwrap();
    assert!(sim.database("D").is_some() && sim.database("Other").is_some());
    assert!(sim.database("OVN_Northbound").is_none());
}
