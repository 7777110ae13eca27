//! The processes with a planted defect, and the verdicts that the lab may give on each.

use super::soaked::Soaked;

/// A process whose growth is known.
pub struct Truth {
    /// Name on the command line.
    pub name: &'static str,
    /// The planted defect, for the table.
    pub planted: &'static str,
    /// The command line; `{examples}`, `{address}`, `{port}` and `{folder}` are replaced.
    pub cmd: &'static [&'static str],
    /// Further lines of TOML for `[target]`.
    pub target: &'static str,
    /// Seconds of an epoch, and how many epochs.
    pub epochs: (u32, u32),
    /// Lines of `[budget]`.
    pub budget: &'static str,
    /// The series that has to have one of `words`; `None`: only the verdict as a whole counts.
    pub metric: Option<&'static str>,
    /// The verdicts that are right.
    pub words: &'static [&'static str],
}

impl Truth {
    /// True if nothing is planted, and nothing fills up.
    pub fn is_healthy(&self) -> bool {
        self.words.contains(&"STABLE") && self.metric.is_none()
    }

    /// True if the verdict is a right one, and the planted series gave it.
    pub fn allows(&self, soaked: &Soaked) -> bool {
        let is_named = self
            .metric
            .is_none_or(|metric| soaked.word_of(metric).is_some_and(|word| self.says(word)));
        self.says(&soaked.word) && is_named
    }

    fn says(&self, word: &str) -> bool {
        self.words.contains(&word)
    }
}

const SICK: &[&str] = &["UNBOUNDED"];
/// Right verdicts on a defect in a time, which a busy machine may leave open or cause: all but green.
const SICK_IN_TIME: &[&str] = &["UNBOUNDED", "GROWING", "INCONCLUSIVE"];
/// Right verdicts on a defect behind a garbage collector that ran twice in two minutes: all but green.
const SICK_UNFORCED: &[&str] = &["UNBOUNDED", "GROWING", "INCONCLUSIVE"];
/// Right verdict on a healthy process of which the lab has all necessary data.
const HEALTHY_KNOWN: &[&str] = &["STABLE"];
const HEALTHY: &[&str] = &["STABLE", "INCONCLUSIVE"];

const MINUTE: (u32, u32) = (1, 60);
const TWO_MINUTES: (u32, u32) = (2, 60);

/// Two minutes of memory can't show a lower growth, and nothing about times under a just-in-time compiler.
const OF_MEMORY: &str = "rss_growth_mib_per_day = 2700\n\
    drift = { cpu_us_per_op = \"off\", syscalls_per_op = \"off\", p50 = \"off\", p99 = \"off\" }\n";

const NODE: &[&str] = &["node", "--expose-gc", "examples/lab/node-leak.js", "{port}"];
const GO: &[&str] = &["{examples}/go-leak", "{address}"];
const PYTHON: &[&str] = &["python3", "examples/lab/python-leak.py", "{port}"];
const NODE_COLLECTED: &str = "collect = { signal = \"USR2\" }\n";
const GO_COLLECTED: &str = "collect = { url = \"http://{address}/debug/pprof/heap?gc=1\" }\n";

/// A server of `testdata/` with a default budget for everything.
const fn sick(
    name: &'static str,
    planted: &'static str,
    cmd: &'static [&'static str],
    metric: &'static str,
) -> Truth {
    Truth {
        name,
        planted,
        cmd,
        target: "",
        epochs: MINUTE,
        budget: "",
        metric: Some(metric),
        words: SICK,
    }
}

/// A server whose memory is judged for two minutes.
const fn memory(
    name: &'static str,
    planted: &'static str,
    cmd: &'static [&'static str],
    words: &'static [&'static str],
) -> Truth {
    Truth {
        name,
        planted,
        cmd,
        target: "",
        epochs: TWO_MINUTES,
        budget: OF_MEMORY,
        metric: None,
        words,
    }
}

/// Each defect, and the healthy twin after its family.
pub const TRUTHS: [Truth; 22] = [
    sick(
        "descriptors",
        "10 descriptors a second stay open",
        &["{examples}/lab-sick", "{address}", "descriptors", "30"],
        "open_files_growth",
    ),
    sick(
        "memfd",
        "10 memfds of 64 KiB a second, never mapped",
        &["{examples}/lab-sick", "{address}", "memfd", "30"],
        "cgroup_growth",
    ),
    sick(
        "tmpfs",
        "10 files of 64 KiB a second left in a tmpfs",
        &[
            "{examples}/lab-sick",
            "{address}",
            "tmpfs",
            "30",
            "{folder}",
        ],
        "cgroup_growth",
    ),
    sick(
        "zombies",
        "10 children a second are not waited for",
        &["{examples}/lab-sick", "{address}", "zombies", "30"],
        "zombies_growth",
    ),
    Truth {
        words: SICK_IN_TIME,
        ..sick(
            "cpu",
            "CPU time of a request doubles every 20 s",
            &["{examples}/lab-sick", "{address}", "cpu", "6000"],
            "cpu_us_per_op_growth",
        )
    },
    Truth {
        words: SICK_IN_TIME,
        ..sick(
            "latency",
            "a request waits for 2 ms, and 2 ms more every 20 s",
            &["{examples}/lab-sick", "{address}", "latency", "6000"],
            "p50_growth",
        )
    },
    Truth {
        metric: None,
        words: HEALTHY_KNOWN,
        ..sick(
            "none",
            "nothing: the healthy twin of those above",
            &["{examples}/lab-sick", "{address}", "none"],
            "",
        )
    },
    Truth {
        metric: Some("rss_growth"),
        ..memory(
            "stairs",
            "3 MiB every 15 s",
            &["{examples}/lab-sick", "{address}", "stairs", "4500"],
            SICK,
        )
    },
    Truth {
        metric: Some("rss_growth"),
        ..memory(
            "plateau-8s",
            "a cache of 9 MiB that fills with a time constant of 8 s",
            &["{examples}/lab-plateau", "{address}", "2400", "4096"],
            HEALTHY,
        )
    },
    Truth {
        metric: Some("rss_growth"),
        ..memory(
            "plateau-25s",
            "a cache of 29 MiB that fills with a time constant of 25 s",
            &["{examples}/lab-plateau", "{address}", "7500", "4096"],
            HEALTHY,
        )
    },
    Truth {
        target: "live_bytes = { url = \"http://{address}/memory\", pointer = \"/live_bytes\" }\n",
        words: &["LEAK"],
        ..memory(
            "leaking",
            "200 bytes a request; the target tells its live bytes",
            &["{examples}/lab-leaking", "{address}", "200"],
            &["LEAK"],
        )
    },
    Truth {
        target: "live_bytes = { url = \"http://{address}/memory\", pointer = \"/live_bytes\" }\n",
        ..memory(
            "retaining",
            "freed blocks that the allocator can't give back; live bytes are told",
            &["{examples}/lab-retaining", "{address}"],
            SICK,
        )
    },
    memory(
        "steady",
        "nothing: the healthy twin of those above",
        &["{examples}/lab-steady", "{address}"],
        HEALTHY_KNOWN,
    ),
    Truth {
        target: NODE_COLLECTED,
        metric: Some("rss_growth"),
        ..memory(
            "node-leak",
            "Node.js: every request is remembered",
            NODE,
            SICK,
        )
    },
    Truth {
        target: concat!(
            "collect = { signal = \"USR2\" }\n",
            "env = { LEAK = \"0\" }\n"
        ),
        ..memory("node", "Node.js: its healthy twin", NODE, HEALTHY_KNOWN)
    },
    Truth {
        target: "env = { LEAK = \"0\" }\n",
        ..memory(
            "node-unforced",
            "Node.js: the healthy twin, no collection is forced",
            NODE,
            HEALTHY,
        )
    },
    Truth {
        target: GO_COLLECTED,
        metric: Some("rss_growth"),
        ..memory("go-leak", "Go: a goroutine a request", GO, SICK)
    },
    Truth {
        target: concat!(
            "collect = { url = \"http://{address}/debug/pprof/heap?gc=1\" }\n",
            "env = { LEAK = \"0\" }\n"
        ),
        ..memory("go", "Go: its healthy twin", GO, HEALTHY_KNOWN)
    },
    Truth {
        target: "env = { GOGC = \"400\" }\n",
        metric: Some("rss_growth"),
        ..memory(
            "go-gogc400-leak",
            "Go, GOGC=400: a goroutine a request, no collection is forced",
            GO,
            SICK_UNFORCED,
        )
    },
    Truth {
        target: "env = { LEAK = \"0\", GOGC = \"400\" }\n",
        ..memory(
            "go-gogc400",
            "Go, GOGC=400: its healthy twin, no collection is forced",
            GO,
            HEALTHY,
        )
    },
    Truth {
        metric: Some("rss_growth"),
        ..memory(
            "python-leak",
            "Python: a cache without a bound",
            PYTHON,
            SICK,
        )
    },
    Truth {
        target: "env = { LEAK = \"0\" }\n",
        ..memory("python", "Python: its healthy twin", PYTHON, HEALTHY_KNOWN)
    },
];
