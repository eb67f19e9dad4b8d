import { expect } from 'chai'
import { startTestGateway, type Reply, type TestGateway } from '../../support/gateway/test-gateway.js'
import type { Body } from '../../support/body.js'
import type { LabAgent } from '../../support/memory/lab-agent.js'
import type { MemorySwap } from '../../support/memory/memory-swap.js'
import { waitFor } from '../../support/wait.js'

const mib = 1024 ** 2
const none = { total_mb: 0, used_mb: 0, free_mb: 0, enabled: false, swap_file: '', size_mb: 0 }

describe('the swap file of a host', () => {
  let gateway: TestGateway
  let agent: LabAgent
  let swap: MemorySwap
  before(async () => {
    gateway = await startTestGateway({ hosts: ['host-a', 'host-b'] })
    for (const id of ['host-a', 'host-b']) await gateway.fleet.work(id)
    agent = gateway.fleet.agentOf('host-a')
    swap = agent.host.swap
  })
  after(() => gateway.close())
  beforeEach(() => {
    swap.files.clear()
    swap.calls.length = 0
    swap.otherBytes = 0
    for (const call of Object.keys(swap.faults)) delete swap.faults[call as keyof typeof swap.faults]
  })

  const post = (body: unknown, options: object = {}, path = '/swap'): Promise<Reply> =>
    gateway.request('POST', path, { body, ...options })
  const read = async (path = '/swap'): Promise<Body> => (await gateway.request('GET', path)).body.data
  const refused = async (body: object, options?: object): Promise<unknown[]> => {
    const { status, body: answer } = await post(body, options)
    const { code, details } = answer as { code: string; details?: { field: string } }
    return [status, code, ...(details ? [details.field] : [])]
  }

  it('does not exist at first', async () => {
    expect(await read()).to.deep.equal({ host_id: 'host-a', ...none })
  })

  it('is created, resized, disabled and enabled, and each answer shows the new state', async () => {
    const { status, body } = await post({ action: 'create', size_mb: 1024 })
    const row = { host_id: 'host-a', used_mb: 0, enabled: true, swap_file: '/nowhere/swapfile' }
    const made = { ...row, total_mb: 1024, free_mb: 1024, size_mb: 1024 }
    expect([status, body.message, body.data]).to.deep.equal([200, 'the swap file has 1024 MB', made])
    const resized = await post({ size_mb: 2048 })
    const larger = { ...row, total_mb: 2048, free_mb: 2048, size_mb: 2048, swap_file: '/nowhere/swapfile.2' }
    expect([resized.body.message, resized.body.data]).to.deep.equal(['the swap file has 2048 MB', larger])
    expect([...swap.files.values()].map(({ slot, kept }) => [slot, kept])).to.deep.equal([[1, true]])
    const disabled = await post({ action: 'disable' })
    expect(disabled.body.data).to.deep.equal({ ...larger, total_mb: 0, free_mb: 0, enabled: false })
    expect(swap.files.get(1)).to.include({ active: false, kept: false })
    expect((await post({ action: 'enable', size_mb: 0 })).body.data).to.deep.equal(larger)
    expect(await read()).to.deep.equal(larger)
  })

  it('is replaced when it is resized, and the old file is removed after the new file has become active', async () => {
    await post({ action: 'create', size_mb: 64 })
    swap.calls.length = 0
    await post({ size_mb: 128 })
    const effects = swap.calls.filter((call) => /^(use|release) /.test(call))
    expect(effects).to.deep.equal(['use 1', 'release 0'])
  })

  it('is created by a resize if it is missing, and stays disabled if it was disabled', async () => {
    expect((await post({ size_mb: '256' })).body.data).to.include({ size_mb: 256, enabled: true })
    await post({ action: 'disable' })
    expect((await post({ size_mb: 512 })).body.data).to.include({ size_mb: 512, enabled: false, total_mb: 0 })
  })

  it('can be deleted, whether it is active or not', async () => {
    for (const action of ['enable', 'disable']) {
      await post({ action: 'create', size_mb: 64 })
      await post({ action })
      const { status, body } = await post({ action: 'delete' })
      expect([status, body.message, body.data.swap_file]).to.deep.equal([200, 'the host does not have a swap file', ''])
      expect(body.data).to.include({ size_mb: 0, enabled: false, total_mb: 0 })
      expect([...swap.files]).to.deep.equal([])
    }
    expect(await refused({ action: 'delete' })).to.deep.equal([409, 'invalid_state'])
  })

  it('stays active if its deletion fails', async () => {
    await post({ action: 'create', size_mb: 64 })
    let failures = 1
    swap.faults.remove = () => {
      if (failures-- > 0) throw new Error('broken')
    }
    expect((await post({ action: 'delete' })).status).to.equal(502)
    delete swap.faults.remove
    expect(await read()).to.include({ size_mb: 64, enabled: true, total_mb: 64 })
  })

  it('exists next to other swap space of the host, and the total size includes all swap space', async () => {
    swap.otherBytes = 1000 * mib
    expect(await read()).to.include({ ...none, total_mb: 1000, free_mb: 1000 })
    expect((await post({ action: 'create', size_mb: 64 })).body.data).to.include({
      total_mb: 1064,
      size_mb: 64,
    })
  })

  it('is not changed by invalid values, and the error names the field', async () => {
    expect(await refused({ action: 'enable' })).to.deep.equal([409, 'invalid_state'])
    expect(await refused({ action: 'disable' })).to.deep.equal([409, 'invalid_state'])
    expect(await refused({ action: 'remove', size_mb: 64 })).to.deep.equal([400, 'invalid_field', 'action'])
    expect(await refused({})).to.deep.equal([400, 'missing_field', 'size_mb'])
    expect(await refused({ action: 'create' })).to.deep.equal([400, 'missing_field', 'size_mb'])
    for (const size_mb of ['', null])
      expect((await post({ size_mb })).body.message).to.equal('size_mb: must not be empty')
    for (const size_mb of [0, 1, 63, 1_048_577, -5, 1.5, 'much', 1e300])
      expect(await refused({ size_mb }), String(size_mb)).to.deep.equal([400, 'invalid_field', 'size_mb'])
    await post({ action: 'create', size_mb: 64 })
    expect(await refused({ action: 'create', size_mb: 64 })).to.deep.equal([409, 'invalid_state'])
    expect(swap.files.get(0)).to.include({ sizeBytes: 64 * mib, active: true })
  })

  it('is not resized if the disk has no space for the new file next to the old file', async () => {
    await post({ action: 'create', size_mb: 1024 })
    const { room } = swap
    swap.room = { totalBytes: 10_000 * mib, usedBytes: 8000 * mib }
    const { status, body } = await post({ size_mb: 1500 })
    swap.room = room
    expect([status, body.code, body.details.field]).to.deep.equal([409, 'resource_exhausted', 'size_mb'])
    expect(body.message).to.contain('1000 MB')
    expect(swap.files.get(0)).to.include({ sizeBytes: 1024 * mib, active: true })
  })

  it('stays active if a request disables or reduces it and its content does not fit into memory', async () => {
    await post({ action: 'create', size_mb: 1024 })
    swap.files.set(0, { ...swap.files.get(0)!, usedBytes: 900 * mib })
    const { memory } = swap
    swap.memory = { totalBytes: 1000 * mib, availableBytes: 500 * mib }
    expect(await refused({ action: 'disable' })).to.deep.equal([409, 'memory_in_use'])
    expect(await refused({ size_mb: 128 })).to.deep.equal([409, 'memory_in_use'])
    expect([...swap.files.values()].map(({ slot, active, kept }) => [slot, active, kept])).to.deep.equal([
      [0, true, true],
    ])
    expect((await post({ size_mb: 2048 })).status, 'the new one takes it').to.equal(200)
    swap.memory = memory
  })

  for (const [call, code, status] of [
    ['make', 'agent_error', 502],
    ['use', 'agent_error', 502],
    ['keep', 'agent_error', 502],
    ['release', 'agent_error', 502],
  ] as const)
    it(`stays unchanged if the step “${call}” of a resize fails, and the error hides details of the host`, async () => {
      await post({ action: 'create', size_mb: 64 })
      let failures = 1
      swap.faults[call] = (slot) => {
        if ((call === 'release') === (slot === 1) || failures-- <= 0) return
        throw new Error('/dev/secret is broken')
      }
      const answer = await post({ size_mb: 128 })
      expect([answer.status, answer.body.code]).to.deep.equal([status, code])
      expect(answer.text).not.to.contain('secret')
      const { size_mb, enabled, total_mb } = await read()
      expect({ size_mb, enabled, total_mb }).to.deep.equal({ size_mb: 64, enabled: true, total_mb: 64 })
      expect([...swap.files.keys()]).to.deep.equal([0])
    })

  it('is not changed while another change runs', async () => {
    let go = (): void => undefined
    swap.faults.make = () => new Promise((done) => (go = done))
    const first = post({ action: 'create', size_mb: 64 })
    await waitFor(() => swap.calls.includes('make 0'), { what: 'the first to begin' })
    expect(await refused({ action: 'create', size_mb: 128 })).to.deep.equal([409, 'task_running'])
    go()
    expect((await first).body.data).to.include({ size_mb: 64 })
  })

  it('is changed only once if the request is repeated', async () => {
    const headers = { 'idempotency-key': 'swap-1' }
    const first = await post({ action: 'create', size_mb: 64 }, { headers })
    const again = await post({ action: 'create', size_mb: 64 }, { headers })
    expect(again.body).to.deep.equal(first.body)
    expect(await refused({ action: 'create', size_mb: 65 }, { headers })).to.deep.equal([422, 'idempotency_conflict'])
    expect(swap.calls.filter((call) => call === 'make 0')).to.have.length(1)
  })

  it('is changed on the requested host, and its task shows this host', async () => {
    const { body } = await post({ action: 'create', size_mb: 64 }, {}, '/swap?host_id=host-b')
    expect(body.data).to.include({ host_id: 'host-b', size_mb: 64 })
    expect(await read('/swap?host_id=host-b')).to.include({ size_mb: 64 })
    expect(await read()).to.include({ host_id: 'host-a', size_mb: 0 })
    const [task] = (await gateway.request('GET', '/tasks?action=swap')).body.data
    expect(task).to.include({ host_id: 'host-b', status: 'done', container_id: 0, container_name: '' })
    const unknown = await post({ size_mb: 64 }, {}, '/swap?host_id=nowhere')
    expect([unknown.status, unknown.body.details.field]).to.deep.equal([400, 'host_id'])
  })

  it('is neither shown nor changed while the host is offline', async () => {
    await gateway.fleet.setHostState('host-b', 'offline')
    for (const method of ['GET', 'POST'] as const) {
      const body = method === 'POST' ? { body: { size_mb: 64 } } : {}
      const { status } = await gateway.request(method, '/swap?host_id=host-b', body)
      expect(status, method).to.equal(503)
    }
    await gateway.fleet.setHostState('host-b', 'online')
  })

  it('requires its own scopes, and is not available to keys bound to containers', async () => {
    const [reader, other] = [
      await gateway.makeKey({ scopes: ['swap:read'] }),
      await gateway.makeKey({ scopes: ['host:manage'] }),
    ]
    expect((await gateway.request('GET', '/swap', { key: reader })).status).to.equal(200)
    expect((await post({ size_mb: 64 }, { key: reader })).status).to.equal(403)
    expect((await gateway.request('GET', '/swap', { key: other })).status).to.equal(403)
    const { uuid } = await gateway.fleet.addGuest()
    const bound = await gateway.makeKey({ scopes: ['*'], container_uuids: [uuid] })
    expect((await post({ size_mb: 64 }, { key: bound })).status).to.equal(403)
  })

  it('gets an audit entry for each change, with the request', async () => {
    await post({ action: 'create', size_mb: 77 })
    const [entry] = (await gateway.request('GET', '/audit-logs?action=swap.change')).body.data
    expect(entry).to.include({
      action: 'swap.change',
      target: 'host-a',
      detail: 'create, 77 MB',
      success: true,
    })
  })

  it('is activated when the agent starts if it is not active yet', async () => {
    await post({ action: 'create', size_mb: 64 })
    swap.files.set(0, { ...swap.files.get(0)!, active: false })
    swap.files.set(1, { ...swap.files.get(0)!, slot: 1, kept: false })
    await agent.restart()
    expect([...swap.files.values()].map(({ slot, active }) => [slot, active])).to.deep.equal([[0, true]])
  })
})
