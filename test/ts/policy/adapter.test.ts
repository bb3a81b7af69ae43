/** Adapters on disk: PEFT's names and shapes, round trips, refusals, and folders that are whole or not there. */
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { type AdapterToWrite, readAdapter, writeAdapter } from '../../../ts/policy/files/adapter.js';
import { readSafetensorsHeader } from '../../../ts/policy/files/safetensors.js';
import { safetensorsFile } from '../../../ts/policy/files/safetensors-writer.js';
import { temporaryFolder } from './helpers.js';

const root = temporaryFolder();
let made = 0;
const fresh = () => join(root, `a${made++}`);

function adapter(layers = [0, 1], withMoments = true): AdapterToWrite {
  const tensors: Record<string, Float32Array> = {};
  for (const layer of layers) {
    for (const [target, inner, outer] of [
      ['q_proj', 6, 8],
      ['down_proj', 10, 6],
    ] as const) {
      for (const [side, size] of [
        ['A', 4 * inner],
        ['B', outer * 4],
      ] as const) {
        const name = `layers.${layer}.${target}.${side}`;
        tensors[name] = new Float32Array(size).map((_, i) => i + layer / 8);
        if (withMoments) {
          tensors[`${name}.m`] = new Float32Array(size).fill(0.5);
          tensors[`${name}.v`] = new Float32Array(size).fill(0.25);
        }
      }
    }
  }
  return { rank: 4, alpha: 8, tensors, targets: ['q_proj', 'down_proj'], baseModel: 'tiny', step: 7 };
}

describe('adapters', () => {
  it('come back with their moments and step', async () => {
    const folder = fresh();
    const written = adapter();
    await writeAdapter(folder, written);
    const read = await readAdapter(folder);
    expect(read.state).toEqual({ step: 7, tensors: written.tensors });
    expect(read.adapter.rank).toBe(4);
    expect(read.adapter.alpha).toBe(8);
    expect(Object.keys(read.adapter.tensors).sort()).toEqual(
      Object.keys(written.tensors)
        .filter((n) => /[AB]$/.test(n))
        .sort(),
    );
    expect(read).toMatchObject({ targets: ['q_proj', 'down_proj'], baseModel: 'tiny' });
  });

  it('have PEFT’s names, shapes and config', async () => {
    const folder = fresh();
    await writeAdapter(folder, adapter([2, 3], false));
    const { tensors } = await readSafetensorsHeader(join(folder, 'adapter_model.safetensors'));
    const shapes = Object.fromEntries([...tensors].map(([name, t]) => [name, t.shape]));
    expect(shapes['base_model.model.model.layers.2.self_attn.q_proj.lora_A.weight']).toEqual([4, 6]);
    expect(shapes['base_model.model.model.layers.3.mlp.down_proj.lora_B.weight']).toEqual([6, 4]);
    const config = JSON.parse(readFileSync(join(folder, 'adapter_config.json'), 'utf8'));
    expect(config).toMatchObject({
      peft_type: 'LORA',
      r: 4,
      lora_alpha: 8,
      target_modules: ['q_proj', 'down_proj'],
      layers_to_transform: [2, 3],
      base_model_name_or_path: 'tiny',
    });
    expect(existsSync(join(folder, 'optimizer.safetensors'))).toBe(false);
    expect((await readAdapter(folder)).state).toEqual({ step: 7, tensors: adapter([2, 3], false).tensors });
  });

  it('leave nothing but the folder, also when they replace one', async () => {
    const folder = join(fresh(), 'inner', 'v1');
    await writeAdapter(folder, adapter());
    await writeAdapter(folder, { ...adapter(), step: 8 });
    expect(readdirSync(dirname(folder))).toEqual(['v1']);
    expect((await readAdapter(folder)).state!.step).toBe(8);
  });

  it('that cannot be written leave nothing behind', async () => {
    const file = fresh();
    writeFileSync(file, 'x');
    await expect(writeAdapter(join(file, 'v1'), adapter())).rejects.toMatchObject({ code: 'E_FILE' });
    await expect(writeAdapter(fresh(), { ...adapter(), tensors: {} })).rejects.toThrow(/no adapter matrix/);
    await expect(
      writeAdapter(fresh(), { ...adapter(), tensors: { ...adapter().tensors, odd: new Float32Array(1) } }),
    ).rejects.toThrow(/"odd"/);
    await expect(writeAdapter(fresh(), { ...adapter(), rank: 5 })).rejects.toMatchObject({ code: 'E_SHAPE' });
  });

  it('take PEFT’s own files, with another name for the default adapter and without trainer state', async () => {
    const folder = fresh();
    await writeAdapter(folder, { ...adapter(), tensors: adapter([0], false).tensors });
    const names = ['A', 'B'].map(
      (side) => `base_model.model.model.layers.0.self_attn.v_proj.lora_${side}.default.weight`,
    );
    const peft = fresh();
    cpSync(folder, peft, { recursive: true });
    const weights = [
      { name: names[0]!, shape: [4, 6], data: new Float32Array(24) },
      { name: names[1]!, shape: [8, 4], data: new Float32Array(32) },
    ];
    writeFileSync(join(peft, 'adapter_model.safetensors'), Buffer.concat(safetensorsFile(weights)));
    expect((await readAdapter(peft)).targets).toEqual(['v_proj']);
    writeFileSync(join(peft, 'adapter_model.safetensors'), Buffer.concat(safetensorsFile(weights.slice(0, 1))));
    await expect(readAdapter(peft)).rejects.toThrow(/"layers.0.v_proj.A" without "layers.0.v_proj.B"/);
    writeFileSync(
      join(peft, 'adapter_model.safetensors'),
      Buffer.concat(safetensorsFile([{ ...weights[0]!, shape: [6, 4] }])),
    );
    await expect(readAdapter(peft)).rejects.toThrow(/does not fit the rank 4/);
    writeFileSync(
      join(peft, 'adapter_model.safetensors'),
      Buffer.concat(safetensorsFile([{ ...weights[0]!, name: 'base_model.model.model.embed_tokens.lora_A.weight' }])),
    );
    await expect(readAdapter(peft)).rejects.toMatchObject({ code: 'E_UNSUPPORTED' });
  });

  it.each([
    [{ peft_type: 'IA3' }, /"IA3"/],
    [{ use_dora: true }, /use_dora/],
    [{ use_rslora: true }, /use_rslora/],
    [{ bias: 'all' }, /biases/],
    [{ rank_pattern: { q_proj: 2 } }, /rank_pattern/],
    [{ modules_to_save: ['lm_head'] }, /modules_to_save/],
    [{ r: 0 }, /"r" must be/],
    [{ r: 8 }, /does not fit the rank 8/],
  ])('of another kind are refused: %j', async (changes, message) => {
    const folder = fresh();
    await writeAdapter(folder, adapter());
    const file = join(folder, 'adapter_config.json');
    writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...changes }));
    await expect(readAdapter(folder)).rejects.toThrow(message);
  });

  it('whose moments are damaged are refused', async () => {
    const folder = fresh();
    await writeAdapter(folder, adapter());
    writeFileSync(
      join(folder, 'optimizer.safetensors'),
      Buffer.concat(safetensorsFile([{ name: 'layers.0.q_proj.A.m', shape: [4, 6], data: new Float32Array(24) }])),
    );
    await expect(readAdapter(folder)).rejects.toThrow(/holds 1 moments, trainer.json says 16/);
  });
});
