//! Programs whose runtime manages memory: a leak checker does not see their leaks.
//!
//! A checker counts unreachable blocks of `malloc`. A collector has freed unreachable objects, and an object
//! that a program keeps by mistake is reachable; nor are its objects blocks of `malloc`. Leaves out runtimes
//! that are linked into a program under another name.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use memchr::memmem;

use crate::limits::PROGRAM_HEAD_BYTES;
use crate::scenario::Program;
use crate::target::executable;

/// The runtime of a command line, if it has one: that of its program, or of its script's interpreter.
pub(super) fn of_command(program: &Program) -> Option<&'static str> {
    let named = program.cmd.first().and_then(|name| of_name(name));
    named.or_else(|| of_file(&executable(program).ok()?))
}

/// The runtime of a program's file.
pub(super) fn of_file(path: &Path) -> Option<&'static str> {
    of_name(&path.to_string_lossy()).or_else(|| {
        let mut head = Vec::new();
        let file = File::open(path).ok()?;
        file.take(PROGRAM_HEAD_BYTES).read_to_end(&mut head).ok()?;
        of_head(&head)
    })
}

/// The runtime with the name of a program, whichever version: `/usr/bin/python3.11`.
fn of_name(path: &str) -> Option<&'static str> {
    let name = path.rsplit('/').next().unwrap_or(path);
    let name = name.trim_end_matches(|end: char| end.is_ascii_digit() || ".-".contains(end));
    let found = RUNTIMES.iter().find(|(program, _)| *program == name);
    found.map(|(_, runtime)| *runtime)
}

/// The runtime by the head of a file: `#!/usr/bin/env node`, or the note that Go's linker leaves.
fn of_head(head: &[u8]) -> Option<&'static str> {
    if let Some(line) = head.strip_prefix(b"#!") {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or(line);
        let line = String::from_utf8_lossy(line);
        let mut words = line.split_whitespace();
        return words.find_map(of_name);
    }
    // ELF note: length of the name, of the content, type 4, and the name `Go`.
    let is_go = memmem::find_iter(head, b"\x04\0\0\0Go\0\0")
        .any(|at| at >= 8 && head[at - 8..at - 4] == *b"\x04\0\0\0");
    (head.starts_with(b"\x7fELF") && is_go).then_some("Go")
}

/// Programs, without version, and the usual name of the runtime.
const RUNTIMES: [(&str, &str); 20] = [
    ("node", "Node.js"),
    ("nodejs", "Node.js"),
    ("npm", "Node.js"),
    ("npx", "Node.js"),
    ("bun", "Bun"),
    ("deno", "Deno"),
    ("python", "Python"),
    ("pypy", "PyPy"),
    ("java", "Java"),
    ("ruby", "Ruby"),
    ("bundle", "Ruby"),
    ("dotnet", ".NET"),
    ("mono", "Mono"),
    ("php", "PHP"),
    ("php-fpm", "PHP"),
    ("perl", "Perl"),
    ("lua", "Lua"),
    ("luajit", "LuaJIT"),
    ("erl", "Erlang"),
    ("beam.smp", "Erlang"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_known_by_name_whichever_version() {
        assert_eq!(of_name("/usr/bin/python3.11"), Some("Python"));
        assert_eq!(of_name("node"), Some("Node.js"));
        assert_eq!(of_name("ruby3.1"), Some("Ruby"));
        assert_eq!(
            of_name("/usr/lib/erlang/erts-14.2/bin/beam.smp"),
            Some("Erlang")
        );
        assert_eq!(of_name("/usr/sbin/nginx"), None);
        assert_eq!(of_name("/opt/node/server"), None);
    }

    #[test]
    fn scripts_are_known_by_their_first_line_and_go_by_its_note() {
        assert_eq!(of_head(b"#!/usr/bin/env node\nmain()"), Some("Node.js"));
        assert_eq!(
            of_head(b"#!/usr/bin/env -S FOO=1 python3 -u\n"),
            Some("Python")
        );
        assert_eq!(of_head(b"#!/bin/sh\nexec node\n"), None);
        let note = b"\x04\0\0\0\x53\0\0\0\x04\0\0\0Go\0\0id";
        assert_eq!(of_head(&[&b"\x7fELF....."[..], note].concat()), Some("Go"));
        assert_eq!(of_head(note), None);
        assert_eq!(of_head(b"\x7fELF\x04\0\0\0Go\0\0"), None);
        assert_eq!(of_head(b""), None);
    }
}
