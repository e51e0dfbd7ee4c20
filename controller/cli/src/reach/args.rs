//! Flags of `patchbay reach`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use patchbay_reach::{Destination, Northd, Protocol, Sender};

use super::text::Detail;
use crate::args::Format;
use crate::databases::DatabaseFlags;
use crate::failure::Failure;
use crate::input_flags::InputFlags;
use crate::source_word::SourceWord;

#[derive(Debug, Args)]
#[command(
    override_usage = "patchbay reach --from <SENDER> --to <DESTINATION> [OPTIONS]\n       \
                      patchbay reach --matrix [<WHAT>] [OPTIONS]\n       \
                      patchbay reach --questions <FILE> [OPTIONS]\n       \
                      patchbay reach --diff <BEFORE> <AFTER> [--expect <FILE>] [OPTIONS]\n       \
                      patchbay reach --expect <FILE> [OPTIONS]",
    group = ArgGroup::new("what").args(["from", "matrix", "questions", "diff", "expect"]).required(true).multiple(true),
    group = ArgGroup::new("database").args(["nb", "file", "must_gather", "paths", "diff"]).required(true).multiple(true)
)]
pub(crate) struct Reach {
    /// Sender: a pod (NAMESPACE/NAME) or the name of a switch port.
    #[arg(long, value_name = "SENDER", requires = "to", conflicts_with_all = ["matrix", "questions", "diff", "expect"])]
    pub(crate) from: Option<String>,
    /// Destination: an IP address, a pod (NAMESPACE/NAME), a service (service/NAMESPACE/NAME) or
    /// the name of a switch port.
    #[arg(long, value_name = "DESTINATION", requires = "from")]
    pub(crate) to: Option<String>,
    /// Source address of the packet, for a sender behind a localnet port.
    #[arg(long, value_name = "ADDRESS", requires = "from")]
    pub(crate) source: Option<IpAddr>,
    /// Gateway of the sender for destinations outside of its network: an IP address, a router or a
    /// router port. Default: what DHCP options or the pod's annotation name, or else the router in
    /// the sender's network.
    #[arg(long, value_name = "GATEWAY", requires = "from")]
    pub(crate) gateway: Option<String>,
    /// Protocol of the packet. Default: tcp with --port, the protocol and the port of a service
    /// that has only one, otherwise icmp.
    #[arg(long, value_enum, value_name = "PROTOCOL")]
    pub(crate) proto: Option<ProtocolName>,
    /// Destination port of the packet.
    #[arg(long, value_name = "PORT", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) port: Option<u16>,
    /// Print a table of all pairs: of networks, or of pods.
    #[arg(long, value_enum, value_name = "WHAT", num_args = 0..=1, default_missing_value = "networks", conflicts_with_all = ["questions", "diff", "expect"])]
    pub(crate) matrix: Option<MatrixKind>,
    /// Answer the questions of a JSON file, or - for standard input: a list of `{id, from: {pod or
    /// port, gateway}, to: {pod, port, service or ip}, protocol: "tcp 80"}`, or in the short form of
    /// `lab`: `{from: "blue-1", to: "green-3", protocol: "tcp 80", reached: true}`. An answer that is not
    /// as `reached` says has exit status 2.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["proto", "port", "diff", "expect"])]
    pub(crate) questions: Option<PathBuf>,
    /// Print the ways between pods that open or close from one source to another, with the object
    /// that stops the packet in one of them. A source is a folder or file of manifests, a database
    /// file, an archive of a collector, or a remote. FILE@MOMENT is a moment in the history of a
    /// database file.
    #[arg(long, num_args = 2, value_names = ["BEFORE", "AFTER"], conflicts_with_all = ["nb", "file", "must_gather", "at", "paths", "zone"])]
    pub(crate) diff: Vec<String>,
    /// Check the expectations of a file, or - for standard input, in the databases, or in AFTER of
    /// --diff. Lines are `SENDER reaches DESTINATION [PROTOCOL PORT]` or `SENDER never reaches
    /// DESTINATION ...`. Ends are pods (NAMESPACE/NAME, with * for any characters), networks,
    /// namespaces or switch ports; destinations also services and addresses.
    #[arg(long, value_name = "FILE")]
    pub(crate) expect: Option<PathBuf>,
    /// Print the decisions of each switch and router on the way, too.
    #[arg(long, requires = "from")]
    pub(crate) hops: bool,
    /// Print the decisions with the rows that they follow from.
    #[arg(long, requires = "from")]
    pub(crate) rows: bool,
    /// Output format. Documents have all hops with their rows. Markdown, `JUnit` and SARIF are for
    /// --diff and --expect.
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value_t = ReachFormat::Text)]
    pub(crate) output: ReachFormat,
    #[command(flatten)]
    pub(crate) databases: SourceFlags,
}

/// Flags that name databases, or manifests whose rows they would have.
#[derive(Clone, Debug, Args)]
pub(crate) struct SourceFlags {
    #[command(flatten)]
    pub(crate) databases: DatabaseFlags,
    /// Manifests whose rows `apply` would write into an empty database: files, folders with *.yaml,
    /// *.yml and *.json files, or - for standard input. Without pods there, each primary network
    /// has those of `lab`: NAMESPACE/NAMESPACE-N on the node with the number N. With --nb or --file
    /// only pods count, for the gateways in their annotations `k8s.ovn.org/pod-networks`, and nodes,
    /// for the names of chassis.
    #[arg(short = 'f', long = "filename", value_name = "PATH", num_args = 1..)]
    pub(crate) paths: Vec<PathBuf>,
    /// The zone whose switch ports are meant, of all zones of the manifests: the name of its node.
    /// Default: the node of the sending pod, or the first node.
    #[arg(long, value_name = "NODE", requires = "paths", conflicts_with_all = ["nb", "file", "must_gather"])]
    pub(crate) zone: Option<String>,
    /// The chassis whose variables templates of load balancers get. Default: that of a gateway
    /// router.
    #[arg(long, value_name = "CHASSIS")]
    pub(crate) chassis: Option<String>,
    /// The ovn-northd that reads the rows: stock, or with =false that of Kube-OVN, which ranks
    /// routes by source below those by destination. Default: stock, and `open` names the other
    /// outcome where rows of Kube-OVN differ.
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) stock_northd: Option<bool>,
    #[command(flatten)]
    pub(crate) input: InputFlags,
}

/// Output format of answers.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ReachFormat {
    /// Text for people.
    Text,
    /// A JSON document.
    Json,
    /// A YAML document.
    Yaml,
    /// Markdown, for a comment on a change.
    Markdown,
    /// A document for `JUnit`.
    Junit,
    /// Static Analysis Results Interchange Format 2.1.0.
    Sarif,
}

impl ReachFormat {
    /// The format of answers to questions.
    ///
    /// # Errors
    /// It is for differences and expectations alone. The error is a message for the user.
    pub(crate) fn of_answers(self) -> Result<Format, String> {
        match self {
            Self::Text => Ok(Format::Text),
            Self::Json => Ok(Format::Json),
            Self::Yaml => Ok(Format::Yaml),
            Self::Markdown | Self::Junit | Self::Sarif => {
                Err("--output markdown, junit and sarif are for --diff and --expect".to_owned())
            }
        }
    }
}

/// Protocols of packets.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum ProtocolName {
    /// Echo request.
    Icmp,
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

/// Pairs of a table.
#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
pub(crate) enum MatrixKind {
    /// Networks, each with one of its pods.
    Networks,
    /// Pods.
    Pods,
}

impl SourceFlags {
    /// The same flags with the source of a word in place of theirs.
    ///
    /// # Errors
    /// The word names no source.
    pub(crate) fn of_word(&self, word: &str) -> Result<Self, Failure> {
        let (databases, paths) = match SourceWord::of(word)? {
            SourceWord::Databases(databases) => (databases, Vec::new()),
            SourceWord::Manifests(path) => (DatabaseFlags::default(), vec![path]),
        };
        Ok(Self { databases, paths, ..self.clone() })
    }

    /// The sources in a line.
    pub(crate) fn title(&self) -> String {
        let DatabaseFlags { nb, file, must_gather, .. } = &self.databases;
        let paths = must_gather.iter().chain(&self.paths);
        let paths = paths.map(|path| path.display().to_string());
        let names: Vec<String> = nb.iter().chain(file).cloned().chain(paths).collect();
        names.join(", ")
    }

    /// The ovn-northd that `--stock-northd` names. `None`: it is not known.
    pub(crate) fn northd(&self) -> Option<Northd> {
        self.stock_northd.map(|is_stock| if is_stock { Northd::Stock } else { Northd::KubeOvn })
    }
}

impl Reach {
    /// What `--hops` and `--rows` print.
    pub(super) fn detail(&self) -> Detail {
        match (self.hops, self.rows) {
            (_, true) => Detail::Rows,
            (true, false) => Detail::Hops,
            (false, false) => Detail::Path,
        }
    }

    /// Protocol of `--proto` and `--port`. `None`: it is one of the ports of the service that is
    /// the destination. The error is a message for the user.
    pub(crate) fn protocol(&self) -> Result<Option<Protocol>, String> {
        protocol_of((self.proto, self.port), self.service().is_some())
    }

    /// The service that is the destination.
    pub(crate) fn service(&self) -> Option<String> {
        match parse_destination(self.to.as_deref()?) {
            Destination::Service(service) => Some(service),
            Destination::Address(_) | Destination::Pod(_) | Destination::Port(_) => None,
        }
    }

    /// `true` if `--proto` names the protocol or is not there.
    pub(crate) fn allows(&self, protocol: Protocol) -> bool {
        self.proto.is_none_or(|name| {
            name == match protocol {
                Protocol::Icmp => ProtocolName::Icmp,
                Protocol::Tcp(_) => ProtocolName::Tcp,
                Protocol::Udp(_) => ProtocolName::Udp,
                Protocol::Sctp(_) => ProtocolName::Sctp,
            }
        })
    }

    /// The sender of `--from`, with its flags.
    pub(crate) fn sender(&self, name: &str) -> Sender {
        Sender { ip: self.source, gateway: self.gateway.clone(), ..named_sender(name) }
    }
}

/// The sender with a name. A name with a slash is a pod's, because ports of OVN-Kubernetes and
/// Kube-OVN have none.
pub(crate) fn named_sender(name: &str) -> Sender {
    if name.contains('/') { Sender::pod(name) } else { Sender::port(name) }
}

/// Protocol of `--proto` and `--port`. `None`: it is one of the ports of a service. The error is a
/// message for the user.
pub(crate) fn protocol_of(
    (name, port): (Option<ProtocolName>, Option<u16>),
    is_to_service: bool,
) -> Result<Option<Protocol>, String> {
    let protocol = match (name, port) {
        (Some(ProtocolName::Icmp), None) => Protocol::Icmp,
        (_, None) if is_to_service => return Ok(None),
        (None, None) => Protocol::Icmp,
        (None | Some(ProtocolName::Tcp), Some(port)) => Protocol::Tcp(port),
        (Some(ProtocolName::Udp), Some(port)) => Protocol::Udp(port),
        (Some(ProtocolName::Sctp), Some(port)) => Protocol::Sctp(port),
        (Some(ProtocolName::Icmp), Some(_)) => return Err("icmp has no --port".to_owned()),
        (Some(_), None) => return Err("tcp, udp and sctp need a --port".to_owned()),
    };
    Ok(Some(protocol))
}

/// The destination of `--to`.
pub(crate) fn parse_destination(text: &str) -> Destination {
    if let Ok(address) = text.parse() {
        return Destination::Address(address);
    }
    let service = text.strip_prefix("service/").or(text.strip_prefix("svc/"));
    match service {
        Some(service) => Destination::Service(service.to_owned()),
        None if text.contains('/') => Destination::Pod(text.to_owned()),
        None => Destination::Port(text.to_owned()),
    }
}
