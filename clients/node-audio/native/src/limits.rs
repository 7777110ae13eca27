//! Every bound of the addon, with its reason.

/// Fewest slots of a ring: one that is read while the next is written.
pub const SLOTS_MIN: u32 = 2;

/// Most slots of a ring. A scan for a free one passes each at most once, which takes some ns a slot.
pub const SLOTS_MAX: u32 = 16_384;

/// Largest slot: more than a second of 32 channels of 32-bit samples at 96 kHz.
pub const SLOT_BYTES_MAX: u32 = 16 << 20;

/// Largest memory of a ring, which JavaScript allocates for one capture.
pub const RING_BYTES_MAX: u64 = 1 << 30;

/// Sample rates in Hz that a capture can have: from telephony to the fastest sound cards.
pub const RATE_MIN: u32 = 4_000;
/// Upper end of the range, see [`RATE_MIN`].
pub const RATE_MAX: u32 = 384_000;

/// Most channels of a stream, like PulseAudio's (`PA_CHANNELS_MAX`).
pub const CHANNELS_MAX: u32 = 32;

/// Most frames of a packet: ten seconds at 96 kHz.
pub const PACKET_FRAMES_MAX: u32 = 960_000;

/// Longest wait of one call of a blocking reader, in ms: a Worker that is terminated ends with it.
pub const WAIT_MS_MAX: u32 = 100;

/// Events that JavaScript has not fetched yet. Further ones are counted and lost: each names a
/// state that a later one replaces.
pub const EVENTS_MAX: usize = 64;

/// Longest device name or id in bytes that is kept of a sound server's.
pub const NAME_BYTES_MAX: usize = 512;

/// Packets after which the reader is woken before the source has delivered all that it has: it may lag behind.
pub const HELD_PACKETS_MAX: u32 = 4;

/// Most devices or streams of a list.
pub const DEVICES_MAX: usize = 1_024;

/// Largest offset of a synthetic device's clock, in parts per million: any real clock's is below 500.
pub const CLOCK_PPM_MAX: f64 = 10_000.0;

/// Resampled chunks a second: a chunk is resampled once it is full.
pub const RESAMPLE_CHUNKS_A_SECOND: u32 = 400;

/// Largest error between two sources, in ns, that is resampled; beyond it the second is placed anew.
pub const ALIGN_JUMP_NS: f64 = 50e6;

/// Largest ratio by which a second source is resampled: half a percent is no audible change of pitch.
pub const ALIGN_RATIO_MAX: f64 = 1.005;

/// Natural frequency in Hz of the loop that keeps a second source aligned, at first: it settles within seconds.
pub const ALIGN_HZ_FIRST: f64 = 0.3;

/// The same once it has settled: jitter of a millisecond moves the second by less than a tenth of one.
pub const ALIGN_HZ: f64 = 0.03;

/// Time in s that [`ALIGN_HZ_FIRST`] lasts.
pub const ALIGN_SETTLING: f64 = 5.0;

/// Error in s that is larger than any jitter: the times of a source were corrected, and the loop is fast again.
pub const ALIGN_LARGE: f64 = 1.5e-3;

/// Time that the first of two sources waits for the second, in ns.
pub const ALIGN_WAIT_NS: f64 = 500e6;

/// Most of the second of two sources that may wait for the first, in ns: frames beyond, while the first stands still,
/// are left out.
pub const ALIGN_AHEAD_NS: f64 = 1e9;

/// Packets of each of two sources that wait for the other: 2.56 s of 10 ms each.
pub const PAIR_SLOTS: u32 = 256;

/// Delay of a loopback's next frame, in ns, after which silence stands for it.
pub const IDLE_AFTER_NS: u64 = 100_000_000;

/// Time before now that silence leaves open, in ns; less than that is jitter.
pub const IDLE_MARGIN_NS: u64 = 40_000_000;

/// Longest wait of a source for WASAPI, in ms: a loopback may give no event at all.
pub const WASAPI_TURN_MS: u32 = 20;

/// Buffer of WASAPI while this process does not run, in units of 100 ns: a second.
pub const WASAPI_BUFFER_HNS: i64 = 10_000_000;

/// Length of zeros from the start of a source, in ns, after which a denied permission is suspected.
pub const SUSPICIOUS_SILENCE_NS: u64 = 3_000_000_000;

/// Error in ns at which a device's time has jumped, rather than jittered.
pub const CLOCK_JUMP_NS: f64 = 100e6;

/// Error in ns up to which a time corrects the clock: a later one is that of a server that was late, or one after a
/// gap.
pub const CLOCK_DOUBT_NS: f64 = 1e6;

/// Error in ns that is a gap when it lasts; a smaller one was an error of the first times.
pub const CLOCK_GAP_NS_MIN: f64 = 2e6;

/// Error in ns at which frames are missing as soon as [`CLOCK_LOOKS`] times agree: the periods of servers are shorter.
pub const CLOCK_GAP_NS: f64 = 25e6;

/// Time that a smaller error has to last, in ns: a loaded server is late for less.
pub const CLOCK_PATIENCE_NS: u64 = 1_000_000_000;

/// The same for the monitor of a sink, whose clock is corrected then: such errors last for up to 3.3 s on a busy machine.
pub const CLOCK_PATIENCE_MONITOR_NS: u64 = 10_000_000_000;

/// Times that have to agree on a gap.
pub const CLOCK_LOOKS: u32 = 4;

/// Times that are observed before a stream's first packet: the length of the gap before it, after an outage, is as
/// good as the best of them.
pub const CLOCK_LOOKS_FIRST: u32 = 8;

/// Time between timing reports of a stream, in ns; when in doubt, each fragment has one.
pub const TIMING_EVERY_NS: u64 = 250_000_000;

/// Sound that a server may have recorded and not sent, in ns, before later frames wait for a report: the server may
/// skip some.
pub const BEHIND_NS: u64 = 200_000_000;

/// Most bytes of a stream that PulseAudio keeps while its client does not read, and that are kept here after they were
/// read from libpulse: further ones are dropped.
pub const QUEUE_BYTES: usize = 4 << 20;

/// Time without a fragment, in ns, after which the next ones wait for a report.
pub const STALL_NS: u64 = 60_000_000;

/// Longest time that frames wait for reports, in ns.
pub const HOLD_NS_MAX: u64 = 1_000_000_000;

/// Longest time in ns between two readings of the monotonic clock of a thread that was not preempted between them:
/// some hundred times the length of a reading.
pub const WALL_WIDTH_NS: u64 = 10_000;

/// Most readings of the wall clock for a packet.
pub const WALL_READINGS_MAX: u32 = 3;

/// A change of the wall clock in ns that counts as a step: between two packets it drifts by less.
pub const WALL_STEP_NS: u64 = 1_000_000;

/// Time constant in s with which the scatter of a device's times is forgotten.
pub const SCATTER_SECONDS: f64 = 10.0;

/// Longest time for an answer of a sound server, in ms.
pub const SERVER_ANSWER_MS_MAX: u64 = 5_000;

/// Longest time to wait for a server or device that went away, in ms.
pub const RETURN_MS_MAX: u64 = 30_000;

/// Time between attempts to reach it again, in ms.
pub const RETURN_EVERY_MS: u64 = 100;

/// Time between attempts to find a sound system that is not there, in ms.
pub const WATCH_EVERY_MS: u64 = 1_000;

/// Longest wait of a source for its device, in ms, before it checks whether to stop: a waker ends it earlier.
pub const TURN_MS: u64 = 250;

/// Largest delay of a stream of a program behind the others, in ns: beyond it they go on without it.
pub const MIX_LAG_NS: u64 = 200_000_000;

/// Largest time from the end of a mix to the first frame of a stream, in ns: one that is further ahead is wrong.
pub const MIX_AHEAD_NS: u64 = 1_000_000_000;

/// Delay of the silence that stands for a program that plays nothing, in ns: more than a stream is late with its
/// first frame.
pub const MIX_IDLE_MARGIN_NS: u64 = 60_000_000;

/// Longest fragment of streams that are mixed or put side by side, in ns: they wait for each other, for much less than
/// [`MIX_LAG_NS`].
pub const JOINED_FRAGMENT_NS_MAX: u64 = 20_000_000;

/// Most streams of one program that are captured at a time.
pub const PROGRAM_STREAMS_MAX: usize = 64;

/// Packets of a program's stream before they are mixed: with [`PROGRAM_PACKET_MS`], more than a sound server keeps
/// for a client that does not run.
pub const PROGRAM_SLOTS: u32 = 64;

/// Longest packet of a program's stream before it is mixed, in ms: a packet is flushed as soon as it has a frame.
pub const PROGRAM_PACKET_MS: u32 = 200;

/// Period of the checks that a program's processes are alive, in ms.
pub const PROGRAM_LOOK_MS: u64 = 250;

/// Difference in ns from which a packet of a mix does not follow on the one before it: clocks jitter by less.
pub const DISCONTINUITY_NS: u64 = 5_000_000;

/// Most processes of one program that are known, dead ones too.
pub const PROCESSES_MAX: usize = 1_024;

/// Most processes between a child and the process whose children are captured.
pub const ANCESTORS_MAX: usize = 64;

/// Fastest synthetic device, as a multiple of real time.
pub const SPEED_MAX: f64 = 10_000.0;

const _: () = assert!(SLOTS_MIN < SLOTS_MAX);
const _: () = assert!(IDLE_MARGIN_NS < IDLE_AFTER_NS);
const _: () = assert!(SLOT_BYTES_MAX as u64 * SLOTS_MIN as u64 <= RING_BYTES_MAX);
