//! What reports say of runs of every kind: Markdown, JUnit, the terminal, `explain`.

use std::path::PathBuf;

use steppe_lab::report::{self, Colors};

#[path = "support/runs.rs"]
mod runs;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("steppe-lab-report-{name}-{}", std::process::id()))
}

#[test]
fn every_run_has_all_its_reports() {
    for (name, made) in runs::all() {
        let path = made.write(&scratch(name));
        let written = report::write_all(&path).unwrap();
        for file in [
            &written.html,
            &written.markdown,
            &written.summary,
            &written.junit,
        ] {
            assert!(std::fs::metadata(file).unwrap().len() > 100, "{file:?}");
        }
        if std::env::var_os("KEEP").is_none() {
            std::fs::remove_dir_all(&path).unwrap();
        } else {
            println!("{}", path.display());
        }
        if let Some(verdict) = &made.run.verdict {
            println!(
                "{}",
                report::terminal(verdict, &made.run.manifest, 100, Colors::Plain)
            );
            for finding in verdict
                .variants
                .iter()
                .flat_map(|v| &v.findings)
                .chain(&verdict.comparisons)
                .take(2)
            {
                println!("{}", report::explain(&made.run, &finding.metric).unwrap());
            }
        }
    }
}
