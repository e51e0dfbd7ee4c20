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
    /// The machine that has the address. `None`: a router, or nobody.
    owner: Option<Owner>,
}

/// Machine that may have to answer itself.
#[derive(Clone, Debug)]
struct Owner {
    switch: String,
    port: String,
    mac: String,
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
        Self { port: port.to_owned(), expression, reply, owner: None }
    }

    /// The request with the machine that has the address: its switch, its port and its MAC address.
    #[must_use]
    pub fn owned_by(self, [switch, port, mac]: [&str; 3]) -> Self {
        let owner = Owner { switch: switch.to_owned(), port: port.to_owned(), mac: mac.to_owned() };
        Self { owner: Some(owner), ..self }
    }

    /// `true` if the sender gets a reply: of a switch or router, or of the machine that gets the
    /// request.
    pub(crate) fn is_answered(&self, trace: &mut TraceServer, datapath: &str) -> bool {
        let mut outputs = |datapath: &str, expression: &str| {
            let text = trace.trace(datapath, expression).unwrap_or_default();
            TraceOutcome::read(&text).outputs
        };
        let asked = outputs(datapath, &self.expression);
        if asked.contains(&self.port) {
            return true;
        }
        let owner = self.owner.as_ref();
        let Some(Owner { switch, port, mac }) = owner.filter(|owner| asked.contains(&owner.port))
        else {
            return false;
        };
        let sender = format!("inport == \"{port}\" && eth.src == {mac} && arp.sha == {mac}");
        outputs(switch, &format!("{sender} && {}", self.reply)).contains(&self.port)
    }
}
