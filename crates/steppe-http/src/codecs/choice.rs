//! One listener, several protocols: which of them a connection speaks.

use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use steppe_net::{ReadRoom, clock};

use crate::codec::DownstreamCodec;
use crate::gateway::Accepted;
use crate::limits::REQUEST_READ_BYTES;
use crate::metrics::CloseReason;

/// Speaks what a client agreed on below, or begins with.
///
/// Over TLS that is what was agreed by ALPN (RFC 7301). Without, it is the protocol whose
/// preface comes (RFC 9113 §3.3), and where none does the one that has no preface.
#[derive(Debug)]
pub(super) struct Choice {
    codecs: Vec<Arc<dyn DownstreamCodec>>,
}

impl Choice {
    /// Of `codecs`, at least one.
    pub(super) fn new(codecs: Vec<Arc<dyn DownstreamCodec>>) -> Self {
        Self { codecs }
    }

    /// The codec of a client that gives no sign of its protocol: the first one without a preface.
    fn default_codec(&self) -> &Arc<dyn DownstreamCodec> {
        let mut codecs = self.codecs.iter();
        codecs
            .find(|codec| codec.preface().is_empty())
            .unwrap_or(&self.codecs[0])
    }

    fn agreed(&self, alpn: Option<&[u8]>) -> &Arc<dyn DownstreamCodec> {
        let mut codecs = self.codecs.iter();
        codecs
            .find(|codec| Some(codec.alpn()) == alpn)
            .unwrap_or_else(|| self.default_codec())
    }

    /// The codec of a client that began with `bytes`; `None` where that is not told yet.
    fn recognized(&self, bytes: &[u8]) -> Option<&Arc<dyn DownstreamCodec>> {
        let with_preface = || {
            self.codecs
                .iter()
                .filter(|codec| !codec.preface().is_empty())
        };
        if let Some(codec) = with_preface().find(|codec| bytes.starts_with(codec.preface())) {
            return Some(codec);
        }
        let is_undecided = with_preface().any(|codec| codec.preface().starts_with(bytes));
        (!is_undecided).then(|| self.default_codec())
    }
}

impl DownstreamCodec for Choice {
    fn serve(&self, connection: Accepted) {
        if connection.client.is_secure() {
            let codec = Arc::clone(self.agreed(connection.client.alpn()));
            return codec.serve(connection);
        }
        let choice = Self::new(self.codecs.clone());
        let client = Rc::clone(&connection.client);
        client.spawn(choice.recognize(connection));
    }

    fn no_room(&self) -> &'static [u8] {
        self.default_codec().no_room()
    }

    fn to_plain_http(&self) -> &'static [u8] {
        self.default_codec().to_plain_http()
    }
}

impl Choice {
    #[expect(
        clippy::disallowed_methods,
        reason = "deadlines of the first bytes begin with the connection and with the first"
    )]
    async fn recognize(self, mut connection: Accepted) {
        let settings = connection.client.settings();
        connection
            .deadline
            .set(clock::now(), settings.timeouts.idle);
        loop {
            if let Some(pending) = &connection.pending
                && let Some(codec) = self.recognized(pending.filled())
            {
                return codec.serve(connection);
            }
            let has_begun = connection.pending.is_some();
            let filled = poll_fn(|cx| {
                if let Poll::Ready(filled) = poll_fill(cx, &mut connection) {
                    return Poll::Ready(Some(filled));
                }
                // Whoever has sent nothing ends as its codec has it.
                if settings.drain.is_draining() && !has_begun {
                    return Poll::Ready(None);
                }
                ready!(connection.deadline.poll_passed(cx));
                Poll::Ready(Some(Err(io::ErrorKind::TimedOut.into())))
            });
            match filled.await {
                None => return self.default_codec().serve(connection),
                Some(Ok(1..)) if !has_begun => {
                    let header = settings.timeouts.header;
                    connection.deadline.set(clock::now(), header);
                }
                Some(Ok(1..)) => {}
                Some(Ok(0)) => return,
                Some(Err(error)) => {
                    if error.kind() == io::ErrorKind::TimedOut {
                        let reason = if has_begun {
                            CloseReason::HeaderTimeout
                        } else {
                            CloseReason::IdleTimeout
                        };
                        connection.client.count_closed(reason);
                    }
                    return;
                }
            }
        }
    }
}

/// Reads behind what is pending.
fn poll_fill(cx: &mut Context<'_>, connection: &mut Accepted) -> Poll<io::Result<usize>> {
    let room = ReadRoom {
        lease: &connection.client.settings().lease,
        first_bytes: REQUEST_READ_BYTES,
        bytes_max: REQUEST_READ_BYTES,
    };
    let (transport, pending) = (&mut connection.transport, &mut connection.pending);
    let count = ready!(transport.poll_fill(cx, room, pending))?;
    connection.traffic.read(count);
    Poll::Ready(Ok(count))
}
