//! Appends values to an output buffer, in the format of ovsdb-server.

use super::format_real;
use super::string::plain_len;

/// Appends a quoted string. Only characters that JSON requires to be escaped are escaped.
pub fn string(out: &mut Vec<u8>, bytes: &[u8]) {
    if plain_len(bytes) == bytes.len() {
        plain_string(out, bytes);
    } else {
        escaped_string(out, bytes);
    }
}

/// Appends a quoted string that is [plain](super::is_plain).
pub(crate) fn plain_string(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    // Writes both quotes at once.
    out.resize(start + bytes.len() + 2, b'"');
    out[start + 1..start + 1 + bytes.len()].copy_from_slice(bytes);
}

#[cold]
fn escaped_string(out: &mut Vec<u8>, mut bytes: &[u8]) {
    out.push(b'"');
    loop {
        let (plain, rest) = bytes.split_at(plain_len(bytes));
        out.extend_from_slice(plain);
        let [special, rest @ ..] = rest else { break };
        bytes = rest;
        match special {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            8 => out.extend_from_slice(b"\\b"),
            12 => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            control => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(control >> 4)]);
                out.push(HEX[usize::from(control & 15)]);
            }
        }
    }
    out.push(b'"');
}

/// Appends an integer.
pub fn integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    unsigned(out, value.unsigned_abs());
}

/// Appends an unsigned integer.
pub fn unsigned(out: &mut Vec<u8>, mut value: u64) {
    let mut digits = [0; 20];
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b'0' + (value % 10) as u8;
        value /= 10;
        if value == 0 {
            break;
        }
    }
    out.extend_from_slice(&digits[start..]);
}

/// Appends a real with 15 significant digits.
pub fn real(out: &mut Vec<u8>, value: f64) {
    out.extend_from_slice(format_real(value).as_bytes());
}
