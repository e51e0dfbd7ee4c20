//! Integer constants of the expression language: numbers, addresses, masks.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::address::{Mac, mask_bits};

/// Longest text of an IPv6 address, in bytes.
const IPV6_TEXT_MAX: usize = 45;

/// Notation of a constant, on which its width and its masks depend.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Notation {
    /// `80`
    Decimal,
    /// `0x50`
    Hexadecimal,
    /// `0a:58:00:00:00:01`
    Ethernet,
    /// `10.0.0.1`
    Ipv4,
    /// `fd00::1`
    Ipv6,
}

/// Integer constant, with or without a mask.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Constant {
    pub(crate) value: u128,
    /// `None`: no mask, which means all bits of the field.
    pub(crate) mask: Option<u128>,
    pub(crate) notation: Notation,
}

impl Constant {
    /// Number of bits that a field needs to hold the constant.
    pub(crate) fn width(&self) -> u32 {
        match (self.mask, self.notation) {
            (Some(mask), _) => u128::BITS - mask.leading_zeros(),
            (None, Notation::Decimal | Notation::Hexadecimal) => {
                u128::BITS - self.value.leading_zeros()
            }
            (None, Notation::Ethernet) => 48,
            (None, Notation::Ipv4) => 32,
            (None, Notation::Ipv6) => 128,
        }
    }

    /// Parses the constant at the beginning of a text. Returns it and the number of bytes that it
    /// takes.
    ///
    /// # Errors
    /// The text does not begin with a constant; the error is a reason.
    pub(crate) fn parse(text: &str) -> Result<(Self, usize), &'static str> {
        let (mut constant, length) = parse_unmasked(text)?;
        if text.as_bytes().get(length) != Some(&b'/') {
            return Ok((constant, length));
        }
        let (mask, mask_length) = parse_unmasked(&text[length + 1..])?;
        let bits = match (constant.notation, mask.notation) {
            (a, b) if a == b => mask.value,
            (Notation::Ipv4, Notation::Decimal) if mask.value <= 32 => {
                mask_bits(mask.value as u8, 32)
            }
            (Notation::Ipv6, Notation::Decimal) if mask.value <= 128 => {
                mask_bits(mask.value as u8, 128)
            }
            (Notation::Decimal, Notation::Hexadecimal) if constant.value == 0 => {
                constant.notation = Notation::Hexadecimal;
                mask.value
            }
            _ => return Err("the value and the mask have different notations"),
        };
        constant.value &= bits;
        constant.mask = Some(bits);
        Ok((constant, length + 1 + mask_length))
    }
}

/// Parses a constant without its mask. Its text ends before `..`, and before a colon behind a dot,
/// as in `10.0.0.1:80`.
fn parse_unmasked(text: &str) -> Result<(Constant, usize), &'static str> {
    let bytes = text.as_bytes();
    let mut length = 0;
    let mut has_dot = false;
    while let Some(byte) = bytes.get(length) {
        match byte {
            b':' if !has_dot => {}
            b'.' if bytes.get(length + 1) != Some(&b'.') => has_dot = true,
            byte if byte.is_ascii_alphanumeric() => {}
            _ => break,
        }
        length += 1;
    }
    let word = &text[..length];
    let (value, notation) = parse_word(word)?;
    let constant = Constant { value, mask: None, notation };
    Ok((constant, length))
}

fn parse_word(word: &str) -> Result<(u128, Notation), &'static str> {
    if word.is_empty() {
        return Err("expected a constant");
    }
    if word.len() == 17
        && let Some(mac) = Mac::parse(word)
    {
        return Ok((mac.bits(), Notation::Ethernet));
    }
    if word.bytes().all(|byte| byte.is_ascii_digit()) {
        if word.len() > 1 && word.starts_with('0') {
            return Err("decimal constants have no leading zeros");
        }
        let value: u64 = word.parse().map_err(|_| "decimal constants are less than 2**64")?;
        return Ok((value.into(), Notation::Decimal));
    }
    if let Some(digits) = word.strip_prefix("0x").or(word.strip_prefix("0X")) {
        let digits = digits.trim_start_matches('0');
        let value = match digits {
            "" if word.len() == 2 => return Err("expected digits behind 0x"),
            "" => 0,
            digits => u128::from_str_radix(digits, 16).map_err(|_| "bad hexadecimal constant")?,
        };
        return Ok((value, Notation::Hexadecimal));
    }
    if word.len() > IPV6_TEXT_MAX {
        return Err("bad constant");
    }
    if let Ok(address) = word.parse::<Ipv4Addr>() {
        return Ok((address.to_bits().into(), Notation::Ipv4));
    }
    let address = word.parse::<Ipv6Addr>().map_err(|_| "bad constant")?;
    Ok((address.to_bits(), Notation::Ipv6))
}
