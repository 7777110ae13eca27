// Charts of the last ten minutes.

const SPAN_MS = 600_000;
const SPAN_MS_MIN = 60_000;
const SVG = "http://www.w3.org/2000/svg";

/** Lines over the last ten minutes. A line is a column of the history, with a name and a class. */
class Chart {
  constructor(id, lines, format) {
    const figure = byId(id);
    this.title = figure.querySelector("h2").textContent;
    this.svg = figure.querySelector("svg");
    this.summary = figure.querySelector(".summary");
    this.lines = lines;
    this.format = format;
    this.key = figure.querySelector(".key");
    for (const line of lines) this.key.append(make("span", line.look, line.name));
    this.limitKey = make("span", "limit", "budget");
    new ResizeObserver(() => this.draw()).observe(this.svg);
  }

  show(rows, limit) {
    this.rows = rows;
    this.limit = limit;
    this.draw();
  }

  /** The end of the scale. A limit far above all values would flatten them: it is left out. */
  top() {
    const values = this.rows.flatMap((row) => this.lines.map((line) => row[line.column] ?? 0));
    const most = Math.max(0, ...values);
    this.limitShown = this.limit != null && most > this.limit * 0.25;
    const wanted = this.limitShown ? Math.max(most, this.limit) : most;
    return roundUp(wanted * 1.05, this.format === bytes);
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.svg;
    if (!this.rows || width === 0 || document.hidden) return;
    const plot = { left: 58, right: width - 6, top: 8, bottom: height - 18 };
    const top = this.top();
    const end = this.rows.length ? this.rows[this.rows.length - 1][0] : 0;
    // A young node fills the chart too: whole minutes, up to ten.
    const age = this.rows.length ? end - this.rows[0][0] : 0;
    const span = Math.min(SPAN_MS, Math.max(1, Math.ceil(age / SPAN_MS_MIN)) * SPAN_MS_MIN);
    const x = (ms) => plot.right - ((end - ms) / span) * (plot.right - plot.left);
    const y = (value) => plot.bottom - (value / top) * (plot.bottom - plot.top);
    const parts = [];
    for (const fraction of [0, 0.5, 1]) {
      const at = Math.round(y(top * fraction)) + 0.5;
      parts.push(path("grid", `M${plot.left} ${at}H${plot.right}`));
      parts.push(label(plot.left - 6, at + 4, fraction ? this.format(top * fraction) : "0", "end"));
    }
    parts.push(label(plot.left, height - 3, `${span / SPAN_MS_MIN} min ago`, "start"));
    parts.push(label(plot.right, height - 3, "now", "end"));
    for (const line of this.lines) parts.push(...this.line(line, x, y, plot.bottom));
    if (this.limitShown) parts.push(path("limit", `M${plot.left} ${y(this.limit)}H${plot.right}`));
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren(...parts);
    this.describe();
  }

  line(line, x, y, floor) {
    let drawn = "";
    let area = "";
    let begun = null;
    let last = null;
    const close = () => {
      if (begun !== null && line.filled) area += `L${last} ${floor}L${begun} ${floor}Z`;
      begun = null;
    };
    let before = null;
    for (const row of this.rows) {
      const value = row[line.column];
      const gap = before !== null && row[0] - before > 5_000;
      before = row[0];
      if (gap) close();
      if (value == null) {
        close();
        continue;
      }
      last = x(row[0]).toFixed(1);
      const point = `${begun === null ? "M" : "L"}${last} ${y(value).toFixed(1)}`;
      if (begun === null) begun = last;
      drawn += point;
      area += point;
    }
    close();
    const paths = [path(line.look, drawn)];
    if (line.filled) paths.unshift(path("fill", area));
    return paths;
  }

  /** The chart in words. */
  describe() {
    const parts = this.lines.map((line) => {
      const values = this.rows.map((row) => row[line.column]).filter((value) => value != null);
      if (!values.length) return `${line.name}: none`;
      const now = this.rows[this.rows.length - 1][line.column];
      return `${line.name} now ${this.format(now)}, highest ${this.format(Math.max(...values))}`;
    });
    const above = this.limit != null && !this.limitShown ? ` · budget ${this.format(this.limit)}` : "";
    setText(this.summary, parts.join(" · ") + above);
    this.svg.setAttribute("aria-label", `${this.title}, last ten minutes: ${parts.join("; ")}`);
    if (this.limitShown) this.key.append(this.limitKey);
    else this.limitKey.remove();
  }
}

/** The next round number; for bytes, a round number of the unit. */
function roundUp(value, isBytes) {
  if (!(value > 0)) return isBytes ? 1 << 20 : 1;
  const unit = isBytes ? 1024 ** Math.floor(Math.log2(value) / 10) : 1;
  const scaled = value / unit;
  const power = 10 ** Math.floor(Math.log10(scaled));
  const step = [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((each) => each * power >= scaled) ?? 10;
  return step * power * unit;
}

function path(look, d) {
  const element = document.createElementNS(SVG, "path");
  element.setAttribute("class", look);
  element.setAttribute("d", d);
  return element;
}

function label(x, y, text, anchor) {
  const element = document.createElementNS(SVG, "text");
  element.setAttribute("x", x);
  element.setAttribute("y", y);
  element.setAttribute("text-anchor", anchor);
  element.textContent = text;
  return element;
}

const charts = {
  memory: new Chart("chart-memory", [
    { name: "resident", column: 1, look: "one", filled: true },
    { name: "reserved", column: 2, look: "two" },
  ], bytes),
  rate: new Chart("chart-rate", [
    { name: "requests", column: 3, look: "one", filled: true },
    { name: "5xx", column: 6, look: "bad" },
  ], (value) => (value < 10 && value > 0 ? value.toFixed(1) : count(value))),
  latency: new Chart("chart-latency", [
    { name: "p50", column: 4, look: "one", filled: true },
    { name: "p99", column: 5, look: "two" },
  ], milliseconds),
};

let samples = [];

function showHistory(history) {
  samples = history.samples;
}

function addSample(node) {
  const last = samples.length ? samples[samples.length - 1][0] : 0;
  if (node.at_ms > last) {
    samples.push([
      node.at_ms, node.rss_bytes, node.budget.reserved_bytes, node.requests_per_second,
      node.p50_ms, node.p99_ms, node["5xx_per_second"],
    ]);
  }
  const oldest = node.at_ms - SPAN_MS;
  samples = samples.filter((sample) => sample[0] >= oldest);
}
