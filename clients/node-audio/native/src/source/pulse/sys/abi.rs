//! Functions and structures of libpulse's headers.

use std::ffi::{c_char, c_int, c_long, c_void};

use crate::source::sys::library;

/// `PA_INVALID_INDEX`.
pub const INVALID_INDEX: u32 = u32::MAX;

/// `pa_context_state_t`.
pub mod context_state {
    pub const READY: i32 = 4;
    pub const FAILED: i32 = 5;
    pub const TERMINATED: i32 = 6;
}

/// `pa_stream_state_t`.
pub mod stream_state {
    pub const CREATING: i32 = 1;
    pub const READY: i32 = 2;
}

/// `pa_operation_state_t`.
pub const OPERATION_RUNNING: i32 = 0;
/// `PA_CONTEXT_NOAUTOSPAWN`: a server is not started from inside of Node.js.
pub const CONTEXT_NO_AUTOSPAWN: u32 = 1;
/// `PA_SUBSCRIPTION_MASK_{SINK,SOURCE,SINK_INPUT,SERVER}`.
pub const SUBSCRIPTION_MASK: u32 = 0x0001 | 0x0002 | 0x0004 | 0x0080;
/// `PA_SUBSCRIPTION_EVENT_FACILITY_MASK`.
pub const FACILITY_MASK: u32 = 0x000f;
/// `PA_SUBSCRIPTION_EVENT_TYPE_MASK`.
pub const TYPE_MASK: u32 = 0x0030;

/// `pa_stream_flags_t`.
pub mod stream_flag {
    pub const DONT_MOVE: u32 = 0x0200;
    pub const ADJUST_LATENCY: u32 = 0x2000;
}

/// `pa_error_code_t`.
pub mod error {
    pub const ACCESS: i32 = 1;
    pub const NO_ENTITY: i32 = 5;
    pub const CONNECTION_REFUSED: i32 = 6;
    pub const AUTH_KEY: i32 = 9;
    pub const CONNECTION_TERMINATED: i32 = 11;
    pub const KILLED: i32 = 12;
    pub const INVALID_SERVER: i32 = 13;
}

/// `pa_sample_format_t`.
pub mod sample {
    pub const U8: i32 = 0;
    pub const ALAW: i32 = 1;
    pub const ULAW: i32 = 2;
    pub const S16LE: i32 = 3;
    pub const S16BE: i32 = 4;
    pub const FLOAT32LE: i32 = 5;
}

/// `pa_sample_spec`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct SampleSpec {
    pub format: c_int,
    pub rate: u32,
    pub channels: u8,
}

/// `pa_buffer_attr`.
#[repr(C)]
pub struct BufferAttr {
    pub maxlength: u32,
    pub tlength: u32,
    pub prebuf: u32,
    pub minreq: u32,
    pub fragsize: u32,
}

/// `struct timeval` of 64-bit Linux, whose `time_t` and `suseconds_t` are `long` with glibc and musl.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TimeValue {
    pub seconds: c_long,
    pub microseconds: c_long,
}

/// `pa_timing_info`, to the last field that is read.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct TimingInfo {
    pub timestamp: TimeValue,
    pub synchronized_clocks: c_int,
    pub sink_usec: u64,
    pub source_usec: u64,
    pub transport_usec: u64,
    pub playing: c_int,
    pub write_index_corrupt: c_int,
    pub write_index: i64,
    pub read_index_corrupt: c_int,
    pub read_index: i64,
}

/// `pa_channel_map`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct PulseMap {
    pub channels: u8,
    pub map: [c_int; 32],
}

/// `pa_cvolume`.
#[repr(C)]
pub struct Volume {
    pub channels: u8,
    pub values: [u32; 32],
}

/// `pa_server_info`, to the last field that is read.
#[repr(C)]
pub struct ServerInfo {
    pub user_name: *const c_char,
    pub host_name: *const c_char,
    pub server_version: *const c_char,
    pub server_name: *const c_char,
    pub sample_spec: SampleSpec,
    pub default_sink_name: *const c_char,
    pub default_source_name: *const c_char,
}

/// `pa_source_info`, to the last field that is read.
#[repr(C)]
pub struct SourceInfo {
    pub name: *const c_char,
    pub index: u32,
    pub description: *const c_char,
    pub sample_spec: SampleSpec,
    pub channel_map: PulseMap,
    pub owner_module: u32,
    pub volume: Volume,
    pub mute: c_int,
    pub monitor_of_sink: u32,
    pub monitor_of_sink_name: *const c_char,
    pub latency_usec: u64,
    pub driver: *const c_char,
}

/// `pa_sink_input_info`, to the last field that is read.
#[repr(C)]
pub struct SinkInputInfo {
    pub index: u32,
    pub name: *const c_char,
    pub owner_module: u32,
    pub client: u32,
    pub sink: u32,
    pub sample_spec: SampleSpec,
    pub channel_map: PulseMap,
    pub volume: Volume,
    pub buffer_usec: u64,
    pub sink_usec: u64,
    pub resample_method: *const c_char,
    pub driver: *const c_char,
    pub mute: c_int,
    pub proplist: *mut c_void,
    pub corked: c_int,
}

/// `pa_client_info`.
#[repr(C)]
pub struct ClientInfo {
    pub index: u32,
    pub name: *const c_char,
    pub owner_module: u32,
    pub driver: *const c_char,
    pub proplist: *mut c_void,
}

macro_rules! opaque {
    ($($name:ident)*) => { $(
        /// A type of libpulse that is used through pointers only.
        #[repr(C)]
        pub struct $name { _private: [u8; 0] }
    )* };
}
opaque!(Mainloop MainloopApi Context Operation Stream);

/// `pa_source_info_cb_t`.
pub type OnSource = extern "C" fn(*mut Context, *const SourceInfo, c_int, *mut c_void);
/// `pa_sink_input_info_cb_t`.
pub type OnSinkInput = extern "C" fn(*mut Context, *const SinkInputInfo, c_int, *mut c_void);
/// `pa_client_info_cb_t`.
pub type OnClient = extern "C" fn(*mut Context, *const ClientInfo, c_int, *mut c_void);
/// `pa_server_info_cb_t`.
pub type OnServer = extern "C" fn(*mut Context, *const ServerInfo, *mut c_void);
/// `pa_context_subscribe_cb_t`.
pub type OnChange = extern "C" fn(*mut Context, c_int, u32, *mut c_void);
/// `pa_stream_notify_cb_t`.
pub type OnStream = extern "C" fn(*mut Stream, *mut c_void);

/// `pa_stream_request_cb_t`.
pub type OnReadable = extern "C" fn(*mut Stream, usize, *mut c_void);

/// `pa_stream_success_cb_t`.
pub type OnSuccess = extern "C" fn(*mut Stream, c_int, *mut c_void);

library! {
    /// The functions of libpulse that are called.
    Library = "libpulse.so.0" {
        fn pa_mainloop_new() -> *mut Mainloop;
        fn pa_mainloop_free(*mut Mainloop);
        fn pa_mainloop_get_api(*mut Mainloop) -> *mut MainloopApi;
        fn pa_mainloop_prepare(*mut Mainloop, c_int) -> c_int;
        fn pa_mainloop_poll(*mut Mainloop) -> c_int;
        fn pa_mainloop_dispatch(*mut Mainloop) -> c_int;
        fn pa_mainloop_wakeup(*mut Mainloop);
        fn pa_context_new(*mut MainloopApi, *const c_char) -> *mut Context;
        fn pa_context_connect(*mut Context, *const c_char, u32, *const c_void) -> c_int;
        fn pa_context_disconnect(*mut Context);
        fn pa_context_unref(*mut Context);
        fn pa_context_get_state(*mut Context) -> c_int;
        fn pa_context_errno(*mut Context) -> c_int;
        fn pa_context_subscribe(*mut Context, u32, *const c_void, *mut c_void) -> *mut Operation;
        fn pa_context_set_subscribe_callback(*mut Context, Option<OnChange>, *mut c_void);
        fn pa_context_get_server_info(*mut Context, OnServer, *mut c_void) -> *mut Operation;
        fn pa_context_get_source_info_list(*mut Context, OnSource, *mut c_void) -> *mut Operation;
        fn pa_context_get_sink_input_info_list(*mut Context, OnSinkInput, *mut c_void) -> *mut Operation;
        fn pa_context_get_client_info_list(*mut Context, OnClient, *mut c_void) -> *mut Operation;
        fn pa_operation_get_state(*mut Operation) -> c_int;
        fn pa_operation_cancel(*mut Operation);
        fn pa_operation_unref(*mut Operation);
        fn pa_proplist_gets(*const c_void, *const c_char) -> *const c_char;
        fn pa_strerror(c_int) -> *const c_char;
        fn pa_stream_new(*mut Context, *const c_char, *const SampleSpec, *const PulseMap) -> *mut Stream;
        fn pa_stream_unref(*mut Stream);
        fn pa_stream_set_monitor_stream(*mut Stream, u32) -> c_int;
        fn pa_stream_connect_record(*mut Stream, *const c_char, *const BufferAttr, u32) -> c_int;
        fn pa_stream_disconnect(*mut Stream) -> c_int;
        fn pa_stream_get_state(*mut Stream) -> c_int;
        fn pa_stream_get_device_name(*mut Stream) -> *const c_char;
        fn pa_stream_is_suspended(*mut Stream) -> c_int;
        fn pa_stream_set_moved_callback(*mut Stream, Option<OnStream>, *mut c_void);
        fn pa_stream_set_read_callback(*mut Stream, Option<OnReadable>, *mut c_void);
        fn pa_stream_set_state_callback(*mut Stream, Option<OnStream>, *mut c_void);
        fn pa_stream_set_suspended_callback(*mut Stream, Option<OnStream>, *mut c_void);
        fn pa_stream_update_timing_info(*mut Stream, Option<OnSuccess>, *mut c_void) -> *mut Operation;
        fn pa_stream_get_timing_info(*mut Stream) -> *const TimingInfo;
        fn pa_stream_readable_size(*mut Stream) -> usize;
        fn pa_stream_peek(*mut Stream, *mut *const c_void, *mut usize) -> c_int;
        fn pa_stream_drop(*mut Stream) -> c_int;
    }
}
