// The request plane.

let planeBefore;

const PLANE_COLUMNS = ["Worker", "Calls", "Bytes"];

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
    dataRow("answers that began", [count(answered), mean(took, answered)]),
    dataRow("calls that waited for a worker", [count(queued), mean(waited, queued)]),
    dataRow("bodies that waited for the budget", [count(plane.budget_waits), "–"]),
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
  title.append(make("span", "quiet", ` · ${count(service.waiting)} waiting`));
  box.append(title);
  if (service.workers.length === 0) {
    box.append(make("p", "trouble", "no worker is connected"));
    return box;
  }
  const table = make("table");
  const head = make("tr");
  head.append(...PLANE_COLUMNS.map((column) => {
    const cell = make("th", "", column);
    cell.scope = "col";
    return cell;
  }));
  const rows = service.workers.map((worker) => {
    const of = worker.calls_max === null ? "" : ` of ${count(worker.calls_max)}`;
    const part = worker.calls_max ? share(worker.calls, worker.calls_max) : undefined;
    return dataRow(worker.address, [`${count(worker.calls)}${of}`, bytes(worker.bytes)], part);
  });
  const [top, body] = [make("thead"), make("tbody")];
  top.append(head);
  body.append(...rows);
  table.append(top, body);
  const scroll = make("div", "scroll");
  scroll.append(table);
  box.append(scroll);
  return box;
}
