//! Log levels.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use patchbay_ovn_programs::testing::Release;

use crate::{Server, both, same, succeeds};

#[test]
fn levels_of_all_destinations_are_set_as_in_ovsdb_server() {
    let (_folder, mut servers) = both();
    for command in [
        "vlog/set any:any:info",
        "vlog/set foo",
        "vlog/set FACILITY:daemon",
        "vlog/set facility:LOCAL7",
        "vlog/set FACILITY:cron",
        "vlog/set FACILITY:",
        "vlog/set FACILITY",
        "vlog/set nomod:dbg",
        "vlog/set ovsdb-server:err",
        "vlog/set reconnect:reconnect",
        "vlog/set file:syslog:dbg",
        "vlog/set dbg:info",
        "vlog/set off,nope",
        "vlog/set unixctl:off:console uuid:emer:syslog raft:warn:file reconnect:err",
        "vlog/set Vlog,FILE,Warn foo ovsdb_file:off",
        "vlog/set ovsdb_server::console: jsonrpc:file:any",
        "vlog/disable-rate-limit util nope raft",
        "vlog/disable-rate-limit UTIL uuid",
        "vlog/enable-rate-limit uuid",
        "vlog/disable-rate-limit raft,storage",
    ] {
        same(&mut servers, command);
    }
    assert_levels_are_the_same(&mut servers);
    for command in [
        "vlog/set",
        "vlog/set console:err",
        "vlog/set syslog:OFF",
        "vlog/disable-rate-limit any nope",
    ] {
        same(&mut servers, command);
        assert_levels_are_the_same(&mut servers);
    }
    for command in [
        "vlog/set ::",
        "vlog/enable-rate-limit",
        "vlog/reopen",
        "vlog/close",
        "vlog/reopen x",
        "vlog/list x",
        "ovsdb-server/memory-trim-on-compaction",
        "ovsdb-server/memory-trim-on-compaction on",
        "ovsdb-server/memory-trim-on-compaction off",
        "ovsdb-server/memory-trim-on-compaction ON",
    ] {
        same(&mut servers, command);
    }
    assert_levels_are_the_same(&mut servers);
}

#[test]
fn patterns_of_all_destinations_are_listed() {
    let (_folder, mut servers) = both();
    let list = "vlog/list-pattern";
    let (listed, _) = same(&mut servers, list);
    assert!(listed.contains("CONSOLE  none  "), "{listed}");
    for command in [
        "vlog/list-pattern x",
        "vlog/set PATTERN:file:%m",
        "vlog/set PATTERN:syslog:abc FACILITY:daemon",
        list,
        "vlog/set pattern:any:x:%y",
        list,
        "vlog/set PATTERN:console:",
        list,
    ] {
        same(&mut servers, command);
    }
}

/// Compares the levels of the simulator's modules.
fn assert_levels_are_the_same(servers: &mut [Server; 2]) {
    let [real, sim] = servers.each_mut().map(|server| server.appctl("vlog/list").0);
    let levels = |listing: &str| -> BTreeMap<String, Vec<String>> {
        listing
            .lines()
            .skip(2)
            .filter_map(|line| {
                let mut words = line.split_whitespace().map(str::to_owned);
                Some((words.next()?, words.take(3).collect()))
            })
            .collect()
    };
    let (real, sim) = (levels(&real), levels(&sim));
    assert!(sim.len() > 1, "{sim:?}");
    for (module, level) in sim {
        assert_eq!(Some(&level), real.get(&module), "{module}");
    }
}

#[test]
fn the_level_of_the_program_is_changed() {
    let (folder, _servers) = both();
    let log = folder.path().join("log");
    let output = File::create(&log).unwrap();
    let schema = folder.path().join("ovsschema");
    let mut sim = Server::sim_with_log(&Release::installed(), &schema, output.into());
    // Sends a broken message, and returns the number of such messages in the log when it has
    // reached `expected`. A line too many is found at the next step, because the log is written by
    // a thread of its own.
    let socket = sim.socket.clone();
    let probe = |expected: usize| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        stream.write_all(b"no message").unwrap();
        std::io::read_to_string(stream).unwrap();
        let start = Instant::now();
        loop {
            let log = std::fs::read_to_string(&log).unwrap();
            let count = log.matches("error parsing stream").count();
            if count >= expected || start.elapsed() > Duration::from_secs(60) {
                return count;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    assert_eq!(probe(1), 1);
    for (command, count) in [
        ("vlog/set file:off", 2),
        ("vlog/set reconnect:off", 3),
        ("vlog/set jsonrpc:off", 3),
        ("vlog/set console:err", 3),
        ("vlog/set warn", 4),
        ("vlog/set ovsdb_server:off", 5),
        ("vlog/set off", 5),
        ("vlog/set info", 6),
    ] {
        succeeds(&mut sim, command);
        assert_eq!(probe(count), count, "{command}");
    }
}
