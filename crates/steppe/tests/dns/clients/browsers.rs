//! Clients that resolve names over HTTPS while they fetch pages: curl and Chromium.

use steppe_testkit::{Chromium, Curl, skip};

use super::{PAGE, PAGE_HOST, Site};

impl Site {
    /// The URL of DNS over HTTPS.
    fn doh_url(&self) -> String {
        format!("https://{}/dns-query", self.forwarder.doh)
    }

    /// A page of a name that only the forwarder knows.
    fn page_url(&self) -> String {
        format!(
            "http://{PAGE_HOST}:{}/",
            self.forwarder.node.gateway().port()
        )
    }
}

#[test]
fn curl_finds_a_page_by_the_forwarder() {
    let Some(site) = Site::start("curl_finds_a_page_by_the_forwarder") else {
        return;
    };
    let fetch = |ca: &str| {
        let by = ["--doh-url", &site.doh_url(), "--cacert", ca];
        Curl::new(&site.page_url()).args(by).run()
    };
    let got = fetch(&site.ca().to_string_lossy());
    assert_eq!(got.exit, 0, "{}", got.errors);
    assert_eq!(got.body, PAGE.as_bytes());
    assert!(site.forwarder.queries("https") >= 1.0);
    // 6: the host could not be resolved.
    assert_eq!(fetch(&site.other_ca().to_string_lossy()).exit, 6);
    site.stop();
}

#[test]
fn chromium_finds_a_page_by_the_forwarder() {
    let test = "chromium_finds_a_page_by_the_forwarder";
    let Some(site) = Site::start(test) else {
        return;
    };
    let template = format!("{}{{?dns}}", site.doh_url());
    let started = Chromium::start_with_doh(&template, &site.forwarder.certificate.key_digest());
    let mut browser = match started {
        Ok(browser) => browser,
        Err(reason) => return skip(test, &reason),
    };
    browser.go(&site.page_url());
    browser.await_true(&format!("document.body.innerText.includes('{PAGE}')"));
    assert!(site.forwarder.queries("https") >= 1.0);
    assert!(site.forwarder.queries("udp") < 1.0, "by HTTPS alone");
    site.stop();
}
