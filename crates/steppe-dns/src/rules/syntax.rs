//! Lines of domain lists, in the syntax of hosts files, plain domains, AdBlock and RPZ, which is recognized line by
//! line.
//!
//! Sources: hosts(5); AdGuard's "DNS filtering syntax"; draft-vixie-dnsop-dns-rpz §4 (triggers by name) and
//! §5 (actions). Non-goals: rules that depend on a client, a type or an address (`$client`, `$dnstype`,
//! `rpz-ip`), regular expressions and cosmetic rules, which are counted as not supported; local data of RPZ, which
//! is refused by name: it is an answer, and a list has names.

use crate::limits::LIST_LINE_BYTES_MAX;
use crate::wire::Name;

/// The effect of a rule: it blocks, or makes an exception. Of the rules of a list for a name, the one with the last of
/// these verdicts decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Verdict {
    /// The name is on the list, and has no data where a rule blocks it: RPZ's NODATA.
    NoData,
    /// The name is on the list.
    Block,
    /// The name is not on the list: an exception.
    Allow,
    /// The name is on the list despite exceptions: AdBlock's `$important`.
    BlockImportant,
    /// The name is not on the list: an exception with `$important`.
    AllowImportant,
}

impl Verdict {
    /// The number of verdicts.
    pub(super) const COUNT: usize = 5;

    /// True for exceptions.
    #[must_use]
    pub fn is_exception(self) -> bool {
        matches!(self, Self::Allow | Self::AllowImportant)
    }
}

/// The names that a rule is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The name alone.
    Exact,
    /// The names below it alone, as with a wildcard of RFC 4592 §2.1.1.
    Below,
    /// The name and the names below it.
    Suffix,
}

/// The scope of a line with nothing but a name. Lists differ in it, and do not state it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PlainScope {
    /// The name alone, as AdGuard and Pi-hole read it.
    Exact,
    /// The names below it too, as dnsmasq, Unbound and others read it.
    #[default]
    Suffix,
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LineRule {
    /// The name, in lower case.
    pub name: Name,
    /// Names that the rule is for.
    pub scope: Scope,
    /// Effect on these names.
    pub verdict: Verdict,
}

/// The kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Line {
    /// No rule: a comment, an empty line, a directive, a name of the host itself.
    Nothing,
    /// Rules; a line of a hosts file has up to some tens of names.
    Rules,
    /// A rule of a kind that is not supported.
    Unsupported,
    /// A rule that is not supported and is logged, with this description.
    Refused(&'static str),
    /// A line of none of the syntaxes, or a line of a hosts file with names that are invalid.
    Malformed,
}

/// Reads the lines of one list.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reader {
    plain: PlainScope,
    /// `$ORIGIN` of an RPZ: the suffix of absolute owner names that is not part of a trigger.
    origin: Option<Name>,
}

/// Names that hosts files have for the host itself.
const OF_THE_HOST: [&str; 11] = [
    "localhost",
    "localhost.localdomain",
    "local",
    "broadcasthost",
    "ip6-localhost",
    "ip6-loopback",
    "ip6-localnet",
    "ip6-mcastprefix",
    "ip6-allnodes",
    "ip6-allrouters",
    "ip6-allhosts",
];

/// Types of records that an RPZ has as local data. Others are not told from words of a text.
const LOCAL_DATA: [&str; 12] = [
    "A", "AAAA", "TXT", "MX", "SRV", "PTR", "NAPTR", "CAA", "HTTPS", "SVCB", "TLSA", "DNAME",
];

/// Modifiers of AdBlock rules that are ignored, since they concern parts of a page or of a request that DNS can't
/// see.
const MODIFIERS_IGNORED: [&str; 5] = ["all", "document", "third-party", "popup", "doc"];

impl Reader {
    /// Reads lines in which a plain name has this scope.
    #[must_use]
    pub fn new(plain: PlainScope) -> Self {
        Self {
            plain,
            origin: None,
        }
    }

    /// Reads a line, without its end, and calls `each` with its rules.
    pub fn line(&mut self, line: &[u8], mut each: impl FnMut(LineRule)) -> Line {
        if line.len() > LIST_LINE_BYTES_MAX {
            return Line::Malformed;
        }
        let Ok(line) = std::str::from_utf8(line) else {
            return Line::Malformed;
        };
        let line = line.trim_start_matches('\u{feff}').trim();
        match line.as_bytes() {
            [] | [b'!' | b'#' | b';', ..] => Line::Nothing,
            [b'[', .., b']'] => Line::Nothing,
            [b'@', b'@', ..] => adblock(&line[2..], Verdict::Allow, each),
            [b'|', ..] => adblock(line, Verdict::Block, each),
            [b'/', ..] => Line::Unsupported,
            [b'$', ..] => self.directive(line),
            _ if line.contains("##") || line.contains("#@#") || line.contains("#?#") => {
                Line::Unsupported
            }
            _ => self.words(line, &mut each),
        }
    }

    /// `$ORIGIN` and `$TTL` of a zone file.
    fn directive(&mut self, line: &str) -> Line {
        let mut words = line.split_ascii_whitespace();
        if words
            .next()
            .is_some_and(|word| word.eq_ignore_ascii_case("$ORIGIN"))
        {
            self.origin = words.next().and_then(|name| name.parse().ok());
        }
        Line::Nothing
    }

    fn words(&self, line: &str, each: &mut impl FnMut(LineRule)) -> Line {
        let line = line.split(['#', ';']).next().unwrap_or_default();
        let mut words = line.split_ascii_whitespace();
        let Some(first) = words.next() else {
            return Line::Nothing;
        };
        if first.parse::<std::net::IpAddr>().is_ok() {
            return hosts(words, each);
        }
        match words.next() {
            None => plain(first, self.plain, each),
            Some(_) => self.zone_record(line, each),
        }
    }

    /// A record of an RPZ: its owner is the trigger, its data the action.
    fn zone_record(&self, line: &str, each: &mut impl FnMut(LineRule)) -> Line {
        let mut words = line.split_ascii_whitespace();
        let owner = words.next().unwrap_or_default();
        // RFC 1035 §5.1; BIND writes a TTL as `1h` too.
        let is_number = |word: &&str| {
            word.starts_with(|first: char| first.is_ascii_digit())
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_digit() || b"smhdwSMHDW".contains(&byte))
        };
        let is_class = |word: &&str| word.eq_ignore_ascii_case("IN");
        let mut rest = words.skip_while(|word| is_number(word) || is_class(word));
        let rtype = rest.next().unwrap_or_default();
        let is_of_zone = ["SOA", "NS"]
            .iter()
            .any(|zone| rtype.eq_ignore_ascii_case(zone));
        if is_of_zone || owner == "@" {
            return Line::Nothing;
        }
        let verdict = match action(rtype, rest.next()) {
            Ok(verdict) => verdict,
            Err(line) => return line,
        };
        let (name, scope) = match owner.strip_prefix("*.") {
            Some(name) => (name, Scope::Below),
            None => (owner, Scope::Exact),
        };
        let Some(name) = self.trigger(name) else {
            return Line::Malformed;
        };
        let last = name.labels().last().unwrap_or_default();
        if last.starts_with(b"rpz-") {
            // Triggers by address or server.
            return Line::Unsupported;
        }
        each(LineRule {
            name,
            scope,
            verdict,
        });
        Line::Rules
    }

    /// The name that an owner triggers on: without the zone's origin.
    fn trigger(&self, owner: &str) -> Option<Name> {
        let name: Name = owner.parse().ok()?;
        if !owner.ends_with('.') {
            return Some(name.to_lower());
        }
        let Some(origin) = self.origin.filter(|origin| name.is_at_or_below(origin)) else {
            return Some(name.to_lower());
        };
        let len = name.wire().len() - origin.wire().len();
        let mut wire = [0; crate::limits::NAME_BYTES_MAX];
        wire[..len].copy_from_slice(&name.wire()[..len]);
        Name::from_wire(&wire[..=len]).ok().map(Name::to_lower)
    }
}

/// The verdict of a record of an RPZ; the error is the kind of its line.
fn action(rtype: &str, data: Option<&str>) -> Result<Verdict, Line> {
    let Some(data) = data else {
        return Err(Line::Malformed);
    };
    if !rtype.eq_ignore_ascii_case("CNAME") {
        let mut known = LOCAL_DATA.iter();
        return Err(match known.any(|known| rtype.eq_ignore_ascii_case(known)) {
            true => Line::Refused("local data of RPZ"),
            false => Line::Malformed,
        });
    }
    match data.to_ascii_lowercase().as_str() {
        "." | "rpz-drop" | "rpz-drop." => Ok(Verdict::Block),
        "*." => Ok(Verdict::NoData),
        "rpz-passthru" | "rpz-passthru." => Ok(Verdict::Allow),
        "rpz-tcp-only" | "rpz-tcp-only." => Err(Line::Refused("TCP-only of RPZ")),
        _ => Err(Line::Refused("local data of RPZ")),
    }
}

/// Reads the names behind an address.
fn hosts<'a>(names: impl Iterator<Item = &'a str>, each: &mut impl FnMut(LineRule)) -> Line {
    let (mut line, mut is_malformed) = (Line::Nothing, false);
    for name in names {
        let is_of_host = OF_THE_HOST
            .iter()
            .any(|host| name.eq_ignore_ascii_case(host));
        if is_of_host || name.parse::<std::net::IpAddr>().is_ok() {
            continue;
        }
        let Some(name) = domain(name) else {
            is_malformed = true;
            continue;
        };
        each(LineRule {
            name,
            scope: Scope::Exact,
            verdict: Verdict::Block,
        });
        line = Line::Rules;
    }
    if is_malformed { Line::Malformed } else { line }
}

/// Reads a name alone, maybe with a wildcard or a leading dot. A wildcard in lists of domains includes the name itself,
/// as it does for dnsmasq, Blocky and the publishers of lists.
fn plain(word: &str, plain: PlainScope, each: &mut impl FnMut(LineRule)) -> Line {
    let (name, scope) = match (word.strip_prefix("*."), word.strip_prefix('.')) {
        (Some(name), _) => (name, Scope::Suffix),
        (_, Some(name)) => (name, Scope::Suffix),
        _ if plain == PlainScope::Exact => (word, Scope::Exact),
        _ => (word, Scope::Suffix),
    };
    let Some(name) = domain(name) else {
        let is_pattern = word.contains(['*', '/', '^', '$', '|', '~']);
        return if is_pattern {
            Line::Unsupported
        } else {
            Line::Malformed
        };
    };
    each(LineRule {
        name,
        scope,
        verdict: Verdict::Block,
    });
    Line::Rules
}

/// Reads an AdBlock rule: `||name^`, maybe with modifiers.
fn adblock(rule: &str, verdict: Verdict, mut each: impl FnMut(LineRule)) -> Line {
    let (pattern, modifiers) = rule.split_once('$').unwrap_or((rule, ""));
    let is_important = |modifier: &str| modifier == "important";
    let is_known = |modifier: &str| {
        modifier.is_empty() || is_important(modifier) || MODIFIERS_IGNORED.contains(&modifier)
    };
    if !modifiers.split(',').all(is_known) {
        return Line::Unsupported;
    }
    let verdict = match (
        modifiers.split(',').any(is_important),
        verdict.is_exception(),
    ) {
        (false, _) => verdict,
        (true, false) => Verdict::BlockImportant,
        (true, true) => Verdict::AllowImportant,
    };
    let pattern = pattern.trim_end_matches('|');
    let (name, scope) = match pattern.strip_prefix("||") {
        Some(name) => match name.strip_prefix("*.") {
            Some(name) => (name, Scope::Below),
            None => (name, Scope::Suffix),
        },
        None => (pattern.trim_start_matches('|'), Scope::Exact),
    };
    let name = name.strip_suffix('^').unwrap_or(name);
    let Some(name) = domain(name) else {
        return Line::Unsupported;
    };
    each(LineRule {
        name,
        scope,
        verdict,
    });
    Line::Rules
}

/// A name as lists have them: labels of letters, digits, `-` and `_`, or of Unicode; no address.
fn domain(text: &str) -> Option<Name> {
    if !text.is_ascii() {
        // A name with letters beyond ASCII has no ASCII characters but these.
        let is_plain = |letter: char| {
            !letter.is_ascii() || letter.is_ascii_alphanumeric() || "-_.".contains(letter)
        };
        let name: Option<Name> = text
            .chars()
            .all(is_plain)
            .then(|| text.parse().ok())
            .flatten();
        return name.map(Name::to_lower);
    }
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let is_address = text.parse::<std::net::Ipv4Addr>().is_ok();
    if is_address || text == "." || !text.bytes().all(is_letter) {
        return None;
    }
    text.parse().ok().map(Name::to_lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(reader: &mut Reader, line: &str) -> (Line, String) {
        let mut rules = Vec::new();
        let found = reader.line(line.as_bytes(), |rule| {
            let verdict = match rule.verdict {
                Verdict::Block => "",
                Verdict::Allow => "@@",
                Verdict::NoData => "nodata ",
                Verdict::BlockImportant => "!",
                Verdict::AllowImportant => "!@@",
            };
            rules.push(format!("{verdict}{:?} {}", rule.scope, rule.name));
        });
        (found, rules.join(", "))
    }

    #[test]
    fn each_syntax_is_known_by_its_lines() {
        use Line::{Malformed, Nothing, Refused, Rules, Unsupported};
        let long = format!("{}.example", "a".repeat(64));
        let mut reader = Reader::new(PlainScope::Suffix);
        for (line, found, rules) in [
            ("", Nothing, ""),
            ("  # comment", Nothing, ""),
            ("! Title: list", Nothing, ""),
            ("[Adblock Plus 2.0]", Nothing, ""),
            ("0.0.0.0 Ads.example", Rules, "Exact ads.example."),
            (
                "127.0.0.1\ta.example b.example # both",
                Rules,
                "Exact a.example., Exact b.example.",
            ),
            ("::1 localhost ip6-localhost", Nothing, ""),
            ("0.0.0.0 0.0.0.0", Nothing, ""),
            ("0.0.0.0 bad..example", Malformed, ""),
            (
                "0.0.0.0 a.example bad..example b.example",
                Malformed,
                "Exact a.example., Exact b.example.",
            ),
            ("ads.example", Rules, "Suffix ads.example."),
            ("ads.example.  # why", Rules, "Suffix ads.example."),
            (
                "\u{feff}_track.ads.example",
                Rules,
                "Suffix _track.ads.example.",
            ),
            ("*.ads.example", Rules, "Suffix ads.example."),
            (".ads.example", Rules, "Suffix ads.example."),
            ("192.0.2.1", Nothing, ""),
            ("Bücher.example", Rules, "Suffix xn--bcher-kva.example."),
            (
                "0.0.0.0 bücher.example",
                Rules,
                "Exact xn--bcher-kva.example.",
            ),
            ("||例え.テスト^", Rules, "Suffix xn--r8jz45g.xn--zckzah."),
            ("bü/cher.example", Unsupported, ""),
            ("bü\u{ff0f}cher.example", Malformed, ""),
            ("bücher..example", Malformed, ""),
            (&long, Malformed, ""),
            ("ads*.example", Unsupported, ""),
            ("||ads.example^", Rules, "Suffix ads.example."),
            ("||ads.example", Rules, "Suffix ads.example."),
            ("||*.ads.example^", Rules, "Below ads.example."),
            ("||ads.example^$important", Rules, "!Suffix ads.example."),
            (
                "@@||ads.example^$important,document",
                Rules,
                "!@@Suffix ads.example.",
            ),
            ("|ads.example^", Rules, "Exact ads.example."),
            ("@@||good.ads.example^", Rules, "@@Suffix good.ads.example."),
            ("@@|good.ads.example^|", Rules, "@@Exact good.ads.example."),
            ("||ads.example^$dnstype=A", Unsupported, ""),
            ("||ads.example/path^", Unsupported, ""),
            ("/ads[0-9]+/", Unsupported, ""),
            ("example.org##.banner", Unsupported, ""),
            ("$TTL 2h", Nothing, ""),
            ("@ SOA ns.example. admin.example. 1 2 3 4 5", Nothing, ""),
            ("bad.example CNAME .", Rules, "Exact bad.example."),
            ("bad.example 3600 IN CNAME .", Rules, "Exact bad.example."),
            ("bad.example 1h IN CNAME .", Rules, "Exact bad.example."),
            ("bad.example CNAME", Malformed, ""),
            ("*.bad.example CNAME *.", Rules, "nodata Below bad.example."),
            (
                "ok.bad.example IN CNAME rpz-passthru.",
                Rules,
                "@@Exact ok.bad.example.",
            ),
            ("drop.example CNAME rpz-drop.", Rules, "Exact drop.example."),
            (
                "wall.example CNAME garden.example.",
                Refused("local data of RPZ"),
                "",
            ),
            (
                "local.example A 192.0.2.1",
                Refused("local data of RPZ"),
                "",
            ),
            (
                "local.example HTTPS 1 . alpn=h2",
                Refused("local data of RPZ"),
                "",
            ),
            ("local.example 60 IN A", Malformed, ""),
            (
                "slow.example CNAME rpz-tcp-only.",
                Refused("TCP-only of RPZ"),
                "",
            ),
            ("24.0.2.0.192.rpz-ip CNAME .", Unsupported, ""),
            ("some words of text", Malformed, ""),
            ("$ORIGIN rpz.zone.", Nothing, ""),
            ("bad.example.rpz.zone. CNAME .", Rules, "Exact bad.example."),
            ("bad.example CNAME .", Rules, "Exact bad.example."),
        ] {
            assert_eq!(read(&mut reader, line), (found, rules.to_owned()), "{line}");
        }
        let mut exact = Reader::new(PlainScope::Exact);
        assert_eq!(read(&mut exact, "ads.example").1, "Exact ads.example.");
        let endless = "a".repeat(LIST_LINE_BYTES_MAX + 1);
        assert_eq!(read(&mut exact, &endless).0, Malformed);
        assert_eq!(exact.line(b"\xff\xfe", |_| ()), Malformed);
    }
}
