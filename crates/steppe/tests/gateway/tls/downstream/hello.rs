//! A ClientHello taken apart, to be put together in other ways (RFC 8446 §4.1.2).

use steppe_testkit::TlsClient;

use super::NAME;

/// A ClientHello.
pub(super) struct Hello {
    pub(super) version: [u8; 2],
    random: [u8; 32],
    session_id: Vec<u8>,
    suites: Vec<[u8; 2]>,
    /// The extensions, by number, in the order of the message.
    extensions: Vec<(u16, Vec<u8>)>,
}

/// A record of the handshake.
pub(super) fn record(fragment: &[u8]) -> Vec<u8> {
    [&[22, 3, 1], &two(fragment.len())[..], fragment].concat()
}

fn two(length: usize) -> [u8; 2] {
    u16::try_from(length).expect("16 bits").to_be_bytes()
}

/// Takes `count` bytes off the front.
fn take<'a>(bytes: &mut &'a [u8], count: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(count);
    *bytes = rest;
    taken
}

/// Takes a vector that begins with its length in `width` bytes.
fn take_vector<'a>(bytes: &mut &'a [u8], width: usize) -> &'a [u8] {
    let length = take(bytes, width);
    let length = length
        .iter()
        .fold(0, |sum, &byte| sum << 8 | usize::from(byte));
    take(bytes, length)
}

impl Hello {
    const PADDING: u16 = 21;
    const PRE_SHARED_KEY: u16 = 41;
    const SUPPORTED_GROUPS: u16 = 10;
    pub(super) const SUPPORTED_VERSIONS: u16 = 43;

    /// The ClientHello of `client`.
    pub(super) fn of(client: &TlsClient) -> Self {
        let flight = client.hello(NAME);
        // The headers of the record and of the message.
        let mut rest = &flight[5 + 4..];
        let version = take(&mut rest, 2).try_into().expect("two bytes");
        let random = take(&mut rest, 32).try_into().expect("32 bytes");
        let session_id = take_vector(&mut rest, 1).to_vec();
        let suites = take_vector(&mut rest, 2).chunks(2);
        let suites = suites.map(|suite| [suite[0], suite[1]]).collect();
        assert_eq!(take_vector(&mut rest, 1), [0], "no compression");
        let mut listed = take_vector(&mut rest, 2);
        let mut extensions = Vec::new();
        while !listed.is_empty() {
            let kind = take(&mut listed, 2).try_into().expect("two bytes");
            let content = take_vector(&mut listed, 2).to_vec();
            extensions.push((u16::from_be_bytes(kind), content));
        }
        Self {
            version,
            random,
            session_id,
            suites,
            extensions,
        }
    }

    pub(super) fn remove(&mut self, kind: u16) {
        self.extensions.retain(|(other, _)| *other != kind);
    }

    fn extension(&mut self, kind: u16) -> &mut Vec<u8> {
        let found = self.extensions.iter_mut().find(|(other, _)| *other == kind);
        &mut found.expect("it is offered").1
    }

    /// Adds reserved values, which servers must ignore (RFC 8701).
    pub(super) fn grease(&mut self) {
        self.suites.insert(0, [0x0a, 0x0a]);
        let groups = self.extension(Self::SUPPORTED_GROUPS);
        groups.splice(2..2, [0x1a, 0x1a]);
        let length = two(groups.len() - 2);
        groups[..2].copy_from_slice(&length);
        let versions = self.extension(Self::SUPPORTED_VERSIONS);
        versions.splice(1..1, [0x2a, 0x2a]);
        versions[0] += 2;
        self.extensions.insert(0, (0x3a3a, Vec::new()));
        self.extensions.insert(1, (0x4a4a, vec![0]));
    }

    /// Changes the ticket in the message, to another one for each number (RFC 8446 §4.2.11).
    pub(super) fn forge_ticket(&mut self, number: u32) {
        let (kind, content) = self.extensions.last_mut().expect("it has some");
        assert_eq!(*kind, Self::PRE_SHARED_KEY, "the client has a ticket");
        // Behind two lengths and the name of the sealing secret, which stays.
        let sealed = &mut content[2 + 2 + 8..];
        let bytes = number.to_be_bytes();
        sealed
            .iter_mut()
            .zip(bytes)
            .for_each(|(byte, with)| *byte = with);
    }

    /// Pads the message to this size, with its header (RFC 7685).
    pub(super) fn pad_to(&mut self, bytes: usize) {
        self.remove(Self::PADDING);
        let padding = bytes - self.encode().len() - 4;
        // A pre-shared key comes last (RFC 8446 §4.2.11), and there is none yet.
        self.extensions.push((Self::PADDING, vec![0; padding]));
        assert_eq!(self.encode().len(), bytes);
    }

    /// The message, with its header.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut body = [&self.version[..], &self.random].concat();
        body.push(u8::try_from(self.session_id.len()).expect("at most 32"));
        body.extend(&self.session_id);
        body.extend(two(2 * self.suites.len()));
        body.extend(self.suites.iter().flatten());
        body.extend([1, 0]);
        let extensions: Vec<u8> = self
            .extensions
            .iter()
            .flat_map(|(kind, content)| {
                [&kind.to_be_bytes()[..], &two(content.len()), content].concat()
            })
            .collect();
        body.extend(two(extensions.len()));
        body.extend(extensions);
        let length = u32::try_from(body.len()).expect("small").to_be_bytes();
        [&[1], &length[1..], &body].concat()
    }
}
