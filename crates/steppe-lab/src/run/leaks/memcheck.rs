//! Valgrind's memcheck, by its XML.

use std::path::Path;

use roxmltree::{Document, Node};

use super::{Found, managed, reports, with_command};
use crate::limits::{LEAK_SITES_MAX, LEAK_STACK_MAX};
use crate::record::LeakSite;
use crate::scenario::{LeaksPlan, Program};

/// The target under memcheck, which writes a file a process.
pub(super) fn program(plan: &LeaksPlan, target: Program, said: &Path) -> Program {
    let mut cmd = vec![
        "valgrind".to_owned(),
        "--tool=memcheck".to_owned(),
        "--leak-check=full".to_owned(),
        "--show-leak-kinds=definite,indirect,possible".to_owned(),
        "--trace-children=yes".to_owned(),
        "--child-silent-after-fork=no".to_owned(),
        "--xml=yes".to_owned(),
        format!("--xml-file={}.%p.xml", said.display()),
    ];
    cmd.extend(plan.arguments.iter().cloned());
    cmd.extend(plan.command.clone().unwrap_or_else(|| target.cmd.clone()));
    with_command(target, cmd)
}

pub(super) fn read(said: &Path) -> Result<Found, String> {
    let files = reports(said).map_err(|error| error.to_string())?;
    if files.is_empty() {
        return Err(format!("no {}.*.xml", said.display()));
    }
    let mut found = Found::default();
    for file in files {
        let text = std::fs::read_to_string(&file).map_err(|error| error.to_string())?;
        parse(&text, &mut found).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(found)
}

/// Parses the XML. Valgrind manual, "XML output" (protocol 4): an `error` of a kind `Leak_…` is a
/// block, or several from one place.
fn parse(text: &str, found: &mut Found) -> Result<(), String> {
    let document = Document::parse(text).map_err(|error| error.to_string())?;
    let root = document.root_element();
    let is_finished = root
        .children()
        .filter(|node| node.has_tag_name("status"))
        .any(|status| {
            status
                .children()
                .any(|node| node.text().is_some_and(|text| text.trim() == "FINISHED"))
        });
    if !is_finished {
        return Err("the process did not end cleanly".to_owned());
    }
    // The report may be that of a process that the target started: `sh -c "node …"`.
    let exe = root.descendants().find(|node| node.has_tag_name("argv"));
    let exe = exe.and_then(|argv| child_text(argv, "exe"));
    found.runtime = found
        .runtime
        .or_else(|| managed::of_file(Path::new(exe?.trim())));
    for error in root.children().filter(|node| node.has_tag_name("error")) {
        let Some(kind) = child_text(error, "kind").and_then(|kind| kind.strip_prefix("Leak_"))
        else {
            continue;
        };
        let number = |name| {
            let leaked = error.children().find(|node| node.has_tag_name("xwhat"))?;
            child_text(leaked, name)?.parse::<u64>().ok()
        };
        let site = LeakSite {
            kind: name_of(kind).to_owned(),
            bytes: number("leakedbytes").unwrap_or(0),
            blocks: number("leakedblocks").unwrap_or(0),
            stack: stack(error),
        };
        if matches!(kind, "DefinitelyLost" | "IndirectlyLost") {
            found.lost_bytes += site.bytes;
        }
        found.sites.push(site);
    }
    found
        .sites
        .sort_by_key(|site| std::cmp::Reverse(site.bytes));
    found.sites.truncate(LEAK_SITES_MAX);
    Ok(())
}

fn stack(error: Node<'_, '_>) -> Vec<String> {
    let Some(stack) = error.children().find(|node| node.has_tag_name("stack")) else {
        return Vec::new();
    };
    let frames = stack.children().filter(|node| node.has_tag_name("frame"));
    let shown = frames.map(|frame| {
        let function = child_text(frame, "fn").unwrap_or("???");
        match (child_text(frame, "file"), child_text(frame, "line")) {
            (Some(file), Some(line)) => format!("{function} ({file}:{line})"),
            _ => match child_text(frame, "obj") {
                Some(object) => format!("{function} (in {object})"),
                None => function.to_owned(),
            },
        }
    });
    shown.take(LEAK_STACK_MAX).collect()
}

fn child_text<'a>(node: Node<'a, '_>, name: &str) -> Option<&'a str> {
    node.children()
        .find(|child| child.has_tag_name(name))?
        .text()
}

fn name_of(kind: &str) -> &'static str {
    match kind {
        "DefinitelyLost" => "definitely lost",
        "IndirectlyLost" => "indirectly lost",
        "PossiblyLost" => "possibly lost",
        _ => "still reachable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "<?xml version=\"1.0\"?><valgrindoutput><protocolversion>4</protocolversion>\
        <status><state>RUNNING</state><time>1</time></status>\
        <error><kind>UninitCondition</kind></error>\
        <error><kind>Leak_DefinitelyLost</kind><xwhat><text>…</text><leakedbytes>640</leakedbytes>\
        <leakedblocks>10</leakedblocks></xwhat><stack><frame><ip>1</ip><obj>/lib/a.so</obj>\
        <fn>malloc</fn></frame><frame><ip>2</ip><fn>leak</fn><file>a.c</file><line>7</line></frame>\
        </stack></error>\
        <error><kind>Leak_PossiblyLost</kind><xwhat><leakedbytes>9</leakedbytes>\
        <leakedblocks>1</leakedblocks></xwhat></error>";

    #[test]
    fn lost_blocks_are_read_with_their_stacks() {
        let mut found = Found::default();
        let ended = "<status><state>FINISHED</state></status></valgrindoutput>";
        parse(&format!("{REPORT}{ended}"), &mut found).unwrap();
        assert_eq!(found.lost_bytes, 640);
        assert_eq!(found.sites.len(), 2);
        assert_eq!(
            found.sites[0].stack,
            ["malloc (in /lib/a.so)", "leak (a.c:7)"]
        );
        assert_eq!(found.sites[1].kind, "possibly lost");
    }

    #[test]
    fn a_report_without_its_end_is_none() {
        let mut found = Found::default();
        let error = parse(&format!("{REPORT}</valgrindoutput>"), &mut found).unwrap_err();
        assert!(error.contains("did not end cleanly"), "{error}");
        assert!(parse("", &mut found).is_err());
    }
}
