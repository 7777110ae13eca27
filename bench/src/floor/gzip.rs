//! Compression in the minimal proxy: libdeflate, and nothing around it.

use std::cell::RefCell;
use std::io::{self, ErrorKind, Write};

use libdeflater::{CompressionLvl, Compressor};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{CONTENT_LENGTH, EMPTY_LINE, Message};

/// The level, for requests below `/gzip1/` to `/gzip9/`.
pub(super) fn level(request: &[u8]) -> Option<u8> {
    let rest = request.strip_prefix(b"GET /gzip")?;
    let digit = *rest.first().filter(|_| rest.get(1) == Some(&b'/'))?;
    (b'1'..=b'9').contains(&digit).then(|| digit - b'0')
}

/// Sends the response that begins with `response`, `begun` of which came, compressed at `level`.
#[expect(clippy::too_many_arguments, reason = "older than the limit")]
pub(super) async fn send(
    from: &mut TcpStream,
    to: &mut TcpStream,
    response: &Message,
    begun: &[u8],
    level: u8,
) -> io::Result<()> {
    let (head, content) = begun.split_at(response.head_bytes);
    let message = match response.remaining {
        0 => compressed(head, content, level)?,
        remaining => {
            let came = content.len();
            let mut whole = vec![0; came + remaining];
            whole[..came].copy_from_slice(content);
            from.read_exact(&mut whole[came..]).await?;
            compressed(head, &whole, level)?
        }
    };
    to.write_all(&message).await
}

/// The whole message.
fn compressed(head: &[u8], content: &[u8], level: u8) -> io::Result<Vec<u8>> {
    thread_local! {
        /// By level.
        static COMPRESSORS: RefCell<[Option<Compressor>; 10]> = const { RefCell::new([const { None }; 10]) };
    }
    COMPRESSORS.with_borrow_mut(|compressors| {
        let compressor = compressors[usize::from(level)].get_or_insert_with(|| {
            let level = CompressionLvl::new(level.into());
            Compressor::new(level.expect("libdeflate has it"))
        });
        let mut gzip = vec![0; compressor.gzip_compress_bound(content.len())];
        let bytes = compressor.gzip_compress(content, &mut gzip);
        let bytes = bytes.map_err(|_| ErrorKind::InvalidData)?;
        let mut message = Vec::with_capacity(head.len() + 64 + bytes);
        for line in head.split_inclusive(|&byte| byte == b'\n') {
            let name = line.get(..CONTENT_LENGTH.len()).unwrap_or_default();
            if line != EMPTY_LINE && !name.eq_ignore_ascii_case(CONTENT_LENGTH) {
                message.extend_from_slice(line);
            }
        }
        write!(
            message,
            "Content-Encoding: gzip\r\nContent-Length: {bytes}\r\n\r\n"
        )?;
        message.extend_from_slice(&gzip[..bytes]);
        Ok(message)
    })
}

#[cfg(test)]
mod tests {
    use libdeflater::Decompressor;

    use super::*;

    #[test]
    fn a_request_names_its_level() {
        assert_eq!(level(b"GET /gzip6/a.json HTTP/1.1\r\n"), Some(6));
        for without in [
            "GET /plain/a.json",
            "GET /gzip0/a",
            "GET /gzip12/a",
            "GET /gzip",
        ] {
            assert_eq!(level(without.as_bytes()), None, "{without}");
        }
    }

    #[test]
    fn a_message_has_its_new_length_and_its_content() {
        let head = b"HTTP/1.1 200 OK\r\ncontent-length: 3000\r\nX-A: b\r\n\r\n";
        let content = b"abc".repeat(1000);
        let message = compressed(head, &content, 1).expect("there is memory");
        let end = message.windows(4).position(|window| window == b"\r\n\r\n");
        let (head, gzip) = message.split_at(end.expect("a head") + 4);
        let expected = format!(
            "HTTP/1.1 200 OK\r\nX-A: b\r\nContent-Encoding: gzip\r\nContent-Length: {}\r\n\r\n",
            gzip.len()
        );
        assert_eq!(head, expected.as_bytes());
        let mut read = vec![0; content.len()];
        let decompressed = Decompressor::new().gzip_decompress(gzip, &mut read);
        assert_eq!(decompressed, Ok(content.len()));
        assert!(read == content);
    }
}
