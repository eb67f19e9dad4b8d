import { randomUUID } from 'node:crypto'
import { expect } from 'chai'
import type { Guest } from '../../../proto/gen/berth/agent/v1/guest.js'
import { conflict } from '../../../shared/errors.js'
import { BackupLab, type Row } from '../../support/gateway/backup-lab.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import type { Reply, TestGateway } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

describe('backups over HTTP', function () {
  const lab = new BackupLab()
  const { write, content, kept, ask, task, ended, backUp, rows, restore, remove, detail, run, snapshotsLeft } = lab
  let gateway: TestGateway
  let agent: LabAgent
  let guest: Guest
  let targetId: string
  before(async () => {
    await lab.start()
    ;({ gateway, agent } = lab)
  })
  after(() => lab.close())
  beforeEach(async () => {
    await lab.begin()
    ;({ guest, targetId } = lab)
  })
  afterEach(() => lab.end())

  it('are created by a task, and then shown with every field', async () => {
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
      id: done['id'],
      container_id: guest.id,
      container_name: guest.name,
      target_id: targetId,
      target_name: 'disk',
      scheduled: false,
      size_bytes: 2_000_000,
      stored_bytes: 1_000_000,
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

  it('contain the disk as it was at the start of the backup, even if the disk changes meanwhile', async () => {
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

  it('do not delay the start of the container', async () => {
    let release = (): void => undefined
    agent.host.backupFaults.send = () => new Promise<void>((resolve) => (release = resolve))
    const asked = await ask()
    const started = await ended(await gateway.request('POST', `/containers/${guest.id}/start`))
    expect(started['status']).to.equal('done')
    expect((await task(asked.body.data.task_id as string))['status']).to.equal('running')
    release()
    expect((await ended(asked))['status']).to.equal('done')
  })

  it('cannot be deleted during their creation, and are not affected by a new snapshot', async () => {
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

  it('are completed even if a snapshot is taken during the transfer', async () => {
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

  it('are restored onto stopped containers, which stay stopped, and onto running ones, which run again', async () => {
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

  it('are restored onto a container of another host, and this container keeps its name and login', async () => {
    const id = await backUp()
    const other = await gateway.fleet.addGuest({ status: 'stopped', wanted: 'stopped' }, 'host-b')
    const there = gateway.fleet.agentOf('host-b')
    const answer = await gateway.request('POST', `/containers/${other.id}/backups/${id}/restore`)
    expect((await ended(answer))['status']).to.equal('done')
    expect(there.host.contents.get(other.uuid)).to.equal('first')
    expect([...there.host.driver.logins.keys()]).to.include(`/nowhere/${other.uuid}.next`)
    expect([...agent.host.driver.logins.keys()]).not.to.include(`/nowhere/${guest.uuid}.next`)
  })

  it('are searched for at the target even if an old agent does not report the type of the guest', async () => {
    const older = await gateway.fleet.addGuest({ virtualization: '' as 'lxc', status: 'stopped' }, 'host-b')
    const body = { target_id: targetId, container_uuid: older.uuid }
    const failed = await ended(await restore(randomUUID(), { body }))
    expect([failed['status'], failed['error_code']]).to.deep.equal(['failed', 'backup_missing'])
  })

  it('of a container cannot be restored onto a virtual machine, even if the container was deleted', async () => {
    const id = await backUp()
    const fields = { virtualization: 'kvm', templateId: 'debian-12-kvm', status: 'stopped' } as const
    const machine = await gateway.fleet.addGuest(fields, 'host-b')
    const url = `/containers/${machine.id}/backups/${id}/restore`
    const known = await gateway.request('POST', url)
    expect([known.status, known.body.code]).to.deep.equal([400, 'unsupported'])
    await ended(await gateway.request('DELETE', `/containers/${guest.id}/delete`))
    const body = { target_id: targetId, container_uuid: guest.uuid }
    const failed = await ended(await gateway.request('POST', url, { body }))
    expect([failed['status'], failed['error_code']]).to.deep.equal(['failed', 'unsupported'])
  })

  it('of a deleted container are restored if the request contains its UUID', async () => {
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

  describe('that are restored as a new container', () => {
    const asNew = (id: string, body: object = {}, key?: string): Promise<Reply> =>
      gateway.request('POST', `/backups/${id}/restore`, { body, ...(key !== undefined && { key }) })
    const madeFrom = async (answer: Reply): Promise<Row> => {
      expect((await ended(answer))['status']).to.equal('done')
      return (await gateway.request('GET', `/containers/${answer.body.data.id as string}`)).body.data as Row
    }

    it('give the container their recorded settings, except settings that the request contains', async () => {
      const { ram_mb, disk_gb, template } = await detail()
      const id = await backUp()
      const made = await madeFrom(await asNew(id, { name: 'btest-as-new', host_id: 'host-b', vcpu: 2 }))
      expect(made).to.deep.include({ name: 'btest-as-new', vcpu: 2, ram_mb, disk_gb, template, status: 'running' })
      expect(made['host_id']).to.equal('host-b')
      expect(made['uuid']).not.to.equal(guest.uuid)
      const there = gateway.fleet.agentOf('host-b').host
      expect(there.contents.get(made['uuid'] as string)).to.equal('first')
      const { body } = await gateway.request('GET', '/audit-logs?action=backup.restore_as_new')
      expect((body.data as unknown as Row[])[0]).to.deep.include({ target: 'btest-as-new', success: true })
    })

    it('give the container their recorded firewall, unless the request contains a firewall', async () => {
      const recorded = { enabled: true, default_action: 'DROP', rules: [] }
      const { status, text } = await gateway.request('PUT', `/containers/${guest.id}/firewall`, { body: recorded })
      expect(status, text).to.equal(200)
      const id = await backUp()
      const requested = { ...recorded, default_action: 'ACCEPT' }
      for (const [name, body, firewall] of [
        ['btest-recorded', {}, recorded],
        ['btest-requested', { firewall: requested }, requested],
      ] as const) {
        const made = await madeFrom(await asNew(id, { name, start: false, ...body }))
        const { body: shown } = await gateway.request('GET', `/containers/${String(made['id'])}/firewall`)
        expect(shown.data, name).to.deep.include(firewall)
      }
    })

    it('give the container the name and the settings of a deleted container', async () => {
      const id = await backUp()
      await ended(await gateway.request('DELETE', `/containers/${guest.id}/delete`))
      expect((await asNew(id)).status).to.equal(404)
      const made = await madeFrom(await asNew(id, { target_id: targetId, container_uuid: guest.uuid, start: false }))
      expect(made).to.deep.include({ name: guest.name, status: 'stopped' })
    })

    it('leave nothing behind if they cannot be fetched', async () => {
      const id = await backUp()
      agent.host.backupFaults.fetch = () => {
        throw conflict('backup_target_unreachable', 'away')
      }
      const answer = await asNew(id, { name: 'btest-undone', host_id: 'host-a' })
      const failed = await ended(answer)
      expect([failed['status'], failed['error_code']]).to.deep.equal(['failed', 'backup_target_unreachable'])
      expect((await gateway.request('GET', `/containers/${answer.body.data.id as string}`)).status).to.equal(404)
      expect(agent.host.volumes.has(answer.body.data.uuid as string)).to.equal(false)
    })

    it('are refused if they do not exist, if the name is in use, or if the caller cannot restore backups', async () => {
      const id = await backUp()
      const place = { target_id: targetId, container_uuid: guest.uuid }
      const scopes = ['container:create', 'backup:restore']
      const unread = await gateway.makeKey({ scopes: ['container:create', 'backup:read'], name: 'no restores' })
      const listedOnly = await gateway.makeKey({ scopes, name: 'no targets' })
      const name = 'btest-refused'
      for (const [answer, status, code] of [
        [await asNew(randomUUID(), { name }), 404, 'not_found'],
        [await asNew(randomUUID(), { name, ...place }), 404, 'not_found'],
        [await asNew(id), 409, 'name_conflict'],
        [await asNew(id, { name, target_id: targetId }), 400, 'missing_field'],
        [await asNew(id, { name }, unread), 403, 'insufficient_scope'],
        [await asNew(id, { name, ...place }, listedOnly), 403, 'insufficient_scope'],
      ] as const)
        expect([answer.status, answer.body.code], answer.text).to.deep.equal([status, code])
    })
  })

  it('stay at the target if their container is deleted, and can be listed and deleted', async () => {
    const id = await backUp({ body: { description: 'the last one' } })
    await ended(await gateway.request('DELETE', `/containers/${guest.id}/delete`))
    const containers = await gateway.request('GET', `/backup-targets/${targetId}/containers`)
    expect(containers.body.data).to.deep.equal([{ uuid: guest.uuid, id: guest.id, name: guest.name, exists: false }])
    const url = `/backup-targets/${targetId}/backups`
    const list = (): Promise<Reply> => gateway.request('GET', `${url}?container_uuid=${guest.uuid}&host_id=host-b`)
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

  it('leave the container unchanged if any step of a restore fails', async () => {
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
        'failed',
        'second',
        'running',
        0,
      ])
    }
    expect(agent.guests().find(({ uuid }) => uuid === guest.uuid)?.fetchedBytes).to.equal(0)
  })

  it('are refused with a reason if they are larger than the disk or the free space', async () => {
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
    expect(full['error']).to.include('has no space')
  })

  it('are deleted by a task, and are not found afterwards', async () => {
    const id = await backUp()
    const done = await ended(await remove(id))
    expect(done).to.deep.include({ status: 'done', action: 'backup-delete' })
    expect([await rows(), kept()]).to.deep.equal([[], []])
    expect((await remove(id)).status).to.equal(404)
    expect((await restore(id)).status).to.equal(404)
  })

  it('are listed again if their target could not delete them', async () => {
    const id = await backUp()
    agent.host.backupFaults.forget = () => {
      throw conflict('backup_target_unreachable', 'the target cannot be reached')
    }
    const failed = await ended(await remove(id))
    expect([failed['status'], failed['error']]).to.deep.equal(['failed', 'the target cannot be reached'])
    expect((await rows()).map((row) => row['id'])).to.deep.equal([id])
  })
})
