//! ARP requests of machines, in the notation of ovn-trace.

use crate::outcome::TraceOutcome;
use crate::trace_server::TraceServer;

/// Request of a machine for the MAC address of a neighbour.
#[derive(Clone, Debug)]
pub struct ArpRequest {
    /// Port of the sender.
    pub port: String,
    /// Fields of the request.
    pub expression: String,
    /// Fields of a reply, without those of its sender.
    reply: String,
    /// Port and MAC address of the machine that has the address. `None`: a router, or nobody.
    owner: Option<(String, String)>,
}

impl ArpRequest {
    /// The request of the machine with this port, MAC address and IP address for `target`.
    pub fn new(port: &str, mac: &str, address: &str, target: &str) -> Self {
        let expression = format!(
            "inport == \"{port}\" && eth.src == {mac} && eth.dst == ff:ff:ff:ff:ff:ff && \
             arp.op == 1 && arp.sha == {mac} && arp.spa == {address} && arp.tpa == {target}"
        );
        let reply = format!(
            "eth.dst == {mac} && arp.op == 2 && arp.spa == {target} && arp.tha == {mac} && \
             arp.tpa == {address}"
        );
        Self {
            port: port.to_owned(),
            expression,
            reply,
            owner: None,
        }
    }

    /// The request with the machine that has the address, if it is one.
    pub(crate) fn owned_by(self, machine: Option<(&str, &str)>) -> Self {
        Self {
            owner: machine.map(|(port, mac)| (port.to_owned(), mac.to_owned())),
            ..self
        }
    }

    /// `true` if the sender gets a reply: of a switch or router, or of the machine that gets the
    /// request.
    pub(crate) fn is_answered(&self, trace: &mut TraceServer, datapath: &str) -> bool {
        let mut outputs = |expression: &str| {
            let text = trace.trace(datapath, expression).unwrap_or_default();
            TraceOutcome::read(&text).outputs
        };
        let asked = outputs(&self.expression);
        if asked.contains(&self.port) {
            return true;
        }
        let Some((port, mac)) = self.owner.as_ref().filter(|(port, _)| asked.contains(port)) else {
            return false;
        };
        let sender = format!("inport == \"{port}\" && eth.src == {mac} && arp.sha == {mac}");
        outputs(&format!("{sender} && {}", self.reply)).contains(&self.port)
    }
}
