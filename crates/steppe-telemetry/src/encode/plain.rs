//! OpenMetrics text as the older text format 0.0.4 of Prometheus.

use std::collections::HashMap;

/// The media type of [`plain`].
pub const PLAIN_CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Rewrites OpenMetrics text: the type of a counter is given to its samples, which end in `_total`,
/// types that the older format lacks become those that it has, and exemplars, units and the end
/// mark are left out.
#[must_use]
pub fn plain(open_metrics: &str) -> String {
    let types: HashMap<&str, &str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            let sample = line.split(" # {").next().unwrap_or(line);
            text.extend([sample, "\n"]);
            continue;
        };
        let mut words = comment.splitn(3, ' ');
        let (Some(keyword @ ("HELP" | "TYPE")), Some(name), rest) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (ending, plain_type) = match types.get(name).copied() {
            Some("counter") => ("_total", "counter"),
            Some("info") => ("_info", "gauge"),
            Some(known @ ("gauge" | "histogram" | "summary")) => ("", known),
            _ => ("", "untyped"),
        };
        let rest = if keyword == "TYPE" {
            plain_type
        } else {
            rest.unwrap_or_default()
        };
        text.extend(["# ", keyword, " ", name, ending, " ", rest, "\n"]);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_are_named_as_their_samples() {
        let open_metrics = "# HELP a Requests.\n# TYPE a counter\na_total{x=\"1\"} 2 # {id=\"7\"} 1\n\
                            # HELP b_bytes Memory.\n# TYPE b_bytes gauge\n# UNIT b_bytes bytes\nb_bytes 3\n\
                            # HELP c Version.\n# TYPE c info\nc_info{v=\"1\"} 1\n\
                            # HELP d Some.\n# TYPE d unknown\nd 1\n# EOF\n";
        let expected = "# HELP a_total Requests.\n# TYPE a_total counter\na_total{x=\"1\"} 2\n\
                        # HELP b_bytes Memory.\n# TYPE b_bytes gauge\nb_bytes 3\n\
                        # HELP c_info Version.\n# TYPE c_info gauge\nc_info{v=\"1\"} 1\n\
                        # HELP d Some.\n# TYPE d untyped\nd 1\n";
        assert_eq!(plain(open_metrics), expected);
    }
}
