//! Values that have to be dropped before their environment ends.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use napi::{CleanupEnvHook, Env};

/// A value that the object and the cleanup hook share; either may drop it.
type Shared<T> = Rc<RefCell<Option<T>>>;

/// A value that is dropped when it is closed or collected, or its environment ends: whatever is
/// first.
pub struct Guard<T: 'static> {
    value: Shared<T>,
    hook: Cell<Option<CleanupEnvHook<Shared<T>>>>,
}

impl<T: 'static> Guard<T> {
    /// Guards a value.
    pub fn new(env: &Env, value: T) -> napi::Result<Self> {
        let value = Rc::new(RefCell::new(Some(value)));
        let hook = env.add_env_cleanup_hook(value.clone(), |value| drop(value.take()))?;
        let hook = Cell::new(Some(hook));
        Ok(Self { value, hook })
    }

    /// The result of `act` on the value. `None`: it was dropped.
    pub fn with<R>(&self, act: impl FnOnce(&mut T) -> R) -> Option<R> {
        self.value.borrow_mut().as_mut().map(act)
    }

    /// Drops the value.
    pub fn close(&self, env: &Env) {
        drop(self.value.take());
        if let Some(hook) = self.hook.take() {
            // This fails only once the environment has run the hook.
            let _ = env.remove_env_cleanup_hook(hook);
        }
    }
}

impl<T: 'static> Drop for Guard<T> {
    fn drop(&mut self) {
        // The hook, which shares the value, finds nothing.
        drop(self.value.take());
    }
}
