//! Values of columns with text.

use patchbay_schemas::atom::Atom;
use patchbay_schemas::datum::Map;

pub(super) fn text(text: String) -> Atom {
    Atom::String(text.into())
}

pub(super) fn text_map(map: impl IntoIterator<Item = (String, String)>) -> Map {
    let pairs = map.into_iter();
    pairs.map(|(key, value)| (text(key), text(value))).collect()
}
