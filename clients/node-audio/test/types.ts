// What the types promise: `npm test` compiles this file, and runs nothing of it.
import {
  AudioCapture,
  AudioError,
  AudioReader,
  Batch,
  PRESETS,
  type AudioDevice,
  type CaptureStats,
  type ChannelPosition,
  type DeviceChange,
  type Level,
  type Overrun,
  type Packet,
  type RecordedFile,
  type StreamSummary,
  type WavSummary,
} from '@steppe/audio';

/** Compiles only where both types are the same. */
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false;
const same = <A, B>(_: Same<A, B>): void => {};

export async function uses(): Promise<void> {
  await using capture = await AudioCapture.open({
    preset: 'whisper',
    source: [{ kind: 'input' }, { kind: 'loopback', deviceId: 'x' }],
    combine: 'mix',
    format: { sampleRate: 16_000 },
    packetMs: 20,
    ring: { slots: 64 },
    overrun: 'drop-newest',
    silence: 'skip',
    mode: 'zero-copy',
    gate: { thresholdDb: -40 },
  });
  capture.on('packet', (packet) => same<typeof packet, Packet>(true));
  capture.on('overrun', (overrun) => same<typeof overrun, Overrun>(true));
  capture.on('device', (change) => same<typeof change, DeviceChange>(true));
  capture.on('error', (error) => same<typeof error, Error>(true));
  capture.on('end', () => {});
  for await (using packet of capture) {
    same<typeof packet, Packet>(true);
    same<typeof packet.bytes, Buffer>(true);
    const floats: Float32Array = packet.copyTo(new Float32Array(512));
    void floats;
    packet.retain().release();
    // @ts-expect-error A packet is not to be written.
    packet.sequence = 1;
  }
  for await (const batch of capture.batches({ maxMs: 20 })) same<typeof batch, Batch>(true);
  same<Awaited<ReturnType<typeof AudioCapture.devices>>, AudioDevice[]>(true);
  const results: [CaptureStats, Level, WavSummary, StreamSummary] = [
    capture.stats(),
    capture.level(),
    await capture.recordWav('x-%v.wav', {
      seconds: 1,
      roll: { seconds: 0.5, bytes: 10_000 },
      onFile: (file) => same<typeof file, RecordedFile>(true),
    }),
    await capture.streamTo('https://x/', { token: async () => 'x' }),
  ];
  void results;
  const reader: AudioReader = await AudioReader.receive();
  await capture.recordWav(process.stdout);
  // @ts-expect-error A length is no text.
  await capture.recordWav('x.wav', { seconds: '1' });
  // @ts-expect-error There is no such limit.
  await capture.recordWav('x.wav', { roll: { minutes: 1 } });
  for (const packet of reader) same<typeof packet, Packet>(true);
  using closing = reader;
  closing.close();
  capture.share(new MessageChannel().port1);
  const generator: AsyncGenerator<Packet, void, undefined> = capture[Symbol.asyncIterator]();
  void generator;
  same<typeof PRESETS.whisper.packetMs, number>(true);
  const error = new AudioError('ERR_NO_SERVER', 'x');
  // @ts-expect-error There is no such code.
  if (error.code === 'ERR_NO_LUCK') throw error;
  // @ts-expect-error There is no such event.
  capture.on('pakcet', () => {});
  // @ts-expect-error There is no such source.
  await AudioCapture.open({ source: { kind: 'radio' } });
  await AudioCapture.open({ source: { kind: 'process', program: 'firefox', follow: 'none' } });
  for (const { pid, startTimeMs = 0 } of await AudioCapture.processes()) {
    await AudioCapture.open({ source: { kind: 'process', pid, startTimeMs } });
  }
  const surround = await AudioCapture.open({ format: { channelMap: ['front-left', 'aux31'] } });
  same<typeof surround.format.channelMap, readonly ChannelPosition[]>(true);
  // @ts-expect-error There is no such position.
  await AudioCapture.open({ format: { channelMap: ['left'] } });
  // @ts-expect-error A source that is mixed is mixed with one other.
  await AudioCapture.open({ source: [{ kind: 'input' }] });
}
