/** Longest timeout of Node.js, in ms; a longer one fires at once. */
export const TIMEOUT_MS_MAX = 0x7fff_ffff;
