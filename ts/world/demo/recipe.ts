/**
 * The hyper-parameters the demo trains with, by scene. They are small models' values, found by trial
 * (docs/decisions/learning-recipe.md); everything not named here is the trainer's default.
 */
import type { Scene } from './scene.js';

export interface Recipe {
  batchTurns: number;
  flushMs: number;
  epochs: number;
  lr: number;
  wRl: number;
  topK: number;
  maxHints: number;
  deltaClip: number;
  anchor: { weight: number; perUpdate: number };
  lora: { rank: number; alpha: number; topLayers: number | null };
  admission: { truncated: 'refuse' | 'hint-only' };
  stepNeedsHint: boolean;
}

export function recipe(scene: Scene['name']): Recipe {
  return scene === 'stories'
    ? {
        batchTurns: 2,
        flushMs: 20_000,
        epochs: 4,
        lr: 1e-3,
        wRl: 0.3,
        topK: 20,
        maxHints: 3,
        deltaClip: 2,
        anchor: { weight: 0.1, perUpdate: 4 },
        lora: { rank: 8, alpha: 16, topLayers: null },
        admission: { truncated: 'refuse' },
        stepNeedsHint: false,
      }
    : {
        batchTurns: 4,
        flushMs: 60_000,
        epochs: 4,
        lr: 2.5e-4,
        wRl: 0.3,
        topK: 20,
        maxHints: 2,
        deltaClip: 2,
        anchor: { weight: 0.1, perUpdate: 2 },
        lora: { rank: 8, alpha: 16, topLayers: 12 },
        admission: { truncated: 'hint-only' },
        stepNeedsHint: true,
      };
}
