//! What updates say, as text.

use std::sync::{Arc, OnceLock};

use crate::outbox::ROW_WEIGHT;

use super::encode::Changes;

/// The text of a `<table-updates>` in pieces, which clients of the same monitor share. Each piece is encoded when the
/// first of them comes to it, and gone when the last has passed it, so that a long text is never there as a whole.
#[derive(Debug)]
pub(crate) struct UpdateText {
    piece: Vec<u8>,
    /// None behind the last piece.
    rest: Option<Rest>,
}

#[derive(Debug)]
struct Rest {
    changes: Changes,
    text: OnceLock<Arc<UpdateText>>,
}

impl UpdateText {
    /// A piece that changes follow.
    pub(super) fn new(piece: Vec<u8>, rest: Changes) -> Self {
        let rest = Some(Rest {
            changes: rest,
            text: OnceLock::new(),
        });
        Self { piece, rest }
    }

    /// The first piece.
    pub(crate) fn piece(&self) -> &[u8] {
        &self.piece
    }

    /// What follows it.
    pub(crate) fn rest(&self) -> Option<&Arc<Self>> {
        let rest = self.rest.as_ref()?;
        let encode = || Arc::new(rest.changes.next_piece());
        Some(rest.text.get_or_init(encode))
    }

    /// What that counts among the bytes that wait to be written: so much that it is known before it is encoded.
    pub(crate) fn weight_left(&self) -> usize {
        let rows = self.rest.as_ref().map_or(0, |rest| rest.changes.rows());
        rows * ROW_WEIGHT
    }

    /// All pieces.
    pub(super) fn pieces(&self) -> Vec<Vec<u8>> {
        let mut pieces = vec![self.piece.clone()];
        let mut at = self.rest().cloned();
        while let Some(text) = at {
            pieces.push(text.piece.clone());
            at = text.rest().cloned();
        }
        pieces
    }
}

/// One piece is all of it.
impl From<Vec<u8>> for UpdateText {
    fn from(piece: Vec<u8>) -> Self {
        Self { piece, rest: None }
    }
}

/// One piece after the other, and not each within the one before.
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
    use patchbay_schemas::strings::Strings;
    use patchbay_schemas::wire::{MonitorRequests, MonitorVersion};

    use crate::monitor::{Spec, encode};

    use super::*;

    /// What a monitor of two tables hears of a transaction that inserts so many rows into each.
    fn update(rows: usize) -> Option<Arc<UpdateText>> {
        let mut database = Database::new(nb::schema());
        let mut txn = TxnBuilder::new(&database.snapshot());
        for i in 0..rows {
            let name = format!("{i:0100}");
            let router = LogicalRouter {
                name: name.clone(),
                ..LogicalRouter::default()
            };
            txn.insert(&router).unwrap();
            let switch = LogicalSwitch {
                name,
                ..LogicalSwitch::default()
            };
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
            &mut Strings::default(),
        );
        let requests = requests.unwrap();
        encode::changes(&Arc::new(Spec { version, requests }), &schema, &changes)
    }

    #[test]
    fn the_pieces_of_a_long_text_are_one_object_of_all_rows() {
        for (rows, pieces) in [(1, 1..=1), (3_000, 3..=12)] {
            let text = update(rows).unwrap();
            assert_eq!(text.weight_left() > 0, rows > 1);
            let found = text.pieces();
            assert!(pieces.contains(&found.len()), "{}", found.len());
            let object = Json::parse(&found.concat()).unwrap();
            for table in ["Logical_Router", "Logical_Switch"] {
                let Some(Json::Object(updates)) = object.get(table) else {
                    panic!("no {table}")
                };
                assert_eq!(updates.len(), rows);
            }
        }
        assert!(update(0).is_none());
    }

    #[test]
    fn readers_share_pieces_and_the_last_one_frees_them() {
        let first = update(3_000).unwrap();
        let second = first.rest().unwrap();
        assert!(Arc::ptr_eq(second, first.clone().rest().unwrap()));
        assert!(second.weight_left() < first.weight_left());
        let watched = Arc::downgrade(second);
        drop(first);
        assert!(watched.upgrade().is_none());
    }
}
