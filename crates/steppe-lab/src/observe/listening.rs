//! On which TCP ports a process and its descendants listen.

use std::collections::{BTreeMap, BTreeSet};

use procfs::net::TcpState;
use procfs::process::{FDTarget, Process, all_processes};

/// The ports of a process, of those in its process group and of its descendants, lowest first. Empty
/// where nothing can be seen.
pub fn listening_ports(pid: u32) -> Vec<u16> {
    let Ok(root) = i32::try_from(pid) else {
        return Vec::new();
    };
    let sockets: BTreeSet<u64> = members(root).iter().flat_map(sockets).collect();
    let tables = [procfs::net::tcp(), procfs::net::tcp6()];
    let entries = tables.into_iter().flatten().flatten();
    let ports: BTreeSet<u16> = entries
        .filter(|entry| entry.state == TcpState::Listen && sockets.contains(&entry.inode))
        .map(|entry| entry.local_address.port())
        .collect();
    ports.into_iter().collect()
}

fn members(root: i32) -> Vec<Process> {
    let all = all_processes().into_iter().flatten().flatten();
    let all: Vec<(Process, i32, i32)> = all
        .filter_map(|process| {
            let stat = process.stat().ok()?;
            Some((process, stat.ppid, stat.pgrp))
        })
        .collect();
    let parents: BTreeMap<i32, i32> = all
        .iter()
        .map(|(process, parent, _)| (process.pid(), *parent))
        .collect();
    let descends = |mut pid: i32| {
        // A chain of parents is no longer than there are processes.
        for _ in 0..parents.len() {
            match parents.get(&pid) {
                _ if pid == root => return true,
                Some(&parent) => pid = parent,
                None => return false,
            }
        }
        false
    };
    all.into_iter()
        .filter(|(process, _, group)| *group == root || descends(process.pid()))
        .map(|(process, ..)| process)
        .collect()
}

fn sockets(process: &Process) -> Vec<u64> {
    let files = process.fd().into_iter().flatten().flatten();
    files
        .filter_map(|file| match file.target {
            FDTarget::Socket(inode) => Some(inode),
            _ => None,
        })
        .collect()
}
