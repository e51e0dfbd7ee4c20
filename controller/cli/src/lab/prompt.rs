//! Commands of a running lab.

use std::path::Path;
use std::time::Duration;

use patchbay_lab::{CableQuality, Lab, Protocol};
use patchbay_nbctl_text::{Release, show};
use patchbay_reconcile::Cluster;
use patchbay_resources::object::{Node, Object as _, Pod, Service};

use super::questions::{Reply, ask, ask_in, ask_service, is_host, matrix, trace};
use super::stopped::stopped_on_the_way;
use super::target::{Target, as_service, read_echo_target, read_target};
use crate::console::Console;
use crate::failure::Failure;
use crate::unreadable::unreadable;

/// Commands, one line each.
pub(super) const HELP: &str = "\
ping POD POD                    ICMP echo, with the nodes on the way
udp POD POD:PORT                datagram, and the same data back
tcp POD POD:PORT                connection, data, and the same data back
tcp POD svc/SERVICE:PORT        the same to the cluster IP of a service; udp, too
tcp POD ADDRESS:PORT            the same to an address of a pod, service or node; ping and udp, too
ping POD 203.0.113.1            a host behind the gateway of the pod's node; udp and tcp, too
ping HOST ADDRESS               from a host outside, out:SUBNET/ADDRESS; udp and tcp, too
ping HOST ADDRESS via ADDRESS   the same through this next hop
trace POD POD                   echo through the rows and the logical flows, table by table
matrix                          echo between all pods, compared with the manifests
pods                            pods with their nodes and addresses
show NODE                       output of `ovn-nbctl show` on the node
env NODE                        variables for ovn-nbctl, ovs-vsctl and others on the node
cut NODE NODE                   no packet gets through between the nodes
slow NODE NODE MILLISECONDS     each packet between the nodes takes this time
lossy NODE NODE PERCENT         loses PERCENT of the packets between nodes
mend NODE NODE                  all packets get through between the nodes
cut NODE wire/NETWORK           no frame gets through between a node and its provider network
mend NODE wire/NETWORK          all frames get through there
gateway VPC                     nodes of its external ports, the active one first
kill NODE PROGRAM               kills ovn-northd, ovs-vswitchd or ovn-controller
start NODE PROGRAM              starts a killed program
capture POD FILE                writes all packets of a pod to a file for tcpdump
capture wire/NETWORK FILE       the same for all frames of a provider network, with their tags
quit                            ends the lab
";

/// Beginning of the wires of provider networks among the words of commands.
const WIRE: &str = "wire/";

/// Next step after a command.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Next {
    Command,
    /// The command has a mistake, or its packet was lost.
    Failed,
    Quit,
}

/// Executes a command. A mistake in the command is reported, and is no failure.
pub(super) async fn execute(
    line: &str,
    lab: &mut Lab,
    cluster: &Cluster,
    console: &mut Console<'_>,
) -> Result<Next, Failure> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let colours = console.output_colours;
    let answer = match words[..] {
        [] => return Ok(Next::Command),
        ["quit" | "exit"] => return Ok(Next::Quit),
        ["help"] => Ok(HELP.to_owned().into()),
        ["ping", from, to, ref rest @ ..] if is_host(from) => {
            ask_in(lab, from, to, Protocol::Icmp, rest, colours).await
        }
        ["udp" | "tcp", from, to, ref rest @ ..] if is_host(from) => {
            match read_target(words[0], to) {
                Ok((Target::Other(to), protocol)) => {
                    ask_in(lab, from, to, protocol, rest, colours).await
                }
                Ok((Target::Service(_), _)) => Err("a host asks addresses only".to_owned()),
                Err(error) => Err(error),
            }
        }
        ["ping", from, to] => match read_echo_target(to) {
            Ok(to) => ask(lab, cluster, from, to, Protocol::Icmp, colours).await,
            Err(error) => Err(error),
        },
        ["udp" | "tcp", from, to] => match read_target(words[0], to) {
            Ok((Target::Service(service), protocol)) => {
                ask_service(lab, cluster, from, service, protocol, colours).await
            }
            Ok((Target::Other(to), protocol)) => {
                ask(lab, cluster, from, to, protocol, colours).await
            }
            Err(error) => Err(error),
        },
        ["trace", from, to] => trace(lab, from, to).await.map(Reply::from),
        ["matrix"] => matrix(lab, cluster, colours).await,
        ["pods"] => Ok(pods(lab).into()),
        ["show", node] => nodes_rows(lab, node).map(Reply::from),
        ["env", node] => environment(lab, node).map(Reply::from),
        ["gateway", vpc] => gateway(lab, vpc).map(Reply::from),
        [command @ ("cut" | "mend"), node, other] if other.starts_with(WIRE) => {
            let cut = lab.set_wire_cut(node, &other[WIRE.len()..], command == "cut");
            cut.map(|()| String::new().into()).map_err(|error| error.to_string())
        }
        ["cut", one, other] => {
            let quality = CableQuality { is_cut: true, ..CableQuality::default() };
            set_cable(lab, one, other, Some(quality)).map(Reply::from)
        }
        ["slow", one, other, milliseconds] => {
            let milliseconds = milliseconds.parse().ok();
            let quality = milliseconds.map(|milliseconds| CableQuality {
                delay: Duration::from_millis(milliseconds),
                ..CableQuality::default()
            });
            set_cable(lab, one, other, quality).map(Reply::from)
        }
        ["lossy", one, other, percent] => {
            let percent = percent.parse().ok().filter(|percent| *percent <= 100);
            let quality = percent
                .map(|lost_percent| CableQuality { lost_percent, ..CableQuality::default() });
            set_cable(lab, one, other, quality).map(Reply::from)
        }
        ["mend", one, other] => {
            set_cable(lab, one, other, Some(CableQuality::default())).map(Reply::from)
        }
        ["kill", node, program] => kill(lab, node, program).await.map(Reply::from),
        ["start", node, program] => start(lab, node, program).await.map(Reply::from),
        ["capture", wire, file] if wire.starts_with(WIRE) => {
            let captured = lab.capture_wire(&wire[WIRE.len()..], Path::new(file));
            captured.map(|()| String::new().into()).map_err(|error| error.to_string())
        }
        ["capture", pod, file] => lab
            .find_pod(pod)
            .map_err(|error| error.to_string())
            .and_then(|pod| {
                let captured = lab.capture(&pod, Path::new(file));
                captured.map_err(|error| format!("{file}: {error}"))
            })
            .map(|()| String::new().into()),
        [command, ..] => Err(usage(command)),
    };
    let next = match answer {
        Ok(reply) => {
            write!(console.output, "{}", reply.text)?;
            if reply.is_good { Next::Command } else { Next::Failed }
        }
        Err(error) => {
            let unreadable = words[1..].iter().find_map(|word| unreadable_name(cluster, word));
            console.report_failure(&unreadable.unwrap_or(Failure::Lab(error)));
            Next::Failed
        }
    };
    if let [question @ ("ping" | "udp" | "tcp" | "trace" | "matrix"), ends @ ..] = &words[..]
        && (next == Next::Failed || *question == "trace")
    {
        for line in stopped_on_the_way(lab, ends) {
            writeln!(console.output, "  {line}")?;
        }
    }
    Ok(next)
}

/// The failure of a command one of whose words names an object that cannot be read.
fn unreadable_name(cluster: &Cluster, word: &str) -> Option<Failure> {
    let name = as_service(word).unwrap_or(word);
    let (name, _) = name.split_once(':').unwrap_or((name, ""));
    unreadable(cluster, &[Pod::KIND, Service::KIND, Node::KIND], name)
}

/// Error of a command with other arguments than it has: its forms, or that there is none.
fn usage(command: &str) -> String {
    let lines = HELP.lines();
    let forms: Vec<&str> = lines
        .filter(|line| line.split(' ').next() == Some(command))
        .map(|line| line.split("  ").next().unwrap_or_default().trim_end())
        .collect();
    if forms.is_empty() {
        format!("no command {command:?}; see `help`")
    } else {
        format!("expected {}", forms.join(", or "))
    }
}

fn pods(lab: &Lab) -> String {
    let lines = lab.pods().map(|pod| {
        let addresses: Vec<String> = pod.ips().map(|ip| ip.to_string()).collect();
        let addresses = addresses.join(" ");
        format!("{}  {}  {}  {addresses}\n", pod.name, pod.node, pod.network)
    });
    lines.collect::<Vec<_>>().concat()
}

fn gateway(lab: &Lab, vpc: &str) -> Result<String, String> {
    let ports = lab.gateway_ports(vpc);
    if ports.is_empty() {
        return Err(format!("VPC {vpc} has no external port"));
    }
    let lines = ports.iter().map(|port| {
        let active = port.active.as_deref().unwrap_or("no node");
        format!("{}: {active}, of {}\n", port.port, port.nodes.join(" "))
    });
    Ok(lines.collect())
}

fn nodes_rows(lab: &Lab, node: &str) -> Result<String, String> {
    let snapshot = lab.northbound(node).map_err(|error| error.to_string())?;
    show(&snapshot, Release::of_schema(snapshot.schema())).map_err(|error| error.to_string())
}

fn environment(lab: &Lab, node: &str) -> Result<String, String> {
    let variables = lab.environment(node).map_err(|error| error.to_string())?;
    let lines =
        variables.iter().map(|(name, value)| format!("export {name}={}\n", shell_word(value)));
    Ok(lines.collect::<Vec<_>>().concat())
}

/// The text as a word of a POSIX shell.
fn shell_word(text: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/:._-".contains(&byte);
    if !text.is_empty() && text.bytes().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

fn set_cable(
    lab: &Lab,
    one: &str,
    other: &str,
    quality: Option<CableQuality>,
) -> Result<String, String> {
    let quality = quality.ok_or_else(|| "not a number in range; see `help`".to_owned())?;
    let set = lab.set_cable(one, other, quality);
    set.map(|()| String::new()).map_err(|error| error.to_string())
}

async fn kill(lab: &mut Lab, node: &str, program: &str) -> Result<String, String> {
    let killed = lab.kill(node, program).await;
    if killed.map_err(|error| error.to_string())? {
        Ok(String::new())
    } else {
        Err(format!("{program} does not run on {node}"))
    }
}

async fn start(lab: &mut Lab, node: &str, program: &str) -> Result<String, String> {
    let started = lab.start_program(node, program).await;
    if !started.map_err(|error| error.to_string())? {
        return Err(format!("{program} runs on {node}"));
    }
    let synced = lab.sync().await;
    synced.map(|()| String::new()).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::{shell_word, usage};

    #[test]
    fn values_of_variables_are_words_of_a_shell() {
        assert_eq!(shell_word("unix:/tmp/n1/db.sock"), "unix:/tmp/n1/db.sock");
        assert_eq!(shell_word("/a b/$(c)"), "'/a b/$(c)'");
        assert_eq!(shell_word("/it's"), r"'/it'\''s'");
        assert_eq!(shell_word(""), "''");
    }

    #[test]
    fn a_command_with_other_arguments_shows_its_forms() {
        assert_eq!(usage("show"), "expected show NODE");
        let tcp = "expected tcp POD POD:PORT, or tcp POD svc/SERVICE:PORT, or tcp POD ADDRESS:PORT";
        assert_eq!(usage("tcp"), tcp);
        assert_eq!(usage("shows"), "no command \"shows\"; see `help`");
    }
}
