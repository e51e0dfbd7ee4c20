//! Databases from requests in JSON notation.

use patchbay_engine::db::{Access, Database, Execution};
use patchbay_reach::Northbound;
use patchbay_schemas::json::{Reader, TextBuf};
use patchbay_schemas::nb;
use patchbay_schemas::strings::StringCache;
use patchbay_schemas::uuids::UuidSource;
use patchbay_schemas::wire::decode_transaction;

/// The index of a database that a `transact` request fills.
pub(crate) fn northbound(request: &str) -> Northbound {
    Northbound::new(&database(request).snapshot(), None)
}

/// A database that a `transact` request fills.
pub(crate) fn database(request: &str) -> Database {
    let mut uuids = UuidSource::seeded(1);
    let mut database = Database::with_uuids(nb::schema(), UuidSource::seeded(2));
    let text = TextBuf::parse(request.as_bytes().to_vec()).unwrap();
    let mut reader = Reader::new(text.as_text());
    assert!(reader.enter_array() && reader.next_element());
    reader.skip();
    let schema = database.schema().clone();
    let mut strings = StringCache::default();
    let mut decoded = decode_transaction(reader, &schema, &mut strings, &mut uuids);
    match database.execute(&mut decoded, &Access::unrestricted()) {
        Execution::Committed { .. } => database,
        Execution::Failed { results, error } => panic!("operation {}: {error}", results.len()),
        Execution::Waiting { .. } => panic!("the request waits"),
    }
}
