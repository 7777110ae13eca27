//! Connections that are being established, for those who would share them.
//!
//! Invariant: whoever waits is woken when the connection tells how many exchanges may share it, when it failed, and when
//! whoever establishes it leaves.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use tokio::sync::Notify;

use super::target::TargetState;

/// The connections of one pool that are being established.
#[derive(Debug, Default)]
pub(super) struct UnderWay(RefCell<Vec<Rc<Establishing>>>);

#[derive(Debug)]
struct Establishing {
    target: Arc<TargetState>,
    has_failed: Cell<bool>,
    over: Notify,
}

/// One that is being established, until it is dropped.
#[derive(Debug)]
pub(super) struct Guard {
    all: Rc<UnderWay>,
    this: Rc<Establishing>,
}

impl UnderWay {
    /// Says to others that a connection to `target` is being established.
    pub(super) fn begin(self: &Rc<Self>, target: &Arc<TargetState>) -> Guard {
        let this = Rc::new(Establishing {
            target: Arc::clone(target),
            has_failed: Cell::new(false),
            over: Notify::new(),
        });
        self.0.borrow_mut().push(Rc::clone(&this));
        let all = Rc::clone(self);
        Guard { all, this }
    }

    /// True when there is one to `target`.
    pub(super) fn has(&self, target: &Arc<TargetState>) -> bool {
        self.find(target).is_some()
    }

    fn find(&self, target: &Arc<TargetState>) -> Option<Rc<Establishing>> {
        let all = self.0.borrow();
        let mut all = all.iter();
        all.find(|each| Arc::ptr_eq(&each.target, target))
            .map(Rc::clone)
    }

    /// A stream of another connection to `target` has ended: one of those that wait may find room there.
    pub(super) fn look_again(&self, target: &Arc<TargetState>) {
        if let Some(found) = self.find(target) {
            found.over.notify_one();
        }
    }

    /// Waits for the end of one to `target`, or for [`UnderWay::look_again`]; `false` where there is none, or it failed: the
    /// next one is for the caller to establish.
    pub(super) async fn wait(&self, target: &Arc<TargetState>) -> bool {
        let Some(found) = self.find(target) else {
            return false;
        };
        found.over.notified().await;
        !found.has_failed.get()
    }
}

impl Guard {
    /// There will be no connection.
    pub(super) fn fail(&self) {
        self.this.has_failed.set(true);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let mut all = self.all.0.borrow_mut();
        all.retain(|each| !Rc::ptr_eq(each, &self.this));
        self.this.over.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;
    use crate::upstream::target::tests::target;

    #[test]
    fn whoever_waits_is_told_how_it_ended() {
        let all = Rc::new(UnderWay::default());
        let [target, other] = [Arc::new(target()), Arc::new(target())];
        let mut cx = Context::from_waker(Waker::noop());
        assert_eq!(pin!(all.wait(&target)).poll(&mut cx), Poll::Ready(false));
        for has_failed in [false, true] {
            let guard = all.begin(&target);
            assert_eq!(pin!(all.wait(&other)).poll(&mut cx), Poll::Ready(false));
            let mut waiting = pin!(all.wait(&target));
            assert_eq!(waiting.as_mut().poll(&mut cx), Poll::Pending);
            if has_failed {
                guard.fail();
            }
            drop(guard);
            assert_eq!(waiting.poll(&mut cx), Poll::Ready(!has_failed));
        }
        assert!(all.0.borrow().is_empty());
    }
}
