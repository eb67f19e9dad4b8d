import { expect } from 'chai'
import {
  drainFailure,
  drainNews,
  drainProgress,
  drainReplacement,
  flagsOfNewDrain,
  planRows,
  type Drain,
} from './plan-drain.js'

const guest = (name: string, state: string, message = '') => ({
  container_uuid: name,
  name,
  state,
  to_host_id: state === 'waiting' || state === 'done' ? 'b' : '',
  message,
})
const drain = (containers: Drain['containers'], fields: Partial<Drain> = {}): Drain => ({
  host_id: 'a',
  state: 'running',
  mode: 'move',
  direction: 'away',
  started_at: '2026-11-27 12:00:00',
  containers,
  ...fields,
})
const nameOf = (id: string): string => `host-${id}`
const mixed = [guest('w1', 'done'), guest('w2', 'failed', 'no space'), guest('w3', 'active'), guest('w4', 'waiting')]

describe('a drain on the command line', () => {
  it('shows its plan as a table with a row for each guest', () => {
    const rows = planRows(drain([guest('w1', 'waiting'), guest('w2', 'failed', 'no host fits')]), nameOf)
    expect(rows.map(({ guest: name, will, note }) => [name, will, note])).to.deep.equal([
      ['w1', 'move to host-b', ''],
      ['w2', 'stay', 'no host fits'],
    ])
    const stops = planRows(drain([guest('w1', 'waiting'), guest('w2', 'done')], { mode: 'stop' }), nameOf)
    expect(stops.map(({ will }) => will)).to.deep.equal(['stop', 'do nothing'])
  })

  for (const [state, text] of [
    ['running', '1 of 4 done, 1 active, 1 failed'],
    ['paused', '1 of 4 done, 1 active, 1 failed, paused'],
  ] as const)
    it(`has a line of progress while it is ${state}`, () =>
      expect(drainProgress(drain(mixed, { state }))).to.equal(text))

  it('reports the result of each guest only once', () => {
    const first = drain(mixed)
    expect(drainNews(undefined, first, nameOf)).to.deep.equal(['w1: moved to host-b', 'w2: failed: no space'])
    expect(drainNews(first, first, nameOf)).to.deep.equal([])
    const later = drain([...mixed.slice(0, 2), guest('w3', 'skipped', 'deleted'), guest('w4', 'done')])
    expect(drainNews(first, later, nameOf)).to.deep.equal(['w3: skipped: deleted', 'w4: moved to host-b'])
    expect(drainNews(undefined, drain([guest('w1', 'done')], { mode: 'stop' }), nameOf)).to.deep.equal(['w1: stopped'])
  })

  for (const [name, containers, state, failure] of [
    ['all guests were moved', [guest('w1', 'done'), guest('w2', 'skipped')], 'done', undefined],
    ['a guest stays on the host', mixed.slice(0, 2), 'done', '1 of 2 guests stay on the host'],
    ['it is paused', mixed, 'paused', 'the drain is paused'],
    ['it was canceled', [guest('w1', 'waiting')], 'canceled', 'the drain was canceled'],
  ] as const)
    it(`counts as ${failure === undefined ? 'successful' : 'failed'} if ${name}`, () =>
      expect(drainFailure(drain(containers, { state }))).to.equal(failure))

  for (const [name, fields, text] of [
    ['is paused', { state: 'paused' }, undefined],
    ['has a later start', { started_at: '2026-11-27 13:00:00' }, 'another drain of the host has begun'],
    [
      'now returns the guests to the host',
      { direction: 'back' },
      'the drain was turned around: its guests return to the host',
    ],
    ['is no longer stored', { state: 'none', started_at: '' }, 'the gateway no longer stores this drain'],
  ] as const)
    it(`is reported as ${text === undefined ? 'unchanged' : 'replaced'} if it ${name}`, () =>
      expect(drainReplacement(drain(mixed), drain(mixed, fields))).to.equal(text))

  for (const [settings, flags] of [
    [{}, []],
    [{ parallel: '3' }, ['--parallel']],
    [{ mode: 'stop', deadline: '+2h' }, ['--mode', '--deadline']],
  ] as const)
    it(`${flags.length === 0 ? 'needs no flags' : `rejects ${flags.join(' and ')}`} while it is in progress`, () =>
      expect(flagsOfNewDrain(settings)).to.deep.equal(flags))
})
