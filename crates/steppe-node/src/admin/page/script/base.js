// The admin page: reads /events and shows it. Data of the node is only ever set as text.
"use strict";

const byId = (id) => document.getElementById(id);
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));

/** An element with a class and a text. */
function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/** Sets a text only where it changed, so that selections and screen readers are left alone. */
function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// Units

function bytes(value) {
  if (value == null) return "–";
  if (value < 1024) return `${value} B`;
  const units = ["KiB", "MiB", "GiB", "TiB"];
  let scaled = value / 1024;
  let unit = 0;
  while (scaled >= 1023.95 && unit < units.length - 1) {
    scaled /= 1024;
    unit += 1;
  }
  return `${scaled < 100 ? scaled.toFixed(1) : Math.round(scaled)} ${units[unit]}`;
}

const count = (value) => (value == null ? "–" : Math.round(value).toLocaleString("en"));

function milliseconds(value) {
  if (value == null) return "–";
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : Math.round(value)} ms`;
}

function duration(seconds) {
  const parts = [[86_400, "d"], [3_600, "h"], [60, "min"], [1, "s"]];
  const first = parts.findIndex(([length]) => seconds >= length);
  if (first < 0) return "0 s";
  let rest = Math.floor(seconds);
  return parts.slice(first, first + 2).flatMap(([length, unit]) => {
    const whole = Math.floor(rest / length);
    rest -= whole * length;
    return whole ? [`${whole} ${unit}`] : [];
  }).join(" ");
}

const timeOfDay = (ms) => new Date(ms).toLocaleTimeString("en-GB");
const share = (part, whole) => (whole > 0 ? Math.min(100, (part / whole) * 100) : 0);

function percent(value) {
  if (value > 0 && value < 0.1) return "< 0.1 %";
  return `${value.toFixed(value > 0 && value < 10 ? 1 : 0)} %`;
}
