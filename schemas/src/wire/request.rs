//! JSON-RPC 1.0 messages (RFC 7047 section 4).

use crate::json::{Json, Reader, TextBuf, ValueKind};

/// A message whose parameters are still text.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    /// Request, which the receiver answers with a reply.
    Request {
        /// Name of the method.
        method: String,
        /// Reader at the array of parameters.
        params: Reader<'a>,
        /// Any JSON value but `null`.
        id: Json,
    },
    /// Notification, which is not answered.
    Notification {
        /// Name of the method.
        method: String,
        /// Reader at the array of parameters.
        params: Reader<'a>,
    },
    /// Reply to a request.
    Reply(Reply<'a>),
}

/// A reply to a request.
#[derive(Clone, Debug)]
pub struct Reply<'a> {
    /// The `id` of the request.
    pub id: Json,
    /// Reader at the result, or at the error.
    pub outcome: Result<Reader<'a>, Reader<'a>>,
}

/// Violation of JSON-RPC 1.0 by a text, in Open vSwitch's words. Servers and clients close the
/// connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("received bad JSON-RPC message: {0}")]
pub struct MessageError(String);

impl MessageError {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

/// Members of messages, in the order in which they are checked.
const MEMBERS: [&str; 5] = ["method", "params", "result", "error", "id"];

impl<'a> Message<'a> {
    /// Decodes the envelope of a message.
    ///
    /// # Errors
    /// Members are unknown, missing or not allowed together.
    pub fn decode(text: &'a TextBuf) -> Result<Self, MessageError> {
        if !Reader::new(text.as_text()).enter_object() {
            return Err(MessageError::new("message is not a JSON object"));
        }
        let (mut method, mut params, mut result, mut error, mut id) =
            (None, None, None, None, None);
        let mut unexpected = None;
        for (name, mut at) in Reader::members(text) {
            let slot = match &*name {
                b"method" => &mut method,
                b"params" => &mut params,
                b"result" => &mut result,
                b"error" => &mut error,
                b"id" => &mut id,
                other => {
                    unexpected.get_or_insert_with(|| String::from_utf8_lossy(other).into_owned());
                    continue;
                }
            };
            *slot = (at.kind() != ValueKind::Null || &*name == b"method").then_some(at);
        }
        let method = method
            .map(|mut at| {
                let name = at.string().map(|name| String::from_utf8_lossy(&name).into_owned());
                name.ok_or_else(|| MessageError::new("method is not a JSON string"))
            })
            .transpose()?;
        if let Some(name) = unexpected {
            let text = format!("message has unexpected member {name:?}");
            return Err(MessageError(text));
        }
        if params.as_mut().is_some_and(|params: &mut Reader<'_>| params.kind() != ValueKind::Array)
        {
            return Err(MessageError::new("\"params\" must be JSON array"));
        }
        let id = id.map(|mut at| Json::read(&mut at));
        let present =
            [method.is_some(), params.is_some(), result.is_some(), error.is_some(), id.is_some()];
        match (method, params, result, error, id) {
            (Some(method), Some(params), None, None, Some(id)) => {
                Ok(Self::Request { method, params, id })
            }
            (Some(method), Some(params), None, None, None) => {
                Ok(Self::Notification { method, params })
            }
            (None, None, Some(result), None, Some(id)) => {
                Ok(Self::Reply(Reply { id, outcome: Ok(result) }))
            }
            (None, None, None, Some(error), Some(id)) => {
                Ok(Self::Reply(Reply { id, outcome: Err(error) }))
            }
            _ => Err(wrong_members(present)),
        }
    }
}

/// The error of a message that has some of the [`MEMBERS`].
fn wrong_members(present: [bool; 5]) -> MessageError {
    let (kind, expected) = match present {
        [_, _, true, ..] => ("reply", [false, false, true, false, true]),
        [_, _, _, true, _] => ("error", [false, false, false, true, true]),
        [.., true] => ("request", [true, true, false, false, true]),
        [.., false] => ("notification", [true, true, false, false, false]),
    };
    let members = MEMBERS.iter().zip(present.into_iter().zip(expected));
    let mut wrong = members.filter(|(_, (present, expected))| present != expected);
    let text = wrong.next().map(|(name, (_, is_expected))| {
        let not = if is_expected { "" } else { " not" };
        format!("{kind} must{not} have \"{name}\"")
    });
    MessageError(text.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(text: &str) -> &'static str {
        let text = TextBuf::parse(text.as_bytes().to_vec()).unwrap();
        match Message::decode(&text) {
            Ok(Message::Request { .. }) => "request",
            Ok(Message::Notification { .. }) => "notification",
            Ok(Message::Reply(Reply { outcome: Ok(_), .. })) => "reply",
            Ok(Message::Reply(Reply { outcome: Err(_), .. })) => "error",
            Err(_) => "invalid",
        }
    }

    #[test]
    fn errors_have_the_words_of_open_vswitch() {
        for (text, expected) in [
            ("[]", "message is not a JSON object"),
            ("{}", r#"notification must have "method""#),
            (r#"{"id":1}"#, r#"request must have "method""#),
            (r#"{"id":1,"method":"x"}"#, r#"request must have "params""#),
            (r#"{"id":1,"method":1}"#, "method is not a JSON string"),
            (r#"{"method":"x","params":{}}"#, r#""params" must be JSON array"#),
            (r#"{"result":1,"id":1,"method":"x"}"#, r#"reply must not have "method""#),
            (r#"{"result":1}"#, r#"reply must have "id""#),
            (r#"{"error":1}"#, r#"error must have "id""#),
            (r#"{"a\u001b":1}"#, r#"message has unexpected member "a\u{1b}""#),
        ] {
            let text = TextBuf::parse(text.as_bytes().to_vec()).unwrap();
            let error = Message::decode(&text).unwrap_err().to_string();
            assert_eq!(error, format!("received bad JSON-RPC message: {expected}"));
        }
    }

    #[test]
    fn the_members_determine_the_kind_of_message() {
        for (text, expected) in [
            (r#"{"method":"echo","params":[],"id":false}"#, "request"),
            (r#"{"method":"echo","params":[],"id":null,"error":null}"#, "notification"),
            (r#"{"method":"echo","params":[]}"#, "notification"),
            (r#"{"result":1,"error":null,"id":"x"}"#, "reply"),
            (r#"{"result":null,"error":"no","id":0}"#, "error"),
            (r#"{"method":"echo","params":null,"id":1}"#, "invalid"),
            (r#"{"method":"echo","params":{},"id":1}"#, "invalid"),
            (r#"{"method":1,"params":[],"id":1}"#, "invalid"),
            (r#"{"jsonrpc":"2.0","method":"echo","params":[],"id":1}"#, "invalid"),
            (r#"{"result":1,"id":1,"method":"x"}"#, "invalid"),
            ("{}", "invalid"),
            ("[]", "invalid"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
