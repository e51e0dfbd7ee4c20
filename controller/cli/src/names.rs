//! Names of Kubernetes' objects on the command line. A wrong one would be refused by the API server with each request, for ever.

/// The longest name of an object.
const NAME: usize = 253;
/// The longest name of a namespace.
const LABEL: usize = 63;

/// The name of a node: DNS labels with dots between.
pub(super) fn object(text: &str) -> Result<String, String> {
    if text.contains("$(") {
        return Err("the variable is not set where the container is started".to_owned());
    }
    if text.len() <= NAME && text.split('.').all(is_label) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected the name of a node: up to {NAME} of a-z, 0-9, '-' and '.', with a letter or digit at both ends of each part"
    ))
}

/// The name of a namespace: a DNS label.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    if text.len() <= LABEL && is_label(text) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "expected the name of a namespace: up to {LABEL} of a-z, 0-9 and '-', with a letter or digit at both ends"
    ))
}

fn is_label(text: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    !text.is_empty() && text.bytes().all(is_inner) && !text.starts_with('-') && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_an_api_server_takes() {
        for name in ["n", "ovn-worker2", "10-0-0-1.example.com", &"n".repeat(253)] {
            assert_eq!(object(name).as_deref(), Ok(name));
        }
        for name in [
            "",
            "N 1!",
            "$(K8S_NODE)",
            "a..b",
            "-a",
            "a-.b",
            "a/b",
            &"n".repeat(254),
        ] {
            assert!(object(name).is_err(), "{name}");
        }
        assert!(object("$(K8S_NODE)").is_err_and(|error| error.contains("variable")));
        assert!(namespace("ovn-kubernetes").is_ok());
        for name in ["", "a.b", "Default", "a-", &"n".repeat(64)] {
            assert!(namespace(name).is_err(), "{name}");
        }
    }
}
