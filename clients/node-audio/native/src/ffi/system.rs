//! Lists of devices and programs, and notice of their changes.

use napi::bindgen_prelude::{AsyncTask, Function};
use napi::{Env, Task};
use napi_derive::napi;

use super::bell::Bell;
use super::guard::Guard;
use super::report::{DevicesReport, ProgramsReport};
use super::{Fault, refused};
use crate::device::{Device, Program};
use crate::error::Error;
use crate::source;
use crate::watch::Watch;

/// Lists devices on a thread of the pool: a sound server may take its time.
pub struct DevicesTask;

impl Task for DevicesTask {
    type Output = Result<Vec<Device>, Error>;
    type JsValue = DevicesReport;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        Ok(source::devices())
    }

    fn resolve(&mut self, _: Env, found: Self::Output) -> napi::Result<Self::JsValue> {
        Ok(found.into())
    }
}

/// The devices, or the error that prevents the list.
#[napi]
pub fn devices() -> AsyncTask<DevicesTask> {
    AsyncTask::new(DevicesTask)
}

/// Lists programs, like [`DevicesTask`].
pub struct ProgramsTask;

impl Task for ProgramsTask {
    type Output = Result<Vec<Program>, Error>;
    type JsValue = ProgramsReport;

    fn compute(&mut self) -> napi::Result<Self::Output> {
        Ok(source::programs())
    }

    fn resolve(&mut self, _: Env, found: Self::Output) -> napi::Result<Self::JsValue> {
        Ok(found.into())
    }
}

/// The programs that play sound, or the error that prevents the list.
#[napi]
pub fn processes() -> AsyncTask<ProgramsTask> {
    AsyncTask::new(ProgramsTask)
}

/// Calls back when devices come or go, or a default changes. Does not keep the event loop alive.
#[napi]
pub struct Watcher {
    /// The thread, which is dropped before the doorbell.
    watch: Guard<(Watch, Bell)>,
}

#[napi]
impl Watcher {
    /// Watches until it is closed.
    #[napi(constructor)]
    pub fn new(env: Env, on_change: Function<(), ()>) -> Result<Self, Fault> {
        let (kept, bell) = Bell::pair(&env, &on_change).map_err(|error| refused(&error))?;
        kept.unreference(&env);
        let watch = Watch::start(Box::new(bell)).map_err(|error| super::thrown(&error))?;
        let watch = Guard::new(&env, (watch, kept)).map_err(|error| refused(&error))?;
        Ok(Self { watch })
    }

    /// Ends the watcher.
    #[napi]
    pub fn close(&self, env: Env) {
        self.watch.close(&env);
    }
}
