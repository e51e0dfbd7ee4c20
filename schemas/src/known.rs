//! Schemas of OVN and Open vSwitch, by name.
//!
//! The files are those of OVN 26.03 and Open vSwitch 4.0; that of `OVN_Northbound` is the one that
//! [`nb`](crate::nb) is generated from.

use crate::error::OvsdbError;
use crate::schema::DatabaseSchema;

/// Schema whose file is part of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownSchema {
    /// Name by which people call the database: `northbound`.
    pub name: &'static str,
    /// Name of the database: `OVN_Northbound`.
    pub database: &'static str,
    /// Text of the `.ovsschema` file.
    pub text: &'static str,
}

/// All schemas.
pub const KNOWN_SCHEMAS: [KnownSchema; 6] = [
    KnownSchema {
        name: "northbound",
        database: "OVN_Northbound",
        text: include_str!("../ovn-nb.ovsschema"),
    },
    KnownSchema {
        name: "southbound",
        database: "OVN_Southbound",
        text: include_str!("../ovn-sb.ovsschema"),
    },
    KnownSchema {
        name: "vswitch",
        database: "Open_vSwitch",
        text: include_str!("../vswitch.ovsschema"),
    },
    KnownSchema {
        name: "ic-northbound",
        database: "OVN_IC_Northbound",
        text: include_str!("../ovn-ic-nb.ovsschema"),
    },
    KnownSchema {
        name: "ic-southbound",
        database: "OVN_IC_Southbound",
        text: include_str!("../ovn-ic-sb.ovsschema"),
    },
    KnownSchema {
        name: "vtep",
        database: "hardware_vtep",
        text: include_str!("../vtep.ovsschema"),
    },
];

impl KnownSchema {
    /// Finds a schema by its [`name`](Self::name) or by that of its database.
    ///
    /// ```
    /// use patchbay_schemas::known::KnownSchema;
    ///
    /// let southbound = KnownSchema::find("southbound").ok_or("known")?;
    /// assert_eq!(KnownSchema::find("OVN_Southbound"), Some(southbound));
    /// assert_eq!(southbound.parse().map_err(|error| error.to_string())?.name, "OVN_Southbound");
    /// # Ok::<(), String>(())
    /// ```
    pub fn find(name: &str) -> Option<Self> {
        let is_wanted = |known: &Self| known.name == name || known.database == name;
        KNOWN_SCHEMAS.into_iter().find(is_wanted)
    }

    /// Parses the text.
    ///
    /// # Errors
    /// Never: a test parses all of them.
    pub fn parse(&self) -> Result<DatabaseSchema, OvsdbError> {
        DatabaseSchema::parse(self.text.as_bytes())
    }
}
