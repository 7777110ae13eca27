//! A peer of version 2: it sends frames, flags and fields that version 1 does not know.

use steppe_plane::frame::{FrameHeader, FrameType, HEADER_BYTES};

/// Rewrites frames of version 1 as a newer peer might send them to a peer of version 1.
#[derive(Debug, Default)]
pub struct Newer {
    unread: Vec<u8>,
    frames: usize,
}

impl Newer {
    /// Rewrites `bytes`; an incomplete frame is kept until its rest is there.
    pub fn rewrite(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.unread.extend_from_slice(bytes);
        let mut out = Vec::new();
        while let Some(header) = self.unread.first_chunk::<HEADER_BYTES>() {
            let header = FrameHeader::read(header);
            let end = HEADER_BYTES + header.len as usize;
            if self.unread.len() < end {
                break;
            }
            let frame: Vec<u8> = self.unread.drain(..end).collect();
            self.frame(header, &frame[HEADER_BYTES..], &mut out);
        }
        out
    }

    fn frame(&mut self, mut header: FrameHeader, payload: &[u8], out: &mut Vec<u8>) {
        let mut payload = payload.to_vec();
        match header.frame_type {
            FrameType::HELLO => {
                // Versions 1 to 2.
                header.code = 0x0201;
                payload.extend(b"\x90\x00\x05newer");
            }
            FrameType::HEADERS => payload.extend(b"\xfe\x00\x00"),
            FrameType::CREDIT | FrameType::PING => payload.extend(b"more"),
            _ => {}
        }
        header.flags |= 0xf0;
        header.len = u32::try_from(payload.len()).expect("short");
        let mut bytes = header.to_bytes();
        bytes[6..8].fill(0xff);
        out.extend(bytes);
        out.extend(payload);
        self.frames += 1;
        let mut unknown = FrameHeader::new(FrameType(0x80 | self.frames.to_le_bytes()[0]), 7);
        unknown.flags = 0xff;
        unknown.len = u32::try_from(self.frames * 37 % 3000).expect("short");
        out.extend(unknown.to_bytes());
        out.extend(vec![0xee; unknown.len as usize]);
    }
}
