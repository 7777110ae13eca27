import './symbols';

export type * from './types';
export { Batch } from './batches';
export { AudioCapture } from './capture';
export { DeviceWatch } from './devices';
export { AudioError } from './error';
export { FrameDecoder, type FrameHeader, type StreamFrame } from './frame';
export { PRESETS, type Preset } from './presets';
export { AudioReader, type SharedCapture } from './shared';
