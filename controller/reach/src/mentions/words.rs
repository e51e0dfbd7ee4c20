//! Addresses and names in the texts of rows.

use std::net::IpAddr;

use crate::address::{Mac, Prefix};

/// Characters between the words of matches, lists and pairs, and of their JSON notation.
const SEPARATORS: [char; 17] =
    [' ', ',', ';', '{', '}', '(', ')', '[', ']', '=', '!', '&', '|', '\t', '\n', '"', '\\'];

/// Word of a text that may mean a machine.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub(super) enum Word<'t> {
    /// Address, or a network that may contain addresses.
    Network(Prefix),
    /// MAC address.
    Mac(Mac),
    /// Text that may be the name of a port.
    Name(&'t str),
    /// Comparison that is no membership in a network: a mask with holes, or an order.
    Unclear,
}

/// Calls `found` for each word of a text, with its place in bytes, in the order of the text.
pub(super) fn words<'t>(text: &'t str, mut found: impl FnMut(usize, &'t str, Word<'t>)) {
    if !text.contains('"') {
        found(0, text, Word::Name(text));
    }
    let mut is_quoted = false;
    let mut start = 0;
    for piece in text.split('"') {
        if is_quoted {
            found(start, piece, Word::Name(piece));
        } else {
            unquoted(piece, start, &mut found);
        }
        start += piece.len() + 1;
        is_quoted = !is_quoted;
    }
}

/// A text in which `marks` stand for words: addresses and MAC addresses, and names in quotes.
pub(super) fn replaced(text: &str, mut mark: impl FnMut(Word<'_>) -> Option<String>) -> String {
    let mut named = String::with_capacity(text.len());
    for (number, piece) in text.split_inclusive(['"', '\\']).enumerate() {
        let (name, end) = match piece.strip_suffix(['"', '\\']) {
            Some(name) => (name, &piece[name.len()..]),
            None => (piece, ""),
        };
        match mark(Word::Name(name)).filter(|_| number > 0) {
            Some(marked) => named.push_str(&marked),
            None => named.push_str(name),
        }
        named.push_str(end);
    }
    let mut result = String::with_capacity(named.len());
    let mut done = 0;
    unquoted(&named, 0, &mut |place, part, word| {
        if let Some(marked) = mark(word) {
            result.push_str(&named[done..place]);
            result.push_str(&marked);
            done = place + part.len();
        }
    });
    result.push_str(&named[done..]);
    result
}

fn unquoted<'t>(text: &'t str, start: usize, found: &mut impl FnMut(usize, &'t str, Word<'t>)) {
    let mut place = 0;
    let mut is_ordered = false;
    for token in text.split(|c: char| SEPARATORS.contains(&c) || matches!(c, '<' | '>')) {
        if !token.is_empty() {
            let is_network = network(token, start + place, is_ordered, found);
            if !is_network && let Some(mac) = Mac::parse(token) {
                found(start + place, token, Word::Mac(mac));
            }
            is_ordered = false;
        }
        place += token.len();
        let separator = text[place..].chars().next();
        is_ordered |= matches!(separator, Some('<' | '>'));
        place += separator.map_or(0, char::len_utf8);
    }
}

/// Calls `found` for the address of a token, with a port before or behind it or without.
fn network<'t>(
    token: &'t str,
    place: usize,
    is_ordered: bool,
    found: &mut impl FnMut(usize, &'t str, Word<'t>),
) -> bool {
    if let Some(prefix) = Prefix::parse(token) {
        let word = if is_ordered { Word::Unclear } else { Word::Network(prefix) };
        found(place, token, word);
        return true;
    }
    let (before, behind) = token.split_once('/').unwrap_or((token, ""));
    if !behind.is_empty() && before.parse::<IpAddr>().is_ok() {
        found(place, token, Word::Unclear);
        return true;
    }
    // `ADDRESS:PORT` of load balancers, `PORT:ADDRESS` of their health checks.
    let mut part_place = place;
    let mut is_found = false;
    for part in token.split(':') {
        if let Ok(address @ IpAddr::V4(_)) = part.parse() {
            found(part_place, part, Word::Network(Prefix { address, length: 32 }));
            is_found = true;
        }
        part_place += part.len() + 1;
    }
    is_found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        words(text, |place, part, word| {
            assert_eq!(&text[place..place + part.len()], part);
            if !matches!(word, Word::Name(_)) {
                found.push((part.to_owned(), word == Word::Unclear));
            }
        });
        found
    }

    #[test]
    fn matches_name_networks_and_ports() {
        let text = "ip4.src == {10.0.0.1, 10.1.0.0/16} && inport == \"blue_web\" && tcp.dst > 80";
        let clear = |texts: &[&str]| -> Vec<_> {
            texts.iter().map(|text| ((*text).to_owned(), false)).collect()
        };
        assert_eq!(found(text), clear(&["10.0.0.1", "10.1.0.0/16"]));
        let mut names = Vec::new();
        words(text, |_, part, word| {
            if matches!(word, Word::Name(_)) {
                names.push(part);
            }
        });
        assert_eq!(names, ["blue_web"]);
        assert_eq!(found("[fd00::1]:80"), clear(&["fd00::1"]));
        assert_eq!(found("10.0.0.1:80,10.0.0.2:80"), clear(&["10.0.0.1", "10.0.0.2"]));
        assert_eq!(found("eth.src==0a:58:0a:00:00:01"), clear(&["0a:58:0a:00:00:01"]));
    }

    #[test]
    fn orders_and_masks_with_holes_are_unclear() {
        assert_eq!(found("ip4.src > 10.0.0.1"), [("10.0.0.1".to_owned(), true)]);
        assert_eq!(found("ip4.src <= 10.0.0.1"), [("10.0.0.1".to_owned(), true)]);
        assert_eq!(
            found("ip4.src == 10.0.0.1/255.0.0.255"),
            [("10.0.0.1/255.0.0.255".to_owned(), true)]
        );
    }
}
