import { expect } from 'chai'
import { Operation } from '../../../proto/gen/berth/agent/v1/operation.js'
import { Alert } from '../../../proto/gen/berth/agent/v1/security.js'
import type { AuditRecord } from '../../access/audit-record.js'
import type { AlertView, OperationView } from '../../fleet/contract.js'
import { planTimeline } from './plan-timeline.js'

const task = (fields: Partial<Operation>): OperationView => ({
  hostId: 'host-a',
  operation: Operation.fromPartial({
    id: 't1',
    action: 'stop',
    status: 'done',
    requestedBy: 'ada',
    ...fields,
  }),
})
const entry = (fields: Partial<AuditRecord>): AuditRecord => ({
  timeMs: 5,
  action: 'container.stop',
  target: 'web',
  detail: '',
  user: 'ada',
  by: 'admin:1',
  keyId: 0,
  success: true,
  address: '192.0.2.7',
  requestId: 'r',
  containerUuid: 'u',
  count: 1,
  lastMs: 5,
  ...fields,
})
const none = { operations: [], audit: [], alerts: [] }

describe('the timeline of a container', () => {
  it('shows each task only once, with the address of its caller', () => {
    const audit = [entry({ detail: 'id 7, task t1' }), entry({ detail: 'id 7, task gone' })]
    const found = planTimeline({ ...none, operations: [task({ createdAtMs: 6 })], audit }, 10)
    expect(found.map(({ kind, address }) => [kind, address])).to.deep.equal([
      ['task', '192.0.2.7'],
      ['change', '192.0.2.7'],
    ])
  })
  for (const [action, requestedBy, kind] of [
    ['stop', 'ada', 'task'],
    ['stop', 'system', 'policy'],
    ['start', 'system', 'restart'],
    ['snapshot', 'system', 'task'],
    ['stop', 'system:security', 'alert'],
  ] as const)
    it(`shows a task "${action}" requested by "${requestedBy}" as an event of the kind "${kind}"`, () =>
      expect(planTimeline({ ...none, operations: [task({ action, requestedBy })] }, 1)[0]?.kind).to.equal(kind))
  it('omits successful requests for console tickets, but shows rejected requests for console tickets', () => {
    const audit = [true, false].map((success) => entry({ action: 'console.ticket', success }))
    expect(planTimeline({ ...none, audit }, 10).map(({ status }) => status)).to.deep.equal(['failure'])
  })
  it('sorts the events of all sources by time, and limits their number', () => {
    const alert: AlertView = {
      hostId: 'host-a',
      alert: Alert.fromPartial({ type: 'port_scan', severity: 'high', lastAtMs: 7, targetIp: '*' }),
    }
    const sources = { operations: [task({ createdAtMs: 9 })], audit: [entry({ timeMs: 8 })], alerts: [alert] }
    expect(planTimeline(sources, 10).map(({ atMs }) => atMs)).to.deep.equal([9, 8, 7])
    expect(planTimeline(sources, 2)).to.have.length(2)
    expect(planTimeline(sources, 10).at(-1)).to.include({
      kind: 'alert',
      action: 'port_scan',
      status: 'high',
    })
  })
})
