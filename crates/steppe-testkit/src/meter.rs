//! Memory of a process, watched from outside.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Samples a process's resident memory until it is read out.
#[derive(Debug)]
pub struct MemoryMeter {
    stop: Arc<AtomicBool>,
    peak: Arc<Mutex<MemoryPeak>>,
    sampler: Option<JoinHandle<()>>,
}

/// The peaks of a process's memory.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoryPeak {
    /// The kernel's own high-water mark (`VmHWM`).
    pub high_water_bytes: u64,
    /// The largest sample of `VmRSS`.
    pub sampled_bytes: u64,
    /// Number of samples taken.
    pub samples: u64,
}

impl MemoryMeter {
    /// Watches `pid`, ten times a second.
    pub fn watch(pid: u32) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let peak = Arc::new(Mutex::new(MemoryPeak::default()));
        let sampler = {
            let (stop, peak) = (Arc::clone(&stop), Arc::clone(&peak));
            std::thread::spawn(move || {
                loop {
                    // The last sample is taken at the end: short watches have one too.
                    let is_last = stop.load(Ordering::Acquire);
                    sample(pid, &peak);
                    if is_last {
                        return;
                    }
                    std::thread::sleep(Duration::from_millis(100));
                }
            })
        };
        Self {
            stop,
            peak,
            sampler: Some(sampler),
        }
    }

    /// Ends the watch and returns the peaks.
    ///
    /// # Panics
    /// When it never saw the process: nothing seen must not pass for nothing used.
    pub fn finish(mut self) -> MemoryPeak {
        self.stop.store(true, Ordering::Release);
        if let Some(sampler) = self.sampler.take() {
            let _ = sampler.join();
        }
        let peak = *self.peak.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(peak.samples > 0, "the process was never seen");
        peak
    }
}

/// Number of threads of a process.
///
/// # Panics
/// When the process is gone.
pub fn thread_count(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    number(&text, "Threads:").unwrap_or_else(|| panic!("process {pid} is gone"))
}

/// Resident memory of a process: all of it, and the anonymous part.
///
/// # Panics
/// When the process is gone.
pub fn resident_bytes(pid: u32) -> [u64; 2] {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    ["VmRSS:", "RssAnon:"].map(|key| {
        let kib = number(&text, key).unwrap_or_else(|| panic!("process {pid} is gone"));
        kib * 1024
    })
}

fn sample(pid: u32, peak: &Mutex<MemoryPeak>) {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return;
    };
    let (Some(high), Some(now)) = (number(&text, "VmHWM:"), number(&text, "VmRSS:")) else {
        return;
    };
    let mut peak = peak.lock().unwrap_or_else(PoisonError::into_inner);
    peak.high_water_bytes = peak.high_water_bytes.max(high * 1024);
    peak.sampled_bytes = peak.sampled_bytes.max(now * 1024);
    peak.samples += 1;
}

fn number(status: &str, key: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}
