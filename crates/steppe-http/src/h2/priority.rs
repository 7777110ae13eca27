//! The urgency of a response: the `priority` field. Spec: RFC 9218 §4.

/// The priority of a response, by the client's and the server's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Priority {
    /// 0 goes first, 7 last.
    pub(super) urgency: u8,
    /// True when a part is of use, so that the stream shares with its equals. Otherwise it is sent
    /// whole
    /// before them.
    pub(super) is_incremental: bool,
}

impl Priority {
    /// The priority without a field: streams share (RFC 9218 §10 leaves it to the server).
    pub(super) const SHARED: Self = Self {
        urgency: 3,
        is_incremental: true,
    };

    /// The priority in the lines of the client's field.
    pub(super) fn of_request<'a>(lines: impl Iterator<Item = &'a [u8]>) -> Self {
        let mut lines = lines.peekable();
        if lines.peek().is_none() {
            return Self::SHARED;
        }
        let unsaid = Self {
            is_incremental: false,
            ..Self::SHARED
        };
        unsaid.with(lines)
    }

    /// Overrides the priority by the server's lines (RFC 9218 §8).
    pub(super) fn with<'a>(mut self, lines: impl Iterator<Item = &'a [u8]>) -> Self {
        for member in lines.flat_map(members) {
            // Parameters of a member are none of ours.
            let member = member
                .split(|&byte| byte == b';')
                .next()
                .unwrap_or_default();
            match member.trim_ascii() {
                [b'u', b'=', digit @ b'0'..=b'7'] => self.urgency = digit - b'0',
                b"i" | b"i=?1" => self.is_incremental = true,
                b"i=?0" => self.is_incremental = false,
                // What is unknown, or of another type, is as if it were not there.
                _ => {}
            }
        }
        self
    }
}

/// Members of a dictionary (RFC 9651 §3.2): what is between commas that no string holds.
fn members(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    line.split(move |&byte| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match byte {
            b'\\' if is_quoted && !was_escaped => is_escaped = true,
            b'"' if !was_escaped => is_quoted = !is_quoted,
            b',' => return !is_quoted,
            _ => {}
        }
        false
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(line: &str) -> (u8, bool) {
        let read = Priority::of_request([line.as_bytes()].into_iter());
        (read.urgency, read.is_incremental)
    }

    #[test]
    fn members_are_read_and_others_left() {
        assert_eq!(request("u=5, i"), (5, true));
        assert_eq!(request("i=?1;x=1 ,u=0;y"), (0, true));
        assert_eq!(request("u=1"), (1, false));
        assert_eq!(request("u=1, u=2, i, i=?0"), (2, false), "the last counts");
        for odd in [
            "",
            "u=8",
            "u=-1",
            "u=1.5",
            "u",
            "i=1",
            "U=1",
            "u=11",
            "foo=\"u=1, u=0, \\\", i\"",
        ] {
            assert_eq!(request(odd), (3, false), "{odd}");
        }
        let nothing = Priority::of_request(std::iter::empty());
        assert_eq!(nothing, Priority::SHARED);
    }

    #[test]
    fn a_server_changes_what_it_names() {
        let said = Priority::of_request([&b"u=5, i"[..]].into_iter());
        let changed = said.with([&b"u=1"[..]].into_iter());
        assert_eq!((changed.urgency, changed.is_incremental), (1, true));
        assert_eq!(said.with(std::iter::empty()), said);
    }
}
