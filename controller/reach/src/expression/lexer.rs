//! Tokens of the expression language (ovn-sb(5), `Logical_Flow`, column `match`).

use super::constant::Constant;

/// Token of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token<'a> {
    /// The text has ended.
    End,
    /// Name of a field or predicate.
    Name(&'a str),
    /// Quoted string, without quotes and escapes.
    Text(String),
    Constant(Constant),
    /// `$name`
    AddressSet(&'a str),
    /// `@name`
    PortGroup(&'a str),
    /// `^name`
    Template,
    /// Operator, parenthesis or another mark.
    Mark(&'static str),
}

/// Marks, longer ones before their prefixes.
const MARKS: [&str; 17] =
    ["&&", "||", "==", "!=", "<=", ">=", "..", "(", ")", "{", "}", "[", "]", "!", "<", ">", ","];

/// Reads the next token of `text` from the byte `position`. Returns the token and the position
/// behind it.
///
/// # Errors
/// The text has no token there; the error is a reason.
pub(crate) fn next_token(text: &str, position: usize) -> Result<(Token<'_>, usize), &'static str> {
    let start = skip_blanks(text, position)?;
    let rest = &text[start..];
    let Some(first) = rest.bytes().next() else {
        return Ok((Token::End, start));
    };
    if let Some(mark) = MARKS.iter().find(|mark| rest.starts_with(**mark)) {
        return Ok((Token::Mark(mark), start + mark.len()));
    }
    match first {
        b'"' => {
            let (string, length) = read_string(rest)?;
            Ok((Token::Text(string), start + length))
        }
        b'$' | b'@' | b'^' => {
            let name = &rest[1..=name_length(&rest[1..])];
            if name.is_empty() {
                return Err("expected a name behind $, @ or ^");
            }
            let token = match first {
                b'$' => Token::AddressSet(name),
                b'@' => Token::PortGroup(name),
                _ => Token::Template,
            };
            Ok((token, start + 1 + name.len()))
        }
        _ if is_constant(rest) => {
            let (constant, length) = Constant::parse(rest)?;
            Ok((Token::Constant(constant), start + length))
        }
        _ => match name_length(rest) {
            0 => Err("invalid character"),
            length => Ok((Token::Name(&rest[..length]), start + length)),
        },
    }
}

/// The position of the first byte that belongs neither to a blank nor to a comment.
fn skip_blanks(text: &str, mut position: usize) -> Result<usize, &'static str> {
    loop {
        let rest = &text[position..];
        let blanks =
            rest.len() - rest.trim_start_matches([' ', '\t', '\n', '\r', '\x0b', '\x0c']).len();
        let rest = &rest[blanks..];
        position += blanks;
        if let Some(comment) = rest.strip_prefix("//") {
            position += 2 + comment.find('\n').unwrap_or(comment.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").ok_or("a comment has no end")?;
            if comment[..end].contains('\n') {
                return Err("a comment has no end in its line");
            }
            position += 2 + end + 2;
        } else {
            return Ok(position);
        }
    }
}

/// `true` if the text begins like a constant. An address that begins with a letter has a colon
/// behind its first digits, which no name has.
fn is_constant(text: &str) -> bool {
    let digits = text.bytes().take_while(u8::is_ascii_hexdigit).count();
    text.starts_with("::")
        || text.starts_with(|c: char| c.is_ascii_digit())
        || digits > 0 && text.as_bytes().get(digits) == Some(&b':')
}

/// Number of bytes of the name at the beginning of the text; 0: there is none.
fn name_length(text: &str) -> usize {
    if text.starts_with(|c: char| c.is_ascii_digit()) {
        return 0;
    }
    text.bytes()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'))
        .count()
}

/// Reads a quoted string with JSON's escapes. Returns it and the number of bytes that it takes.
fn read_string(text: &str) -> Result<(String, usize), &'static str> {
    let mut string = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((position, character)) = characters.next() {
        match character {
            '"' => return Ok((string, position + 1)),
            '\\' => match characters.next() {
                Some((_, 'b')) => string.push('\x08'),
                Some((_, 'f')) => string.push('\x0c'),
                Some((_, 'n')) => string.push('\n'),
                Some((_, 'r')) => string.push('\r'),
                Some((_, 't')) => string.push('\t'),
                Some((_, escaped @ ('"' | '\\' | '/'))) => string.push(escaped),
                Some((_, 'u')) => {
                    let digits: String = characters.by_ref().take(4).map(|(_, c)| c).collect();
                    let code = u32::from_str_radix(&digits, 16).ok();
                    string.push(code.and_then(char::from_u32).ok_or("bad escape in a string")?);
                }
                _ => return Err("bad escape in a string"),
            },
            other => string.push(other),
        }
    }
    Err("a string has no end")
}
