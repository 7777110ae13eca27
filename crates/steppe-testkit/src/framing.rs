//! Heads and bodies of HTTP/1.1, read as leniently as a test needs.
//!
//! This parser shares nothing with the gateway's: a mistake made in both would
//! hide. Only framing is judged, and any field value is accepted. RFC 9112.

/// The start line and fields of a message.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Head {
    /// The start line, without its line end.
    pub start: String,
    /// Field lines in order, names as they were sent.
    pub fields: Vec<(String, String)>,
}

impl Head {
    /// Parses a head that ends with an empty line. Bytes outside UTF-8 are replaced.
    pub fn parse(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let mut lines = text.split("\r\n");
        let start = lines.next().unwrap_or_default().to_owned();
        let fields = lines
            .filter(|line| !line.is_empty())
            .map(split_field)
            .collect();
        Self { start, fields }
    }

    /// Values of every field line with this name, in order.
    pub fn all(&self, name: &str) -> Vec<&str> {
        let same = |(key, _): &&(String, String)| key.eq_ignore_ascii_case(name);
        self.fields
            .iter()
            .filter(same)
            .map(|(_, value)| value.as_str())
            .collect()
    }

    /// The only value of a field, or none.
    ///
    /// # Panics
    /// When there are several.
    pub fn field(&self, name: &str) -> Option<&str> {
        let values = self.all(name);
        assert!(values.len() <= 1, "several {name} fields: {self:?}");
        values.first().copied()
    }

    /// The status code of a response, 0 where the start line has none.
    pub fn status(&self) -> u16 {
        self.start
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .unwrap_or(0)
    }

    /// The method of a request.
    pub fn method(&self) -> &str {
        self.start.split(' ').next().unwrap_or_default()
    }

    /// The target of a request.
    pub fn target(&self) -> &str {
        self.start.split(' ').nth(1).unwrap_or_default()
    }

    /// The framing of the content of a request with this head.
    pub fn request_framing(&self) -> BodyFraming {
        self.coded()
            .or_else(|| self.length())
            .unwrap_or(BodyFraming::Length(0))
    }

    /// The framing of the content of a response with this head, to a request with `method`.
    pub fn response_framing(&self, method: &str) -> BodyFraming {
        let status = self.status();
        let bodiless = method == "HEAD" || status < 200 || status == 204 || status == 304;
        if bodiless || (method == "CONNECT" && status < 300) {
            return BodyFraming::Length(0);
        }
        self.coded()
            .or_else(|| self.length())
            .unwrap_or(BodyFraming::Close)
    }

    fn coded(&self) -> Option<BodyFraming> {
        let codings = self.all("transfer-encoding").join(",").to_ascii_lowercase();
        codings.contains("chunked").then_some(BodyFraming::Chunked)
    }

    fn length(&self) -> Option<BodyFraming> {
        let first = self.all("content-length").first().copied()?;
        first.trim().parse().ok().map(BodyFraming::Length)
    }
}

/// The way to find the end of a body (RFC 9112 §6.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BodyFraming {
    /// So many bytes.
    Length(u64),
    /// Chunks, then trailers.
    Chunked,
    /// Everything until the connection closes.
    Close,
}

/// An incremental decoder of a body's framing.
#[derive(Debug)]
pub struct BodyDecoder {
    state: State,
    trailers: Vec<(String, String)>,
    line: Vec<u8>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Length(u64),
    Close,
    Size,
    Data(u64),
    DataEnd,
    Trailers,
    Done,
    Broken,
}

impl BodyDecoder {
    /// A decoder for one body.
    pub fn new(framing: BodyFraming) -> Self {
        let state = match framing {
            BodyFraming::Length(0) => State::Done,
            BodyFraming::Length(length) => State::Length(length),
            BodyFraming::Chunked => State::Size,
            BodyFraming::Close => State::Close,
        };
        Self {
            state,
            trailers: Vec::new(),
            line: Vec::new(),
        }
    }

    /// True if the body is complete.
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// True if the body's framing is malformed.
    pub fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// True if the end of the connection ends this body.
    pub fn ends_by_close(&self) -> bool {
        self.state == State::Close
    }

    /// Trailers that followed the last chunk.
    pub fn trailers(&self) -> &[(String, String)] {
        &self.trailers
    }

    /// Consumes bytes up to the body's end, hands content to `sink`, and returns the bytes consumed.
    pub fn feed(&mut self, input: &[u8], sink: &mut impl FnMut(&[u8])) -> usize {
        let mut taken = 0;
        while taken < input.len() && self.state != State::Done && self.state != State::Broken {
            taken += self.step(&input[taken..], sink);
        }
        taken
    }

    fn step(&mut self, input: &[u8], sink: &mut impl FnMut(&[u8])) -> usize {
        match self.state {
            State::Length(left) => {
                let count = content(input, left, sink);
                let left = left - count as u64;
                self.state = if left == 0 {
                    State::Done
                } else {
                    State::Length(left)
                };
                count
            }
            State::Close => {
                sink(input);
                input.len()
            }
            State::Data(left) => {
                let count = content(input, left, sink);
                let left = left - count as u64;
                self.state = if left == 0 {
                    State::DataEnd
                } else {
                    State::Data(left)
                };
                count
            }
            State::Size | State::DataEnd | State::Trailers => self.take_line(input),
            State::Done | State::Broken => 0,
        }
    }

    fn take_line(&mut self, input: &[u8]) -> usize {
        let end = input.iter().position(|&byte| byte == b'\n');
        let count = end.map_or(input.len(), |at| at + 1);
        self.line.extend_from_slice(&input[..count]);
        if end.is_some() {
            let line = std::mem::take(&mut self.line);
            self.state = match line.strip_suffix(b"\r\n") {
                Some(line) => self.after_line(&String::from_utf8_lossy(line)),
                None => State::Broken,
            };
        }
        count
    }

    fn after_line(&mut self, line: &str) -> State {
        match self.state {
            State::DataEnd if line.is_empty() => State::Size,
            State::DataEnd => State::Broken,
            State::Size => match u64::from_str_radix(line.split(';').next().unwrap_or(""), 16) {
                Ok(0) => State::Trailers,
                Ok(size) => State::Data(size),
                Err(_) => State::Broken,
            },
            _ if line.is_empty() => State::Done,
            _ => {
                self.trailers.push(split_field(line));
                State::Trailers
            }
        }
    }
}

fn content(input: &[u8], left: u64, sink: &mut impl FnMut(&[u8])) -> usize {
    let count = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
    sink(&input[..count]);
    count
}

fn split_field(line: &str) -> (String, String) {
    let (name, value) = line.split_once(':').unwrap_or((line, ""));
    (name.to_owned(), value.trim_matches([' ', '\t']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunked_body_is_read_across_any_cut() {
        let bytes = b"4;a=b\r\nwiki\r\nA\r\n0123456789\r\n0\r\nx-sum: 7\r\n\r\nNEXT";
        for cut in 0..bytes.len() {
            let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
            let mut body = Vec::new();
            let mut sink = |part: &[u8]| body.extend_from_slice(part);
            let mut taken = decoder.feed(&bytes[..cut], &mut sink);
            if taken == cut {
                taken += decoder.feed(&bytes[cut..], &mut sink);
            }
            assert_eq!(body, b"wiki0123456789");
            assert!(decoder.is_done());
            assert_eq!(&bytes[taken..], b"NEXT");
            assert_eq!(decoder.trailers(), [("x-sum".to_owned(), "7".to_owned())]);
        }
    }

    #[test]
    fn a_chunk_that_lacks_its_line_end_is_broken() {
        let mut decoder = BodyDecoder::new(BodyFraming::Chunked);
        decoder.feed(b"2\r\nabc\r\n", &mut |_| {});
        assert!(decoder.is_broken());
    }
}
