import { expect } from 'chai'
import { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { Operation } from '../../proto/gen/berth/agent/v1/operation.js'
import { Alert } from '../../proto/gen/berth/agent/v1/security.js'
import type { HostState } from './host-state.js'
import { FleetState } from './view.js'
import type { WatchEvent } from './watch-kinds.js'

const uuid = '00000000-0000-4000-8000-000000000001'
const guest = Guest.fromPartial({ uuid, id: 1, name: 'web' })
const record = { version: 1, draining: false, createdAtMs: 0, serials: ['1'], certificateNotAfterMs: 1 }

const task = (fields: Partial<Operation> = {}): WatchEvent => {
  const subject = { kind: 'guest', id: uuid, name: 'web', number: 1 }
  return { $case: 'operation', value: Operation.fromPartial({ id: 't', status: 'done', subject, ...fields }) }
}
const alert = (fields: Partial<Alert> = {}): WatchEvent => {
  const known = { id: 'a', guestUuid: uuid, type: 'port_scan', severity: 'high' }
  return { $case: 'alert', value: Alert.fromPartial({ ...known, ...fields }) }
}
const gone = (kind: string, key: string): WatchEvent => ({ $case: 'removed', value: { kind, key } })

describe('the tasks and alerts of a guest that moves', () => {
  let view: FleetState
  let from: HostState
  let to: HostState
  let news: string[]

  beforeEach(() => {
    view = new FleetState()
    const add = (id: string): HostState => view.setHost({ ...record, id, name: id, address: `${id}:1` })
    from = add('from')
    to = add('to')
    from.epoch = to.epoch = 'known'
    view.apply(from, { $case: 'guest', value: guest })
    news = []
    view.changes.listen(({ kind, ...change }, host) => {
      if (kind === 'task' || kind === 'alert') news.push(`${'after' in change ? 'set' : 'removed'} ${kind} of ${host}`)
    })
  })

  const shownAt = (): string | undefined => view.findOperation('t')?.hostId
  const guestLeaves = (): void => view.apply(from, gone('guest', uuid))

  for (const first of ['from', 'to'] as const)
    it(`stay visible without events if the ${first === 'from' ? 'former' : 'new'} host reports a task first`, () => {
      const reports = { from: () => view.apply(from, task()), to: () => view.apply(to, task({ moved: true })) }
      reports[first]()
      reports[first === 'from' ? 'to' : 'from']()
      expect(shownAt()).to.equal(first)
      news = []
      view.apply(from, gone('operation', 't'))
      expect([shownAt(), news, from.refused, to.refused]).to.deep.equal(['to', [], '', ''])
      view.apply(to, gone('operation', 't'))
      expect([shownAt(), news]).to.deep.equal([undefined, ['removed task of to']])
    })

  it('disappear if the new host has removed a task before the former host has removed it', () => {
    view.apply(from, task())
    view.apply(to, task({ moved: true }))
    view.apply(to, gone('operation', 't'))
    view.apply(from, gone('operation', 't'))
    expect(shownAt()).to.equal(undefined)
  })

  it('cause no events at the new host, even if the former host is unknown', () => {
    view.apply(to, task({ moved: true }))
    view.apply(to, alert({ moved: true }))
    expect([shownAt(), view.alerts('to').length, news]).to.deep.equal(['to', 1, []])
  })

  for (const order of [
    ['to', 'third'],
    ['third', 'to'],
  ] as const)
    it(`are those of the new host, although a third host claims them, too (${order[0]} first)`, () => {
      const third = view.setHost({ ...record, id: 'third', name: 'third', address: 'third:1' })
      third.epoch = 'known'
      view.apply(from, task())
      for (const name of order)
        view.apply(name === 'to' ? to : third, task({ moved: true, error: name === 'to' ? '' : 'lie' }))
      guestLeaves()
      view.apply(to, { $case: 'guest', value: guest })
      view.apply(from, gone('operation', 't'))
      expect(shownAt()).to.equal('to')
    })

  for (const [name, other] of [
    ['that has not moved', task({ error: 'lie' })],
    ['that has not ended', task({ moved: true, status: 'running' })],
    ['of another guest', task({ moved: true, subject: { kind: 'guest', id: 'other', name: '', number: 2 } })],
    ['of no guest', task({ moved: true, subject: { kind: 'swap', id: 'host', name: '', number: 0 } })],
  ] as const)
    it(`are not replaced by a task ${name} of another host`, () => {
      view.apply(from, task())
      view.apply(to, other)
      view.apply(from, gone('operation', 't'))
      expect(shownAt()).to.equal(undefined)
      expect(to.refused).to.contain('belongs to host from')
    })

  it('are alerts of the new host once the guest has left', () => {
    view.apply(from, alert())
    view.apply(to, alert({ moved: true }))
    expect(view.alerts('from')).to.have.lengthOf(1)
    guestLeaves()
    expect([view.alerts('from').length, view.alerts().length]).to.deep.equal([0, 1])
    news = []
    view.apply(from, gone('alert', 'a'))
    expect(news).to.deep.equal([])
    view.apply(to, alert({ revision: 9, severity: 'critical' }))
    expect(news).to.deep.equal(['set alert of to'])
    view.apply(to, gone('alert', 'a'))
    expect([news.at(-1), view.alerts()]).to.deep.equal(['removed alert of to', []])
  })

  it('are alerts that a former host cannot hide', () => {
    view.apply(from, alert())
    view.apply(to, alert({ moved: true, severity: 'medium' }))
    expect(view.alerts('from').map((one) => one.alert.severity)).to.deep.equal(['high'])
  })
})
