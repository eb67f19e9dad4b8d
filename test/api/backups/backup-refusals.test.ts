import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { conflict } from '../../../shared/errors.js'
import { BackupLab, type Row } from '../../support/gateway/backup-lab.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import { memoryTargets } from '../../support/memory/memory-backups.js'
import type { TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('backups over HTTP', function () {
  const lab = new BackupLab()
  const { addTarget, kept, ask, ended, backUp, rows, restore, snapshotsLeft } = lab
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let path: string
  let targetId: string
  before(async () => {
    await lab.start()
    ;({ gateway, agent } = lab)
  })
  after(() => lab.close())
  beforeEach(async () => {
    await lab.begin()
    ;({ guest, path, targetId } = lab)
  })
  afterEach(() => lab.end())

  for (const fault of ['send', 'verify'] as const)
    it(`leave no backup and no snapshot if the data cannot be ${fault === 'send' ? 'sent' : 'read back for verification'}`, async () => {
      agent.host.backupFaults[fault] = () => {
        throw conflict('backup_damaged', 'not the sent data')
      }
      const failed = await ended(await ask())
      expect([failed['status'], failed['error']]).to.deep.equal(['failed', 'not the sent data'])
      expect([await rows(), kept(), snapshotsLeft()]).to.deep.equal([[], [], 0])
    })

  for (const fault of ['send', 'verify'] as const)
    it(`leave no backup and no snapshot if they are canceled while the data is ${fault === 'send' ? 'sent' : 'read back'}`, async () => {
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

  it('are canceled after a restart of the agent if the agent ended before the cancellation', async () => {
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
  })

  it('are completed after a restart of the agent if the agent ended during the transfer', async () => {
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

  it('are stored at the only target, but require a target id if there are several targets', async () => {
    const other = await addTarget('second')
    const unnamed = await ask()
    expect([unnamed.status, unnamed.body.details?.field]).to.deep.equal([400, 'target_id'])
    const id = await backUp({ body: { target_id: other } })
    expect(memoryTargets.get(other)?.get(guest.uuid)?.has(id)).to.equal(true)
    const unknown = await ask({ body: { target_id: randomUUID() } })
    expect([unknown.status, unknown.body.code]).to.deep.equal([409, 'backup_target_missing'])
  })

  it('allow the removal of their target only if the removal is forced', async () => {
    const id = await backUp()
    const refused = await gateway.request('DELETE', `/backup-targets/${targetId}`)
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'invalid_state'])
    expect((await gateway.request('DELETE', `/backup-targets/${targetId}?force=true`)).status).to.equal(200)
    expect((await rows())[0]).to.deep.include({ id, target_name: '' })
    expect((await restore(id)).body.code).to.equal('backup_target_missing')
    expect((await ask()).body.code).to.equal('backup_target_missing')
  })

  it('are rejected for a container that has an error, or is being created or deleted', async () => {
    await agent.domain.reconciler.close() // the reconciler would correct the states that the test sets
    for (const status of ['error', 'creating', 'deleting'] as const) {
      agent.update(guest.uuid, { status })
      await gateway.fleet.caughtUp('host-a')
      expect((await ask()).body.code).to.equal('invalid_state')
    }
    agent.update(guest.uuid, { status: 'stopped' })
    for (const state of ['offline', 'online'] as const) await gateway.fleet.setHostState('host-a', state)
  })

  it('write no password of a target in plain text to the journal', async () => {
    const id = await backUp()
    const { input } = agent.domain.engine.store.findJournaled(id)!
    expect(JSON.stringify(input)).not.to.include('a-password-of-it')
  })

  it('can be seen and restored by a key bound to containers only if they are backups of these containers', async () => {
    const id = await backUp()
    const other = await gateway.fleet.addGuest()
    const scopes = ['backup:*']
    const own = await gateway.makeKey({ scopes, container_uuids: [guest.uuid], name: 'own' })
    const others = await gateway.makeKey({ scopes, container_uuids: [other.uuid], name: 'others' })
    const all = async (key: string): Promise<unknown> => (await gateway.request('GET', '/backups', { key })).body.data
    expect(await all(own)).to.have.length(1)
    expect(await all(others)).to.deep.equal([])
    expect((await gateway.request('GET', path, { key: others })).status).to.equal(404)
    // The key requests a restore onto its own container, from a backup of a container that it may not see.
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
    it(`are refused to a key that has all scopes of backups except ${scope}`, async () => {
      const others = ['read', 'create', 'restore', 'delete'].map((verb) => `backup:${verb}`)
      const key = await gateway.makeKey({
        scopes: others.filter((word) => word !== scope),
        name: `no ${scope}`,
      })
      const { body } = await gateway.request(method, path + suffix, { key })
      expect(body.code).to.equal('insufficient_scope')
    })

  describe('of which the whole guest is exported as an archive', () => {
    const ask = (options: object = {}, method = 'GET') =>
      gateway.request(method, `/containers/${guest.id}/export`, options)
    const boundKey = () => gateway.makeKey({ scopes: ['backup:restore'], container_uuids: [guest.uuid] })
    const noSnapshot = () => waitFor(() => snapshotsLeft() === 0, { what: 'the snapshot of the export is deleted' })

    it('are refused for blocked containers, unless the caller may see all containers', async () => {
      const key = await boundKey()
      const body = { reason: 'invoice', message: '' }
      await gateway.request('POST', `/containers/${guest.id}/suspend`, { body })
      const answer = await ask({ key })
      expect([answer.status, answer.body.code]).to.deep.equal([403, 'policy_blocked'])
      expect((await ask({}, 'HEAD')).status).to.equal(200)
      await noSnapshot()
    })

    it('are refused for virtual machines and unknown compressions', async () => {
      const machine = await gateway.fleet.addGuest({ virtualization: 'kvm' })
      const { status, body } = await gateway.request('GET', `/containers/${machine.id}/export`)
      expect([status, body.code]).to.deep.equal([400, 'unsupported'])
      const other = await gateway.request('GET', `/containers/${guest.id}/export?compression=xz`)
      expect([other.status, other.body.code]).to.deep.equal([400, 'invalid_field'])
    })

    it('abort the download and leave no snapshot if the files cannot be read, and the audit log contains the failure', async () => {
      const failure = await ask({ key: await boundKey() }).catch((error: unknown) => error)
      expect(failure).to.be.instanceOf(Error) // the host in memory has no files
      await noSnapshot()
      const entries = async () =>
        (await gateway.request('GET', '/audit-logs?action=container.export')).body.data as Row[]
      const entry = await waitFor(async () => (await entries()).find(({ target }) => target === guest.name), {
        what: 'the audit entry',
      })
      expect(entry['success']).to.equal(false)
    })
  })
})
