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

/// Parses the label of a node, `KEY=VALUE`. Returns the line of a node selector.
pub(super) fn parse_label(text: &str) -> Result<String, String> {
    let is_inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    let is_part = |part: &str| part.len() <= MAX_NAMESPACE_BYTES && part.bytes().all(is_inner);
    let label = text.split_once('=').filter(|(key, value)| {
        let (prefix, name) = key.rsplit_once('/').unwrap_or(("a", key));
        let is_prefix = prefix.len() <= MAX_OBJECT_NAME_BYTES && prefix.split('.').all(is_label);
        is_prefix && !name.is_empty() && is_part(name) && is_part(value)
    });
    let (key, value) = label.ok_or("expected the label of a node, KEY=VALUE")?;
    Ok(format!("{key}: \"{value}\""))
}

/// Parses a quantity of a resource, such as `500m` or `2Gi`.
pub(super) fn parse_quantity(text: &str) -> Result<String, String> {
    const SUFFIXES: [&str; 9] = ["", "m", "k", "M", "G", "T", "Ki", "Mi", "Gi"];
    let end = text.find(|one: char| !one.is_ascii_digit() && one != '.').unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let is_positive = number.parse::<f64>().is_ok_and(|number| number > 0.0);
    if is_positive && SUFFIXES.contains(&suffix) {
        return Ok(text.to_owned());
    }
    Err("expected a quantity such as 500m or 2Gi".to_owned())
}

/// Parses the absolute path of a folder.
pub(super) fn parse_folder(text: &str) -> Result<String, String> {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    if text.starts_with('/') && text.bytes().all(is_part) && !text.split('/').any(|one| one == "..")
    {
        return Ok(text.to_owned());
    }
    Err("expected an absolute path of letters, digits and the characters . _ -".to_owned())
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

    #[test]
    fn values_of_manifests_cannot_be_more_than_that() {
        for (text, line) in [
            (
                "node-role.kubernetes.io/control-plane=",
                "node-role.kubernetes.io/control-plane: \"\"",
            ),
            ("zone=a.b", "zone: \"a.b\""),
        ] {
            assert_eq!(parse_label(text).as_deref(), Ok(line));
        }
        for text in ["", "a", "=a", "a=b c", "a=b\nc: d", "a/b/c=d", "A./b=c"] {
            assert!(parse_label(text).is_err(), "{text}");
        }
        for text in ["10m", "1.5", "2Gi", "500M"] {
            assert_eq!(parse_quantity(text).as_deref(), Ok(text));
        }
        for text in ["", "0", "Gi", "-1", "1 Gi", "1.2.3", "1Gi\n", "1e3x"] {
            assert!(parse_quantity(text).is_err(), "{text}");
        }
        assert!(parse_folder("/run/ovn").is_ok());
        for text in ["", "run", "/run/../etc", "/a b", "/a\n"] {
            assert!(parse_folder(text).is_err(), "{text}");
        }
    }
}
