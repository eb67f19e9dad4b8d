import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import type { Guest } from '../../proto/gen/berth/agent/v1/guest.js'
import { conflict } from '../../shared/errors.js'
import type { LabAgent } from '../support/lab-agent.js'
import { memoryTargets } from '../support/memory-backups.js'
import {
  startTestGateway,
  type Reply,
  type RequestOptions,
  type TestGateway,
} from '../support/test-gateway.js'
import { waitFor } from '../support/wait.js'

type Row = Record<string, unknown>

describe('backups over HTTP', function () {
  this.timeout(120_000)
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let path: string
  let targetId: string

  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    for (const host of ['host-a', 'host-b']) await gateway.fleet.work(host)
    agent = gateway.fleet.agentOf('host-a')
  })
  after(() => gateway.close())
  beforeEach(async () => {
    targetId = await addTarget('disk')
    guest = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' })
    path = `/containers/${guest.id}/backups`
    write('first')
  })
  afterEach(async () => {
    for (const name of Object.keys(agent.host.backupFaults)) delete agent.host.backupFaults[name as 'send']
    for (const name of Object.keys(agent.host.faults)) delete agent.host.faults[name as 'start']
    const { body } = await gateway.request('GET', '/backup-targets')
    for (const { id } of body.data as unknown as Row[])
      await gateway.request('DELETE', `/backup-targets/${String(id)}?force=true`)
  })

  const addTarget = async (name: string): Promise<string> => {
    const body = { name, type: 'local', path: '/srv/backups', encryption_password: 'a-password-of-it' }
    const answer = await gateway.request('POST', '/backup-targets', { body })
    expect(answer.status, answer.text).to.equal(201)
    return answer.body.data.id as string
  }
  const write = (text: string): unknown => agent.host.contents.set(guest.uuid, text)
  const content = (): string | undefined => agent.host.contents.get(guest.uuid)
  const kept = (): string[] =>
    [...(memoryTargets.get(targetId)?.get(guest.uuid)?.values() ?? [])].map(({ content: text }) => text)
  const ask = (options: RequestOptions = {}): Promise<Reply> => gateway.request('POST', path, options)
  const task = async (id: string): Promise<Row> =>
    (await gateway.request('GET', `/tasks/${id}`)).body.data as Row
  const ended = async ({ status, body, text }: Reply): Promise<Row> => {
    expect(status, text).to.equal(202)
    const id = body.data.task_id as string
    await waitFor(async () => !['pending', 'running'].includes(String((await task(id))['status'])), {
      what: 'the end of the task',
    })
    return task(id)
  }
  const backUp = async (options: RequestOptions = {}): Promise<string> => {
    const done = await ended(await ask(options))
    expect(done['status'], String(done['error'])).to.equal('done')
    return done['id'] as string
  }
  const rows = async (): Promise<Row[]> =>
    ((await gateway.request('GET', path)).body.data as { backups: Row[] }).backups
  const restore = (id: string, options: RequestOptions = {}): Promise<Reply> =>
    gateway.request('POST', `${path}/${id}/restore`, options)
  const remove = (id: string): Promise<Reply> => gateway.request('DELETE', `${path}/${id}`)
  const detail = async (): Promise<Row> =>
    (await gateway.request('GET', `/containers/${guest.id}`)).body.data as Row
  const run = async (): Promise<void> => {
    agent.host.driver.run(guest.uuid)
    agent.update(guest.uuid, { status: 'running', wanted: 'running' })
    await gateway.fleet.caughtUp('host-a')
  }
  const snapshotsLeft = (): number => agent.host.snapshots.get(guest.uuid)?.size ?? 0

  it('are made as a task, and shown field by field once they are', async () => {
    const { status, body } = await ask({ body: { description: 'before the move' } })
    expect(status).to.equal(202)
    expect(body.data).to.deep.include({ action: 'backup-create', container_name: guest.name })
    expect(body.data.backup_id).to.equal(body.data.task_id)
    const done = await ended({ status, body } as Reply)
    expect(done).to.deep.include({
      status: 'done',
      progress: 100,
      container_id: guest.id,
      container_name: guest.name,
    })
    const [row, ...others] = await rows()
    expect(others).to.deep.equal([])
    expect(row).to.deep.include({
      ...{ id: done['id'], container_id: guest.id, container_name: guest.name, target_id: targetId },
      ...{ target_name: 'disk', scheduled: false, size_bytes: 2_000_000, stored_bytes: 1_000_000 },
      description: 'before the move',
    })
    expect(row!['created_by']).to.match(/^api:/)
    expect(row!['verified_at']).to.match(/^\d{4}-\d\d-\d\d /)
    expect((await gateway.request('GET', '/backups')).body.data).to.deep.equal([row])
    const page = await gateway.request('GET', '/backups?page=2&page_size=1')
    expect([page.body.data, page.headers['x-total-count']]).to.deep.equal([[], '1'])
    expect(kept()).to.deep.equal(['first'])
    expect(snapshotsLeft()).to.equal(0)
  })

  it('keep the disk as it was when they were begun', async () => {
    let release = (): void => undefined
    agent.host.backupFaults.send = () => new Promise<void>((resolve) => (release = resolve))
    const asked = await ask()
    await waitFor(() => snapshotsLeft() === 1, { what: 'the snapshot' })
    write('second')
    expect(await rows()).to.deep.equal([])
    release()
    expect((await ended(asked))['status']).to.equal('done')
    expect(kept()).to.deep.equal(['first'])
  })

  it('let the container be started and stopped meanwhile', async () => {
    let release = (): void => undefined
    agent.host.backupFaults.send = () => new Promise<void>((resolve) => (release = resolve))
    const asked = await ask()
    const started = await ended(await gateway.request('POST', `/containers/${guest.id}/start`))
    expect(started['status']).to.equal('done')
    expect((await task(asked.body.data.task_id as string))['status']).to.equal('running')
    release()
    expect((await ended(asked))['status']).to.equal('done')
  })

  it('are not deleted while they are made, nor is what they are sent from', async () => {
    let release = (): void => undefined
    agent.host.backupFaults.send = () => new Promise<void>((resolve) => (release = resolve))
    const asked = await ask()
    await waitFor(() => snapshotsLeft() === 1, { what: 'the snapshot' })
    const at = `/backup-targets/${targetId}/backups/${String(asked.body.data.task_id)}?container_uuid=${guest.uuid}`
    const refused = await gateway.request('DELETE', at)
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'task_running'])
    expect((await gateway.request('POST', `/containers/${guest.id}/snapshots`)).status).to.equal(201)
    expect(snapshotsLeft()).to.equal(2)
    release()
    expect((await ended(asked))['status']).to.equal('done')
  })

  it('survive what else is done with the disk meanwhile', async () => {
    let release = (): void => undefined
    agent.host.backupFaults.send = () => new Promise<void>((resolve) => (release = resolve))
    const asked = await ask()
    await waitFor(() => snapshotsLeft() === 1, { what: 'the snapshot' })
    const taken = await gateway.request('POST', `/containers/${guest.id}/snapshots`)
    expect(taken.status).to.equal(201)
    release()
    expect((await ended(asked))['status']).to.equal('done')
    expect(kept()).to.deep.equal(['first'])
  })

  it('are restored, stopped or running', async () => {
    const id = await backUp()
    write('second')
    expect((await ended(await restore(id)))['status']).to.equal('done')
    expect([content(), (await detail())['status']]).to.deep.equal(['first', 'stopped'])
    write('third')
    await run()
    expect((await ended(await restore(id)))['status']).to.equal('done')
    expect([content(), (await detail())['status']]).to.deep.equal(['first', 'running'])
    expect(snapshotsLeft()).to.equal(0)
  })

  it('are restored onto a container of another host, which gets a name and login of its own', async () => {
    const id = await backUp()
    const other = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' }, 'host-b')
    const there = gateway.fleet.agentOf('host-b')
    const answer = await gateway.request('POST', `/containers/${other.id}/backups/${id}/restore`)
    expect((await ended(answer))['status']).to.equal('done')
    expect(there.host.contents.get(other.uuid)).to.equal('first')
    expect([...there.host.driver.logins.keys()]).to.include(`/nowhere/${other.uuid}.next`)
    expect([...agent.host.driver.logins.keys()]).not.to.include(`/nowhere/${guest.uuid}.next`)
  })

  it('are restored of a container that is gone, where the caller says what it was', async () => {
    const id = await backUp()
    await ended(await gateway.request('DELETE', `/containers/${guest.id}/delete`))
    const other = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' }, 'host-b')
    const url = `/containers/${other.id}/backups/${id}/restore`
    expect((await gateway.request('POST', url)).status).to.equal(404)
    const body = { target_id: targetId, container_uuid: guest.uuid }
    expect((await ended(await gateway.request('POST', url, { body })))['status']).to.equal('done')
    expect(gateway.fleet.agentOf('host-b').host.contents.get(other.uuid)).to.equal('first')
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [other.uuid], name: 'bound' })
    expect((await gateway.request('POST', url, { body, key: bound })).status).to.equal(404)
  })

  it('are found at the target and deleted there when the container is gone', async () => {
    const id = await backUp({ body: { description: 'the last one' } })
    await ended(await gateway.request('DELETE', `/containers/${guest.id}/delete`))
    const containers = await gateway.request('GET', `/backup-targets/${targetId}/containers`)
    expect(containers.body.data).to.deep.equal([
      { uuid: guest.uuid, id: guest.id, name: guest.name, exists: false },
    ])
    const url = `/backup-targets/${targetId}/backups`
    const list = (): Promise<Reply> =>
      gateway.request('GET', `${url}?container_uuid=${guest.uuid}&host_id=host-b`)
    const [kept_, ...others] = (await list()).body.data as unknown as Row[]
    expect(others).to.deep.equal([])
    expect(kept_).to.deep.include({ id, container_uuid: guest.uuid, description: 'the last one' })
    const there = gateway.fleet.agentOf('host-b').host
    there.backupFaults.list = () => {
      throw conflict('backup_password_wrong', 'another password')
    }
    const refused = await list()
    delete there.backupFaults.list
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'backup_password_wrong'])
    await ended(await gateway.request('DELETE', `${url}/${id}?container_uuid=${guest.uuid}`))
    expect((await list()).body.data).to.deep.equal([])
    expect((await gateway.request('GET', `${url}?container_uuid=x`)).status).to.equal(400)
  })

  it('leave the container as it was where a restore fails, at any step', async () => {
    const id = await backUp()
    write('second')
    await run()
    for (const break_ of [
      () =>
        (agent.host.backupFaults.fetch = () => {
          throw conflict('backup_target_unreachable', 'away')
        }),
      () =>
        (agent.host.faults.stop = () => {
          throw new Error('stop')
        }),
      () =>
        (agent.host.faults.exchange = () => {
          delete agent.host.faults.exchange
          throw new Error('exchange')
        }),
    ]) {
      break_()
      const { status } = await ended(await restore(id))
      delete agent.host.backupFaults.fetch
      delete agent.host.faults.stop
      delete agent.host.faults.exchange
      expect([status, content(), (await detail())['status'], snapshotsLeft()]).to.deep.equal([
        ...['failed', 'second', 'running'],
        0,
      ])
    }
    expect(agent.guests().find(({ uuid }) => uuid === guest.uuid)?.fetchedBytes).to.equal(0)
  })

  it('that are larger than the disk are refused as such', async () => {
    const id = await backUp()
    agent.host.backupBytes = 10 * 1024 ** 3 + 1
    const failed = await ended(await restore(id))
    agent.host.backupBytes = 10 * 1024 ** 3
    const { totalBytes, usedBytes } = agent.host.pool
    agent.host.pool = { totalBytes, usedBytes: totalBytes - 12 * 1024 ** 3 }
    const full = await ended(await restore(id))
    agent.host.pool = { totalBytes, usedBytes }
    agent.host.backupBytes = 2_000_000
    expect(failed['error']).to.include('larger than the disk')
    expect(full['error']).to.include('no room')
  })

  it('are deleted', async () => {
    const id = await backUp()
    const done = await ended(await remove(id))
    expect(done).to.deep.include({ status: 'done', action: 'backup-delete' })
    expect([await rows(), kept()]).to.deep.equal([[], []])
    expect((await remove(id)).status).to.equal(404)
    expect((await restore(id)).status).to.equal(404)
  })

  it('are there again where the target does not delete them', async () => {
    const id = await backUp()
    agent.host.backupFaults.forget = () => {
      throw conflict('backup_target_unreachable', 'the target cannot be reached')
    }
    const failed = await ended(await remove(id))
    expect([failed['status'], failed['error']]).to.deep.equal(['failed', 'the target cannot be reached'])
    expect((await rows()).map((row) => row['id'])).to.deep.equal([id])
  })

  for (const fault of ['send', 'verify'] as const)
    it(`are not there where they cannot be ${fault === 'send' ? 'sent' : 'read back'}`, async () => {
      agent.host.backupFaults[fault] = () => {
        throw conflict('backup_damaged', 'not what was sent')
      }
      const failed = await ended(await ask())
      expect([failed['status'], failed['error']]).to.deep.equal(['failed', 'not what was sent'])
      expect([await rows(), kept(), snapshotsLeft()]).to.deep.equal([[], [], 0])
    })

  for (const fault of ['send', 'verify'] as const)
    it(`are canceled while they are ${fault === 'send' ? 'sent' : 'read back'}, and leave nothing`, async () => {
      let begun = false
      agent.host.backupFaults[fault] = ({ signal }) =>
        new Promise((_, reject) => {
          begun = true
          signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
        })
      const asked = await ask()
      await waitFor(() => begun, { what: 'the step' })
      const canceled = await gateway.request('DELETE', `/tasks/${asked.body.data.task_id as string}`)
      expect(canceled.status, canceled.text).to.equal(200)
      expect((await ended(asked))['status']).to.equal('canceled')
      expect([await rows(), kept(), snapshotsLeft()]).to.deep.equal([[], [], 0])
    })

  it('are canceled by the next agent where the one that was told is gone', async () => {
    let begun = 0
    agent.host.backupFaults.send = () => {
      begun++
      return new Promise(() => undefined)
    }
    const asked = await ask()
    await waitFor(() => begun === 1, { what: 'the step' })
    await gateway.request('DELETE', `/tasks/${asked.body.data.task_id as string}`)
    const stopping = gateway.fleet.setHostState('host-a', 'offline')
    delete agent.host.backupFaults.send
    await stopping
    await gateway.fleet.setHostState('host-a', 'online')
    expect((await ended(asked))['status']).to.equal('canceled')
    expect([begun, kept(), snapshotsLeft()]).to.deep.equal([1, [], 0])
  }).timeout(40_000)

  it('are finished by the next agent where one is gone in the middle', async () => {
    let interrupt: (() => void) | undefined
    agent.host.backupFaults.send = () =>
      new Promise((_, reject) => (interrupt = () => reject(new Error('interrupted'))))
    const asked = await ask()
    await waitFor(() => interrupt !== undefined, { what: 'a backup begun' })
    delete agent.host.backupFaults.send
    const gone = gateway.fleet.setHostState('host-a', 'offline')
    await waitFor(() => gateway.fleet.findHost('host-a')?.state === 'offline', { what: 'host-a away' })
    interrupt?.()
    await gone
    await gateway.fleet.setHostState('host-a', 'online')
    expect((await ended(asked))['status']).to.equal('done')
    expect(kept()).to.deep.equal(['first'])
  })

  it('go to the only target, and of several to the one that is named', async () => {
    const other = await addTarget('second')
    const unnamed = await ask()
    expect([unnamed.status, unnamed.body.details?.field]).to.deep.equal([400, 'target_id'])
    const id = await backUp({ body: { target_id: other } })
    expect(memoryTargets.get(other)?.get(guest.uuid)?.has(id)).to.equal(true)
    const unknown = await ask({ body: { target_id: randomUUID() } })
    expect([unknown.status, unknown.body.code]).to.deep.equal([409, 'backup_target_missing'])
  })

  it('keep their target from being removed by accident', async () => {
    const id = await backUp()
    const refused = await gateway.request('DELETE', `/backup-targets/${targetId}`)
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'invalid_state'])
    expect((await gateway.request('DELETE', `/backup-targets/${targetId}?force=true`)).status).to.equal(200)
    expect((await rows())[0]).to.deep.include({ id, target_name: '' })
    expect((await restore(id)).body.code).to.equal('backup_target_missing')
    expect((await ask()).body.code).to.equal('backup_target_missing')
  })

  it('are refused of a container that is broken, or made or deleted now', async () => {
    await agent.domain.reconciler.close() // it would put right what the host does not bear out
    for (const status of ['error', 'creating', 'deleting'] as const) {
      agent.update(guest.uuid, { status })
      await gateway.fleet.caughtUp('host-a')
      expect((await ask()).body.code).to.equal('invalid_state')
    }
    agent.update(guest.uuid, { status: 'stopped' })
    for (const state of ['offline', 'online'] as const) await gateway.fleet.setHostState('host-a', state)
  })

  it('keep their target out of the journal, in clear', async () => {
    const id = await backUp()
    const { input } = agent.domain.engine.store.findJournaled(id)!
    expect(JSON.stringify(input)).not.to.include('a-password-of-it')
  })

  it('are those of the containers that a bound caller has', async () => {
    const id = await backUp()
    const other = await gateway.fleet.addGuest()
    const scopes = ['backup:*']
    const own = await gateway.makeKey({ scopes, container_uuids: [guest.uuid], name: 'own' })
    const others = await gateway.makeKey({ scopes, container_uuids: [other.uuid], name: 'others' })
    const all = async (key: string): Promise<unknown> =>
      (await gateway.request('GET', '/backups', { key })).body.data
    expect(await all(own)).to.have.length(1)
    expect(await all(others)).to.deep.equal([])
    expect((await gateway.request('GET', path, { key: others })).status).to.equal(404)
    // Of a container that it may not see, onto its own.
    const onto = `/containers/${other.id}/backups/${id}/restore`
    expect((await gateway.request('POST', onto, { key: others })).status).to.equal(404)
    expect((await ended(await ask({ key: own })))['status']).to.equal('done')
  })

  for (const [scope, method, suffix] of [
    ['backup:read', 'GET', ''],
    ['backup:create', 'POST', ''],
    ['backup:restore', 'POST', '/x/restore'],
    ['backup:delete', 'DELETE', '/x'],
  ] as const)
    it(`need ${scope}`, async () => {
      const others = ['read', 'create', 'restore', 'delete'].map((verb) => `backup:${verb}`)
      const key = await gateway.makeKey({
        scopes: others.filter((word) => word !== scope),
        name: `no ${scope}`,
      })
      const { body } = await gateway.request(method, path + suffix, { key })
      expect(body.code).to.equal('insufficient_scope')
    })
})
