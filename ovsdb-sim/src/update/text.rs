//! Text of an update, in pieces that are encoded on demand.

use std::sync::{Arc, OnceLock};

use super::encode::UnencodedChanges;

/// Text of a `<table-updates>` object in pieces, shared by the members of a monitor group.
///
/// A piece is encoded when the first member's writer reaches it, and freed when the last has passed
/// it. If all members read, the text is never in memory as a whole.
#[derive(Debug)]
pub(crate) struct UpdateText {
    piece: Vec<u8>,
    /// `None`: this is the last piece.
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    changes: UnencodedChanges,
    text: OnceLock<Arc<UpdateText>>,
}

impl UpdateText {
    /// Makes a text of a piece and the changes that follow it.
    pub(super) fn new(piece: Vec<u8>, rest: UnencodedChanges) -> Self {
        let rest = Some(Rest { changes: rest, text: OnceLock::new() });
        Self { piece, rest }
    }

    /// The first piece.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.piece
    }

    /// `true` if there is no piece after the first one.
    pub(crate) fn is_whole(&self) -> bool {
        self.rest.is_none()
    }

    /// The text after the first piece, encoded by the first caller. `None`: there is no more.
    pub(crate) fn next(&self) -> Option<&Arc<Self>> {
        let rest = self.rest.as_ref()?;
        let encode = || Arc::new(rest.changes.next_piece());
        Some(rest.text.get_or_init(encode))
    }

    /// Encodes all pieces.
    pub(crate) fn into_pieces(mut self) -> Vec<Vec<u8>> {
        let mut pieces = Vec::new();
        loop {
            pieces.push(std::mem::take(&mut self.piece));
            match self.rest.take() {
                Some(rest) => self = rest.changes.next_piece(),
                None => return pieces,
            }
        }
    }
}

/// Makes a text of a single piece.
impl From<Vec<u8>> for UpdateText {
    fn from(piece: Vec<u8>) -> Self {
        Self { piece, rest: None }
    }
}

/// Drops the pieces in a loop: nested drops of a long text would overflow the stack.
impl Drop for UpdateText {
    fn drop(&mut self) {
        let after = |text: &mut Self| text.rest.as_mut()?.text.take();
        let mut next = after(self);
        while let Some(mut text) = next.and_then(Arc::into_inner) {
            next = after(&mut text);
        }
    }
}

#[cfg(test)]
mod tests {
    use patchbay_engine::db::{Database, RowChange};
    use patchbay_engine::txn::TxnBuilder;
    use patchbay_schemas::json::{Json, Reader, TextBuf};
    use patchbay_schemas::nb::{self, LogicalRouter, LogicalSwitch};
    use patchbay_schemas::strings::StringCache;
    use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};

    use crate::update::{MonitorSpec, encode_changes};

    use super::*;

    /// Encodes the update of a monitor of two tables for a transaction that inserts `rows` rows
    /// into each.
    fn update(rows: usize) -> Option<UpdateText> {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        for i in 0..rows {
            let name = format!("{i:0100}");
            let router = LogicalRouter { name: name.clone(), ..LogicalRouter::default() };
            txn.insert(&router).unwrap();
            let switch = LogicalSwitch { name, ..LogicalSwitch::default() };
            txn.insert(&switch).unwrap();
        }
        let changes = database.transact(txn.finish().operations()).unwrap();
        let mut changes: Vec<&RowChange> = changes.rows.iter().collect();
        changes.sort_by_key(|change| change.table);
        let version = MonitorVersion::V2;
        let requests =
            br#"{"Logical_Router":{"columns":["name"]},"Logical_Switch":{"columns":["name"]}}"#;
        let schema = nb::schema();
        let text = TextBuf::parse(requests.to_vec()).unwrap();
        let requests = MonitorRequests::decode(
            &mut Reader::new(text.as_text()),
            &schema,
            version,
            &mut StringCache::default(),
        )
        .unwrap();
        let spec = Arc::new(MonitorSpec { version, requests });
        encode_changes(&spec, &schema, &changes)
    }

    #[test]
    fn the_pieces_of_a_long_update_form_one_object_with_all_rows() {
        for (rows, pieces) in [(1, 1..=1), (3_000, 3..=12)] {
            let text = update(rows).unwrap();
            assert_eq!(text.is_whole(), rows == 1);
            let found = text.into_pieces();
            assert!(pieces.contains(&found.len()), "{}", found.len());
            let found = found.concat();
            let object = Json::parse(&found).unwrap();
            for table in ["Logical_Router", "Logical_Switch"] {
                let Some(Json::Object(updates)) = object.get(table) else { panic!("no {table}") };
                assert_eq!(updates.len(), rows);
            }
        }
        assert!(update(0).is_none());
    }

    #[test]
    fn readers_share_pieces_and_the_last_reader_frees_them() {
        let first = Arc::new(update(3_000).unwrap());
        let [mut quick, slow] = [first.clone(), first];
        let second = quick.next().unwrap().clone();
        let mut text = quick.piece().to_vec();
        while let Some(next) = quick.next().cloned() {
            text.extend_from_slice(next.piece());
            quick = next;
        }
        // The slow reader shares the pieces of the quick one, and keeps them until it has read
        // them.
        assert!(Arc::ptr_eq(&second, slow.next().unwrap()));
        drop(slow);
        let watched = Arc::downgrade(&second);
        assert_eq!(Arc::strong_count(&second), 1);
        drop(second);
        assert!(watched.upgrade().is_none());
        assert!(Json::parse(&text).is_ok());
    }
}
