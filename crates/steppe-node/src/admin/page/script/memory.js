// Memory: accounts of the budget, resident memory, the allocator.

// Rows of accounts by path, kept from one event to the next: an open row stays open.
const accountRows = new Map();

function showAccounts(root) {
  const body = byId("accounts");
  const seen = new Set();
  const visit = (account, above, depth, visible) => {
    // Names have slashes, but no control character.
    const name = `${above}\n${account.name}`;
    seen.add(name);
    const row = accountRows.get(name) ?? newAccountRow(name, account, depth, body);
    updateAccountRow(row, account, root);
    row.element.hidden = !visible;
    for (const child of account.children) visit(child, name, depth + 1, visible && row.open);
  };
  visit(root, "", 0, true);
  for (const [name, row] of accountRows) {
    if (!seen.has(name)) {
      row.element.remove();
      accountRows.delete(name);
    }
  }
}

function newAccountRow(path, account, depth, body) {
  const element = make("tr");
  const head = make("th");
  head.scope = "row";
  head.style.setProperty("--depth", depth);
  const name = make("div", "name");
  const row = { element, open: depth < 2, tag: make("span", "tag"), fill: make("i") };
  row.toggle = toggleOf(row, account.name);
  row.leaf = make("span", "leaf");
  const text = make("span");
  text.append(...wrapped(account.name));
  name.append(row.toggle, row.leaf, text, row.tag);
  const thin = make("div", "thin");
  thin.append(row.fill);
  head.append(name, thin);
  row.cells = [make("td"), make("td"), make("td")];
  element.append(head, ...row.cells);
  // Accounts come with the configuration, in order: a new one stands behind those of its parent.
  const parent = path.slice(0, path.lastIndexOf("\n"));
  const family = [...accountRows.entries()].filter(([each]) => each === parent || each.startsWith(`${parent}\n`));
  const before = family.length ? family[family.length - 1][1].element.nextSibling : null;
  body.insertBefore(element, before);
  accountRows.set(path, row);
  return row;
}

function toggleOf(row, name) {
  const button = make("button");
  button.type = "button";
  button.addEventListener("click", () => {
    row.open = !row.open;
    if (latest) showAccounts(latest.budget);
  });
  button.setAttribute("aria-label", `Accounts below ${name}`);
  return button;
}

function updateAccountRow(row, account, root) {
  const isLeaf = account.children.length === 0;
  row.toggle.hidden = isLeaf;
  row.leaf.hidden = !isLeaf;
  setText(row.toggle, row.open ? "▾" : "▸");
  row.toggle.setAttribute("aria-expanded", String(row.open));
  setText(row.tag, account.refused > 0 ? `${count(account.refused)} refused` : "");
  row.fill.style.width = `${share(account.reserved_bytes, root.reserved_bytes)}%`;
  const limit = account.limit_bytes == null ? "–" : bytes(account.limit_bytes);
  const texts = [bytes(account.reserved_bytes), bytes(account.peak_bytes), limit];
  texts.forEach((text, index) => setText(row.cells[index], text));
}

const HOLDERS = {
  allocator_live: "Allocated",
  allocator_retained: "Retained by the allocator",
  pool_mapped: "Large pooled buffers",
  thread_stacks: "Thread stacks",
  program_data: "Program data",
  libc_heap: "libc heap",
};

function showHolders(memory) {
  const whole = memory.anonymous_rss_bytes;
  const rows = memory.explained.map((part) => [HOLDERS[part.name] ?? part.name, part.bytes]);
  rows.push(["Unexplained", memory.unexplained_bytes]);
  byId("holders").replaceChildren(...rows.map(([name, held]) => {
    const part = share(held, whole);
    return dataRow(name, [bytes(held), percent(part)], part);
  }));
  showAllocator(memory.allocator);
  const sockets = memory.socket_buffers;
  setText(byId("holders-note"),
    `Anonymous memory is ${bytes(whole)} of ${bytes(memory.rss_bytes)} resident, measured every ten seconds. ` +
    `Kernel buffers of ${count(sockets.sockets)} sockets hold ${bytes(sockets.receive_bytes + sockets.send_bytes)}.`);
}

const ALLOCATOR_PARTS = [
  ["live_bytes", "in use", "one"],
  ["retained_bytes", "free in slabs in use", "two"],
  ["dirty_bytes", "free pages before purge", "three"],
  ["meta_bytes", "metadata", "rest"],
];

/** The figures of steppe-malloc; other allocators have none. */
function showAllocator({ name, resident_bytes: resident, details }) {
  byId("allocator").hidden = !details;
  if (!details) return;
  const held = ALLOCATOR_PARTS.reduce((sum, [key]) => sum + details[key], 0);
  const bar = byId("allocator-bar");
  bar.setAttribute("aria-label",
    ALLOCATOR_PARTS.map(([key, text]) => `${bytes(details[key])} ${text}`).join(", "));
  bar.replaceChildren(...ALLOCATOR_PARTS.map(([key, , look]) => {
    const part = make("i", look);
    part.style.width = `${share(details[key], held)}%`;
    return part;
  }));
  byId("allocator-key").replaceChildren(...ALLOCATOR_PARTS.map(([key, text, look]) => {
    const part = make("span", look);
    part.append(make("b", "", bytes(details[key])), ` ${text}`);
    return part;
  }));
  setText(byId("allocator-note"),
    `Allocator ${name}, profile ${details.profile}: ${bytes(resident)} are resident. Free pages are ` +
    `purged after ${milliseconds(details.decay_ms)}; ${bytes(details.purged_bytes)} were purged so far.`);
  showClasses(details);
  byId("heaps").replaceChildren(...details.heaps.map((heap) =>
    dataRow(heap.name ?? `thread ${heap.thread}`, [bytes(heap.binned_bytes)])));
}

const SLAB_BYTES = 64 << 10;

function showClasses(details) {
  // The class with the most slabs comes first.
  const classes = details.classes.filter((each) => each.slabs > 0)
    .sort((one, other) => other.slabs - one.slabs || other.block_bytes - one.block_bytes);
  const rows = classes.map((each) => {
    const live = each.live_blocks * each.block_bytes;
    const whole = each.slabs * SLAB_BYTES;
    const ready = (each.binned_blocks + each.stored_blocks) * each.block_bytes;
    const figures = [live, Math.max(0, whole - live), ready].map(bytes);
    return dataRow(bytes(each.block_bytes), [...figures, count(each.slabs)], share(live, whole));
  });
  const large = [["32 KiB to 1 MiB", details.run_bytes], ["above 1 MiB", details.huge_bytes]];
  for (const [name, live] of large) {
    if (live > 0) rows.push(dataRow(name, [bytes(live), "–", "–", "–"], 100));
  }
  byId("classes").replaceChildren(...rows);
}
