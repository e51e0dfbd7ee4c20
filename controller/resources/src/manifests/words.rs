//! Messages about values of manifests in the words of YAML and Kubernetes.

/// Fields of objects of Kubernetes whose types do not list their fields in messages.
const KNOWN_FIELDS: [&str; 44] = [
    "addresses",
    "annotations",
    "cidr",
    "clusterIP",
    "containerPort",
    "containers",
    "egress",
    "egressIPs",
    "endPort",
    "except",
    "externalIPs",
    "externalTrafficPolicy",
    "gateway",
    "image",
    "ingress",
    "ipBlock",
    "key",
    "labels",
    "loadBalancerIP",
    "matchExpressions",
    "matchLabels",
    "name",
    "namespace",
    "namespaceSelector",
    "nodeName",
    "nodePort",
    "nodeSelector",
    "operator",
    "podCIDR",
    "podCIDRs",
    "podSelector",
    "policyTypes",
    "port",
    "ports",
    "priority",
    "protocol",
    "provider",
    "selector",
    "sessionAffinity",
    "staticRoutes",
    "subnet",
    "subnets",
    "targetPort",
    "values",
];
/// Names of integers in messages of decoders.
const INTEGERS: [&str; 12] =
    ["i8", "i16", "i32", "i64", "isize", "u8", "u16", "u32", "u64", "usize", "i128", "u128"];
/// Maximum number of edits between a field and a misspelling of it.
const MAX_EDITS: usize = 2;
/// Minimum length of a field that is compared. Shorter ones are like too many others.
const MIN_LENGTH: usize = 3;

/// A message of a decoder in the words of a manifest's author.
pub(super) fn in_words(message: &str) -> String {
    if let Some((found, known)) = unknown(message, "unknown field") {
        return unknown_field(found, &known);
    }
    if let Some((found, known)) = unknown(message, "unknown variant") {
        return format!("unknown value {found:?}, expected {}{}", or(&known), hint(found, &known));
    }
    if let Some(field) = message.strip_prefix("missing field ") {
        return format!("the field {} is missing", field.trim_matches('`'));
    }
    if let Some((found, expected)) = split(message, "invalid type: ") {
        return format!("expected {}, found {}", expectation(expected), value(found));
    }
    if let Some((found, expected)) = split(message, "invalid value: ") {
        return format!("{} is out of range: expected {}", value(found), expectation(expected));
    }
    message.to_owned()
}

/// A message about a field that the type of an object does not have.
pub(super) fn unknown_field(field: &str, known: &[&str]) -> String {
    let found = if known.is_empty() { hint(field, &KNOWN_FIELDS) } else { hint(field, known) };
    match known {
        _ if !found.is_empty() => format!("unknown field{found}"),
        [] => "unknown field".to_owned(),
        known => format!("unknown field; the fields are {}", known.join(", ")),
    }
}

/// The name that is not known, and the names that are.
fn unknown<'a>(message: &'a str, kind: &str) -> Option<(&'a str, Vec<&'a str>)> {
    let mut quoted = message.strip_prefix(kind)?.split('`').skip(1).step_by(2);
    let found = quoted.next()?;
    Some((found, quoted.collect()))
}

/// What was found, and what was expected.
fn split<'a>(message: &'a str, kind: &str) -> Option<(&'a str, &'a str)> {
    message.strip_prefix(kind)?.rsplit_once(", expected ")
}

/// A question for the most similar name. Empty: none is similar.
fn hint(name: &str, known: &[&str]) -> String {
    let folded = name.to_ascii_lowercase();
    let similar = known.iter().filter_map(|known| {
        let edits = strsim::damerau_levenshtein(&folded, &known.to_ascii_lowercase());
        let is_similar = known.len() >= MIN_LENGTH && edits <= MAX_EDITS && **known != *name;
        is_similar.then_some((edits, known))
    });
    let best = similar.min_by_key(|(edits, _)| *edits);
    best.map(|(_, known)| format!(", did you mean {known}?")).unwrap_or_default()
}

fn or(names: &[&str]) -> String {
    match names {
        [] => "another one".to_owned(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{} or {last}", first.join(", ")),
    }
}

/// A value that was found.
fn value(text: &str) -> String {
    let kinds = [
        ("string ", "the text "),
        ("integer ", "the number "),
        ("floating point ", "the number "),
        ("boolean ", ""),
    ];
    for (kind, words) in kinds {
        if let Some(rest) = text.strip_prefix(kind) {
            return format!("{words}{}", rest.trim_matches('`'));
        }
    }
    match text {
        "sequence" => "a list".to_owned(),
        "map" => "an object".to_owned(),
        "null" | "unit value" => "nothing".to_owned(),
        other => other.to_owned(),
    }
}

/// What a field takes.
fn expectation(text: &str) -> String {
    if INTEGERS.contains(&text) {
        return "a whole number".to_owned();
    }
    match text {
        "a string" | "string" => "a text".to_owned(),
        "a sequence" | "sequence" => "a list".to_owned(),
        "a map" | "map" => "an object".to_owned(),
        "a boolean" | "bool" => "true or false".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        other => match other.strip_prefix("struct ") {
            Some(_) => "an object".to_owned(),
            None => other.replace('`', ""),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_words_of_decoders() {
        for (message, words) in [
            (
                "unknown field `hostSubnt`, expected `cidr` or `hostSubnet`",
                "unknown field, did you mean hostSubnet?",
            ),
            (
                "unknown field `color`, expected one of `role`, `mtu`",
                "unknown field; the fields are role, mtu",
            ),
            ("unknown field `color`, there are no fields", "unknown field"),
            (
                "unknown variant `primary`, expected `Primary` or `Secondary`",
                "unknown value \"primary\", expected Primary or Secondary, did you mean Primary?",
            ),
            ("missing field `connectivity`", "the field connectivity is missing"),
            (
                "invalid type: string \"10.2.0.0/16\", expected a sequence",
                "expected a list, found the text \"10.2.0.0/16\"",
            ),
            (
                "invalid type: string \"80\", expected i32",
                "expected a whole number, found the text \"80\"",
            ),
            ("invalid type: map, expected a sequence", "expected a list, found an object"),
            ("invalid type: boolean `true`, expected a string", "expected a text, found true"),
            (
                "invalid value: integer `70000`, expected u16",
                "the number 70000 is out of range: expected a whole number",
            ),
            ("HostSubnet must be smaller", "HostSubnet must be smaller"),
        ] {
            assert_eq!(in_words(message), words);
        }
    }

    #[test]
    fn fields_without_a_list_are_compared_with_those_of_kubernetes() {
        assert_eq!(unknown_field("matchLabel", &[]), "unknown field, did you mean matchLabels?");
        assert_eq!(unknown_field("nodename", &[]), "unknown field, did you mean nodeName?");
        assert_eq!(unknown_field("schedulerName", &[]), "unknown field");
    }
}
