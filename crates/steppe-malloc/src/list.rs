//! Lists whose links lie in their elements: to insert and to remove costs no memory.
//!
//! Invariant: an element is in at most one list of each number `L`. Code that accesses a list or
//! its elements' links holds the lock that the list's owner names.

use core::cell::Cell;

/// The links of an element in lists of one number.
pub struct Link<T: 'static> {
    previous: Cell<Option<&'static T>>,
    next: Cell<Option<&'static T>>,
}

/// An element of lists of the number `L`.
pub trait Linked<const L: usize>: Sized + 'static {
    /// The links of the element in such a list.
    fn link(&self) -> &Link<Self>;
}

/// A doubly linked list, open at both ends: the owner chooses the order.
pub struct List<T: 'static, const L: usize> {
    first: Cell<Option<&'static T>>,
    last: Cell<Option<&'static T>>,
}

impl<T: Linked<L>, const L: usize> List<T, L> {
    /// An empty list.
    pub const fn new() -> Self {
        Self {
            first: Cell::new(None),
            last: Cell::new(None),
        }
    }

    pub fn first(&self) -> Option<&'static T> {
        self.first.get()
    }

    pub fn last(&self) -> Option<&'static T> {
        self.last.get()
    }

    pub fn is_empty(&self) -> bool {
        self.first.get().is_none()
    }

    /// The element after this one.
    pub fn next(element: &T) -> Option<&'static T> {
        element.link().next.get()
    }

    pub fn push_front(&self, element: &'static T) {
        let link = element.link();
        let first = self.first.replace(Some(element));
        link.previous.set(None);
        link.next.set(first);
        match first {
            Some(first) => first.link().previous.set(Some(element)),
            None => self.last.set(Some(element)),
        }
    }

    pub fn push_back(&self, element: &'static T) {
        let link = element.link();
        let last = self.last.replace(Some(element));
        link.next.set(None);
        link.previous.set(last);
        match last {
            Some(last) => last.link().next.set(Some(element)),
            None => self.first.set(Some(element)),
        }
    }

    /// Takes an element out that is in this list.
    pub fn remove(&self, element: &'static T) {
        let link = element.link();
        let (previous, next) = (link.previous.take(), link.next.take());
        match previous {
            Some(previous) => previous.link().next.set(next),
            None => self.first.set(next),
        }
        match next {
            Some(next) => next.link().previous.set(previous),
            None => self.last.set(previous),
        }
    }

    pub fn pop_front(&self) -> Option<&'static T> {
        let first = self.first.get()?;
        self.remove(first);
        Some(first)
    }
}
