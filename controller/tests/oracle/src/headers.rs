//! Headers of packets in the notation of ovn-trace.

use std::net::IpAddr;

use patchbay_reach::Protocol;

/// Source port of packets.
const SOURCE_PORT: u16 = 40_000;

/// Headers of the first packet of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers<'a> {
    /// Port by which the packet comes in.
    pub(crate) port: &'a str,
    /// MAC addresses of source and destination.
    pub(crate) macs: [&'a str; 2],
    /// IP address of the source.
    pub(crate) source: IpAddr,
    /// IP address of the destination, of the same family.
    pub(crate) destination: IpAddr,
    /// Protocol, with the destination port.
    pub(crate) protocol: Protocol,
}

impl Headers<'_> {
    /// The fields of the packet.
    pub(crate) fn expression(&self) -> String {
        let Self { port, macs: [mac, target_mac], source, destination, protocol } = self;
        let version = if source.is_ipv4() { 4 } else { 6 };
        let transport = match protocol {
            Protocol::Icmp if source.is_ipv4() => "icmp4.type == 8 && icmp4.code == 0".to_owned(),
            Protocol::Icmp => "icmp6.type == 128 && icmp6.code == 0".to_owned(),
            Protocol::Tcp(port) => {
                format!("tcp.src == {SOURCE_PORT} && tcp.dst == {port} && tcp.flags == 2")
            }
            Protocol::Udp(port) => format!("udp.src == {SOURCE_PORT} && udp.dst == {port}"),
            Protocol::Sctp(port) => format!("sctp.src == {SOURCE_PORT} && sctp.dst == {port}"),
        };
        format!(
            "inport == \"{port}\" && eth.src == {mac} && eth.dst == {target_mac} && \
             ip{version}.src == {source} && ip{version}.dst == {destination} && ip.ttl == 64 && \
             {transport}"
        )
    }
}
