//! Iteration order of the hash tables (`hmap`, `shash`, `smap`) of Open vSwitch and OVN.
//!
//! `ovn-nbctl` prints the rows of a table and the pairs of a map in the order of its hash tables.
//! ovsdb-server compares rows column by column in the order of the schema's hash table. The order
//! depends only on the hashes and the order of insertion, so this module can compute it.

use std::collections::VecDeque;

use uuid::Uuid;

/// Columns that every table has.
const IMPLICIT_COLUMNS: [&str; 2] = ["_uuid", "_version"];

/// Returns the order in which a client iterates over a table directly after receiving all its rows.
///
/// The server sends rows sorted by UUID. The client hashes the members of the received JSON object
/// by the text of the UUIDs. It then inserts the rows into a table that hashes them by the first 32
/// bits of the UUIDs.
///
/// ```
/// use patchbay_schemas::hash_order;
/// use uuid::Uuid;
///
/// let rows = [4, 1].map(|first| Uuid::from_fields(first, 0, 0, &[0; 8]));
/// // The hash of a row is its first 32 bits. The second row grows the table to four buckets.
/// assert_eq!(hash_order::row_order(rows.to_vec()), rows);
/// ```
pub fn row_order(mut uuids: Vec<Uuid>) -> Vec<Uuid> {
    uuids.sort_unstable();
    let received = iteration_order(uuids, |uuid| hash(uuid.hyphenated().to_string().as_bytes()));
    iteration_order(received, |uuid| uuid.as_fields().0)
}

/// Returns the order in which a client iterates over the keys of a map of strings. The server sends
/// them sorted.
pub fn key_order<'a>(sorted: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    iteration_order(sorted, |key| hash(key.as_bytes()))
}

/// Returns pairs in the order in which a map of strings iterates over them, if they were added in
/// this order. Keys may be equal.
pub fn pair_order<V>(pairs: impl IntoIterator<Item = (String, V)>) -> Vec<(String, V)> {
    iteration_order(pairs, |(key, _)| hash(key.as_bytes()))
}

/// Returns the order in which ovsdb-server iterates over the columns of a table, including `_uuid`
/// and `_version`, if it adds the others in this order.
pub(crate) fn column_order<'a>(added: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    key_order(IMPLICIT_COLUMNS.into_iter().chain(added))
}

/// Inserts items into a hash table one by one and returns them in its iteration order.
///
/// An item is inserted at the front of its bucket. When the table holds twice as many items as
/// buckets, the number of buckets doubles: it is a power of two, and at least 4 unless it is 1. All
/// items are then inserted again, in iteration order.
fn iteration_order<T>(items: impl IntoIterator<Item = T>, hash: impl Fn(&T) -> u32) -> Vec<T> {
    let insert = |buckets: &mut Vec<VecDeque<T>>, item: T| {
        let bucket = hash(&item) as usize & (buckets.len() - 1);
        buckets[bucket].push_front(item);
    };
    let empty = |count: usize| (0..count).map(|_| VecDeque::new()).collect::<Vec<_>>();
    let mut buckets = empty(1);
    for (count, item) in (1_usize..).zip(items) {
        insert(&mut buckets, item);
        if count / 2 >= buckets.len() {
            let more = empty((count / 2 + 1).next_power_of_two().max(4));
            for item in std::mem::replace(&mut buckets, more).into_iter().flatten() {
                insert(&mut buckets, item);
            }
        }
    }
    buckets.into_iter().flatten().collect()
}

/// Hashes bytes like Open vSwitch's `hash_bytes`.
///
/// The algorithm is 32-bit `MurmurHash3` with seed 0, except that an incomplete last word is padded
/// with zeros.
fn hash(bytes: &[u8]) -> u32 {
    let mixed = bytes.chunks(4).fold(0_u32, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u32::from_le_bytes(word)
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        (hash ^ word).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    let mut hash = mixed ^ bytes.len() as u32;
    for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
        hash = (hash ^ (hash >> shift)).wrapping_mul(factor);
    }
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::{hash, iteration_order};

    #[test]
    fn whole_words_hash_like_murmur3() {
        assert_eq!(hash(b""), 0);
        assert_eq!(hash(b"test"), 0xba6b_d213);
    }

    #[test]
    fn new_items_are_first_in_their_bucket_and_growth_reverses_a_bucket() {
        let order = |items: &[u32]| iteration_order(items.to_vec(), |item| *item);
        assert_eq!(order(&[7]), [7]);
        assert_eq!(order(&[3, 2]), [2, 3]);
        // The second item grows the table from 1 bucket to 4.
        assert_eq!(order(&[4, 8, 0]), [0, 4, 8]);
        // The eighth item grows it to 8.
        assert_eq!(order(&[0, 4, 8, 12, 16, 20, 24, 28]), [0, 8, 16, 24, 4, 12, 20, 28]);
    }
}
