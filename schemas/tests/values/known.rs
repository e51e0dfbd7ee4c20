//! The schemas that are found by name.

use std::fs;

use patchbay_schemas::known::{KNOWN_SCHEMAS, KnownSchema};

/// Folders in which Debian's packages install schemas.
const FOLDERS: [&str; 2] = ["/usr/share/ovn", "/usr/share/openvswitch"];

#[test]
fn each_schema_is_that_of_its_database() {
    for known in KNOWN_SCHEMAS {
        let schema = known.parse().unwrap();
        assert_eq!(schema.name, known.database);
        assert!(!schema.version.is_empty(), "{}", known.database);
        assert!(schema.table_ids().count() > 1, "{}", known.database);
        assert_eq!(KnownSchema::find(known.name), KnownSchema::find(known.database));
    }
    assert_eq!(KnownSchema::find("nowhere"), None);
}

/// The schemas are newer than those of an installed OVN of the same or an older release, and lack
/// no table that it has.
#[test]
fn an_installed_schema_has_no_other_tables() {
    let mut compared = 0;
    for folder in FOLDERS {
        for entry in fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "ovsschema") {
                continue;
            }
            let text = fs::read(&path).unwrap();
            let installed = patchbay_schemas::schema::DatabaseSchema::parse(&text).unwrap();
            let Some(known) = KnownSchema::find(&installed.name) else { continue };
            let schema = known.parse().unwrap();
            for table in &installed.tables {
                let (_, own) = schema.table_by_name(&table.name).unwrap();
                assert_eq!(own.is_root, table.is_root, "{} {}", known.database, table.name);
            }
            compared += 1;
        }
    }
    assert!(compared > 0, "scripts/test installs OVN");
}
