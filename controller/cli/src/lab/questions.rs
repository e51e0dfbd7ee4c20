//! Questions at the prompt of a lab: echo requests, datagrams, connections and traces.

use std::io::{self, Write as _};
use std::net::IpAddr;

use patchbay_lab::{
    Answer, CheckReport, Lab, NodeTrace, OutsideHost, OutsideHostError, PodName, Promises,
    Protocol, QuestionError, WireFrame, WireLoss,
};
use patchbay_reconcile::Cluster;

use super::reasons::{reasons, service_reasons};
use crate::colours::{Colour, Colours};
use crate::reach::text::write_answer;

/// Output of a command.
pub(super) struct Reply {
    pub(super) text: String,
    /// `false`: the asked pod, service or host was not reached, or an answer is not as promised.
    pub(super) is_good: bool,
}

impl From<String> for Reply {
    fn from(text: String) -> Self {
        Self { text, is_good: true }
    }
}

impl Reply {
    fn of(answer: &Answer, colours: Colours) -> Self {
        Self { text: format_answer(answer, None, colours), is_good: answer.verdict.is_reached() }
    }

    /// The answer with the pod that was reached, which the command does not name.
    fn naming_pod(answer: &Answer, colours: Colours) -> Self {
        Self {
            text: format_answer(answer, answer.pod.as_ref(), colours),
            is_good: answer.verdict.is_reached(),
        }
    }
}

/// Asks a pod or an address.
pub(super) async fn ask(
    lab: &Lab,
    cluster: &Cluster,
    from: &str,
    to: &str,
    protocol: Protocol,
    colours: Colours,
) -> Result<Reply, String> {
    let find = |name| lab.find_pod(name).map_err(|error| error.to_string());
    if let Ok(address) = to.parse::<IpAddr>() {
        let from = find(from)?;
        let ask = async || lab.ask_address(&from, address, protocol).await;
        let answer = ask_address_promised(lab, &from, protocol, ask).await;
        let answer = answer.map_err(|error| error.to_string())?;
        return reply_of_address(lab, &from, &answer, protocol, &[], colours);
    }
    let (from, to) = (find(from)?, find(to)?);
    let answer =
        ask_promised(lab, &from, &to, protocol).await.map_err(|error| error.to_string())?;
    let mut reply = Reply::of(&answer, colours);
    if !reply.is_good {
        reply.text += &diagnose(lab, cluster, &from, &to, protocol).await?;
    }
    Ok(reply)
}

/// `true` for the name of a host outside.
pub(super) fn is_host(name: &str) -> bool {
    name.parse::<OutsideHost>().is_ok()
}

/// Asks an address from a host outside. `rest`: nothing, or `via` and the next hop.
pub(super) async fn ask_in(
    lab: &Lab,
    from: &str,
    to: &str,
    protocol: Protocol,
    rest: &[&str],
    colours: Colours,
) -> Result<Reply, String> {
    let from: OutsideHost = from.parse().map_err(|error: OutsideHostError| error.to_string())?;
    let address =
        |text: &str| text.parse::<IpAddr>().map_err(|_| format!("{text:?} is not an address"));
    let via = match rest {
        [] => None,
        ["via", hop] => Some(address(hop)?),
        _ => return Err("expected `via ADDRESS` after the asked address".to_owned()),
    };
    let to = address(to)?;
    let ask = async || {
        let answer = lab.ask_from_outside(&from, to, via, protocol).await;
        answer.map_err(|error| error.to_string())
    };
    let mut answer = ask().await?;
    // No row says whether the packet is lost, and a busy machine answers late.
    if !answer.verdict.is_reached() {
        answer = ask().await?;
    }
    Ok(Reply::naming_pod(&answer, colours))
}

/// Asks a cluster IP of a service.
pub(super) async fn ask_service(
    lab: &Lab,
    cluster: &Cluster,
    from: &str,
    service: &str,
    protocol: Protocol,
    colours: Colours,
) -> Result<Reply, String> {
    let from = lab.find_pod(from).map_err(|error| error.to_string())?;
    let service = lab.find_service(cluster, service).map_err(|error| error.to_string())?;
    let ask = async || lab.ask_service(&from, &service, protocol, None).await;
    let answer = ask_address_promised(lab, &from, protocol, ask).await;
    let answer = answer.map_err(|error| error.to_string())?;
    let reasons = service_reasons(lab, cluster, &from, &service, protocol);
    reply_of_address(lab, &from, &answer, protocol, &reasons, colours)
}

/// Reasons why a packet is lost: of the manifests, of the rows, and of the logical flows.
pub(super) async fn diagnose(
    lab: &Lab,
    cluster: &Cluster,
    from: &PodName,
    to: &PodName,
    protocol: Protocol,
) -> Result<String, String> {
    let diagnosis = lab
        .diagnose(from, to, protocol, None)
        .await
        .map_err(|error| error.to_string())?
        .to_string();
    let reasons = reasons(lab, cluster, from, to);
    let lines = reasons.iter().map(String::as_str).chain(diagnosis.lines());
    Ok(indented(lines))
}

/// The path of an echo request and of its answer on the nodes of the two pods.
pub(super) async fn trace(lab: &Lab, from: &str, to: &str) -> Result<String, String> {
    let find = |name| lab.find_pod(name).map_err(|error| error.to_string());
    let (from, to) = (find(from)?, find(to)?);
    let diagnosis =
        lab.diagnose(&from, &to, Protocol::Icmp, None).await.map_err(|error| error.to_string())?;
    let mut text = Vec::new();
    for (trace, packet) in diagnosis.traces() {
        write_trace(&mut text, trace, packet).map_err(|error| error.to_string())?;
    }
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The answers of all pairs of pods, compared with the manifests.
pub(super) async fn matrix(
    lab: &Lab,
    cluster: &Cluster,
    colours: Colours,
) -> Result<Reply, String> {
    let questions = lab.all_questions(&Promises::of(cluster));
    let checked = lab.check(questions).await.map_err(|error| error.to_string())?;
    let report = CheckReport::new(&checked);
    // Names of pods do not contain this character.
    let matrix = report.to_matrix().replace('!', &colours.paint(Colour::Red, "!"));
    Ok(Reply { text: matrix + &report.to_text(), is_good: report.differences() == 0 })
}

/// Asks a pod, and once more if the answer does not come although rows let it pass, because a busy
/// machine may answer late.
async fn ask_promised(
    lab: &Lab,
    from: &PodName,
    to: &PodName,
    protocol: Protocol,
) -> Result<Answer, QuestionError> {
    let answer = lab.ask(from, to, protocol, None).await?;
    let is_stopped = || {
        let course = lab.rows().diagnose(from, to, protocol, None);
        course.is_ok_and(|course| course.obstacle().is_some())
    };
    if answer.verdict.is_reached() || is_stopped() {
        return Ok(answer);
    }
    lab.ask(from, to, protocol, None).await
}

/// Asks an address, and once more as [`ask_promised`] does. Routers may have to learn neighbours
/// before the first packet passes.
async fn ask_address_promised(
    lab: &Lab,
    from: &PodName,
    protocol: Protocol,
    ask: impl AsyncFn() -> Result<Answer, QuestionError>,
) -> Result<Answer, QuestionError> {
    let answer = ask().await?;
    let is_stopped = || {
        let course = lab.rows().diagnose_address(from, answer.address, protocol);
        course.is_ok_and(|course| course.is_stopped())
    };
    if answer.verdict.is_reached() || is_stopped() {
        return Ok(answer);
    }
    ask().await
}

/// The answer of an address. If the packet is lost, reasons and the course by rows follow.
fn reply_of_address(
    lab: &Lab,
    from: &PodName,
    answer: &Answer,
    protocol: Protocol,
    reasons: &[String],
    colours: Colours,
) -> Result<Reply, String> {
    let mut reply = Reply::naming_pod(answer, colours);
    if !reply.is_good {
        let diagnosis = lab
            .rows()
            .diagnose_address(from, answer.address, protocol)
            .map_err(|error| error.to_string())?
            .to_string();
        let reasons = reasons.iter().map(String::as_str);
        reply.text += &indented(reasons.chain(diagnosis.lines()));
    }
    Ok(reply)
}

/// Lines below an answer.
fn indented<'a>(lines: impl Iterator<Item = &'a str>) -> String {
    lines.fold(String::new(), |text, line| text + "  " + line + "\n")
}

fn write_trace(output: &mut Vec<u8>, trace: &NodeTrace, packet: &str) -> io::Result<()> {
    let rows = &trace.rows;
    writeln!(output, "reach on {}, {packet}:", rows.node)?;
    match &rows.path {
        Ok(answer) => write_answer(output, answer)?,
        Err(error) => writeln!(output, "{error}")?,
    }
    if let Some(obstacle) = &rows.obstacle {
        writeln!(output, "obstacle: {obstacle}")?;
    }
    writeln!(output, "\novn-trace on {}, {packet}:", rows.node)?;
    match &trace.flows {
        Ok(flows) => writeln!(output, "{}\n", flows.text.trim_end()),
        Err(reason) => writeln!(output, "{reason}\n"),
    }
}

/// A line with the verdict, and a line for each passage between nodes.
fn format_answer(answer: &Answer, pod: Option<&PodName>, colours: Colours) -> String {
    let colour = if answer.verdict.is_reached() { Colour::Green } else { Colour::Red };
    let verdict = colours.paint(colour, &answer.verdict.to_string());
    let time = if answer.verdict.is_reached() {
        format!(", {:.1} ms", answer.time.as_secs_f64() * 1000.0)
    } else {
        String::new()
    };
    let packets = match answer.attempts {
        0 | 1 => String::new(),
        count => format!(", {count} packets"),
    };
    let source = answer.source.map_or_else(String::new, |source| format!(", source {source}"));
    let pod = pod.map_or_else(String::new, |pod| format!(", pod {pod}"));
    let first = format!("{}: {verdict}{pod}{source}{time}{packets}\n", answer.address);
    let passages = answer.passages.iter().map(|passage| {
        let lost = if passage.is_lost { ", lost by the cable" } else { "" };
        format!("  {} -> {} VNI {}{lost}\n", passage.from, passage.to, passage.vni)
    });
    let mut frames = answer.frames.clone();
    frames.dedup();
    let frames = frames.iter().map(|frame| {
        let WireFrame { network, node, tags, source, destination } = frame;
        let tags = format_tags(tags);
        format!("  {node} -> wire/{network} {tags}: {source} to {destination}\n")
    });
    let losses = answer.losses.iter().filter(|_| !answer.verdict.is_reached()).map(|loss| {
        let WireLoss { network, node, tags, reason } = loss;
        format!("  {node} -> wire/{network} {}, lost: {reason}\n", format_tags(tags))
    });
    [first].into_iter().chain(passages).chain(frames).chain(losses).collect()
}

fn format_tags(tags: &[u16]) -> String {
    match tags {
        [] => "untagged".to_owned(),
        [tag] => format!("tag {tag}"),
        tags => {
            let tags: Vec<String> = tags.iter().map(u16::to_string).collect();
            format!("tags {}", tags.join(" "))
        }
    }
}
