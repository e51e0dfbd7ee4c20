//! Rejection of strings that are not UTF-8. JSON escapes can produce such strings.

use crate::error::OvsdbError;

/// Converts the bytes of a JSON string to text.
///
/// # Errors
/// `constraint violation` with the first invalid sequence, in the words of ovsdb-server.
pub(crate) fn utf8(bytes: &[u8]) -> Result<&str, OvsdbError> {
    std::str::from_utf8(bytes).map_err(|e| {
        // Strings in ovsdb-server end with NUL, which its message includes if a sequence is cut
        // short.
        let bad = [&bytes[e.valid_up_to()..], &[0]].concat();
        let len = invalid_sequence_len(&bad);
        let shown: Vec<String> = bad[..len].iter().map(|b| format!("0x{b:02x}")).collect();
        OvsdbError::constraint(format!(
            "not a valid UTF-8 string: invalid UTF-8 sequence {}",
            shown.join(" ")
        ))
    })
}

/// Returns how many bytes of an invalid sequence ovsdb-server shows: up to the first byte that
/// cannot belong to it.
fn invalid_sequence_len(bad: &[u8]) -> usize {
    let (len, second) = match bad[0] {
        0xc2..=0xdf => (2, 0x80..=0xbf),
        0xe0 => (3, 0xa0..=0xbf),
        0xed => (3, 0x80..=0x9f),
        0xe1..=0xef => (3, 0x80..=0xbf),
        0xf0 => (4, 0x90..=0xbf),
        0xf1..=0xf3 => (4, 0x80..=0xbf),
        0xf4 => (4, 0x80..=0x8f),
        _ => return 1,
    };
    for (i, byte) in bad.iter().enumerate().take(len).skip(1) {
        let fits = if i == 1 { second.contains(byte) } else { (0x80..=0xbf).contains(byte) };
        if !fits {
            return i + 1;
        }
    }
    bad.len().min(len)
}
