//! Frames of the request plane: a frame is written as it was read, but for skipped fields.

use steppe_plane::frame::{
    Direction, FrameHeader, FrameType, HEADER_BYTES, Head, Hello, Service, Services, write_services,
};

/// Checks one input; panics where a property fails.
pub fn run(bytes: &[u8]) {
    let Some((header, payload)) = bytes.split_first_chunk::<HEADER_BYTES>() else {
        return;
    };
    let read = FrameHeader::read(header);
    let mut written = read.to_bytes();
    written[6..8].copy_from_slice(&header[6..8]);
    assert_eq!(written, *header);
    if read.check().is_err() {
        return;
    }
    match read.frame_type {
        FrameType::HELLO => hello(&read, payload),
        FrameType::HEADERS => {
            head(Direction::Request, read.flags, payload);
            head(Direction::Response, read.flags, payload);
        }
        FrameType::SERVICES => services(payload),
        _ => {}
    }
}

fn hello(header: &FrameHeader, payload: &[u8]) {
    let Some(Ok(hello)) = Hello::read(header, payload) else {
        return;
    };
    let mut out = Vec::new();
    hello.write(&mut out);
    let (header, payload) = out.split_first_chunk().expect("written here");
    let header = FrameHeader::read(header);
    assert_eq!(header.len as usize, payload.len());
    assert_eq!(Hello::read(&header, payload), Some(Ok(hello)));
    if let Some(version) = hello.agree(&hello) {
        assert_eq!(version, hello.newest);
    }
}

fn head(direction: Direction, flags: u8, payload: &[u8]) {
    let Ok(head) = Head::read(direction, flags, payload) else {
        return;
    };
    assert_eq!(head.check(direction), Ok(()));
    let mut out = Vec::new();
    head.write(&mut out);
    assert!(out.len() <= payload.len());
    assert_eq!(Head::read(direction, head.flags(), &out), Ok(head));
}

fn services(payload: &[u8]) {
    let Ok(services) = Services::read(payload) else {
        return;
    };
    let list: Vec<Service<'_>> = services.iter().collect();
    let mut out = Vec::new();
    if write_services(&list, &mut out).is_ok() {
        let again = Services::read(&out).expect("written here");
        assert!(again.iter().eq(list));
    }
}
