//! The page in a real browser: its content, at both widths, light and dark.

use std::path::PathBuf;

use serde_json::json;
use steppe_lab::report;

use crate::chromium::Chromium;
use crate::runs;

/// A page on the disk, removed on drop.
struct Page(PathBuf);

impl Page {
    fn write(name: &str, html: &str) -> Self {
        let file = format!("steppe-lab-page-{name}-{}.html", std::process::id());
        let path = std::env::temp_dir().join(file);
        std::fs::write(&path, html).expect("a page");
        Self(path)
    }

    fn of(name: &str, made: &runs::Made) -> Self {
        Self::write(
            name,
            &report::html(&made.run, &made.timelines()).expect("a page"),
        )
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Marks that are drawn outside of their chart, or at no place at all.
const MARKS_ASTRAY: &str = "[...document.querySelectorAll('svg')].flatMap(svg => {
    const view = svg.viewBox.baseVal;
    return [...svg.querySelectorAll('.mark')].filter(mark => {
        const box = mark.getBBox();
        const isInside = box.x >= -1 && box.y >= -1
            && box.x + box.width <= view.width + 1 && box.y + box.height <= view.height + 1;
        return !isInside || !Number.isFinite(box.x + box.y + box.width + box.height);
    }).map(mark => mark.outerHTML.slice(0, 200));
})";

/// Texts of charts that are cut off at the edge of their chart.
const TEXTS_CUT: &str = "[...document.querySelectorAll('svg')].flatMap(svg => {
    const edge = svg.getBoundingClientRect();
    return [...svg.querySelectorAll('text')].filter(text => {
        const box = text.getBoundingClientRect();
        return box.left < edge.left - 1 || box.right > edge.right + 1
            || box.top < edge.top - 1 || box.bottom > edge.bottom + 1;
    }).map(text => text.textContent);
})";

const OVERHANG: &str = "document.scrollingElement.scrollWidth - window.innerWidth";

#[test]
fn every_page_is_whole_at_both_widths() {
    let Some(mut browser) = Chromium::start("every_page_is_whole_at_both_widths") else {
        return;
    };
    for (name, made) in runs::all() {
        let page = Page::of(name, &made);
        browser.open(&page.0);
        for width in [1280, 390, 320] {
            browser.resize(width);
            let overhang = browser.evaluate(OVERHANG);
            assert!(
                overhang.as_f64() <= Some(0.0),
                "{name} at {width}: {overhang}"
            );
            assert_eq!(browser.evaluate(TEXTS_CUT), json!([]), "{name} at {width}");
        }
        assert_eq!(browser.evaluate(MARKS_ASTRAY), json!([]), "{name}");
        assert_eq!(browser.complaints, Vec::<String>::new(), "{name}");
        let own = format!("file://{}", page.0.display());
        assert_eq!(browser.requests, [own], "{name}");
    }
}

#[test]
fn the_page_says_the_verdict_and_draws_what_was_seen() {
    let Some(mut browser) = Chromium::start("the_page_says_the_verdict") else {
        return;
    };
    let expected = [
        ("stable", runs::stable(), "STABLE", 12),
        ("cycles", runs::cycles(), "UNBOUNDED", 20),
        ("ab", runs::ab(), "NO-GO", 7),
        ("leaks", runs::leaks(), "LEAK", 0),
        ("empty", runs::empty(), "NO VERDICT", 0),
    ];
    for (name, made, word, charts_min) in expected {
        let page = Page::of(name, &made);
        browser.open(&page.0);
        let shown = browser.evaluate("document.getElementById('word').innerText");
        assert!(shown.as_str().expect("text").contains(word), "{shown}");
        let charts = browser.evaluate(
            "[...document.querySelectorAll('svg')].filter(svg => svg.querySelector('.mark')).length",
        );
        assert!(charts.as_u64() >= Some(charts_min), "{name}: {charts}");
        let all = browser.evaluate("document.querySelectorAll('svg').length");
        assert_eq!(charts, all, "{name}: a chart without a mark");
    }
    let page = Page::of("bars", &runs::cycles());
    browser.open(&page.0);
    // A start and three cycles of each of four variants.
    let bars = browser.evaluate("document.querySelectorAll('rect.bar').length");
    assert_eq!(bars, json!(16));
}

/// The first variant grows as expected: the verdict is not about that.
#[test]
fn the_first_chart_is_of_the_variant_that_made_the_verdict() {
    let name = "the_first_chart_is_of_the_variant";
    let Some(mut browser) = Chromium::start(name) else {
        return;
    };
    let page = Page::of("lead", &runs::cycles());
    browser.open(&page.0);
    let first = browser.evaluate("document.querySelector('figure').innerText");
    assert!(
        first.as_str().expect("text").contains("zero-copy"),
        "{first}"
    );
}

#[test]
fn dark_mode_is_dark() {
    let Some(mut browser) = Chromium::start("dark_mode_is_dark") else {
        return;
    };
    let page = Page::of("dark", &runs::stable());
    let mut lightness = |scheme: &str| {
        browser.prefer(scheme);
        browser.open(&page.0);
        let sum = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g)
            .slice(0, 3).map(Number).reduce((a, b) => a + b)";
        browser.evaluate(sum).as_u64().expect("a sum")
    };
    assert!(lightness("light") > 3 * 200);
    assert!(lightness("dark") < 3 * 50);
}

#[test]
fn text_of_others_never_becomes_markup() {
    let Some(mut browser) = Chromium::start("text_of_others_never_becomes_markup") else {
        return;
    };
    let page = Page::of("harm", &runs::hostile());
    browser.open(&page.0);
    let elements = "document.querySelectorAll('img, script, iframe, [onerror], [style]').length";
    assert_eq!(browser.evaluate(elements), json!(0));
    let shown =
        browser.evaluate("document.body.innerText.includes('<img src=x onerror=alert(1)>')");
    assert_eq!(shown, json!(true));
}

#[test]
fn the_policy_forbids_what_somebody_puts_in() {
    let Some(mut browser) = Chromium::start("the_policy_forbids_what_somebody_puts_in") else {
        return;
    };
    let made = runs::stable();
    let html = report::html(&made.run, &made.timelines()).expect("a page");
    let added = "<script>window.ran = true</script><img src=\"file:///dev/null\">\
                 <p style=\"color: red\">x</p></body>";
    let page = Page::write("policy", &html.replace("</body>", added));
    browser.open(&page.0);
    assert_eq!(browser.evaluate("window.ran === undefined"), json!(true));
    let told = browser.complaints.join("\n");
    for directive in ["script-src", "img-src", "style-src"] {
        assert!(told.contains(directive), "{directive} in {told}");
    }
}
