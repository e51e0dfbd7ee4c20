//! What is logged.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixStream;

use crate::{Server, both, same, succeeds};

#[test]
fn levels_and_patterns_are_set_as_in_ovsdb_server() {
    let (_folder, mut servers) = both();
    for command in [
        "vlog/list-pattern",
        "vlog/set any:any:info",
        "vlog/set foo",
        "vlog/set nomod:dbg",
        "vlog/set ovsdb-server:err",
        "vlog/set reconnect:reconnect",
        "vlog/set file:syslog:dbg",
        "vlog/set dbg:info",
        "vlog/set off,nope",
        "vlog/set util:off:console uuid:emer:syslog raft:warn:file backtrace:err",
        "vlog/set Vlog,FILE,Warn foo storage:off",
        "vlog/set jsonrpc::console: trigger:file:any",
        "vlog/disable-rate-limit util nope raft",
        "vlog/disable-rate-limit UTIL uuid",
        "vlog/enable-rate-limit uuid",
        "vlog/disable-rate-limit raft,storage",
    ] {
        same(&mut servers, command);
    }
    levels_are_the_same(&mut servers);
    for command in [
        "vlog/set",
        "vlog/set console:err",
        "vlog/set syslog:OFF",
        "vlog/disable-rate-limit any nope",
    ] {
        same(&mut servers, command);
        levels_are_the_same(&mut servers);
    }
    for command in [
        "vlog/set ::",
        "vlog/enable-rate-limit",
        "vlog/set PATTERN",
        "vlog/set PATTERN:foo:%m",
        "vlog/set PATTERN:file:%m",
        "vlog/set pattern:console",
        "vlog/list-pattern",
        "vlog/set pattern::SYSLOG::a:b,c",
        "vlog/list-pattern",
        "vlog/set pattern:any:%T{",
        "vlog/list-pattern",
        "vlog/set FACILITY",
        "vlog/set facility:LOCAL7",
        "vlog/set facility:audit",
        "vlog/set facility:cron",
        "vlog/set facility:local8",
        "vlog/set facility::user",
        "vlog/set facility:user,",
        "vlog/reopen",
        "vlog/close",
        "vlog/reopen x",
        "vlog/list x",
        "vlog/list-pattern x",
        "ovsdb-server/memory-trim-on-compaction",
        "ovsdb-server/memory-trim-on-compaction on",
        "ovsdb-server/memory-trim-on-compaction off",
        "ovsdb-server/memory-trim-on-compaction ON",
    ] {
        same(&mut servers, command);
    }
    levels_are_the_same(&mut servers);
}

/// But for the modules that only one of them has.
fn levels_are_the_same(servers: &mut [Server; 2]) {
    let [real, sim] = servers
        .each_mut()
        .map(|server| server.appctl("vlog/list").0);
    let module = |line: &str| line.split_whitespace().next().map(str::to_owned);
    let lines_of_both = |some: &str, others: &str| -> Vec<String> {
        let others: Vec<_> = others.lines().map(module).collect();
        let lines = some.lines().filter(|line| others.contains(&module(line)));
        lines.map(str::to_owned).collect()
    };
    let expected = lines_of_both(&real, &sim);
    assert!(expected.len() > 100, "{real}");
    assert_eq!(lines_of_both(&sim, &real), expected);
}

#[test]
fn the_program_says_what_it_is_told_to() {
    let (folder, _servers) = both();
    let log = folder.path().join("log");
    let output = File::create(&log).unwrap();
    let mut sim = Server::sim_with_log(&folder.path().join("ovsschema"), output.into());
    // A connection that ends because of what it sends; how often this was said so far.
    let socket = sim.socket.clone();
    let probe = || {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"no message").unwrap();
        std::io::read_to_string(stream).unwrap();
        let log = std::fs::read_to_string(&log).unwrap();
        log.matches("closing a connection").count()
    };
    assert_eq!(probe(), 0);
    for command in [
        "vlog/set file:info",
        "vlog/set reconnect:info",
        "vlog/set pattern:console:x",
    ] {
        succeeds(&mut sim, command);
        assert_eq!(probe(), 0, "{command}");
    }
    for (command, count) in [
        ("vlog/set ovsdb_jsonrpc_server:info", 1),
        ("vlog/set console:warn", 1),
        ("vlog/set info", 2),
        ("vlog/set ovsdb_server:off", 3),
        ("vlog/set off", 3),
    ] {
        succeeds(&mut sim, command);
        assert_eq!(probe(), count, "{command}");
    }
}
