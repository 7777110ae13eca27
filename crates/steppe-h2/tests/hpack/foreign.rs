//! HPACK that others wrote: nghttp2's, and that of the Python package `hpack`.
//!
//! Both are asked through `foreign.py`. Blocks that one side wrote read alike on the other. Of blocks with a broken
//! byte both sides read the same fields, or none.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use steppe_h2::hpack::{Decoder, Encoder, FieldLine, Indexing};

use crate::sink::Pair;
use crate::support::{decode, encode, unhex};

/// A field, and its indexing as far as others tell it: never, or any.
type Field = (Pair, bool);

/// Names that the encoder never indexes.
const SECRETS: [&[u8]; 4] = [
    b"cookie",
    b"set-cookie",
    b"authorization",
    b"proxy-authorization",
];

#[test]
fn nghttp2_reads_what_is_written() {
    reads_what_is_written("nghttp2_reads_what_is_written", "nghttp2");
}

#[test]
fn hpack_reads_what_is_written() {
    reads_what_is_written("hpack_reads_what_is_written", "hpack");
}

#[test]
fn what_nghttp2_writes_is_read() {
    what_it_writes_is_read("what_nghttp2_writes_is_read", "nghttp2");
}

#[test]
fn what_hpack_writes_is_read() {
    what_it_writes_is_read("what_hpack_writes_is_read", "hpack");
}

#[test]
fn nghttp2_refuses_the_same_blocks() {
    refuses_the_same_blocks("nghttp2_refuses_the_same_blocks", "nghttp2");
}

#[test]
fn hpack_refuses_the_same_blocks() {
    refuses_the_same_blocks("hpack_refuses_the_same_blocks", "hpack");
}

fn reads_what_is_written(test: &str, peer: &str) {
    let (mut commands, mut expected) = (vec!["decoder 4096".to_owned()], Vec::new());
    let mut encoder = Encoder::new(4096);
    for (fields, size) in rounds() {
        encoder.set_table_bytes_max(size);
        let lines: Vec<FieldLine<'_>> = fields.iter().map(line).collect();
        let block = encode(&mut encoder, &lines);
        commands.push(format!("decode {}", hex(&block)));
        let field = |((name, value), is_never): Field| {
            let is_secret = SECRETS.contains(&&name[..]);
            ((name, value), is_never || is_secret)
        };
        expected.push(fields.into_iter().map(field).collect::<Vec<_>>());
    }
    let Some(answers) = ask(test, peer, &commands) else {
        return;
    };
    for (answer, expected) in answers[1..].iter().zip(expected) {
        assert_eq!(fields_of(answer).expect(answer), expected);
    }
}

fn what_it_writes_is_read(test: &str, peer: &str) {
    let mut commands = vec!["encoder 4096".to_owned()];
    let mut expected = Vec::new();
    for (fields, size) in rounds() {
        commands.push(format!("resize {size}"));
        let field = |((name, value), is_never): &Field| {
            let never = if *is_never { "!" } else { "" };
            format!("{}={}{never}", hex(name), hex(value))
        };
        let written: Vec<String> = fields.iter().map(field).collect();
        commands.push(format!("encode {}", written.join(" ")));
        expected.push(fields);
    }
    let Some(answers) = ask(test, peer, &commands) else {
        return;
    };
    let mut decoder = Decoder::new(4096);
    let blocks = answers
        .iter()
        .filter_map(|answer| answer.strip_prefix("block "));
    let mut entries = 0;
    for (block, expected) in blocks.zip(expected) {
        let read = ours(&mut decoder, &unhex(block)).expect("valid");
        // Others choose more secrets.
        let has_all = |((sent, is_sent), (came, has_come)): (&Field, &Field)| {
            sent == came && (*has_come || !is_sent)
        };
        assert!(
            expected.iter().zip(&read).all(has_all),
            "{expected:?} {read:?}"
        );
        assert_eq!(expected.len(), read.len());
        entries += decoder.table().len();
    }
    assert!(entries > 100, "{entries} entries in all");
}

fn refuses_the_same_blocks(test: &str, peer: &str) {
    let (mut commands, mut sessions) = (Vec::new(), Vec::new());
    for head in heads() {
        let mut encoder = Encoder::new(4096);
        let lines: Vec<FieldLine<'_>> = head.iter().map(line).collect();
        // Literals, literals that become entries, and entries.
        let blocks = [(); 3].map(|()| encode(&mut encoder, &lines));
        for (number, block) in blocks.iter().enumerate() {
            for broken in broken(block, number) {
                // One more block shows the table as the broken one leaves it.
                let session = blocks[..number].iter().chain([&broken, &blocks[2]]);
                commands.push("decoder 4096".to_owned());
                commands.extend(
                    session
                        .clone()
                        .map(|block| format!("decode {}", hex(block))),
                );
                sessions.push(session.cloned().collect::<Vec<_>>());
            }
        }
    }
    let Some(answers) = ask(test, peer, &commands) else {
        return;
    };
    let mut answers = answers.iter();
    let (mut refused, mut accepted) = (0, 0);
    for session in sessions {
        assert_eq!(answers.next().map(|answer| &answer[..]), Some("done"));
        let mut decoder = Some(Decoder::new(4096));
        for block in session {
            let theirs = fields_of(answers.next().expect("an answer"));
            // Behind a block that is refused there is nothing.
            let Some(in_step) = &mut decoder else {
                continue;
            };
            let read = ours(in_step, &block);
            assert_eq!(read, theirs, "{}", hex(&block));
            match read {
                Some(_) => accepted += 1,
                None => (refused, decoder) = (refused + 1, None),
            }
        }
    }
    println!("{peer}: {refused} blocks are refused by both, {accepted} read alike");
    assert!(refused > 300 && accepted > 300, "{refused} and {accepted}");
}

/// Some of the blocks that differ in one byte, and some that end early.
fn broken(block: &[u8], number: usize) -> Vec<Vec<u8>> {
    let changes = [0x01, 0x80, 0x40, 0xff, 0x20, 0x10];
    let mut all = Vec::new();
    for at in 0..block.len() {
        let mut broken = block.to_vec();
        broken[at] ^= changes[(at + number) % changes.len()];
        all.push(broken);
        if at % 8 == 0 {
            all.push(block[..at].to_vec());
        }
    }
    all
}

/// Heads that a connection carries, most of them several times, and the size of the table before each.
fn rounds() -> impl Iterator<Item = (Vec<Field>, u32)> {
    let sizes = [4096, 4096, 256, 0, 1000, 4096];
    sizes
        .into_iter()
        .flat_map(|size| heads().into_iter().map(move |head| (head, size)))
}

fn heads() -> Vec<Vec<Field>> {
    let text = include_str!("../../testdata/hpack/heads.txt");
    let lines = |head: &str| {
        let lines = head.lines().filter(|line| !line.starts_with('#'));
        lines.map(field_of_line).collect::<Vec<_>>()
    };
    let heads = text.split("\n\n").map(lines);
    let heads: Vec<_> = heads.filter(|head| !head.is_empty()).collect();
    assert_eq!(heads.len(), 13);
    heads
}

fn field_of_line(line: &str) -> Field {
    let is_never = line.starts_with('!');
    let line = line.trim_start_matches('!');
    // The name may begin with a colon.
    let colon = 1 + line[1..].find(": ").expect("a field line");
    let (name, value) = (&line[..colon], &line[colon + 2..]);
    ((name.into(), value.into()), is_never)
}

fn line(field: &Field) -> FieldLine<'_> {
    let ((name, value), is_never) = field;
    FieldLine {
        name,
        value,
        indexing: if *is_never {
            Indexing::Never
        } else {
            Indexing::Without
        },
    }
}

/// The fields of a block; none where it is refused.
fn ours(decoder: &mut Decoder, block: &[u8]) -> Option<Vec<Field>> {
    let read = decode(decoder, block).ok()?;
    let field = |(pair, indexing)| (pair, indexing == Indexing::Never);
    Some(read.into_iter().map(field).collect())
}

fn fields_of(answer: &str) -> Option<Vec<Field>> {
    if answer == "refused" {
        return None;
    }
    let fields = answer
        .strip_prefix("fields")
        .expect("an answer to `decode`");
    let field = |text: &str| {
        let (name, value) = text.trim_end_matches('!').split_once('=').expect("a field");
        ((unhex(name), unhex(value)), text.ends_with('!'))
    };
    Some(fields.split_whitespace().map(field).collect())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The answers of a peer. None: it isn't there, and the test is said to be skipped.
///
/// # Panics
/// Where it must be there.
fn ask(test: &str, peer: &str, commands: &[String]) -> Option<Vec<String>> {
    // Debian's Python, which has Debian's packages.
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/hpack/foreign.py");
    let child = Command::new("/usr/bin/python3")
        .arg(script)
        .arg(peer)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) => return skip(test, &format!("/usr/bin/python3: {error}")),
    };
    let mut stdin = child.stdin.take().expect("it is piped");
    let output = std::thread::scope(|scope| {
        // It may end before it has read all.
        scope.spawn(move || stdin.write_all((commands.join("\n") + "\n").as_bytes()));
        child.wait_with_output().expect("it runs")
    });
    let errors = String::from_utf8_lossy(&output.stderr);
    if let Some(missing) = errors.strip_prefix("missing: ") {
        return skip(test, missing.trim_end());
    }
    assert!(output.status.success(), "{errors}");
    let answers = String::from_utf8(output.stdout).expect("ASCII");
    let answers: Vec<String> = answers.lines().map(str::to_owned).collect();
    assert_eq!(answers.len(), commands.len(), "{errors}");
    Some(answers)
}

fn skip<T>(test: &str, reason: &str) -> Option<T> {
    let must_run = std::env::var_os("CI").is_some_and(|value| value == "true");
    assert!(!must_run, "{test} can't be skipped here: {reason}");
    steppe_testkit::skip(test, reason);
    None
}
