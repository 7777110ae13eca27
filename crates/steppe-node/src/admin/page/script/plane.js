// The request plane.

let planeBefore;

const PLANE_COLUMNS = [
  ["Worker", (worker) => worker.address],
  ["Calls", (worker) =>
    remarked(count(worker.calls), worker.calls_max === null ? "" : `of ${count(worker.calls_max)}`)],
  ["Bytes", (worker) => bytes(worker.bytes)],
];

function showPlane(plane) {
  const finished = Object.entries(plane.calls.finished);
  const ended = finished.reduce((sum, [, number]) => sum + number, 0);
  byId("plane").hidden = plane.services.length === 0 && ended === 0;
  const now = performance.now();
  const elapsed = planeBefore ? (now - planeBefore.at) / 1000 : 0;
  const rate = elapsed > 0 ? (ended - planeBefore.ended) / elapsed : null;
  planeBefore = { at: now, ended };
  setText(byId("plane-rate"), count(rate));
  setText(byId("plane-total"), count(ended));
  setText(byId("plane-waiting"), count(plane.queue.calls));
  setText(byId("plane-waiting-bytes"), bytes(plane.queue.bytes));
  const { queued, queued_seconds: waited, answered, first_byte_seconds: took } = plane.calls;
  const mean = (seconds, number) => (number ? milliseconds(seconds * 1000 / number) : "–");
  byId("plane-times").replaceChildren(
    dataRow("time to the first byte", [count(answered), mean(took, answered)]),
    dataRow("wait for a worker", [count(queued), mean(waited, queued)]),
    dataRow("wait of a body for the memory budget", [count(plane.budget_waits), "–"]),
  );
  byId("plane-finished").replaceChildren(...finished.map(([status, number]) => {
    const part = share(number, ended);
    return dataRow(status, [count(number), percent(part)], part);
  }));
  byId("plane-services").replaceChildren(...plane.services.map(planeService));
}

function planeService(service) {
  const box = make("div", "upstream");
  const title = make("h3", "", service.name);
  title.append(make("span", "quiet", ` · ${count(service.waiting)} queued`));
  box.append(title);
  if (service.workers.length === 0) {
    box.append(make("p", "trouble", "No worker is connected."));
    return box;
  }
  box.append(stackedTable(PLANE_COLUMNS, service.workers));
  return box;
}
