//! Programs and schemas of a release of OVN and Open vSwitch.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use patchbay_ovn_programs::{Programs, ProgramsError, Version};
use patchbay_schemas::error::OvsdbError;
use patchbay_schemas::schema::DatabaseSchema;
use thiserror::Error;

/// Programs that run on each node.
pub const PROGRAMS: [&str; 3] = [NORTHD, SWITCH, CONTROLLER];
/// The program that makes logical flows, among them.
pub(crate) const NORTHD: &str = "ovn-northd";
/// The switch among them.
pub(crate) const SWITCH: &str = "ovs-vswitchd";
/// The program that makes flows of the switch, among them.
pub(crate) const CONTROLLER: &str = "ovn-controller";
/// Oldest release in which ovn-northd binds ports of type `remote` to the requested chassis.
const OLDEST: Version = Version::new(23, 9, 0);
/// First release with remote router ports, which join layer3 networks of several nodes.
const LAYER3_ACROSS_NODES: Version = Version::new(25, 3, 0);
/// First release that commits packets to conntrack which the ACL action `pass` lets through.
const SERVICES_ONLY: Version = Version::new(25, 3, 1);
/// First release of Open vSwitch in which tunnel packets with a mark may have a source address: its
/// table of local addresses can have entries for marks.
const MARKS_ACROSS_NODES: Version = Version::new(3, 7, 0);

/// Connection that packets cannot use with an older release.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Limit {
    /// ClusterNetworkConnects of layer3 networks on several nodes.
    Layer3AcrossNodes,
    /// ClusterNetworkConnects for services only.
    ServicesOnly,
    /// EgressIPs on several nodes.
    MarksAcrossNodes,
}

/// Error: the programs or schemas of a release cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ReleaseError {
    /// A program or schema is missing.
    #[error(transparent)]
    Programs(#[from] ProgramsError),
    /// A schema cannot be read.
    #[error("{}: {source}", .path.display())]
    ReadSchema {
        /// Path of the schema.
        path: PathBuf,
        /// The error.
        source: io::Error,
    },
    /// A schema cannot be parsed.
    #[error("{}: {source}", .path.display())]
    ParseSchema {
        /// Path of the schema.
        path: PathBuf,
        /// The error.
        source: OvsdbError,
    },
    /// The programs of OVN are of two releases.
    #[error(
        "ovn-northd is of OVN {northd} and ovn-controller of OVN {controller}; both have to be of \
         one release"
    )]
    Mixed {
        /// Version of ovn-northd.
        northd: Version,
        /// Version of ovn-controller.
        controller: Version,
    },
    /// The release lacks what a lab needs.
    #[error("OVN {0} is too old: a lab needs OVN {OLDEST}, and 25.03 for layer3 across nodes")]
    TooOld(Version),
}

/// Programs and schemas of one release of OVN, with the Open vSwitch beside it.
#[derive(Clone, Debug)]
pub struct Release {
    programs: Programs,
    ovn: Version,
    ovs: Version,
    northbound: Arc<DatabaseSchema>,
    southbound: Arc<DatabaseSchema>,
    switch: Arc<DatabaseSchema>,
}

impl Release {
    /// Finds a release in a folder with unpacked packages or a build's prefix. `None`: the
    /// installed release.
    ///
    /// # Errors
    /// A program or schema is missing or unusable, the programs are of two releases, or the
    /// release is too old.
    pub fn find(folder: Option<&Path>) -> Result<Self, ReleaseError> {
        let programs = folder.map_or_else(|| Ok(Programs::installed()), Programs::below)?;
        let [northd, switch, controller] = PROGRAMS.map(|program| programs.version_of(program));
        let (northd, ovs, controller) = (northd?, switch?, controller?);
        if northd != controller {
            return Err(ReleaseError::Mixed { northd, controller });
        }
        if northd < OLDEST {
            return Err(ReleaseError::TooOld(northd));
        }
        Ok(Self {
            ovn: northd,
            ovs,
            northbound: read_schema(&programs, "ovn-nb")?,
            southbound: read_schema(&programs, "ovn-sb")?,
            switch: read_schema(&programs, "vswitch")?,
            programs,
        })
    }

    /// Version of OVN.
    pub fn ovn_version(&self) -> Version {
        self.ovn
    }

    /// Version of Open vSwitch.
    pub fn ovs_version(&self) -> Version {
        self.ovs
    }

    /// Connections that packets cannot use with this release, with a sentence for each.
    pub fn limits(&self) -> Vec<(Limit, String)> {
        let limits = [
            (
                "OVN",
                self.ovn,
                LAYER3_ACROSS_NODES,
                Limit::Layer3AcrossNodes,
                "packets to and from layer3 networks do not cross nodes in a ClusterNetworkConnect",
            ),
            (
                "OVN",
                self.ovn,
                SERVICES_ONLY,
                Limit::ServicesOnly,
                "connectivity for services only loses TCP and ICMP inside the connected networks",
            ),
            (
                "Open vSwitch",
                self.ovs,
                MARKS_ACROSS_NODES,
                Limit::MarksAcrossNodes,
                "packets of pods that an EgressIP serves do not cross nodes",
            ),
        ];
        let limits = limits.into_iter().filter(|(_, version, first, ..)| version < first);
        limits
            .map(|(program, version, first, limit, text)| {
                (limit, format!("{program} {version} before {first}: {text}"))
            })
            .collect()
    }

    /// `true` if packets of a connect cross nodes from and to layer3 networks.
    pub fn has_layer3_across_nodes(&self) -> bool {
        self.ovn >= LAYER3_ACROSS_NODES
    }

    /// Program and first arguments of a command, such as `ovn-trace`.
    ///
    /// # Errors
    /// The release does not have the program.
    pub fn command(&self, program: &'static str) -> Result<Vec<OsString>, ReleaseError> {
        Ok(self.programs.words(program)?)
    }

    /// Path of a schema, such as `ovn-nb`.
    pub(crate) fn schema_path(&self, schema: &'static str) -> Result<PathBuf, ReleaseError> {
        Ok(self.programs.schema_path(schema)?)
    }

    /// Schema of the Northbound database.
    pub(crate) fn northbound(&self) -> &Arc<DatabaseSchema> {
        &self.northbound
    }

    /// Schema of the Southbound database.
    pub(crate) fn southbound(&self) -> &Arc<DatabaseSchema> {
        &self.southbound
    }

    /// Schema of Open vSwitch's database.
    pub(crate) fn switch(&self) -> &Arc<DatabaseSchema> {
        &self.switch
    }
}

fn read_schema(
    programs: &Programs,
    schema: &'static str,
) -> Result<Arc<DatabaseSchema>, ReleaseError> {
    let path = programs.schema_path(schema)?;
    let text = match fs::read(&path) {
        Ok(text) => text,
        Err(source) => return Err(ReleaseError::ReadSchema { path, source }),
    };
    match DatabaseSchema::parse(&text) {
        Ok(schema) => Ok(Arc::new(schema)),
        Err(source) => Err(ReleaseError::ParseSchema { path, source }),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use patchbay_ovn_programs::testing::create_script;

    use super::*;

    #[test]
    fn an_empty_folder_has_no_release() {
        let folder = tempfile::tempdir().unwrap();
        let error = Release::find(Some(folder.path())).unwrap_err().to_string();
        assert!(error.starts_with("ovn-northd not found in /"), "{error}");
        assert!(
            error.contains("fetched into a folder for `--ovn` with: patchbay lab fetch"),
            "{error}"
        );
    }

    /// Creates programs that print versions of OVN's northd and controller.
    fn create_programs(folder: &Path, northd: &str, controller: &str) {
        let bin = folder.join("bin");
        fs::create_dir(&bin).unwrap();
        let versions = [northd, "3.5.0", controller];
        for (program, version) in PROGRAMS.iter().zip(versions) {
            let text = format!("#!/bin/sh\necho {program} {version}\n");
            create_script(&bin.join(program), &text);
        }
    }

    #[test]
    fn programs_of_two_releases_and_old_ones_are_refused() {
        for (northd, controller, expected) in [
            (
                "25.03.1",
                "25.09.0",
                "ovn-northd is of OVN 25.03.1 and ovn-controller of OVN 25.09.0; both have to be of \
                 one release",
            ),
            (
                "23.03.1",
                "23.03.1",
                "OVN 23.03.1 is too old: a lab needs OVN 23.09.0, and 25.03 for layer3 across nodes",
            ),
            ("26.03.1", "26.03.1", "ovn-nb.ovsschema not found in "),
        ] {
            let folder = tempfile::tempdir().unwrap();
            create_programs(folder.path(), northd, controller);
            let error = Release::find(Some(folder.path())).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
