//! Runs of ovn-trace, and the table in which a packet ends.

use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use super::patience::within;
use super::questions::Protocol;

/// Time for ovn-trace to read the database and to print, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
/// States of connection tracking that ovn-trace is given, one for each `ct_next` of a path.
const STATES: usize = 16;
/// Beginning of the comment with the port to which a packet is output.
const OUTPUT: &str = "/* output to \"";
/// Source port of traced packets.
const SOURCE_PORT: u16 = 50_000;

/// State of the connection of a traced packet.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Connection {
    /// The packet is the first one.
    New,
    /// The packet answers the first one.
    Established,
}

impl Connection {
    fn option(self) -> &'static str {
        match self {
            Self::New => "--ct=new",
            Self::Established => "--ct=est,rpl",
        }
    }
}

/// Packet to trace.
#[derive(Clone, Debug)]
pub(crate) struct TracedPacket {
    /// Switch or router port by which it comes in.
    pub(crate) port: String,
    pub(crate) source_mac: String,
    pub(crate) destination_mac: String,
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) ttl: u8,
    pub(crate) protocol: Protocol,
}

/// Path of a packet through the logical flows of a Southbound database.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct OvnTrace {
    /// Output of ovn-trace.
    pub text: String,
    /// The last table.
    pub end: TraceEnd,
}

/// Table in which a traced packet ends.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct TraceEnd {
    /// Name of the switch or router.
    pub datapath: String,
    /// Name of the table, such as `lr_in_ip_routing`.
    pub table: String,
    /// Matched flow, or that none matches.
    pub flow: String,
    /// The flow's last action. Empty: there is none.
    pub action: String,
    /// Port to which the packet is output. `None`: it is not output.
    pub output: Option<String>,
}

impl fmt::Display for TraceEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { datapath, table, flow, action, .. } = self;
        write!(f, "{table} of {datapath}: {flow}")?;
        if !action.is_empty() {
            write!(f, ": {action}")?;
        }
        Ok(())
    }
}

impl TraceEnd {
    /// Reads the output of ovn-trace. `None`: the packet passed no table.
    fn read(text: &str) -> Option<Self> {
        let mut end = Self::default();
        for line in text.lines() {
            let line = line.trim();
            if let Some((_, rest)) = line.split_once("gress(dp=\"") {
                let name = rest.split('"').next().unwrap_or_default();
                name.clone_into(&mut end.datapath);
            } else if let Some((table, flow)) = read_table(line) {
                table.clone_into(&mut end.table);
                flow.clone_into(&mut end.flow);
                end.action.clear();
                end.output = None;
            } else if let Some((_, rest)) = line.split_once(OUTPUT) {
                end.output = rest.split('"').next().map(str::to_owned);
            } else if line.ends_with(';') {
                line.trim_end_matches(';').clone_into(&mut end.action);
            }
        }
        (!end.table.is_empty()).then_some(end)
    }
}

/// Reads a line such as ` 3. lr_in_ip_routing (northd.c:1): ip4.dst == 10.0.0.0/8, priority 9`.
fn read_table(line: &str) -> Option<(&str, &str)> {
    let (number, rest) = line.split_once(". ")?;
    number.parse::<u8>().ok()?;
    let (table, flow) = rest.split_once(": ")?;
    Some((table.split(' ').next()?, flow))
}

impl TracedPacket {
    /// Expression of ovn-trace for the packet.
    fn to_expression(&self) -> String {
        let Self { port, source_mac, destination_mac, source, destination, ttl, protocol } = self;
        let version = if destination.is_ipv4() { 4 } else { 6 };
        let protocol = match (protocol, version) {
            (Protocol::Icmp, 4) => "icmp4.type == 8".to_owned(),
            (Protocol::Icmp, _) => "icmp6.type == 128".to_owned(),
            (Protocol::Udp(port), _) => format!("udp.src == {SOURCE_PORT} && udp.dst == {port}"),
            (Protocol::Tcp(port), _) => {
                format!("tcp.src == {SOURCE_PORT} && tcp.dst == {port} && tcp.flags == 2")
            }
        };
        format!(
            "inport == \"{port}\" && eth.src == {source_mac} && eth.dst == {destination_mac} && \
             ip{version}.src == {source} && ip{version}.dst == {destination} && ip.ttl == {ttl} && \
             {protocol}"
        )
    }
}

/// Runs ovn-trace with the environment of a node.
pub(crate) async fn run(
    command: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
    packet: &TracedPacket,
    connection: Connection,
) -> Result<OvnTrace, String> {
    let mut words = command.into_iter();
    let program = words.next().unwrap_or_default();
    let output = Command::new(program)
        .args(words)
        .args(std::iter::repeat_n(connection.option(), STATES))
        .arg(packet.to_expression())
        .envs(environment)
        .stdin(Stdio::null())
        // Ctrl-C is for the lab.
        .process_group(0)
        .kill_on_drop(true)
        .output();
    let output = match within(PATIENCE, output).await {
        Some(output) => output.map_err(|error| error.to_string())?,
        None => return Err(format!("no end after {} s", PATIENCE.as_secs())),
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match TraceEnd::read(&text) {
        Some(end) => Ok(OvnTrace { text, end }),
        None => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_trace_is_its_last_table() {
        let text = "\
ingress(dp=\"blue\", inport=\"blue-1\")
------------------------------------
 0. ls_in_check_port_sec (northd.c:9): 1, priority 50, uuid 1
    next;
ingress(dp=\"router\", inport=\"rtos\")
------------------------------------
 0. lr_in_admission (northd.c:9): eth.dst == 0a, priority 50, uuid 2
    next;
15. lr_in_ip_routing: no match (implicit drop)
";
        let end = TraceEnd::read(text).unwrap();
        assert_eq!(end.to_string(), "lr_in_ip_routing of router: no match (implicit drop)");
        let dropped = text.to_owned() + "16. lr_in_policy (northd.c:1): 1, priority 5\n    drop;\n";
        let end = TraceEnd::read(&dropped).unwrap();
        assert_eq!(end.to_string(), "lr_in_policy of router: 1, priority 5: drop");
        assert_eq!(end.output, None);
        let output = dropped
            + " 9. ls_out: 1, priority 0\n    output;\n    /* output to \"p\", type \"\" */\n";
        let end = TraceEnd::read(&output).unwrap();
        assert_eq!((&*end.action, end.output.as_deref()), ("output", Some("p")));
        assert_eq!(TraceEnd::read("error"), None);
    }
}
