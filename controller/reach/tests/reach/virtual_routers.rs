//! Machines with `VRRPv3` in their port security, which ovn-trace does not know.

use patchbay_reach::{Answer, Destination, Protocol, Question, Sender, Verdict};
use serde_json::{Value, json};

use crate::support::northbound;

/// MAC address of a virtual router.
const VIRTUAL_MAC: &str = "00:00:5e:00:01:05";

/// The answer for a packet from `a`, whose machine has a virtual router, to `b`, or back. `own`:
/// MAC address with which the machine sends.
fn answer(security: &[&str], own: &str, is_back: bool) -> Answer {
    let virtual_address = format!("{VIRTUAL_MAC} 10.0.0.5");
    let addresses = json!(["set", ["0a:00:00:00:00:01 10.0.0.1", virtual_address]]);
    let ports = [
        json!({"name": "a", "addresses": addresses, "port_security": ["set", security]}),
        json!({"name": "b", "addresses": "0a:00:00:00:00:02 10.0.0.2"}),
    ];
    let mut request = vec![json!("OVN_Northbound")];
    for row in ports {
        let name = row["name"].clone();
        request.push(
            json!({"op": "insert", "table": "Logical_Switch_Port", "uuid-name": name, "row": row}),
        );
    }
    let ports = ["a", "b"].map(|name| json!(["named-uuid", name]));
    let row = json!({"name": "sw", "ports": ["set", ports],
        "other_config": ["map", [["subnet", "10.0.0.0/24"]]]});
    request.push(json!({"op": "insert", "table": "Logical_Switch", "row": row}));
    let (sender, destination) = if is_back {
        (Sender::port("b"), "10.0.0.5")
    } else {
        let sender =
            Sender { ip: "10.0.0.5".parse().ok(), mac: Some(own.to_owned()), ..Sender::port("a") };
        (sender, "10.0.0.2")
    };
    let question = Question {
        sender,
        destination: Destination::Address(destination.parse().unwrap()),
        protocol: Protocol::Tcp(80),
    };
    let request = Value::Array(request).to_string();
    northbound(&request).answer(&question).unwrap()
}

#[test]
fn a_machine_needs_its_own_address_for_replies_to_its_virtual_router() {
    const OWN: &str = "0a:00:00:00:00:01 10.0.0.1";
    const ROUTER: &str = "VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:05 10.0.0.5";
    for (security, verdict) in [
        (&[ROUTER, OWN][..], Verdict::Reaches),
        (&[ROUTER], Verdict::Unanswered),
        (&[OWN], Verdict::Dropped),
    ] {
        let answer = answer(security, VIRTUAL_MAC, false);
        assert_eq!(answer.verdict, verdict, "{security:?} {answer:#?}");
    }
    // The machine itself does not have the address.
    let answer = answer(&[ROUTER, OWN], "0a:00:00:00:00:01", false);
    assert_eq!(answer.verdict, Verdict::Dropped, "{answer:#?}");
}

#[test]
fn a_virtual_router_gets_packets_for_its_addresses() {
    for (security, verdict) in [
        ("VRRPv3 0a:00:00:00:00:01", Verdict::Reaches),
        ("VRRPv3 0a:00:00:00:00:01 10.0.0.5", Verdict::Reaches),
        ("VRRPv3 0a:00:00:00:00:01 10.0.0.6", Verdict::Dropped),
        ("VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:06", Verdict::Dropped),
        // OVN ignores the element, and the port may do everything.
        ("VRRPv3 0a:00:00:00:00:01 00:00:5e:00:01:05/39", Verdict::Reaches),
    ] {
        let answer = answer(&[security], VIRTUAL_MAC, true);
        assert_eq!(answer.verdict, verdict, "{security} {answer:#?}");
    }
}
