//! Messages built byte by byte, without the crate's own writer.

/// A record of class IN: owner, type, TTL and data.
pub struct Rr<'a>(pub &'a str, pub u16, pub u32, pub Vec<u8>);

/// The wire form of a name of plain labels.
pub fn name(text: &str) -> Vec<u8> {
    let mut wire = Vec::new();
    for label in text.split('.').filter(|label| !label.is_empty()) {
        wire.push(u8::try_from(label.len()).expect("a label"));
        wire.extend(label.as_bytes());
    }
    wire.push(0);
    wire
}

/// An uncompressed message with one question of class IN.
pub fn message(id: u16, flags: u16, question: (&str, u16), sections: [&[Rr<'_>]; 3]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let count = |index: usize| u16::try_from(sections[index].len()).expect("few records");
    for number in [id, flags, 1, count(0), count(1), count(2)] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(name(question.0));
    bytes.extend(question.1.to_be_bytes());
    bytes.extend([0, 1]);
    for Rr(owner, rtype, ttl, rdata) in sections.into_iter().flatten() {
        bytes.extend(name(owner));
        bytes.extend(rtype.to_be_bytes());
        bytes.extend([0, 1]);
        bytes.extend(ttl.to_be_bytes());
        bytes.extend(
            u16::try_from(rdata.len())
                .expect("short data")
                .to_be_bytes(),
        );
        bytes.extend(rdata);
    }
    bytes
}

/// The data of an SOA record with this MINIMUM field.
pub fn soa(minimum: u32) -> Vec<u8> {
    let mut data = [name("ns.example.org"), name("admin.example.org")].concat();
    for number in [1, 2, 3, 4, minimum] {
        data.extend(u32::to_be_bytes(number));
    }
    data
}

/// Adds an OPT record at the end of a message.
pub fn with_opt(
    mut message: Vec<u8>,
    payload: u16,
    flags: u16,
    options: &[(u16, &[u8])],
) -> Vec<u8> {
    let count = u16::from_be_bytes([message[10], message[11]]) + 1;
    message[10..12].copy_from_slice(&count.to_be_bytes());
    let mut data = Vec::new();
    for (code, content) in options {
        data.extend(code.to_be_bytes());
        data.extend(u16::try_from(content.len()).expect("short").to_be_bytes());
        data.extend(*content);
    }
    message.push(0);
    for number in [
        41,
        payload,
        0,
        flags,
        u16::try_from(data.len()).expect("short"),
    ] {
        message.extend(number.to_be_bytes());
    }
    message.extend(data);
    message
}
