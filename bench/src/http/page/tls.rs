//! The table of TLS.

use super::super::fleet::Outcome;
use super::super::measure::{Handshake, Results};
use super::super::pairs::pair_by;
use super::super::report::{REFERENCE, cpu_per_gb, saturated};
use super::super::targets::{
    HANDSHAKE_TO_REFERENCE_MAX, TLS_BODIES_TO_REFERENCE_MAX, TLS_CPU_TO_REFERENCE_MAX,
    TLS_IDLE_BYTES_MAX,
};
use super::super::tls::report::{cpu_us, rate};
use super::cells::{add_idle, cells, columns, spread};
use crate::page::Figures;
use crate::stats::median;
use crate::table::{Table, grouped, significant};

/// A row with the ratio of what it costs, which is CPU in each.
struct Row {
    label: &'static str,
    write: fn(&Results) -> String,
    cost: fn(&Results) -> Vec<f64>,
    aim: Option<f64>,
}

/// Rows of proxies with TLS to their clients.
const ROWS: [Row; 7] = [
    Row {
        label: "CPU a request kept alive, 1 kB, µs ↓",
        write: |r| significant(median(&request_us(r))),
        cost: request_us,
        aim: Some(TLS_CPU_TO_REFERENCE_MAX),
    },
    Row {
        label: "full handshakes a CPU second, P-256 ↑",
        write: |r| grouped(rate(&r.p256), 0),
        cost: |r| cpu_us(&r.p256),
        aim: Some(HANDSHAKE_TO_REFERENCE_MAX),
    },
    Row {
        label: "full handshakes a CPU second, RSA-2048 ↑",
        write: |r| grouped(rate(&r.rsa), 0),
        cost: |r| cpu_us(&r.rsa),
        aim: Some(HANDSHAKE_TO_REFERENCE_MAX),
    },
    Row {
        label: "full handshakes a CPU second, P-256 with X25519MLKEM768 ↑",
        write: |r| offered(&r.post_quantum),
        cost: |r| cpu_us(&r.post_quantum),
        aim: None,
    },
    Row {
        label: "resumed handshakes a CPU second ↑",
        write: |r| grouped(rate(&r.resumed), 0),
        cost: |r| cpu_us(&r.resumed),
        aim: None,
    },
    Row {
        label: "CPU seconds a GB, 1 MB bodies down ↓",
        write: |r| grouped(median(&cpu_per_gb(&r.download)), 2),
        cost: |r| cpu_per_gb(&r.download),
        aim: Some(TLS_BODIES_TO_REFERENCE_MAX),
    },
    Row {
        label: "CPU seconds a GB, 1 MB bodies up ↓",
        write: |r| grouped(median(&cpu_per_gb(&r.upload)), 2),
        cost: |r| cpu_per_gb(&r.upload),
        aim: Some(TLS_BODIES_TO_REFERENCE_MAX),
    },
];

const UPSTREAM: Row = Row {
    label: "CPU a request, TLS with the origin, µs ↓",
    aim: None,
    ..ROWS[0]
};

pub fn table(outcome: &Outcome) -> Table {
    let columns = columns(&[&outcome.tls, &outcome.tls_upstream]);
    let mut figures = Figures::new("over TLS 1.3", columns, &["Steppe ÷ nginx", "aim"]);
    for row in &ROWS {
        row.add_to(&mut figures, &outcome.tls);
    }
    UPSTREAM.add_to(&mut figures, &outcome.tls_upstream);
    let aim = grouped(TLS_IDLE_BYTES_MAX, 0);
    add_idle(&mut figures, &outcome.tls, &[String::new(), aim]);
    figures.into_table()
}

impl Row {
    fn add_to(&self, figures: &mut Figures, results: &[Results]) {
        let pair = pair_by(results, "", ("steppe", REFERENCE), self.cost);
        let aim = self.aim.map(|aim| grouped(aim, 2));
        let further = [spread(pair.as_ref()), aim.unwrap_or_default()];
        figures.row_with(self.label, cells(results, self.write), &further);
    }
}

fn request_us(results: &Results) -> Vec<f64> {
    saturated(results, |run| run.cpu_us)
}

/// A proxy whose library lacks the group has no handshakes with it.
fn offered(handshakes: &[Handshake]) -> String {
    match handshakes.is_empty() {
        true => "not offered".to_owned(),
        false => grouped(rate(handshakes), 0),
    }
}
