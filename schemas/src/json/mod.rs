//! JSON as OVSDB speaks it: concatenated texts without framing, integers told from reals by value,
//! strings of bytes.
//!
//! ovsdb-server's reading differs from common JSON libraries in ways that clients can see (`1.0` is
//! an integer, NUL is refused, invalid UTF-8 passes until it is stored), and the hot path decodes
//! values straight into schema-typed form. So the layers are:
//!
//! * [`Framer`] cuts a byte stream into texts and proves each well-formed ([`Text`]), and gives out parts of long ones
//!   while they arrive ([`ArrivingRows`], [`UnprovenMembers`], [`ArrivingElements`]);
//! * [`Reader`] walks a proven text without building anything;
//! * [`Json`] is the tree, for ids, error `syntax` members and other rare needs;
//! * [`write`](mod@write) has the escapes and number formats of the output.

mod arriving;
mod framer;
mod number;
mod reader;
mod scanner;
mod value;
pub mod write;

pub use arriving::{ArrivingElements, ArrivingRows, UnprovenMembers};
pub use framer::{Framer, JsonError, Text, TextBuf};
pub use number::{Number, format_real};
pub use reader::{Kind, Reader};
pub(crate) use scanner::is_plain;
pub use value::Json;
