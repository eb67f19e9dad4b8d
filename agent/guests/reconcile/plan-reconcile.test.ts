import { expect } from 'chai'
import { planReconcile, type Comparison } from './plan-reconcile.js'

const guest = (
  status: Comparison['record']['status'],
  wanted: 'running' | 'stopped',
  observed: Comparison['observed'],
  more: Partial<Comparison> = {},
): Comparison => ({
  record: { uuid: 'u', status, wanted },
  observed,
  ended: undefined,
  held: false,
  blocked: false,
  ...more,
})
const update = (fields: object): object[] => [{ kind: 'update', uuid: 'u', update: fields }]
const start = [{ kind: 'start', uuid: 'u' }]

describe('planReconcile', () => {
  for (const [name, comparison, repairs] of [
    ['runs as desired', guest('running', 'running', 'running'), []],
    ['stopped as desired', guest('stopped', 'stopped', 'stopped'), []],
    ['gone after a reboot', guest('running', 'running', 'stopped'), start],
    ['killed', guest('running', 'running', 'stopped', { ended: 'crash' }), start],
    [
      'killed repeatedly: shown as stopped until its next restart',
      guest('running', 'running', 'stopped', { ended: 'crash', held: true }),
      update({ status: 'stopped', statusReason: 'not running, restarting it' }),
    ],
    ['killed because memory ran out', guest('running', 'running', 'stopped', { ended: 'memory' }), start],
    [
      'killed repeatedly because memory ran out',
      guest('running', 'running', 'stopped', { ended: 'memory', held: true }),
      update({ status: 'stopped', statusReason: 'killed because memory ran out, restarting it' }),
    ],
    [
      'ended, and blocked meanwhile: unblocking does not start it',
      guest('running', 'running', 'stopped', { blocked: true }),
      update({ status: 'stopped', wanted: 'stopped', statusReason: 'blocked' }),
    ],
    ['blocked and stopped', guest('stopped', 'stopped', 'stopped', { blocked: true }), []],
    ['waits for its restart, and is shown as stopped', guest('stopped', 'running', 'stopped', { held: true }), []],
    [
      'powered off from inside',
      guest('running', 'running', 'stopped', { ended: 'guest' }),
      update({ status: 'stopped', wanted: 'stopped', statusReason: 'shut down from inside' }),
    ],
    [
      'runs although it should be stopped',
      guest('stopped', 'stopped', 'running'),
      update({ status: 'running', wanted: 'running', statusReason: '' }),
    ],
    ['shown as running, but stopped', guest('running', 'stopped', 'stopped'), update({ status: 'stopped' })],
    ['starting', guest('running', 'running', 'starting'), []],
    ['broken stays broken', guest('error', 'stopped', 'running'), []],
  ] as const)
    it(name, () => expect(planReconcile([comparison])).to.deep.equal(repairs))
})
