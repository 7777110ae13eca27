/*
 * @steppe/audio for Node.js: captures microphones and system audio.
 *
 * Map of files
 * - index.ts: public exports
 * - types.ts: public types: options, packets, devices, statistics
 * - capture.ts: AudioCapture, a capture with events and its consumers
 * - options.ts: defaults of options
 * - check.ts: validation of options
 * - presets.ts: formats of known consumers
 * - native.ts: loading and types of the native addon
 * - layout.ts: layout of the memory shared with native code, generated (native/MEMORY.md)
 * - tally.ts: counts of a reader, in memory that several threads see
 * - ring.ts: reader of the ring
 * - packet.ts: packets, in place in a slot or copied
 * - reader.ts: PacketReader, on which every consumer of a capture stands, and the loop
 * - shared.ts: AudioReader, a blocking reader in a Worker
 * - batches.ts: batches of packets
 * - streams.ts: Node.js and Web streams
 * - recording.ts: recordings
 * - wav.ts: WAV files
 * - sink.ts: files, pipes and streams that a recording is written to
 * - file-pattern.ts: names of a row of files
 * - stream-to.ts: upload to a server over HTTP/2
 * - http1.ts: detection of servers without HTTP/2
 * - frame.ts: frame header and decoder of that upload
 * - devices.ts: lists of devices and programs, DeviceWatch
 * - error.ts: AudioError
 * - report.ts: statistics and levels
 * - latency.ts: latencies as integers, histogram buckets
 * - cli.ts: command steppe-audio
 * - meter.ts: level meter of the command
 * - bench.ts: benchmark of the command
 * - heap-meter.ts: heap allocation of a benchmark
 * - timeout.ts: the longest timeout of Node.js
 * - symbols.ts: Symbol.dispose and Symbol.asyncDispose for older runtimes
 */
import './symbols';

export type * from './types';
export { Batch } from './batches';
export { AudioCapture, type Shareable } from './capture';
export { DeviceWatch } from './devices';
export { AudioError } from './error';
export { FrameDecoder, type FrameHeader, type StreamFrame } from './frame';
export { PRESETS, type Preset } from './presets';
export { AudioReader, type SharedCapture } from './shared';
