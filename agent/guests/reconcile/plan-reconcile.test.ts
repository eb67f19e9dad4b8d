import { expect } from 'chai'
import { firstOwnership } from '../ownership/plan-ownership.js'
import { planReconcile, type Comparison } from './plan-reconcile.js'

const guest = (
  status: Comparison['record']['status'],
  wanted: 'running' | 'stopped',
  observed: Comparison['observed'],
  more: Partial<Comparison> = {},
): Comparison => ({
  record: { uuid: 'u', status, wanted, ownership: firstOwnership },
  observed,
  ended: undefined,
  held: false,
  blocked: false,
  ...more,
})
const update = (fields: object): object[] => [{ kind: 'update', uuid: 'u', update: fields }]
const start = [{ kind: 'start', uuid: 'u' }]
const fenced = (observed: Comparison['observed']): Comparison => {
  const { record, ...facts } = guest('error', 'stopped', observed)
  return { ...facts, record: { ...record, ownership: { role: 'fenced', generation: 1, moveId: '' } } }
}

describe('the repair of a guest whose actual state can differ from the state in the journal', () => {
  for (const [name, comparison, repairs] of [
    ['runs as desired', guest('running', 'running', 'running'), []],
    ['belongs to another host, but runs', fenced('running'), [{ kind: 'end', uuid: 'u' }]],
    ['belongs to another host, and is stopped', fenced('stopped'), []],
    ['is stopped as desired', guest('stopped', 'stopped', 'stopped'), []],
    ['does not run after a reboot of the host', guest('running', 'running', 'stopped'), start],
    ['was killed', guest('running', 'running', 'stopped', { ended: 'crash' }), start],
    [
      'was killed repeatedly (its status is then stopped until its next restart)',
      guest('running', 'running', 'stopped', { ended: 'crash', held: true }),
      update({ status: 'stopped', statusReason: 'not running, restarting it' }),
    ],
    ['was killed because memory ran out', guest('running', 'running', 'stopped', { ended: 'memory' }), start],
    [
      'was killed repeatedly because memory ran out',
      guest('running', 'running', 'stopped', { ended: 'memory', held: true }),
      update({ status: 'stopped', statusReason: 'killed because memory ran out, restarting it' }),
    ],
    [
      'ended while it was blocked (it then stays stopped after the end of the block)',
      guest('running', 'running', 'stopped', { blocked: true }),
      update({ status: 'stopped', wanted: 'stopped', statusReason: 'blocked' }),
    ],
    ['is blocked and stopped', guest('stopped', 'stopped', 'stopped', { blocked: true }), []],
    ['waits for its restart', guest('stopped', 'running', 'stopped', { held: true }), []],
    [
      'was powered off from inside',
      guest('running', 'running', 'stopped', { ended: 'guest' }),
      update({ status: 'stopped', wanted: 'stopped', statusReason: 'shut down from inside' }),
    ],
    [
      'runs although it should be stopped',
      guest('stopped', 'stopped', 'running'),
      update({ status: 'running', wanted: 'running', statusReason: '' }),
    ],
    ['is shown as running, but is stopped', guest('running', 'stopped', 'stopped'), update({ status: 'stopped' })],
    ['is starting', guest('running', 'running', 'starting'), []],
    ['is broken and stays broken', guest('error', 'stopped', 'running'), []],
  ] as const)
    it(`is ${repairs.length === 0 ? 'not planned' : 'planned'} for a guest that ${name}`, () =>
      expect(planReconcile([comparison])).to.deep.equal(repairs))
})
