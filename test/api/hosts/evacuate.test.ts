import { expect } from 'chai'
import { randomUUID } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { changeOwnership } from '../../../agent/guests/moves/change-ownership.js'
import type { GuestStore } from '../../../agent/guests/record/guest-store.js'
import { BackupTarget } from '../../../proto/gen/berth/agent/v1/backup.js'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { ExpectGuestRequest } from '../../../proto/gen/berth/agent/v1/move.js'
import { conflict } from '../../../shared/errors.js'
import { GatewayStatuses } from '../../../gateway/gateways/gateway-status.js'
import { MoveStore } from '../../../gateway/fleet/moves/move-store.js'
import type { LabGuest } from '../../support/memory/lab-agent.js'
import type { Body } from '../../support/body.js'
import { EventStream } from '../../support/gateway/event-stream.js'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import { ipv6Address } from '../../support/memory/memory-host.js'
import { waitFor } from '../../support/wait.js'

interface EvacuatedRow {
  readonly name: string
  readonly state: string
  readonly to_host_id: string
  readonly message: string
}

const hosts = ['host-a', 'host-b', 'host-c']

describe('the evacuation of a failed host over HTTP', function () {
  const directory = mkdtempSync(join(tmpdir(), 'btest-evacuate-'))
  const [program, fenced] = [join(directory, 'fence'), join(directory, 'fenced')]
  let gateway: TestGateway
  let targetId: string

  before(async () => {
    const agentConfig = { network: { shared_pools: [{ name: 'rack', range: '2001:db8:1::/64', interface: 'eth0' }] } }
    gateway = await startTestGateway({ hosts, agentConfig, fencing: { program, arguments: ['--off'] } })
    for (const host of hosts) await gateway.fleet.work(host)
    const body = { name: 'disk', type: 'local', path: '/srv/backups', encryption_password: 'a-password-of-it' }
    targetId = (await gateway.request('POST', '/backup-targets', { body })).body.data.id as string
  })
  after(async () => {
    await gateway.close()
    rmSync(directory, { recursive: true, force: true })
  })
  beforeEach(async () => {
    fenceWith('exit 0')
    if (gateway.fleet.view.findHost('host-a')?.state !== 'online') await gateway.fleet.setHostState('host-a', 'online')
    await gateway.fleet.removeGuests()
    await gateway.fleet.hosts.updateHost('host-a', { draining: false })
    await gateway.fleet.hosts.updateHost('host-c', { draining: true }) // so that the targets of most tests are known
  })

  const fenceWith = (script: string): void =>
    writeFileSync(program, `#!/bin/sh\necho "$@" >> ${fenced}\n${script}\n`, { mode: 0o755 })
  const evacuate = (body: object = {}): Promise<Reply> => gateway.request('POST', '/hosts/host-a/evacuate', { body })
  const refusal = ({ status, body }: Reply): unknown[] => [status, body.code]
  const agentOf = (host: string) => gateway.fleet.agentOf(host)
  const runsOn = (host: string, { uuid }: Guest): boolean => agentOf(host).host.driver.running.has(uuid)
  const detail = async ({ uuid }: Guest): Promise<Body> =>
    (await gateway.request('GET', `/containers/${uuid}`)).body.data

  async function addGuest(hasBackup: boolean, fields: LabGuest = {}): Promise<Guest> {
    const guest = await gateway.fleet.addGuest({ status: 'running', wanted: 'running', ...fields })
    const { host } = agentOf('host-a')
    host.driver.run(guest.uuid)
    host.contents.set(guest.uuid, `disk of ${guest.name}`)
    if (hasBackup) await backUp(guest)
    return guest
  }
  async function backUp({ uuid }: Guest): Promise<void> {
    const before = await countBackups({ uuid })
    const asked = await gateway.request('POST', `/containers/${uuid}/backups`, { body: { target_id: targetId } })
    expect(asked.status, asked.text).to.equal(202)
    await waitFor(async () => (await countBackups({ uuid })) > before, { what: 'the backup' })
  }
  const openEvents = (): Promise<EventStream> =>
    EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey }, '?kinds=guest')
  /** Returns the types of the guest's events about its creation, its removal or a change of its host, in order. */
  const hostChangesIn = ({ events, types }: EventStream, { uuid }: Guest): (string | undefined)[] =>
    types.filter(
      (type, at) =>
        ['guest.created', 'guest.moved', 'guest.removed'].includes(type ?? '') &&
        JSON.stringify(events[at]!.data).includes(uuid),
    )
  const countBackups = async ({ uuid }: Pick<Guest, 'uuid'>): Promise<number> =>
    ((await gateway.request('GET', `/containers/${uuid}/backups`)).body.data.backups as unknown[]).length

  async function waitForEnd(): Promise<EvacuatedRow[]> {
    let drain: Body = {}
    await waitFor(
      async () => {
        drain = (await gateway.request('GET', '/hosts/host-a/drain')).body.data
        return drain.mode === 'evacuate' && drain.ended_at !== ''
      },
      { what: () => `the end of ${JSON.stringify(drain)}` },
    )
    return drain.containers as EvacuatedRow[]
  }

  it('changes nothing in a dry run, and is refused without a confirmation or while the host is online', async () => {
    const [saved, lost] = [await addGuest(true), await addGuest(false)]
    expect(refusal(await evacuate({ dry_run: true }))).to.deep.equal([409, 'invalid_state'])
    await gateway.fleet.setHostState('host-a', 'offline')
    expect(refusal(await evacuate())).to.deep.equal([400, 'missing_field'])
    expect(refusal(await evacuate({ confirm: 'host-b' }))).to.deep.equal([400, 'invalid_field'])
    const { status, body } = await evacuate({ dry_run: true })
    expect([status, body.data.state, body.data.fences]).to.deep.equal([200, 'planned', true])
    const rows = new Map((body.data.containers as Body[]).map((row) => [row['name'], row]))
    expect(rows.get(saved.name)).to.include({
      to_host_id: 'host-b',
      message: '',
      backup_target_id: targetId,
      backup_is_local: true,
    })
    expect(rows.get(saved.name)!['lost_seconds']).to.be.a('number')
    expect(rows.get(lost.name)).to.include({ to_host_id: '', backup_id: '', message: 'the container has no backup' })
    expect(agentOf('host-b').guests()).to.deep.equal([])
  })

  it('does not begin if the fencing program fails', async () => {
    await addGuest(true)
    await gateway.fleet.setHostState('host-a', 'offline')
    fenceWith('exit 1')
    expect(refusal(await evacuate({ confirm: 'host-a' }))).to.deep.equal([409, 'fencing_failed'])
    expect(readFileSync(fenced, 'utf8')).to.include('--off host-a host-a ')
    expect(agentOf('host-b').guests()).to.deep.equal([])
  })

  it('waits for hosts that are about to connect before it considers a host as failed', async () => {
    await gateway.fleet.setHostState('host-a', 'offline')
    let connected: Promise<void> | undefined // other parts of the gateway wait for connections, too
    gateway.fleet.expectedConnections = () => (connected ??= gateway.fleet.setHostState('host-a', 'online'))
    const answer = await evacuate({ confirm: 'host-a' })
    Reflect.deleteProperty(gateway.fleet, 'expectedConnections')
    expect(refusal(answer)).to.deep.equal([409, 'invalid_state'])
  })

  it('is refused while another gateway is connected to the host', async () => {
    await gateway.fleet.setHostState('host-a', 'offline')
    const invited = await gateway.request('POST', '/gateways', { body: { name: 'other' } })
    const other = new GatewayStatuses(gateway.store, invited.body.data.id as string)
    await other.report([], ['host-a'])
    const answer = await evacuate({ dry_run: true })
    await other.withdraw()
    expect([...refusal(answer), answer.body.message]).to.deep.equal([
      409,
      'invalid_state',
      'the gateway other is connected to the host: only a host that no gateway reaches can be evacuated',
    ])
  })

  it('restores a guest even if a placement rule keeps it on the same host as a guest without a backup', async () => {
    const placement = { group: '', labels: [], spread: '', together: 'app' }
    const [saved, lost] = [await addGuest(true, { placement }), await addGuest(false, { placement })]
    await gateway.fleet.setHostState('host-a', 'offline')
    const { body } = await evacuate({ dry_run: true })
    const planned = (body.data.containers as EvacuatedRow[]).find(({ name }) => name === saved.name)
    expect(planned?.to_host_id).to.be.oneOf(['host-b', 'host-c'])
    await evacuate({ confirm: 'host-a' })
    const states = (await waitForEnd()).map(({ name, state }) => [name, state])
    expect(Object.fromEntries(states)).to.deep.equal({ [saved.name]: 'done', [lost.name]: 'failed' })
  })

  it('restores the next older backup if the newest one is damaged', async () => {
    const guest = await addGuest(true)
    agentOf('host-a').host.contents.set(guest.uuid, 'newer disk')
    await backUp(guest)
    await gateway.fleet.setHostState('host-a', 'offline')
    let attempts = 0
    const targets = ['host-b', 'host-c'].map((host) => agentOf(host).host)
    for (const { backupFaults } of targets)
      backupFaults.fetch = () => {
        if (attempts++ === 0) throw conflict('backup_damaged', 'the backup is damaged')
      }
    await evacuate({ confirm: 'host-a' })
    const [row] = await waitForEnd()
    for (const { backupFaults } of targets) delete backupFaults.fetch
    expect([row?.state, attempts]).to.deep.equal(['done', 2])
    expect(agentOf(row!.to_host_id).host.contents.get(guest.uuid)).to.equal(`disk of ${guest.name}`)
  })

  it('keeps the IPv6 address of a restored guest in a shared pool, and no other guest can get it', async () => {
    const kept = '2001:db8:1::7'
    const prefix = { interface: 'eth0', address: '', prefix: '2001:db8:1::', prefixLen: 64, gateway: '' }
    for (const { host, domain } of ['host-a', 'host-b'].map(agentOf)) {
      host.ipv6Addresses = [{ ...ipv6Address, address: '2001:0db8:0001:0000:0000:0000:0000:000a', prefixLength: 64 }]
      await domain.routing.setRouting({ ipv6Prefixes: [prefix] })
    }
    const guest = await addGuest(true, { ipv6Addresses: [kept] })
    const other = await gateway.fleet.addGuest({}, 'host-b')
    const assign = { body: { ipv6_addresses: [kept] } }
    await gateway.fleet.setHostState('host-a', 'offline')
    const refused = await gateway.request('POST', `/containers/${other.id}/ipv6`, assign)
    expect(refusal(refused)).to.deep.equal([409, 'address_in_use'])
    await evacuate({ confirm: 'host-a' })
    expect((await waitForEnd())[0]).to.include({ state: 'done', to_host_id: 'host-b' })
    expect(agentOf('host-b').host.wire.guests.get(guest.uuid)?.ipv6Addresses).to.deep.equal([kept])
    expect((await detail(guest)).ipv6_addresses).to.deep.equal([kept])
  })

  it('replaces a paused drain of the host', async () => {
    const guest = await addGuest(true)
    const begun = await gateway.request('POST', '/hosts/host-a/drain', { body: { mode: 'stop', parallel: 1 } })
    expect(begun.status, begun.text).to.equal(202)
    await gateway.request('POST', '/hosts/host-a/drain/pause')
    await gateway.fleet.setHostState('host-a', 'offline')
    const answer = await evacuate({ confirm: 'host-a' })
    expect(answer.status, answer.text).to.equal(202)
    expect((await waitForEnd()).find(({ name }) => name === guest.name)).to.include({ state: 'done' })
  })

  for (const handsOver of [false, true])
    it(`restores a guest whose host failed during its move ${handsOver ? 'after' : 'before'} the hand-over, even on the target of the move`, async () => {
      const moving = await addGuest(true)
      const move = await beginMove(moving)
      await gateway.fleet.setHostState('host-a', 'offline')
      if (handsOver) agentOf('host-a').journal((store) => handOverIn(store, moving, move.id))
      await evacuate({ confirm: 'host-a' })
      expect((await waitForEnd())[0]).to.include({ name: moving.name, state: 'done', to_host_id: 'host-b' })
      await waitFor(() => runsOn('host-b', moving), { what: 'the restored guest' })
      expect(await new MoveStore(gateway.store).find(moving.uuid)).to.equal(undefined)

      await gateway.fleet.setHostState('host-a', 'online')
      await waitFor(() => ownershipAt('host-a', moving)?.role === 'fenced', {
        what: () => `the fence of the old copy: ${JSON.stringify(ownershipAt('host-a', moving))}`,
      })
      expect(runsOn('host-a', moving)).to.equal(false)
      expect(agentOf('host-a').host.contents.get(moving.uuid)).to.equal(`disk of ${moving.name}`)
    })

  it('does not delete what the target of a move has received if the guest cannot be restored', async () => {
    const moving = await addGuest(false)
    await beginMove(moving)
    await gateway.fleet.setHostState('host-a', 'offline')
    await evacuate({ confirm: 'host-a' })
    expect((await waitForEnd())[0]).to.include({ state: 'failed', message: 'the container has no backup' })
    expect(ownershipAt('host-b', moving)).to.include({ role: 'arriving' })
  })

  /** Begins a move from host-a to host-b, and lets host-b expect the guest. No transfer begins. */
  async function beginMove({ uuid, name }: Guest) {
    const ids = { id: randomUUID(), uuid, fromHostId: 'host-a', toHostId: 'host-b' }
    await new MoveStore(gateway.store).begin({ ...ids, beganAtMs: Date.now(), isRunning: true }, name)
    const { guest } = gateway.fleet.view.findGuest(uuid)!
    const expected = { moveId: ids.id, generation: 0, fromHostId: 'host-a', guest }
    await gateway.fleet.agent('host-b').moves.expectGuest(ExpectGuestRequest.create(expected))
    await waitFor(() => ownershipAt('host-b', { uuid })?.role === 'arriving', { what: 'the expected guest' })
    return ids
  }

  /** Records that the guest was stopped and completely sent, as an agent does immediately before its host fails. */
  function handOverIn(store: GuestStore, { uuid }: Guest, moveId: string): void {
    changeOwnership(store, uuid, { kind: 'leave', moveId, generation: 0 })
    store.update(uuid, { wanted: 'stopped', status: 'stopped' })
    changeOwnership(store, uuid, { kind: 'hand_over' })
  }

  const ownershipAt = (host: string, { uuid }: Pick<Guest, 'uuid'>) =>
    agentOf(host)
      .guests()
      .find((guest) => guest.uuid === uuid)?.ownership

  it('restores on another host each guest that has a backup, and fences its old copy when the failed host returns', async () => {
    const [saved, lost] = [await addGuest(true), await addGuest(false)]
    await gateway.fleet.setHostState('host-a', 'offline')
    const guestEvents = await openEvents()
    const begun = await evacuate({ confirm: 'host-a' })
    expect(begun.status, begun.text).to.equal(202)
    const rows = new Map((await waitForEnd()).map((row) => [row.name, row]))
    expect(rows.get(saved.name)).to.include({ state: 'done', to_host_id: 'host-b' })
    expect(rows.get(lost.name)).to.include({ state: 'failed', message: 'the container has no backup' })
    await waitFor(async () => (await detail(saved))['status'] === 'running', { what: 'the restored guest' })
    await guestEvents.type('guest.moved')
    expect(hostChangesIn(guestEvents, saved)).to.deep.equal(['guest.moved'])
    guestEvents.close()
    expect(await detail(saved)).to.include({ host_id: 'host-b', name: saved.name, id: saved.id, uuid: saved.uuid })
    expect(agentOf('host-b').host.contents.get(saved.uuid)).to.equal(`disk of ${saved.name}`)
    expect(await countBackups(saved)).to.equal(1)
    expect(await detail(lost)).to.include({ host_id: 'host-a', status: 'unknown' })

    const events = await EventStream.open(gateway.url, { 'x-api-key': gateway.adminKey }, '?kinds=host')
    await gateway.fleet.setHostState('host-a', 'online')
    await waitFor(() => !runsOn('host-a', saved), { what: 'the old copy to be stopped' })
    await waitFor(() => runsOn('host-a', lost), { what: 'the other guest' })
    const copy = agentOf('host-a')
      .guests()
      .find(({ uuid }) => uuid === saved.uuid)
    expect(copy?.ownership).to.include({ role: 'fenced' })
    expect(agentOf('host-a').host.contents.get(saved.uuid)).to.equal(`disk of ${saved.name}`)
    expect(await detail(saved)).to.include({ host_id: 'host-b', status: 'running' })
    const { body } = await gateway.request('GET', '/hosts/host-a')
    expect(JSON.stringify(body.data['warnings'])).to.include(saved.name)
    expect((await events.type('host.fenced')).data.data).to.deep.equal({ id: 'host-a', name: 'host-a', containers: 1 })
    events.close()
    await deleteOldCopy(saved, lost)
  })

  async function deleteOldCopy(saved: Guest, lost: Guest): Promise<void> {
    const copies = '/hosts/host-a/copies'
    const list = async (): Promise<unknown> => (await gateway.request('GET', copies)).body.data
    const [name, container_uuid] = [saved.name, saved.uuid]
    const copy = { name, container_uuid, virtualization: 'lxc', disk_gb: 10, may_be_only_copy: false }
    expect(await list()).to.deep.equal([{ ...copy, owner_host_id: 'host-b', owner_state: 'online' }])
    expect(refusal(await gateway.request('DELETE', `${copies}/${lost.uuid}`))).to.deep.equal([404, 'not_found'])
    await gateway.fleet.hosts.updateHost('host-a', { draining: false })
    const move = { host_id: 'host-a', dry_run: true }
    const back = await gateway.request('POST', `/containers/${saved.uuid}/migrate`, { body: move })
    expect(back.body.message).to.equal('the target host has an old copy of the container: delete this copy first')
    const order = { $case: 'deleteCopy', value: { uuid: lost.uuid } } as const
    const { operations } = gateway.fleet.agent('host-a')
    const owned = operations.submitOperation({ operationId: randomUUID(), requestedBy: 'test', order })
    expect(await owned.catch((error: unknown) => error), 'by the agent').to.include({ code: 'invalid_state' })
    await gateway.fleet.setHostState('host-b', 'offline')
    const only = await gateway.request('DELETE', `${copies}/${saved.uuid}`)
    expect(refusal(only)).to.deep.equal([409, 'invalid_state'])
    expect(only.body.message).to.include('may be the only one')
    await gateway.fleet.setHostState('host-b', 'online')
    const { status, body } = await gateway.request('DELETE', `${copies}/${saved.uuid}`)
    expect([status, body.data.task_id]).to.deep.equal([202, body.data.task_id])
    await waitFor(() => !agentOf('host-a').host.volumes.has(saved.uuid), { what: 'the deletion of the copy' })
    await waitFor(async () => JSON.stringify(await list()) === '[]', { what: 'the empty list' })
    expect(await detail(saved)).to.include({ host_id: 'host-b', status: 'running' })
    expect(await detail(lost)).to.include({ host_id: 'host-a', status: 'running' })
  }

  /** Begins a restore whose order is lost, because the target goes offline immediately before the order is sent. */
  async function loseOrder({ uuid }: Guest, target: string): Promise<void> {
    const refusedBy = hosts.filter((host) => host !== target)
    const openTarget = async (): Promise<BackupTarget> => {
      await gateway.fleet.setHostState(target, 'offline')
      return BackupTarget.create()
    }
    const request = { operationId: randomUUID(), uuid, hostId: 'host-a', refusedBy, requestedBy: 'test', openTarget }
    const lost = await gateway.fleet.relocation.evacuations.begin(request).catch((error: unknown) => error)
    expect(lost).to.include({ code: 'host_offline' })
  }

  it('repeats a lost request for a restore, and follows the task of the restore', async () => {
    const guest = await addGuest(true)
    await gateway.fleet.setHostState('host-a', 'offline')
    await loseOrder(guest, 'host-b')
    await gateway.fleet.setHostState('host-b', 'online')
    expect((await evacuate({ confirm: 'host-a' })).status).to.equal(202)
    const [row] = await waitForEnd()
    expect(row).to.include({ name: guest.name, state: 'done', to_host_id: 'host-b' })
    await waitFor(() => runsOn('host-b', guest), { what: 'the restored guest' })
  })

  it('leaves a guest on its former host if its restore fails, so that the guest runs there when the host is online again', async () => {
    const guest = await addGuest(true)
    await gateway.fleet.setHostState('host-a', 'offline')
    const events = await openEvents()
    const targets = ['host-b', 'host-c'].map((host) => agentOf(host).host)
    for (const { backupFaults } of targets)
      backupFaults.fetch = () => {
        throw conflict('backup_damaged', 'the backup is damaged')
      }
    expect((await evacuate({ confirm: 'host-a' })).status).to.equal(202)
    const [row] = await waitForEnd()
    for (const { backupFaults } of targets) delete backupFaults.fetch
    expect(row).to.include({ state: 'failed', message: 'the backup is damaged' })
    for (const host of ['host-b', 'host-c']) expect(agentOf(host).guests()).to.deep.equal([])
    expect(hostChangesIn(events, guest)).to.deep.equal([])
    events.close()
    await gateway.fleet.setHostState('host-a', 'online')
    await waitFor(async () => (await detail(guest))['status'] === 'running', { what: 'the guest on its host' })
    expect(await detail(guest)).to.include({ host_id: 'host-a', name: guest.name })
    expect(runsOn('host-a', guest)).to.equal(true)
  })

  it('starts a guest on its former host again if that host has returned and fenced the guest before the restore fails', async () => {
    const guest = await addGuest(true)
    await gateway.fleet.setHostState('host-a', 'offline')
    const { backupFaults } = agentOf('host-b').host
    let isDamaged = false
    backupFaults.fetch = async () => {
      await waitFor(() => isDamaged, { what: 'the damage of the backup' })
      throw conflict('backup_damaged', 'the backup is damaged')
    }
    expect((await evacuate({ confirm: 'host-a' })).status).to.equal(202)
    await waitFor(() => agentOf('host-b').guests().length === 1, { what: 'the restore' })
    await gateway.fleet.setHostState('host-a', 'online')
    const copy = () =>
      agentOf('host-a')
        .guests()
        .find(({ uuid }) => uuid === guest.uuid)
    await waitFor(() => copy()?.status === 'error' && !runsOn('host-a', guest), { what: 'the fenced copy' })
    isDamaged = true
    await waitFor(() => runsOn('host-a', guest), { what: 'the guest to be started again' })
    await waitFor(async () => (await detail(guest))['status'] === 'running', { what: 'the guest on its host' })
    delete backupFaults.fetch
    expect(await detail(guest)).to.include({ host_id: 'host-a', name: guest.name, status_reason: '' })
  })

  it('chooses another target host if a request was lost and its target was removed from the fleet', async () => {
    const guest = await addGuest(true)
    await gateway.fleet.setHostState('host-a', 'offline')
    await gateway.fleet.hosts.updateHost('host-c', { draining: false })
    await loseOrder(guest, 'host-c')
    await gateway.fleet.hosts.removeHost('host-c', { force: true })
    expect((await evacuate({ confirm: 'host-a' })).status).to.equal(202)
    const [row] = await waitForEnd()
    expect(row).to.include({ state: 'done', to_host_id: 'host-b' })
  })
})
