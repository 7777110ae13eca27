//! Admission of sessions to a listener: limit, charge, share of the client, drain.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use steppe_mem::limits::HOLDER_BYTES;
use steppe_mem::{ClientAddress, Clients, Holder, Holding, Lease, Reservation};
use tokio::sync::Notify;

use super::refused::Refused;
use crate::drain::Drain;
use crate::tls::{HandshakeScheduler, Handshakes};

/// Sessions of one listener, on all workers.
#[derive(Debug, Default)]
pub struct SessionCount {
    open: AtomicUsize,
    /// Sessions of all listeners that share it.
    total: Arc<AtomicUsize>,
}

/// Most sessions of a listener, and those that it has.
#[derive(Debug, Clone)]
pub struct SessionLimit {
    /// Sessions that are open.
    pub count: Arc<SessionCount>,
    /// The most of them.
    pub max: usize,
}

/// A session that asks to be admitted.
#[derive(Debug, Clone, Copy)]
pub struct SessionRequest<'a> {
    /// `None`: the session is not counted, or not yet, see [`Admitted::count`].
    pub limit: Option<&'a SessionLimit>,
    /// Clients of the node.
    pub clients: &'a Clients,
    /// The client whose share is charged.
    pub client: ClientAddress,
    /// Name of its protocol in reports.
    pub kind: &'static str,
    /// Charged with the session.
    pub lease: &'a Lease,
    /// Memory that the session takes from its begin to its end.
    pub bytes: usize,
}

/// A session that counts and is charged until this is dropped.
#[derive(Debug)]
pub struct Admitted {
    permit: Option<SessionPermit>,
    charge: Reservation,
    holding: Holding,
    _open: OpenSession,
}

/// Admission to one listener on one worker. Clones share it.
#[derive(Debug, Clone)]
pub struct Admission {
    drain: Drain,
    handshakes: Handshakes,
    open: Rc<OpenSessions>,
}

/// Sessions that are open on one worker, of all listeners of a service.
#[derive(Debug, Default)]
pub(super) struct OpenSessions {
    count: Cell<usize>,
    all_closed: Notify,
}

/// A session among those of its listener, until it is dropped.
#[derive(Debug)]
pub struct SessionPermit(Arc<SessionCount>);

/// A session among those of its worker.
#[derive(Debug)]
struct OpenSession(Rc<OpenSessions>);

impl SessionCount {
    /// No session yet, of a listener whose sessions add to `total`.
    #[must_use]
    pub fn adding_to(total: Arc<AtomicUsize>) -> Self {
        Self {
            open: AtomicUsize::new(0),
            total,
        }
    }

    /// Sessions that are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}

impl SessionLimit {
    /// Counts a session.
    ///
    /// # Errors
    /// [`Refused::ConnectionLimit`].
    pub fn permit(&self) -> Result<SessionPermit, Refused> {
        let before = self.count.open.fetch_add(1, Ordering::AcqRel);
        self.count.total.fetch_add(1, Ordering::Relaxed);
        // Counted for a moment even when it is one too many: the permit takes it back.
        let permit = SessionPermit(Arc::clone(&self.count));
        match before < self.max {
            true => Ok(permit),
            false => Err(Refused::ConnectionLimit),
        }
    }
}

impl Admission {
    pub(super) fn new(scheduler: &Rc<HandshakeScheduler>, open: &Rc<OpenSessions>) -> Self {
        Self {
            drain: Drain::default(),
            handshakes: Handshakes::new(Rc::clone(scheduler)),
            open: Rc::clone(open),
        }
    }

    /// The listener's drain. It begins when the listener is retired, at the latest when the node drains.
    #[must_use]
    pub fn drain(&self) -> &Drain {
        &self.drain
    }

    pub(super) fn handshakes(&self) -> &Handshakes {
        &self.handshakes
    }

    pub(super) fn open(&self) -> &OpenSessions {
        &self.open
    }

    /// Admits a session, unless its listener has as many as it may or there is no memory for it.
    ///
    /// # Errors
    /// [`Refused::ConnectionLimit`] or [`Refused::OverBudget`].
    pub fn admit(&self, request: SessionRequest<'_>) -> Result<Admitted, Refused> {
        let permit = request.limit.map(SessionLimit::permit).transpose()?;
        let holding = request.clients.open(request.client, request.kind);
        let charge = || request.lease.try_admit(request.bytes + HOLDER_BYTES);
        let charge = holding.holder().within(charge);
        Ok(Admitted {
            permit,
            charge: charge.map_err(|_| Refused::OverBudget)?,
            holding,
            _open: OpenSession::new(&self.open),
        })
    }
}

impl Admitted {
    /// Counts the session of a listener that counts sessions only once they are established.
    ///
    /// # Errors
    /// [`Refused::ConnectionLimit`].
    pub fn count(&mut self, limit: &SessionLimit) -> Result<(), Refused> {
        self.permit = Some(limit.permit()?);
        Ok(())
    }

    /// Charges `bytes` more for as long as the session is open.
    ///
    /// # Errors
    /// [`Refused::OverBudget`].
    pub fn charge(&mut self, bytes: usize) -> Result<(), Refused> {
        let charged = self.charge.try_grow(bytes);
        charged.map_err(|_| Refused::OverBudget)
    }

    /// The session among those of all clients.
    #[must_use]
    pub fn holding(&self) -> &Holding {
        &self.holding
    }

    /// Scope of the tasks that serve the session.
    #[must_use]
    pub fn holder(&self) -> &Arc<Holder> {
        self.holding.holder()
    }

    /// Has the session count for another client, from now on.
    pub fn hold_for(&mut self, holding: Holding) {
        self.holding = holding;
    }
}

impl OpenSessions {
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    /// Waits until none is open.
    pub(super) async fn all_closed(&self) {
        while self.count() > 0 {
            self.all_closed.notified().await;
        }
    }
}

impl OpenSession {
    fn new(open: &Rc<OpenSessions>) -> Self {
        open.count.set(open.count() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        self.0.count.set(self.0.count() - 1);
        if self.0.count() == 0 {
            self.0.all_closed.notify_one();
        }
    }
}

impl Drop for SessionPermit {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::AcqRel);
        self.0.total.fetch_sub(1, Ordering::Relaxed);
    }
}
