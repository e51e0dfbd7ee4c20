//! The databases that commands read and write, and the UUIDs and times that they write.

use jiff::Timestamp;
use patchbay_app::northbound::{Embedded, OneOf, Remote};
use patchbay_resources::object::Time;
use patchbay_schemas::uuids::UuidSource;

use super::args::Database;
use super::failure::Failure;
use super::keys::Keys;

/// The time of conditions that change in this run.
pub(super) fn now() -> Time {
    Time(Timestamp::now())
}

/// The database of the zone at this place among the zones: a server's, or an empty one.
pub(super) async fn open(database: &Database, keys: &Keys, place: usize) -> Result<OneOf, Failure> {
    Ok(match database {
        Database::Embedded => OneOf::Embedded(embedded(place)?),
        Database::Remote(remote) => OneOf::Remote(Remote::open(remote, keys.tls()).await?),
    })
}

/// UUIDs of new rows. In an embedded database runs on the same manifests give rows the same ones.
pub(super) fn new_row_uuids(database: &Database, place: usize) -> UuidSource {
    match database {
        Database::Embedded => embedded_uuids(place),
        Database::Remote(_) => UuidSource::random(),
    }
}

pub(super) fn embedded(place: usize) -> Result<Embedded, Failure> {
    Embedded::new(place as u64).map_err(|error| Failure::Embedded(error.to_string()))
}

pub(super) fn embedded_uuids(place: usize) -> UuidSource {
    UuidSource::seeded(place as u64)
}
