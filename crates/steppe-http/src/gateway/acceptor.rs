//! A listener of one worker, as `steppe-net` accepts its connections.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use steppe_mem::Holding;
use steppe_net::accept::{
    self, Admission, Admitted, ConnectionService, Established, HeaderLimits, Preamble, Refused,
    SessionService, TlsPreamble,
};
use steppe_net::tls::HandshakeLimits;
use steppe_net::{PeerAddress, Transport};

use super::client::{
    Accepted, ClientContext, Counted, Counting, HTTP, close_reason, holder_of, peer_of,
};
use super::listener::{Listener, ListenerSettings};
use super::snapshot::WorkerState;
use super::tls::ClientSession;
use crate::codec::DownstreamCodec;
use crate::limits::REQUEST_READ_BYTES;
use crate::metrics::{Handshake, Side};

/// A listener, and the codec of its connections.
pub(super) struct Acceptor {
    state: Rc<WorkerState>,
    listener: Rc<Listener>,
    codec: RefCell<Arc<dyn DownstreamCodec>>,
}

/// A connection that is admitted, with all that its listener asked of it then.
pub(super) struct Session {
    counted: Counted,
    codec: Arc<dyn DownstreamCodec>,
}

impl Acceptor {
    pub(super) fn new(
        state: &Rc<WorkerState>,
        listener: Listener,
        codec: Arc<dyn DownstreamCodec>,
    ) -> Self {
        Self {
            state: Rc::clone(state),
            listener: Rc::new(listener),
            codec: RefCell::new(codec),
        }
    }

    /// Connections that are accepted from now on speak `codec`; those that are open follow `settings` as well.
    pub(super) fn follow(&self, settings: ListenerSettings, codec: Arc<dyn DownstreamCodec>) {
        self.listener.set_settings(settings);
        *self.codec.borrow_mut() = codec;
    }
}

impl AsMut<Admitted> for Session {
    fn as_mut(&mut self) -> &mut Admitted {
        &mut self.counted.admitted
    }
}

impl SessionService for Acceptor {
    fn admission(&self) -> &Admission {
        &self.listener.admission
    }
}

impl ConnectionService for Acceptor {
    type Session = Session;

    fn admit(&self, peer: PeerAddress, transport: &Transport) -> Result<Session, Refused> {
        let counting = match &self.listener.settings().tls {
            Some(_) => Counting::AfterHandshake,
            None => Counting::Now,
        };
        let counted = Counted::admit(&self.state, &self.listener, peer, counting)?;
        self.state.current().gateway.shared.buffers.fit(transport);
        Ok(Session {
            counted,
            codec: Arc::clone(&self.codec.borrow()),
        })
    }

    fn preamble(&self, session: &Session) -> Option<Preamble> {
        let settings = self.listener.settings();
        if !settings.proxy_protocol && settings.tls.is_none() {
            return None;
        }
        let timeouts = settings.timeouts;
        Some(Preamble {
            header: settings.proxy_protocol.then_some(HeaderLimits {
                timeout: timeouts.header,
                read_bytes: REQUEST_READ_BYTES,
            }),
            tls: settings.tls.as_ref().map(|tls| TlsPreamble {
                tls: Arc::clone(tls),
                handshakes: HandshakeLimits {
                    count_max: settings.handshakes,
                    age_max: timeouts.header,
                },
                timeout: timeouts.handshake,
                to_plain_http: session.codec.to_plain_http(),
            }),
            lease: settings.lease.clone(),
            no_room: session.codec.no_room(),
        })
    }

    fn trusts(&self, peer: PeerAddress) -> bool {
        peer_of(&self.state.current(), peer).is_trusted()
    }

    fn hold(&self, client: PeerAddress) -> Holding {
        let snapshot = self.state.current();
        let holder = holder_of(&snapshot, client);
        snapshot.gateway.shared.clients.open(holder, HTTP)
    }

    fn establish(&self, session: &mut Session, tls: Established) -> Result<(), Refused> {
        let snapshot = self.state.current();
        snapshot.totals.handshake(Handshake::of(&tls.agreed));
        let established = Rc::new(ClientSession::new(tls.agreed, tls.tls));
        let counted = &mut session.counted;
        counted.count(&self.listener)?;
        counted.admitted.charge(established.bytes())?;
        counted.tls = Some(established);
        Ok(())
    }

    fn serve(&self, connection: accept::Accepted<Session>) {
        let Session { counted, codec } = connection.session;
        let snapshot = self.state.current();
        let listener = Rc::clone(&self.listener);
        let client = ClientContext::new(listener, &snapshot, connection.ends, counted);
        codec.serve(Accepted {
            transport: connection.transport,
            pending: connection.pending,
            client,
            deadline: connection.deadline,
            traffic: snapshot.totals.traffic(Side::Downstream),
        });
    }

    fn refused(&self, reason: &Refused) {
        let totals = &self.state.current().totals;
        if let Refused::Handshake(error) = reason {
            totals.handshake(Handshake::failed(error));
            tracing::debug!(listener = %self.listener.address, %error, "TLS handshake failed");
        }
        if let Some(reason) = close_reason(reason) {
            totals.closed(reason);
        }
    }

    fn no_room(&self) -> Option<&'static [u8]> {
        // A client that is to speak TLS first can be told nothing.
        let is_plain = self.listener.settings().tls.is_none();
        is_plain.then(|| self.codec.borrow().no_room())
    }
}
