import { performance, PerformanceObserver } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { getHeapStatistics } from 'node:v8';

/** Readings that are kept. */
const READINGS_MAX = 16_384;
/** Readings that tell what one allocates by itself, once it is compiled. */
const BLANK_READINGS = 1_024;

/** Columns of a reading. */
const Column = { timeMs: 0, heapBytes: 1, packets: 2, wakes: 3 } as const;
type Column = (typeof Column)[keyof typeof Column];
const COLUMNS = 4;

/** Bytes that were allocated, and bytes that were collected meanwhile. */
export interface Allocated {
  /** Bytes. Without them, a collection came in each span. */
  perPacket: number | undefined;
  perWake: number | undefined;
  collections: number;
  collectionMs: number;
}

/**
 * Bytes that a thread allocates on its heap for packets. The heap is read after every so many: the figure is the
 * median of the spans between readings, less what a reading allocates by itself. So what V8 compiles
 * or learns meanwhile, which a few spans have, does not count; a span in which a collection came is left out.
 */
export class HeapMeter {
  private readonly cells = new Float64Array(READINGS_MAX * COLUMNS);
  private readings = 0;
  private blankBytes = 0;
  private collections: { startTime: number; duration: number }[] = [];
  private readonly observer = new PerformanceObserver((list) => {
    for (const { startTime, duration } of list.getEntries()) this.collections.push({ startTime, duration });
  });

  /** Begins anew, with nothing read. */
  async begin(): Promise<void> {
    this.observer.observe({ entryTypes: ['gc'] });
    this.blankBytes = this.blank();
    await delay(50);
    this.readings = 0;
    this.collections = [];
  }

  /** Reads the heap, after so many packets and wakes in all. */
  read(packets: number, wakes = 0): void {
    if (this.readings === READINGS_MAX) return;
    const { cells } = this;
    const row = this.readings * COLUMNS;
    cells[row + Column.timeMs] = performance.now();
    cells[row + Column.heapBytes] = getHeapStatistics().used_heap_size;
    cells[row + Column.packets] = packets;
    cells[row + Column.wakes] = wakes;
    this.readings += 1;
  }

  async end(): Promise<Allocated> {
    // The observer is told of collections later.
    await delay(50);
    this.observer.disconnect();
    this.blankBytes = Math.min(this.blankBytes, this.blank());
    return {
      perPacket: this.median(1, Column.packets),
      perWake: this.median(1, Column.wakes),
      collections: this.collections.length,
      collectionMs: this.collections.reduce((sum, { duration }) => sum + duration, 0),
    };
  }

  /** Bytes that a reading allocates by itself: the least of many in a row, which are not kept. */
  private blank(): number {
    const first = this.readings;
    let least = Infinity;
    for (let count = 0; count < BLANK_READINGS; count += 1) {
      this.readings = Math.min(first, READINGS_MAX - 2);
      this.read(0);
      this.read(0);
      const bytes = this.since(this.readings - 1, Column.heapBytes);
      // Less than nothing: a collection.
      if (bytes >= 0) least = Math.min(least, bytes);
    }
    this.readings = first;
    return least;
  }

  /** Bytes for one of what a column counts: the median of the spans that end with a reading from `first` on. */
  private median(first: number, counted: Column): number | undefined {
    const spans: number[] = [];
    for (let reading = first; reading < this.readings; reading += 1) {
      const count = this.since(reading, counted);
      if (count > 0 && !this.isCollected(reading)) {
        spans.push((this.since(reading, Column.heapBytes) - this.blankBytes) / count);
      }
    }
    spans.sort((one, other) => one - other);
    return spans[spans.length >> 1];
  }

  /** Growth of a column since the reading before. */
  private since(reading: number, column: Column): number {
    return this.cell(reading, column) - this.cell(reading - 1, column);
  }

  private cell(reading: number, column: Column): number {
    return this.cells[reading * COLUMNS + column] as number;
  }

  private isCollected(reading: number): boolean {
    const [from, to] = [this.cell(reading - 1, Column.timeMs), this.cell(reading, Column.timeMs)];
    return this.collections.some(({ startTime, duration }) => startTime <= to && startTime + duration >= from);
  }
}
