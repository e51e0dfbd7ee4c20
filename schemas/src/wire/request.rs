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

/// Violation of JSON-RPC 1.0 by a text. Servers and clients close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad JSON-RPC message: {0}")]
pub struct MessageError(&'static str);

impl<'a> Message<'a> {
    /// Decodes the envelope of a message.
    ///
    /// # Errors
    /// Members are unknown, missing or not allowed together.
    pub fn decode(text: &'a TextBuf) -> Result<Self, MessageError> {
        if !Reader::new(text.as_text()).enter_object() {
            return Err(MessageError("message is not a JSON object"));
        }
        let (mut method, mut params, mut result, mut error, mut id) =
            (None, None, None, None, None);
        for (name, mut at) in Reader::members(text) {
            let slot = match &*name {
                b"method" => &mut method,
                b"params" => &mut params,
                b"result" => &mut result,
                b"error" => &mut error,
                b"id" => &mut id,
                _ => return Err(MessageError("message has an unexpected member")),
            };
            *slot = (at.kind() != ValueKind::Null || &*name == b"method").then_some(at);
        }
        let id = id.map(|mut at| Json::read(&mut at));
        if result.is_some() || error.is_some() {
            return match (result, error, id, method, params) {
                (Some(result), None, Some(id), None, None) => Ok(Self::Reply(Reply {
                    id,
                    outcome: Ok(result),
                })),
                (None, Some(error), Some(id), None, None) => Ok(Self::Reply(Reply {
                    id,
                    outcome: Err(error),
                })),
                _ => Err(MessageError("reply with missing or extra members")),
            };
        }
        let (Some(mut method), Some(mut params)) = (method, params) else {
            return Err(MessageError("message has no method or no params"));
        };
        let Some(method) = method.string() else {
            return Err(MessageError("method is not a string"));
        };
        let method = String::from_utf8_lossy(&method).into_owned();
        if params.kind() != ValueKind::Array {
            return Err(MessageError("params is not an array"));
        }
        Ok(match id {
            Some(id) => Self::Request { method, params, id },
            None => Self::Notification { method, params },
        })
    }
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
            Ok(Message::Reply(Reply {
                outcome: Err(_), ..
            })) => "error",
            Err(_) => "invalid",
        }
    }

    #[test]
    fn the_members_determine_the_kind_of_message() {
        for (text, expected) in [
            (r#"{"method":"echo","params":[],"id":false}"#, "request"),
            (
                r#"{"method":"echo","params":[],"id":null,"error":null}"#,
                "notification",
            ),
            (r#"{"method":"echo","params":[]}"#, "notification"),
            (r#"{"result":1,"error":null,"id":"x"}"#, "reply"),
            (r#"{"result":null,"error":"no","id":0}"#, "error"),
            (r#"{"method":"echo","params":null,"id":1}"#, "invalid"),
            (r#"{"method":"echo","params":{},"id":1}"#, "invalid"),
            (r#"{"method":1,"params":[],"id":1}"#, "invalid"),
            (
                r#"{"jsonrpc":"2.0","method":"echo","params":[],"id":1}"#,
                "invalid",
            ),
            (r#"{"result":1,"id":1,"method":"x"}"#, "invalid"),
            ("{}", "invalid"),
            ("[]", "invalid"),
        ] {
            assert_eq!(kind(text), expected, "{text}");
        }
    }
}
