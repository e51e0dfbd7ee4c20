//! Releases of OVN whose texts are rendered.

use patchbay_schemas::schema::DatabaseSchema;

/// Version of the Northbound schema of OVN 26.03.
const SCHEMA_26_03: (u32, u32) = (7, 18);

/// Release of `ovn-nbctl`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Release {
    /// 23.03, that of Debian 12.
    #[default]
    V23_03,
    /// 26.03, the newest one that the tests compare with.
    V26_03,
}

impl Release {
    /// Release whose `ovn-nbctl` comes with a Northbound schema, or the older one next to it.
    pub fn of_schema(schema: &DatabaseSchema) -> Self {
        let mut numbers = schema.version.split('.').map(str::parse);
        match (numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= SCHEMA_26_03 => Self::V26_03,
            _ => Self::V23_03,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_follows_from_the_version_of_the_schema() {
        for (version, release) in [
            ("7.0.0", Release::V23_03),
            ("7.11.0", Release::V23_03),
            ("7.18.0", Release::V26_03),
            ("8.0.0", Release::V26_03),
            ("", Release::V23_03),
        ] {
            let mut schema = DatabaseSchema::clone(&patchbay_schemas::nb::schema());
            schema.version = version.to_owned();
            assert_eq!(Release::of_schema(&schema), release, "{version}");
        }
    }
}
