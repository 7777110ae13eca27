// Certificates of listeners.

// Whoever renews by hand needs a fortnight.
const DAYS_LEFT_MIN = 14;

function showCertificates(certificates) {
  byId("certificates").hidden = certificates.length === 0;
  byId("certificate-rows").replaceChildren(...certificates.map(certificateRow));
}

function certificateRow(certificate) {
  const names = certificate.names.join(", ");
  const head = make("th", "", names || certificate.subject);
  head.scope = "row";
  head.setAttribute("role", "rowheader");
  if (names && certificate.subject) head.append(make("span", "quiet", ` ${certificate.subject}`));
  const cells = [["Expires", expiry(certificate)], ["Listener", certificate.listener], ["File", certificate.file]]
    .map(([label, content]) => {
      const cell = make("td", label === "Expires" ? "state" : "path");
      cell.dataset.label = label;
      cell.setAttribute("role", "cell");
      cell.append(make("span"));
      cell.firstChild.append(content);
      return cell;
    });
  return tableRow([head, ...cells]);
}

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
