//! Cells that one thread writes.

use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::Arc;

/// Cells that one thread writes: it may not leave its worker's.
#[derive(Debug)]
pub(super) struct Handle<T>(pub(super) Arc<T>, PhantomData<Rc<()>>);

pub(super) fn handle<T>(cells: &Arc<T>) -> Handle<T> {
    Handle(Arc::clone(cells), PhantomData)
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        handle(&self.0)
    }
}
