// Certificates of listeners.

// A renewal by hand takes up to a fortnight.
const DAYS_LEFT_MIN = 14;

function showCertificates(certificates) {
  byId("certificates").hidden = certificates.length === 0;
  byId("certificate-rows").replaceChildren(
    ...certificates.map((certificate) => stackedRow(CERTIFICATE_COLUMNS, certificate)));
}

const CERTIFICATE_COLUMNS = [
  ["Certificate", ({ names, subject }) =>
    (names.length ? remarked(names.join(", "), subject) : subject)],
  ["Expires", expiry, "state"],
  ["Listener", (certificate) => certificate.listener, "path"],
  ["File", (certificate) => certificate.file, "path"],
];

/** Days left in words, and the day. */
function expiry({ state, days_left: days, not_after: end }) {
  const left = days === 0 ? "today" : days === 1 ? "in 1 day" : `in ${count(days)} days`;
  const words = { expired: "expired", not_yet_valid: "not valid yet" }[state] ?? left;
  const isBad = state !== "valid" || days < DAYS_LEFT_MIN;
  const text = make("span", isBad ? "expiring" : "", words);
  // Seconds since the Unix epoch.
  text.append(make("span", "quiet", `, ${new Date(end * 1000).toLocaleDateString("en-GB")}`));
  return text;
}
