import { expect } from 'chai'
import { BerthError } from '../../../shared/errors.js'
import { administratorOf } from '../../support/gateway/administrator.js'
import { BackupLab, type Row } from '../../support/gateway/backup-lab.js'
import { SubUserCalls, type MadeSubUser } from '../../support/gateway/sub-user-calls.js'
import type { Reply } from '../../support/gateway/test-gateway.js'
import { waitFor } from '../../support/wait.js'

const template = { template_id: 'debian-12', ram_mb: 64, vcpu: 0.1, disk_gb: 1, start: false }
const webOnly = {
  enabled: true,
  default_action: 'DROP',
  rules: [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: '80' }],
}

describe('the owner, the firewall and the backup schedule of a new container', () => {
  const lab = new BackupLab()
  let calls: SubUserCalls
  let clara: MadeSubUser
  let last = 0
  before(async () => {
    await lab.start()
    calls = new SubUserCalls(lab.gateway)
  })
  after(() => lab.close())
  beforeEach(async () => {
    await lab.begin()
    clara = await calls.make({ container_name: lab.guest.name, username: `clara-${++last}` })
  })
  afterEach(() => lab.end())

  const post = (path: string, body: object, options: object = {}): Promise<Reply> =>
    lab.gateway.request('POST', path, { body, ...options })
  const create = (name: string, fields: object, options = {}): Promise<Reply> =>
    post('/containers', { ...template, name, ...fields }, options)
  const read = async (path: string): Promise<Row> => (await lab.gateway.request('GET', path)).body.data as Row
  const owned = async (): Promise<unknown> => (await calls.find(clara.id))['container_names']
  const assigned = async (): Promise<readonly string[]> =>
    (await lab.gateway.access.subUsers.get(administratorOf(1), Number(clara.id))).containerUuids
  const refusal = ({ status, body }: Reply): unknown => [status, body.code, body.details?.field]
  const names = (): string[] => [...lab.gateway.fleet.view.guests()].map(({ guest }) => guest.name)

  it('are in force after one request, and are named in the audit log', async () => {
    const schedule = { interval_hours: 12, time: '03:30', retention: 7 }
    const options = { owner_id: Number(clara.id), firewall: webOnly, backup_schedule: schedule }
    const { status, text, body } = await create('complete', options)
    expect(status, text).to.equal(202)
    const path = `/containers/${body.data.id}`
    const rules = (await read(`${path}/firewall`))['rules'] as Row[]
    expect(rules[0]).to.include({ port: '80', network: 'all' })
    expect(rules[0]!['id']).not.to.equal('')
    expect((await read(`${path}/backups`))['schedule']).to.include({
      ...{ enabled: true, interval_hours: 12, time: '03:30', retention: 7 },
      ...{ target_id: lab.targetId, target_name: 'disk' },
    })
    expect(await owned()).to.deep.equal([lab.guest.name, 'complete'])
    const known = (await lab.gateway.request('GET', `/backup-targets/${lab.targetId}/containers`)).body.data
    expect(known).to.deep.include({ uuid: body.data.uuid, name: 'complete', id: body.data.id, exists: true })
    const audit = (await lab.gateway.request('GET', '/audit-logs?action=container.create')).body
      .data as unknown as Row[]
    expect(audit[0]!['detail']).to.match(/owner clara-\d+, firewall on, default DROP, 1 rule, backups every 12 hours$/)
  })

  it('have the same effect for all containers of a batch, and are named once in the audit log', async () => {
    const fields = { owner_id: Number(clara.id), firewall: webOnly, backup_schedule: {} }
    const { status, text } = await post('/batch-create', { ...template, ...fields, name: 'many', count: 3 })
    expect(status, text).to.equal(202)
    expect(await owned()).to.have.members([lab.guest.name, 'many-1', 'many-2', 'many-3'])
    for (const { guest } of lab.gateway.fleet.view.guests())
      if (guest.name.startsWith('many')) expect(guest.backupSchedule).to.include({ enabled: true, intervalHours: 24 })
    const { body } = await lab.gateway.request('GET', '/audit-logs?action=container.batch_create')
    expect((body.data as unknown as Row[])[0]!['detail']).to.match(
      /^3 of 3 queued, ids \d+ \d+ \d+, owner clara-\d+, firewall on, default DROP, 1 rule, backups every 24 hours$/,
    )
  })

  it('are applied once if the request is repeated', async () => {
    const fields = { owner_id: Number(clara.id), firewall: webOnly, backup_schedule: {} }
    const headers = { 'idempotency-key': `again-${last}` }
    const [first, second] = [await create('again', fields, { headers }), await create('again', fields, { headers })]
    expect(second.body.data).to.deep.equal(first.body.data)
    expect(await owned()).to.deep.equal([lab.guest.name, 'again'])
  })

  it('prevent the creation if one of them is not possible', async () => {
    const rule = { direction: 'in', protocol: 'tcp', action: 'ACCEPT', port: '99999' }
    for (const [fields, expected] of [
      [{ owner_id: 999_999 }, [404, 'not_found', 'owner_id']],
      [{ firewall: { enabled: true } }, [400, 'missing_field', 'firewall.default_action']],
      [{ firewall: { ...webOnly, rules: [rule] } }, [400, 'invalid_field', 'firewall.rules.0.port']],
      [{ firewall: { ...webOnly, rules: [{ ...rule, prot: 1 }] } }, [400, 'invalid_field', 'firewall.rules.0.prot']],
      [{ backup_schedule: { target_id: 'x' } }, [409, 'backup_target_missing', 'backup_schedule.target_id']],
      [{ backup_schedule: { time: '25:00' } }, [400, 'invalid_field', 'backup_schedule.time']],
    ] as const)
      expect(refusal(await create('never', fields)), JSON.stringify(fields)).to.deep.equal(expected)
    await lab.addTarget('tape')
    expect(refusal(await create('never', { backup_schedule: {} }))).to.deep.equal([
      ...[400, 'missing_field', 'backup_schedule.target_id'],
    ])
    const bad = {
      containers: [
        { ...template, name: 'first' },
        { ...template, name: 'never', owner_id: 999_999 },
      ],
    }
    expect(refusal(await post('/batch-create', bad))).to.deep.equal([404, 'not_found', 'containers[1].owner_id'])
    expect(names()).not.to.include('never').and.not.to.include('first')
  })

  it('require the same scopes as the requests that change these settings later', async () => {
    const key = await lab.gateway.makeKey({ scopes: ['container:create', 'container:read'] })
    for (const [fields, field] of [
      [{ owner_id: Number(clara.id) }, 'owner_id'],
      [{ backup_schedule: {} }, 'backup_schedule.target_id'],
    ] as const)
      expect(refusal(await create('never', fields, { key }))).to.deep.equal([403, 'insufficient_scope', field])
    const manager = await lab.gateway.makeKey({ scopes: ['container:create', 'subuser:*'] })
    const answer = await create('never', { owner_id: Number(clara.id) }, { key: manager })
    expect(refusal(answer), 'the sub-user has more rights').to.deep.equal([403, 'insufficient_scope', 'owner_id'])
    expect(names()).not.to.include('never').and.not.to.include('first')
  })

  it('leave nothing if a host refuses the container', async () => {
    const { fleet } = lab.gateway
    const full = async (): Promise<never> => {
      expect(await assigned(), 'while the host decides').to.have.length(2)
      throw new BerthError('exhausted', 'resource_exhausted', 'the host is full')
    }
    fleet.twist = (client) => ({ ...client, operations: { ...client.operations, submitOperation: full } })
    const fields = { owner_id: Number(clara.id), firewall: webOnly, backup_schedule: {}, host_id: 'host-a' }
    const { status, body } = await create('refused', fields).finally(() => (fleet.twist = (client) => client))
    expect([status, body.code]).to.deep.equal([409, 'resource_exhausted'])
    await waitFor(async () => (await assigned()).length === 1, {
      what: 'the removal of the container from the sub-user',
    })
    const known = await lab.gateway.request('GET', `/backup-targets/${lab.targetId}/containers`)
    expect(known.body.data).to.deep.equal([])
  })
})
