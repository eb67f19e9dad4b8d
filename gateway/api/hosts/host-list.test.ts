import { expect } from 'chai'
import { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { HostDescription, HostMetrics } from '../../../proto/gen/berth/agent/v1/host.js'
import { createTimeFormat } from '../../../shared/time.js'
import type { KeyPrincipal } from '../../access/principal.js'
import type { HostRecord } from '../../fleet/host-record.js'
import type { HostState } from '../../fleet/host-state.js'
import { FleetState } from '../../fleet/view.js'
import { bodyText } from '../../http/reply-body.js'
import type { Answer } from '../../http/route.js'
import { HostList } from './host-list.js'
import { hostRow } from './host-row.js'

const time = createTimeFormat('UTC')
const key = { kind: 'key', guests: 'all', scopes: ['*'] } as unknown as KeyPrincipal
const uuids = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'] as const

function record(id: string, version = 1): HostRecord {
  const fixed = { draining: false, createdAtMs: 1000, serials: ['1'], certificateNotAfterMs: 2000 }
  return { id, version, name: `host-${id}`, address: `${id}:1`, ...fixed }
}

function guest(n: 0 | 1, name = `guest-${n}`): Guest {
  return Guest.fromPartial({ id: n + 1, uuid: uuids[n], name, status: 'running' })
}

function rowsOf({ prepared }: Answer<never>): Record<string, unknown>[] {
  return (JSON.parse(bodyText(prepared!.body)) as { data: Record<string, unknown>[] }).data
}

function change(view: FleetState, host: HostState, changes: Partial<HostRecord>): void {
  view.setHost({ ...host.record, version: host.record.version + 1, ...changes })
}

function sample(view: FleetState, host: HostState, metrics: Partial<HostMetrics>): void {
  view.apply(host, { $case: 'metrics', value: HostMetrics.fromPartial(metrics) })
}

function describeHost(view: FleetState, host: HostState, version: string): void {
  view.apply(host, { $case: 'host', value: HostDescription.fromPartial({ hostId: 'a', version }) })
}

function remove(view: FleetState, host: HostState, uuid: string): void {
  view.apply(host, { $case: 'removed', value: { kind: 'guest', key: uuid } })
}

const install = { step: 'joining', message: 'x', atMs: 5000 } as const
const upgrade = { step: 'starting', rollback: false, from: '1', to: '2', message: '', startedAtMs: 1, atMs: 1 }

/** Changes of host a, each with the fields of the row that it changes. The test makes them one after another. */
const changes: Record<string, [readonly string[], (view: FleetState, host: HostState) => void]> = {
  'a guest appears': [['containers'], (view, host) => view.apply(host, { $case: 'guest', value: guest(0) })],
  'the host connects': [['status'], (view, host) => view.setOnline(host, true)],
  'the agent sends a message a second later': [['last_seen'], (_, host) => (host.lastSeenMs = 61_000)],
  'the agent describes the host': [['version'], (view, host) => describeHost(view, host, '0.0.1')],
  'the agent reports a warning': [['warnings'], (view, host) => sample(view, host, { warnings: ['disk'] })],
  'the agent reports another warning': [['warnings'], (view, host) => sample(view, host, { warnings: ['swap'] })],
  'the agent reports a public address': [
    ['public_address', 'warnings'],
    (view, host) => sample(view, host, { publicIpv4: '203.0.113.9' }),
  ],
  'a guest conflicts with another guest': [
    ['warnings'],
    (view, host) => view.apply(host, { $case: 'guest', value: guest(1, 'GUEST-0') }),
  ],
  'the agent reports an invalid guest': [
    ['warnings'],
    (view, host) => view.apply(host, { $case: 'guest', value: Guest.fromPartial({ uuid: 'none' }) }),
  ],
  'the hidden guest is removed': [['warnings'], (view, host) => remove(view, host, uuids[1])],
  'the shown guest is removed': [['containers'], (view, host) => remove(view, host, uuids[0])],
  'an administrator sets the same address': [
    ['public_address_source'],
    (view, host) => change(view, host, { publicAddress: '203.0.113.9' }),
  ],
  'an administrator renames the host': [['name'], (view, host) => change(view, host, { name: 'other' })],
  'an administrator drains the host': [['draining'], (view, host) => change(view, host, { draining: true })],
  'the installation script reports': [['install'], (view, host) => change(view, host, { install })],
  'a join token is created': [
    ['join_token_status'],
    (view, host) => change(view, host, { joinExpiresAtMs: Date.now() + 3_600_000 }),
  ],
  'the join token expires': [['join_token_status'], (view, host) => change(view, host, { joinExpiresAtMs: 1 })],
  'an upgrade begins': [['upgrade'], (view, host) => change(view, host, { upgrade } as Partial<HostRecord>)],
  'the certificate is renewed': [
    ['certificate_expires_at'],
    (view, host) => change(view, host, { certificateNotAfterMs: 90_000 }),
  ],
  'the host disconnects': [['status'], (view, host) => view.setOnline(host, false)],
}

describe('the list of hosts', () => {
  it('shows each change immediately, and returns cached rows if nothing has changed', async () => {
    const view = new FleetState()
    const list = new HostList({ view, time })
    const host = view.setHost(record('a'))
    view.setHost(record('b'))
    let before = await list.read(key, {})
    for (const [what, [fields, apply]] of Object.entries(changes)) {
      apply(view, host)
      const after = await list.read(key, {})
      const containers = (id: string): number => view.countGuests(id).total
      const fresh = view.hosts().map((one) => hostRow(one, { caller: key, containers: containers(one.id), time }))
      expect(rowsOf(after), what).to.deep.equal(fresh)
      const [a, b] = [rowsOf(before)[0]!, rowsOf(after)[0]!]
      const changed = Object.keys(b).filter((field) => JSON.stringify(a[field]) !== JSON.stringify(b[field]))
      expect(changed.sort(), what).to.include.members([...fields])
      expect(after.prepared!.etag, what).not.to.equal(before.prepared!.etag)
      expect((await list.read(key, {})).prepared, 'the cached answer').to.equal(after.prepared)
      before = after
    }
    view.removeHost('a')
    expect(rowsOf(await list.read(key, {})).map(({ id }) => id)).to.deep.equal(['b'])
  })

  it('shows no cached rows to a caller who is allowed to see only some guests', async () => {
    const view = new FleetState()
    const list = new HostList({ view, time })
    const host = view.setHost(record('a'))
    for (const n of [0, 1] as const) view.apply(host, { $case: 'guest', value: guest(n) })
    sample(view, host, { warnings: ['disk'] })
    const bound = { ...key, guests: new Set([uuids[0]]) }
    expect(rowsOf(await list.read(key, {}))[0]).to.deep.include({ containers: 2, warnings: ['disk'] })
    expect(rowsOf(await list.read(bound, {}))[0]).to.deep.include({ containers: 1, warnings: [] })
    expect(rowsOf(await list.read(key, {}))[0]).to.deep.include({ containers: 2, warnings: ['disk'] })
  })

  it('filters and sorts by the values that the rows show', async () => {
    const view = new FleetState()
    const list = new HostList({ view, time })
    for (const id of ['a', 'b', 'c']) view.setHost(record(id))
    view.setOnline(view.findState('b')!, true)
    const ids = async (query: object): Promise<unknown[]> => rowsOf(await list.read(key, query)).map(({ id }) => id)
    expect(await ids({ sort: '-name', page: 1, page_size: 2 })).to.deep.equal(['c', 'b'])
    expect(await ids({ status: 'online' })).to.deep.equal(['b'])
    expect(await ids({ name: 'host-c' })).to.deep.equal(['c'])
    view.setOnline(view.findState('c')!, true)
    expect(await ids({ status: 'online', sort: '-id' })).to.deep.equal(['c', 'b'])
  })
})
