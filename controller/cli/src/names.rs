//! Validation of the names of Kubernetes objects on the command line.
//!
//! The API server would reject every request with an invalid name.

/// Maximum length of an object's name in bytes (RFC 1123 subdomain).
const MAX_OBJECT_NAME_BYTES: usize = 253;
/// Maximum length of a namespace's name in bytes (RFC 1123 label).
const MAX_NAMESPACE_BYTES: usize = 63;

/// Parses the name of a node: DNS labels separated by dots.
pub(super) fn parse_node_name(text: &str) -> Result<String, String> {
    if text.contains("$(") {
        return Err("the variable is not set in the container".to_owned());
    }
    if text.len() <= MAX_OBJECT_NAME_BYTES && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected the name of a node: at most {MAX_OBJECT_NAME_BYTES} characters a-z, 0-9, '-' and '.'; each part begins and ends with a letter or digit"
    ))
}

/// Parses the name of a namespace: one DNS label.
pub(super) fn parse_namespace(text: &str) -> Result<String, String> {
    if text.len() <= MAX_NAMESPACE_BYTES && is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected the name of a namespace: at most {MAX_NAMESPACE_BYTES} characters a-z, 0-9 and '-' that begin and end with a letter or digit"
    ))
}

/// Parses the reference of a container image.
pub(super) fn parse_image(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._/:@-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_part) && !text.ends_with(':') {
        return Ok(text.to_owned());
    }
    Err("expected an image: letters, digits and the characters . _ / : @ -".to_owned())
}

fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn valid_names_are_those_that_an_api_server_accepts() {
        for name in ["n", "ovn-worker2", "10-0-0-1.example.com", &"n".repeat(253)] {
            assert_eq!(parse_node_name(name).as_deref(), Ok(name));
        }
        for name in ["", "N 1!", "$(K8S_NODE)", "a..b", "-a", "a-.b", "a/b", &"n".repeat(254)] {
            assert!(parse_node_name(name).is_err(), "{name}");
        }
        assert!(parse_node_name("$(K8S_NODE)").is_err_and(|error| error.contains("variable")));
        assert!(parse_namespace("ovn-kubernetes").is_ok());
        for name in ["", "a.b", "Default", "a-", &"n".repeat(64)] {
            assert!(parse_namespace(name).is_err(), "{name}");
        }
    }
}
