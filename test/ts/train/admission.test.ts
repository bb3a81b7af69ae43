import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { REFUSALS } from '../../../ts/record/index.js';
import { admit, isDegenerate } from '../../../ts/train/admission.js';
import { trainConfigSchema } from '../../../ts/train/index.js';
import { judged } from './fakes.js';

const config = trainConfigSchema.parse({});
const fresh = () => 0;

describe('admission', () => {
  const cases: Array<[string, ReturnType<typeof judged>, string | null]> = [
    ['praised', judged('a', { reward: 1 }), null],
    ['blamed with a hint', judged('a', { reward: -1, hints: ['Answer in plain text.'] }), null],
    ['a hint without a reward', judged('a', { reward: null, hints: ['Answer in plain text.'] }), null],
    ['a neutral verdict without a hint', judged('a', { reward: 0 }), 'no-signal'],
    ['abstained', judged('a', { reward: null, status: 'abstained' }), 'abstained'],
    ['a failed judge', judged('a', { reward: null, status: 'failed' }), 'abstained'],
    ['cut at the length limit', judged('a', {}, { finish: 'length' }), 'truncated'],
    ['cut, although it has a hint', judged('a', { hints: ['Be short, please.'] }, { finish: 'length' }), 'truncated'],
    ['no log-probs', judged('a', {}, { logprobs: null }), 'no-logprobs'],
    ['log-probs of another length', judged('a', {}, { logprobs: new Float32Array(1) }), 'no-logprobs'],
    ['a side turn', judged('a', {}, { kind: 'side' }), 'side-turn'],
    ['aborted', judged('a', {}, { finish: 'abort' }), 'aborted'],
    ['empty', judged('a', {}, { responseIds: Int32Array.of(2) }), 'degenerate'],
    ['repeating', judged('a', {}, { responseIds: Int32Array.from({ length: 60 }, (_, i) => i % 3) }), 'degenerate'],
    ['too long', judged('a', {}, { promptIds: new Int32Array(9000) }), 'too-long'],
  ];
  it.each(cases)('%s', (_name, item, reason) => {
    const { admitted, refused } = admit([item], config, fresh);
    expect(refused[0]?.reason ?? null).toBe(reason);
    expect(admitted.length).toBe(reason ? 0 : 1);
  });

  it('refuses what was sampled too many versions ago, and what does not say by which', () => {
    expect(admit([judged('a')], config, () => 9).refused[0]?.reason).toBe('stale');
    expect(admit([judged('a')], config, () => 8).admitted.length).toBe(1);
    expect(admit([judged('a')], config, () => null).refused[0]?.reason).toBe('stale');
  });

  it('takes a cut reply for its hint only when told so, and never for its reward', () => {
    const lenient = trainConfigSchema.parse({ admission: { truncated: 'hint-only' } });
    const { admitted } = admit(
      [judged('a', { reward: -1, hints: ['Be short, please.'] }, { finish: 'length' })],
      lenient,
      fresh,
    );
    expect(admitted[0]).toMatchObject({ reward: null, hints: ['Be short, please.'] });
    expect(admit([judged('a', { reward: -1 }, { finish: 'length' })], lenient, fresh).refused[0]?.reason).toBe(
      'truncated',
    );
  });

  it('gives each method only what it can use', () => {
    const item = judged('a', { reward: -1, hints: ['Answer in plain text.'] });
    expect(admit([item], { ...config, method: 'rl' }, fresh).admitted[0]).toMatchObject({ reward: -1, hints: [] });
    expect(admit([item], { ...config, method: 'opd' }, fresh).admitted[0]).toMatchObject({ reward: null });
    expect(admit([judged('a', { reward: 1 })], { ...config, method: 'opd' }, fresh).refused[0]?.reason).toBe(
      'method-mismatch',
    );
  });

  it('lets one session fill only its share of a batch', () => {
    const talk = Array.from({ length: 14 }, (_, i) => judged(`t${i}`, {}, { sessionId: 'loop' }));
    const { admitted, refused } = admit([...talk, judged('other')], config, fresh);
    expect(admitted.length).toBe(config.admission.maxPerSession + 1);
    expect(refused.every((r) => r.reason === 'over-share')).toBe(true);
  });

  it('keeps one neutral turn of a session for rl', () => {
    const items = [judged('a', { reward: 0 }, { sessionId: 's' }), judged('b', { reward: 0 }, { sessionId: 's' })];
    expect(admit(items, { ...config, method: 'rl' }, fresh).admitted.length).toBe(1);
    expect(admit(items, config, fresh).admitted.length).toBe(0);
  });

  it('puts every turn in exactly one list, with a known reason', () => {
    const arbitrary = fc.array(
      fc.record({
        reward: fc.constantFrom(-1, 0, 1, null),
        hints: fc.constantFrom<string[]>([], ['Answer in plain text.']),
        status: fc.constantFrom('scored' as const, 'abstained' as const, 'failed' as const, 'implied' as const),
        finish: fc.constantFrom('stop' as const, 'length' as const, 'abort' as const, 'tool' as const),
        session: fc.constantFrom('s1', 's2'),
      }),
      { maxLength: 40 },
    );
    fc.assert(
      fc.property(arbitrary, fc.constantFrom('hybrid' as const, 'rl' as const, 'opd' as const), (rows, method) => {
        const items = rows.map((r, i) =>
          judged(
            `t${i}`,
            { reward: r.reward, hints: r.hints, status: r.status },
            { finish: r.finish, sessionId: r.session },
          ),
        );
        const { admitted, refused } = admit(items, { ...config, method }, fresh);
        const ids = [...admitted.map((a) => a.turn.id), ...refused.map((r) => r.turnId)].sort();
        expect(ids).toEqual(items.map((i) => i.turn.id).sort());
        for (const r of refused) expect(REFUSALS).toContain(r.reason);
      }),
    );
  });
});

it('calls text degenerate only when it repeats itself', () => {
  expect(isDegenerate(Int32Array.from({ length: 200 }, (_, i) => i))).toBe(false);
  expect(isDegenerate(Int32Array.from({ length: 23 }, () => 1))).toBe(false);
  expect(isDegenerate(Int32Array.from({ length: 24 }, () => 1))).toBe(true);
});
