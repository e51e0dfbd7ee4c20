//! Numbers. A number with an integral value in the range of `i64` is an integer, however it is
//! written.

/// JSON number in the classification of OVSDB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// The exact value is an integer in the range of `i64` (`1`, `1.0`, `1e3`, `-0`).
    Integer(i64),
    /// Any other number.
    Real(f64),
}

/// Largest magnitude of an exponent that ovsdb-server's lexer accepts.
const MAX_EXPONENT: i64 = i32::MAX as i64 / 10;

impl Number {
    /// Parses a complete number token.
    ///
    /// # Errors
    /// The token is not a JSON number, or is outside the range of a double. Overflow and denormals
    /// are refused, underflow to zero is accepted.
    pub fn parse(token: &[u8]) -> Result<Self, &'static str> {
        let (negative, rest) = match token {
            [b'-', rest @ ..] => (true, rest),
            rest => (false, rest),
        };
        let int_len = digits(rest);
        let (int, rest) = rest.split_at(int_len);
        match int {
            [] => return Err("number must begin with a digit"),
            [b'0', _, ..] => return Err("leading zeros not allowed"),
            _ => {}
        }
        let (frac, rest) = match rest {
            [b'.', rest @ ..] => match digits(rest) {
                0 => return Err("decimal point must be followed by digit"),
                n => rest.split_at(n),
            },
            rest => (&[][..], rest),
        };
        let exponent = match rest {
            [] => 0,
            [b'e' | b'E', rest @ ..] => parse_exponent(rest)?,
            _ => return Err("syntax error in number"),
        };
        if let Some(integer) = exact_integer(negative, int, frac, exponent) {
            return Ok(Self::Integer(integer));
        }
        let text = std::str::from_utf8(token).map_err(|_| "syntax error in number")?;
        let real: f64 = text.parse().map_err(|_| "syntax error in number")?;
        if real.is_infinite() || (real != 0.0 && real.abs() < f64::MIN_POSITIVE) {
            return Err("number outside valid range");
        }
        // Zero has no sign.
        Ok(Self::Real(if real == 0.0 { 0.0 } else { real }))
    }
}

/// Returns the number of leading digits.
fn digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn parse_exponent(text: &[u8]) -> Result<i64, &'static str> {
    let (negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] | rest => (false, rest),
    };
    if text.is_empty() || digits(text) != text.len() {
        return Err("exponent must contain at least one digit");
    }
    let mut exponent: i64 = 0;
    for digit in text {
        if exponent >= MAX_EXPONENT {
            return Err("exponent outside valid range");
        }
        exponent = exponent * 10 + i64::from(digit - b'0');
    }
    Ok(if negative { -exponent } else { exponent })
}

/// Returns the value if it is an integer in the range of `i64`.
fn exact_integer(negative: bool, int: &[u8], frac: &[u8], exponent: i64) -> Option<i64> {
    let frac_kept = frac.len() - frac.iter().rev().take_while(|b| **b == b'0').count();
    let all = || int.iter().chain(&frac[..frac_kept]);
    let significant = all().skip_while(|b| **b == b'0').count();
    if significant == 0 {
        return Some(0);
    }
    let mut scale = exponent - i64::try_from(frac_kept).ok()?;
    let trailing = all().rev().take_while(|b| **b == b'0').count();
    scale += i64::try_from(trailing).ok()?;
    let kept = significant - trailing;
    if scale < 0 || i64::try_from(kept).ok()? + scale > 19 {
        return None;
    }
    let mut value: i128 = 0;
    for digit in all().skip_while(|b| **b == b'0').take(kept) {
        value = value * 10 + i128::from(digit - b'0');
    }
    for _ in 0..scale {
        value *= 10;
    }
    i64::try_from(if negative { -value } else { value }).ok()
}

/// Formats a real like C's `%.15g`, which is the format of ovsdb-server.
///
/// ```
/// # use patchbay_schemas::json::format_real;
/// assert_eq!(format_real(0.1 + 0.2), "0.3");
/// assert_eq!(format_real(1e22), "1e+22");
/// assert_eq!(format_real(3.0), "3");
/// ```
pub fn format_real(real: f64) -> String {
    const PRECISION: i32 = 15;
    if real == 0.0 {
        return if real.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{real:.*e}", PRECISION as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..PRECISION).contains(&exponent) {
        let fixed = format!("{real:.*}", (PRECISION - 1 - exponent) as usize);
        return strip_zeros(&fixed).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", strip_zeros(mantissa), exponent.abs())
}

fn strip_zeros(text: &str) -> &str {
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.') } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integral_values_are_integers_however_written() {
        for (text, value) in [
            ("0", 0),
            ("-0", 0),
            ("-0.0", 0),
            ("0e999", 0),
            ("1.0", 1),
            ("1e3", 1000),
            ("100e-2", 1),
            ("1.50e1", 15),
            ("9223372036854775807", i64::MAX),
            ("-9223372036854775808", i64::MIN),
        ] {
            assert_eq!(Number::parse(text.as_bytes()), Ok(Number::Integer(value)), "{text}");
        }
    }

    #[test]
    fn other_values_are_reals() {
        for (text, value) in [
            ("1.5", 1.5),
            ("9223372036854775808", 9_223_372_036_854_775_808.0),
            ("1e-7", 1e-7),
            ("1e-400", 0.0),
            ("1e300", 1e300),
        ] {
            assert_eq!(Number::parse(text.as_bytes()), Ok(Number::Real(value)), "{text}");
        }
    }

    #[test]
    fn malformed_and_unrepresentable_numbers_are_refused() {
        for text in [
            "",
            "-",
            "+1",
            ".5",
            "1.",
            "01",
            "0x1",
            "1e",
            "1e+",
            "1e400",
            "2e308",
            "5e-324",
            "1e214748365",
        ] {
            assert!(Number::parse(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn reals_are_formatted_like_percent_15g() {
        for (real, text) in [
            (0.300_000_000_000_000_04, "0.3"),
            (1e-7, "1e-07"),
            (1e22, "1e+22"),
            (9_223_372_036_854_775_808.0, "9.22337203685478e+18"),
            (-2.5, "-2.5"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1e300, "1e+300"),
            (-0.0, "-0"),
        ] {
            assert_eq!(format_real(real), text);
        }
    }
}
