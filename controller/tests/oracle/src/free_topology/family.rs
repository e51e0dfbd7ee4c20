//! IPv4 texts as IPv6 texts, so that one generator serves both families.

use std::net::Ipv4Addr;

/// Replaces IPv4 addresses, prefixes, masks and fields by those of IPv6. `A.B.C.D` becomes
/// `fd00:A:B:C::D`.
pub(crate) fn to_ipv6(text: &str) -> String {
    let mut converted = String::with_capacity(text.len() * 2);
    let mut rest = text;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        // Digits inside a word belong to a name.
        let is_word = rest[..start].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        converted.push_str(&rest[..start]);
        rest = &rest[start..];
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (word, behind) = rest.split_at(end);
        rest = behind;
        match word.parse::<Ipv4Addr>() {
            Ok(address) if !is_word => rest = push_address(&mut converted, address, behind),
            _ => converted.push_str(word),
        }
    }
    converted.push_str(rest);
    converted
        .replace("icmp4.type == 8", "icmp6.type == 128")
        .replace("icmp4", "icmp6")
        .replace("ip4", "ip6")
}

/// Adds an address with what belongs to it in the text behind. Returns the text behind that.
fn push_address<'a>(converted: &mut String, address: Ipv4Addr, behind: &'a str) -> &'a str {
    let [a, b, c, d] = address.octets();
    let address = format!("fd00:{a}:{b}:{c}::{d}");
    if behind.strip_prefix(':').is_some_and(|port| port.starts_with(|c: char| c.is_ascii_digit())) {
        converted.extend(["[", &address, "]"]);
        return behind;
    }
    converted.push_str(&address);
    if let Some(rest) = behind.strip_prefix("/255.255.255.0") {
        converted.push_str("/ffff:ffff:ffff:ffff::");
        return rest;
    }
    for (short, long) in
        [("/0", "/0"), ("/8", "/32"), ("/16", "/48"), ("/24", "/64"), ("/32", "/128")]
    {
        let rest = behind.strip_prefix(short);
        if let Some(rest) = rest.filter(|rest| !rest.starts_with(|c: char| c.is_ascii_digit())) {
            converted.push_str(long);
            return rest;
        }
    }
    behind
}

#[test]
fn addresses_prefixes_and_ports_are_replaced() {
    let text = "ip4.src == {10.1.0.0/24, 0.0.0.0/0} && icmp4.type == 8 && inport == \"t1-s1-v10\"";
    let expected = "ip6.src == {fd00:10:1:0::0/64, fd00:0:0:0::0/0} && icmp6.type == 128 && \
                    inport == \"t1-s1-v10\"";
    assert_eq!(to_ipv6(text), expected);
    assert_eq!(to_ipv6("10.96.0.1:80"), "[fd00:10:96:0::1]:80");
    assert_eq!(to_ipv6("0a:01:00:00:01:0a 10.1.0.10"), "0a:01:00:00:01:0a fd00:10:1:0::10");
}
