//! JSON in the dialect of OVSDB: concatenated texts without framing, integers distinguished from
//! reals by value, strings of bytes.
//!
//! ovsdb-server's parser differs from common JSON libraries in ways that clients can observe: `1.0`
//! is an integer, NUL is refused, and invalid UTF-8 is accepted until it is stored. In addition,
//! the hot path decodes values directly into their schema types. The layers are therefore:
//!
//! * [`Framer`] splits a byte stream into texts and validates each ([`Text`]);
//! * [`Reader`] walks a validated text without building a tree;
//! * [`Json`] is the tree, for ids, `syntax` members of errors and other rare uses;
//! * [`write`](mod@write) contains the escapes and number formats of the output.
//!
//! Parts of a long text can be decoded before its end has been received; see
//! [`streaming`](crate::streaming).

mod framer;
mod number;
mod open_parts;
mod reader;
mod scanner;
mod string;
mod value;
pub mod write;

pub(crate) use framer::RETAINED_BYTES;
pub use framer::{Framer, JsonError, Text, TextBuf};
pub use number::{Number, format_real};
pub(crate) use open_parts::{OpenArray, OpenObject};
pub(crate) use reader::Stop;
pub use reader::{Reader, ValueKind};
pub(crate) use string::is_plain;
pub use value::Json;
