/** The end-to-end tests trust these checks; here they are seen to fail. */
import { describe, expect, it } from 'vitest';
import { type Book, type BookTurn, type BookVersion, problemsOfTraining, problemsOfVersions } from './book.js';

const turn = (id: string, trained_version: string | null): BookTurn => ({
  id,
  session_id: 's',
  kind: 'main',
  state: trained_version === null ? 'judged' : 'trained',
  refusal: null,
  version: 'm@0-00000000',
  trained_version,
  text: '',
  finish: 'stop',
  prompt_ids: new Int32Array(),
  response_ids: new Int32Array(),
  logprobs: null,
});
const version = (name: string, parent: string, state: string, turnIds: string[]): BookVersion => ({
  version: name,
  parent,
  state,
  folder: name,
  turnIds,
  metrics: {},
});
const book = (turns: BookTurn[], versions: BookVersion[], times: Array<[string, number]> = []): Book => ({
  turns,
  versions,
  live: null,
  timesTrained: new Map(times),
  damage: [],
});
const first = version('v1', 'base', 'retired', ['a']);
const second = version('v2', 'v1', 'live', ['b']);

describe('the checks on a ledger', () => {
  it('find nothing in a sound one', () => {
    const sound = book(
      [turn('a', 'v1'), turn('b', 'v2'), turn('c', null)],
      [first, second],
      [
        ['a', 1],
        ['b', 1],
      ],
    );
    expect(problemsOfTraining(sound)).toEqual([]);
    expect(problemsOfVersions(sound.versions, 'base')).toEqual([]);
  });

  it.each([
    ['a turn in two versions', book([turn('a', 'v1')], [first, { ...second, turnIds: ['a'] }])],
    ['a turn that says another version', book([turn('a', 'v2')], [first])],
    ['a turn that no version names', book([turn('a', 'v1'), turn('b', 'v1')], [first])],
    ['a turn named and not trained', book([turn('a', null)], [first])],
    ['a turn named and not there', book([], [first])],
    ['a turn trained twice', book([turn('a', 'v1')], [first], [['a', 2]])],
  ])('see %s', (_, broken) => {
    expect(problemsOfTraining(broken)).toHaveLength(1);
  });

  it('see a version that does not follow the one before it, and one that is live too long', () => {
    expect(problemsOfVersions([first, { ...second, parent: 'base' }], 'base')).toHaveLength(1);
    expect(problemsOfVersions([{ ...first, state: 'live' }, second], 'base')).toHaveLength(1);
    expect(problemsOfVersions([first], 'other')).toHaveLength(2);
  });
});
