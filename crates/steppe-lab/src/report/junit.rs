//! `junit.xml`: a suite a variant, a case a finding, so that a CI shows what broke.
//!
//! A gate that is not passed must not look green: INCONCLUSIVE and GROWING are failures of their
//! own type, INVALID and TARGET-FAILED are errors. An outcome that the scenario expects is passed
//! when it comes. The suite `run` has the verdict itself, so that a run that ended with another
//! code than 0 is red whatever else is in the file.

use serde::Serialize;

use crate::record::{Finding, LoadedRun, Outcome, VariantVerdict, Verdict};

use super::ReportError;
use super::metric;
use super::template::JUNIT;
use super::view;

#[derive(Debug, Serialize)]
struct Report {
    name: String,
    timestamp: String,
    suites: Vec<Suite>,
    tests: usize,
    failures: usize,
    errors: usize,
}

#[derive(Debug, Serialize)]
struct Suite {
    name: String,
    cases: Vec<Case>,
    failures: usize,
    errors: usize,
}

#[derive(Debug, Serialize)]
struct Case {
    class: String,
    name: String,
    properties: Vec<(&'static str, String)>,
    outcome: TestOutcome,
    output: String,
}

#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum TestOutcome {
    Passed,
    Failure { word: String, message: String },
    Error { word: String, message: String },
}

/// The verdict as JUnit's XML.
///
/// # Errors
/// [`ReportError::Template`], a fault of this program.
pub fn junit(run: &LoadedRun) -> Result<String, ReportError> {
    let name = &run.manifest.scenario_name;
    let mut suites = vec![Suite::of("run".to_owned(), vec![verdict_case(name, run)])];
    if let Some(verdict) = &run.verdict {
        suites.extend(
            verdict
                .variants
                .iter()
                .map(|variant| variant_suite(name, variant)),
        );
        if !verdict.comparisons.is_empty() {
            let class = format!("{name}.comparison");
            let findings = verdict.comparisons.iter();
            let cases = findings.map(|finding| finding_case(&class, finding, Expectation::None));
            suites.push(Suite::of("comparison".to_owned(), cases.collect()));
        }
    }
    JUNIT.render(Report {
        name: name.clone(),
        timestamp: run.manifest.started.clone(),
        tests: suites.iter().map(|suite| suite.cases.len()).sum(),
        failures: suites.iter().map(|suite| suite.failures).sum(),
        errors: suites.iter().map(|suite| suite.errors).sum(),
        suites,
    })
}

impl Suite {
    fn of(name: String, cases: Vec<Case>) -> Self {
        let failed = |case: &&Case| matches!(case.outcome, TestOutcome::Failure { .. });
        let broken = |case: &&Case| matches!(case.outcome, TestOutcome::Error { .. });
        Self {
            name,
            failures: cases.iter().filter(failed).count(),
            errors: cases.iter().filter(broken).count(),
            cases,
        }
    }
}

/// Met if the scenario expects the finding to break its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Expectation {
    None,
    Met,
}

fn verdict_case(name: &str, run: &LoadedRun) -> Case {
    let mut output: Vec<String> = Vec::new();
    let outcome = match &run.verdict {
        None => TestOutcome::Error {
            word: "NO-VERDICT".to_owned(),
            message: "the run ended before it could be judged".to_owned(),
        },
        Some(verdict) => {
            for problem in &verdict.problems {
                output.push(problem.text.clone());
                if !problem.help.is_empty() {
                    output.push(format!("  help: {}", problem.help));
                }
            }
            outcome_of_run(verdict)
        }
    };
    let labels = view::labels(&run.manifest, run.verdict.as_ref());
    output.extend(
        labels
            .iter()
            .map(|label| format!("{}: {}", label.text, label.why)),
    );
    Case {
        class: name.to_owned(),
        name: "verdict".to_owned(),
        properties: vec![("kind", view::kind(run.manifest.kind).to_owned())],
        outcome,
        output: output.join("\n"),
    }
}

/// The outcome by exit code, which takes expected outcomes into account.
fn outcome_of_run(verdict: &Verdict) -> TestOutcome {
    let word = verdict.outcome.to_string();
    let message = verdict.headline.clone();
    match verdict.exit_code {
        0 => TestOutcome::Passed,
        1 | 3 => TestOutcome::Failure { word, message },
        _ => TestOutcome::Error { word, message },
    }
}

fn outcome_of_word(word: Outcome, message: &str) -> TestOutcome {
    let (name, message) = (word.to_string(), message.to_owned());
    match word.exit_code() {
        0 => TestOutcome::Passed,
        1 | 3 => TestOutcome::Failure {
            word: name,
            message,
        },
        _ => TestOutcome::Error {
            word: name,
            message,
        },
    }
}

fn variant_suite(scenario: &str, variant: &VariantVerdict) -> Suite {
    let class = format!("{scenario}.{}", variant.name);
    let is_met = variant.is_as_expected();
    let expectation = if is_met {
        Expectation::Met
    } else {
        Expectation::None
    };
    let findings = variant.findings.iter();
    let mut cases: Vec<Case> = findings
        .map(|finding| finding_case(&class, finding, expectation))
        .collect();
    let has_word = variant
        .findings
        .iter()
        .any(|finding| finding.outcome == variant.outcome);
    // A case for the variant's own word, where no finding has it (a target that died, leaks) or
    // another outcome was expected.
    let is_told = has_word && variant.expect.is_none();
    if !is_told {
        cases.push(word_case(&class, variant));
    }
    Suite::of(variant.name.clone(), cases)
}

fn word_case(class: &str, variant: &VariantVerdict) -> Case {
    let word = variant.outcome;
    let outcome = match variant.expect {
        Some(expected) if expected == word => TestOutcome::Passed,
        Some(expected) => TestOutcome::Failure {
            word: word.to_string(),
            message: format!("{word}, where {expected} was expected"),
        },
        None => outcome_of_word(word, &format!("{} is {word}", variant.name)),
    };
    let leaks = variant.leaks.iter().map(|leak| {
        let stack = leak.stack.join("\n  at ");
        format!(
            "{} bytes in {} blocks, {}\n  at {stack}",
            leak.bytes, leak.blocks, leak.kind
        )
    });
    Case {
        class: class.to_owned(),
        name: "word".to_owned(),
        properties: Vec::new(),
        outcome,
        output: leaks.collect::<Vec<_>>().join("\n"),
    }
}

fn finding_case(class: &str, finding: &Finding, expectation: Expectation) -> Case {
    let outcome = match expectation {
        Expectation::Met if finding.is_growth() => TestOutcome::Passed,
        Expectation::Met => outcome_of_word(finding.outcome, &finding.text),
        Expectation::None => outcome_of_word(finding.outcome, &finding.text),
    };
    let mut output = vec![finding.text.clone()];
    output.extend(finding.notes.iter().cloned());
    if expectation == Expectation::Met && finding.outcome.exit_code() != 0 {
        output.push(format!("{}, as expected", finding.outcome));
    }
    output.push(view::basis(finding));
    Case {
        class: class.to_owned(),
        name: finding.metric.clone(),
        properties: properties(finding),
        outcome,
        output: output.join("\n"),
    }
}

fn properties(finding: &Finding) -> Vec<(&'static str, String)> {
    let mut properties = vec![
        ("label", metric::label(&finding.metric).to_owned()),
        ("word", finding.word()),
        ("unit", finding.unit.clone()),
    ];
    let mut add = |name, value: Option<f64>| {
        properties.extend(value.map(|value| (name, value.to_string())));
    };
    add("limit", finding.limit);
    add("value", finding.value.map(|value| value.estimate));
    let interval = finding.value.filter(|value| value.lower < value.upper);
    add("lower", interval.map(|value| value.lower));
    add("upper", interval.map(|value| value.upper));
    properties
}
