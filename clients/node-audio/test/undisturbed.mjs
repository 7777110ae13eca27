// Tests with players and sound servers that skip frames of their own on a busy machine.
import assert from 'node:assert/strict';

/**
 * Runs `judge` until the machine was fast enough for the sound server, five times at most, and `between` before each
 * further time. `judge` throws where frames were lost that the capture does not account for. Other errors are thrown on.
 */
export async function undisturbed(judge, between = async () => {}) {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await judge();
    } catch (error) {
      if (attempt === 5 || !(error instanceof assert.AssertionError)) throw error;
      console.log(`try ${attempt}: ${error.message}`);
      await between();
    }
  }
}
