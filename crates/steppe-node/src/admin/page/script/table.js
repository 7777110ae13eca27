// Tables, and addresses within them.

// A line may break before a port, never inside of it: half a port is another port.
const PORT = /(?<=[\w\]]):\d{1,5}(?!\d)/g;

/** The nodes of a text whose ports do not wrap. */
function wrapped(text) {
  const nodes = [];
  let end = 0;
  for (const { 0: port, index } of text.matchAll(PORT)) {
    nodes.push(text.slice(end, index), make("span", "whole", port));
    end = index + port.length;
  }
  nodes.push(text.slice(end));
  return nodes.filter((node) => node !== "");
}

/** A row with a head, texts, and a bar below the head where there is a share. */
function dataRow(name, texts, filled) {
  const head = make("th");
  head.append(...wrapped(name));
  head.scope = "row";
  if (filled !== undefined) {
    const thin = make("div", "thin flat");
    const fill = make("i");
    fill.style.width = `${filled}%`;
    thin.append(fill);
    head.append(thin);
  }
  const row = make("tr");
  row.append(head, ...texts.map((text) => make("td", "", text)));
  return row;
}

/**
 * A table that narrow screens show as one block a row. A column is a name, a function that makes
 * the text or the element of a row, and a class.
 */
function stackedTable(columns, rows) {
  const table = make("table", "stacked");
  // The style for narrow screens would take the table's meaning away from screen readers.
  table.setAttribute("role", "table");
  const heads = columns.map(([name, , look]) => {
    const head = make("th", look, name);
    head.scope = "col";
    head.setAttribute("role", "columnheader");
    return head;
  });
  const [top, body] = [make("thead"), make("tbody")];
  top.append(tableRow(heads));
  body.append(...rows.map((row) => stackedRow(columns, row)));
  table.append(top, body);
  return table;
}

function stackedRow(columns, row) {
  return tableRow(columns.map(([name, show, look], index) => {
    const cell = make(index ? "td" : "th", look);
    cell.setAttribute("role", index ? "cell" : "rowheader");
    if (index) cell.dataset.label = name;
    else cell.scope = "row";
    const shown = show(row);
    const content = make("span");
    content.append(...(typeof shown === "string" ? wrapped(shown) : [shown]));
    cell.append(content);
    return cell;
  }));
}

function tableRow(cells) {
  const row = make("tr");
  row.setAttribute("role", "row");
  row.append(...cells);
  return row;
}

/** A text, and a remark behind it. */
function remarked(text, remark) {
  const nodes = make("span");
  nodes.append(...wrapped(text));
  if (remark) {
    const quiet = make("span", "quiet");
    quiet.append(" ", ...wrapped(remark));
    nodes.append(quiet);
  }
  return nodes;
}
