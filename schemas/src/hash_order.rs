//! The order in which the programs of Open vSwitch and OVN walk their hash tables.
//!
//! `ovn-nbctl` prints the rows of a table and the pairs of a map in the order of its hash tables, ovsdb-server compares rows
//! column by column in that of the table's schema. The order is a function of the hashes and of the order of insertion, so
//! it can be foretold.

use std::collections::VecDeque;

use uuid::Uuid;

/// The columns that every table has.
const IMPLICIT: [&str; 2] = ["_uuid", "_version"];

/// The rows of a table as a client walks them that has just received them all.
///
/// The server sends rows by UUID. The client keeps the JSON object that they come in by the UUIDs' text and takes
/// them from there into a table by the UUIDs' first 32 bits.
///
/// ```
/// use patchbay_schemas::hash_order;
/// use uuid::Uuid;
///
/// let rows = [4, 1].map(|first| Uuid::from_fields(first, 0, 0, &[0; 8]));
/// // The hash of a row is its first 32 bits; the second row makes four buckets of one.
/// assert_eq!(hash_order::rows(rows.to_vec()), rows);
/// ```
pub fn rows(mut uuids: Vec<Uuid>) -> Vec<Uuid> {
    uuids.sort_unstable();
    let received = walk(uuids, |uuid| hash(uuid.hyphenated().to_string().as_bytes()));
    walk(received, |uuid| uuid.as_fields().0)
}

/// The keys of a map of strings as a client walks them; the server sends them sorted.
pub fn keys<'a>(sorted: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    walk(sorted, |key| hash(key.as_bytes()))
}

/// The columns of a table, `_uuid` and `_version` included, as ovsdb-server walks them that has read its schema from a
/// file by ovsdb-tool, which read it from one that has the columns sorted.
pub(crate) fn columns<'a>(sorted: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    // Each program takes a JSON object apart; ovsdb-tool makes another one of it.
    let read = |object: Vec<&'a str>| keys(IMPLICIT.into_iter().chain(object));
    let mut explicit = read(keys(sorted));
    explicit.retain(|column| !IMPLICIT.contains(column));
    read(keys(keys(explicit)))
}

/// Puts items into a hash table one by one and takes them out in its order.
///
/// New items go to the front of their bucket. As soon as there are twice as many items as buckets, the number of
/// buckets (a power of two, and at least 4 once there is more than one) doubles and all items move, in the order of
/// a walk.
fn walk<T>(items: impl IntoIterator<Item = T>, hash: impl Fn(&T) -> u32) -> Vec<T> {
    let put = |buckets: &mut Vec<VecDeque<T>>, item: T| {
        let bucket = hash(&item) as usize & (buckets.len() - 1);
        buckets[bucket].push_front(item);
    };
    let empty = |count: usize| (0..count).map(|_| VecDeque::new()).collect::<Vec<_>>();
    let mut buckets = empty(1);
    for (count, item) in (1_usize..).zip(items) {
        put(&mut buckets, item);
        if count / 2 >= buckets.len() {
            let more = empty((count / 2 + 1).next_power_of_two().max(4));
            for item in std::mem::replace(&mut buckets, more).into_iter().flatten() {
                put(&mut buckets, item);
            }
        }
    }
    buckets.into_iter().flatten().collect()
}

/// Open vSwitch's hash of bytes: `MurmurHash3` of 32 bits with seed 0, but for a last incomplete word, which is
/// treated as if zeros followed.
fn hash(bytes: &[u8]) -> u32 {
    let mixed = bytes.chunks(4).fold(0_u32, |hash, chunk| {
        let mut word = [0; 4];
        word[..chunk.len()].copy_from_slice(chunk);
        let word = u32::from_le_bytes(word)
            .wrapping_mul(0xcc9e_2d51)
            .rotate_left(15)
            .wrapping_mul(0x1b87_3593);
        (hash ^ word)
            .rotate_left(13)
            .wrapping_mul(5)
            .wrapping_add(0xe654_6b64)
    });
    let mut hash = mixed ^ bytes.len() as u32;
    for (shift, factor) in [(16, 0x85eb_ca6b), (13, 0xc2b2_ae35)] {
        hash = (hash ^ (hash >> shift)).wrapping_mul(factor);
    }
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::{columns, hash, walk};

    #[test]
    fn whole_words_hash_as_murmur3_does() {
        assert_eq!(hash(b""), 0);
        assert_eq!(hash(b"test"), 0xba6b_d213);
    }

    #[test]
    fn columns_come_as_the_tests_of_open_vswitch_expect() {
        // Of rows with the same `number` the one with the greater `name` is named first, whatever their UUIDs.
        let order = columns(["name", "number"]);
        let place = |name| order.iter().position(|column| *column == name);
        assert_eq!(order.len(), 4);
        assert!(
            place("name") < place("_uuid") && place("name") < place("_version"),
            "{order:?}"
        );
    }

    #[test]
    fn an_item_goes_in_front_of_its_bucket_and_growth_turns_a_bucket_round() {
        let order = |items: &[u32]| walk(items.to_vec(), |item| *item);
        assert_eq!(order(&[7]), [7]);
        assert_eq!(order(&[3, 2]), [2, 3]);
        // The second item makes 4 buckets of 1.
        assert_eq!(order(&[4, 8, 0]), [0, 4, 8]);
        // The eighth makes 8 of 4.
        assert_eq!(
            order(&[0, 4, 8, 12, 16, 20, 24, 28]),
            [0, 8, 16, 24, 4, 12, 20, 28]
        );
    }
}
