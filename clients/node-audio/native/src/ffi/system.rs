//! Lists of devices and programs, and whether they have changed.

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

/// Asks for devices beside the event loop: a sound server may take its time.
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

/// The devices that there are, or why they can't be told.
#[napi]
pub fn devices() -> AsyncTask<DevicesTask> {
    AsyncTask::new(DevicesTask)
}

/// As [`DevicesTask`], of programs.
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

/// The programs that play sound, or why they can't be told.
#[napi]
pub fn processes() -> AsyncTask<ProgramsTask> {
    AsyncTask::new(ProgramsTask)
}

/// Calls back when devices came or went, or the defaults are others. It does not keep the event loop
/// alive.
#[napi]
pub struct Watcher {
    /// The thread ends before the doorbell goes.
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

    /// Ends it.
    #[napi]
    pub fn close(&self, env: Env) {
        self.watch.close(&env);
    }
}
