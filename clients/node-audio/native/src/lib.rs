//! The native side of `@steppe/audio`: captures sound into memory that JavaScript reads in place.
//!
//! A source runs on a thread of its own ([`capture`]) and writes frames into slots of one
//! `SharedArrayBuffer` ([`ring`], laid out as [`layout`] says). JavaScript is woken once however many
//! packets there are ([`session`]), reads them where they are, and releases a slot by one atomic
//! operation. From the sound system's buffer to the slot is one copy; there is none after it.
//!
//! **Invariant:** the thread of a source neither allocates, takes a lock nor logs for a packet, nor does the
//! one that joins two sources.
//! **Invariant:** no frame is lost without being counted and told by the packet after it.
//! Non-goals: what JavaScript does with packets, and playing sound.

#![cfg_attr(
    test,
    expect(clippy::float_cmp, reason = "values that are exact in binary")
)]

pub mod layout;
pub mod limits;

pub mod device;
pub mod error;
pub mod event;
pub mod format;
pub mod frames;

pub mod clock;
pub mod convert;
pub mod gate;
pub mod level;

pub mod align;
pub mod capture;
pub mod packetizer;
pub mod ring;
pub mod session;
pub mod source;
pub mod thread;
pub mod wait;
pub mod watch;

pub mod ffi;
