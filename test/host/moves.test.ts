import { expect } from 'chai'
import { execFileSync, spawnSync } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { appendFileSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { figuresOf, findPoint, indexAt, planWrites, tiers } from '../../agent/history/plan-series.js'
import { SeriesFiles } from '../../agent/history/series-files.js'
import type { Body } from '../support/body.js'
import type { GatewayReply } from '../support/gateway/gateway-process.js'
import type { FleetHost } from '../support/host/fleet-host.js'
import { FleetPair, machinePids, type GuestRow } from '../support/host/fleet-pair.js'
import { readInits } from '../support/host/inventory.js'
import { readExpected } from '../support/host/journal-inventory.js'
import { waitFor } from '../support/wait.js'

const mib = 1024 * 1024

/** Two real agents in separate network namespaces, each with its own pool, and one real gateway. */
describe('a gateway that moves guests between two hosts', function () {
  const [shared, different] = ['198.18.151.48/28', '198.18.151.64/28']
  const [shared6, different6] = ['2001:db8:151::/64', '2001:db8:152::/64']
  const pair = new FleetPair(
    'mv',
    { bridge: 'btest-mv', prefix: '198.18.151' },
    {
      networkOf: (letter) => ({
        shared_pools: [
          { name: 'rack', range: shared, interface: 'up0' },
          { name: `rack-${letter}`, range: different, interface: 'up0' },
          { name: 'rack-6', range: shared6, interface: 'up0' },
          { name: `rack-6-${letter}`, range: different6, interface: 'up0' },
        ],
      }),
    },
  )
  const { first, second } = pair

  before(() => pair.open())
  after(() => pair.close())

  const copyOf = (host: FleetHost, { uuid }: GuestRow): string[] => {
    const directory = join(host.instance.pool, 'snapshots', uuid)
    return existsSync(directory) ? readdirSync(directory) : []
  }
  const seriesOf = (host: FleetHost): SeriesFiles => new SeriesFiles(join(host.instance.stateDir, 'history'))
  const minute = indexAt(tiers.day, Date.now()) - 10
  const writeUsage = ({ uuid }: GuestRow): void => {
    const point = { index: minute, figures: figuresOf({ cpuPercent: 42 }) }
    seriesOf(first).write(uuid, planWrites(tiers.day, [point]))
  }
  const readUsage = ({ uuid }: GuestRow): number | undefined =>
    findPoint(seriesOf(second).read(uuid), tiers.day, minute)?.cpuPercent
  const tasksOf = ({ id }: GuestRow): Promise<Body[]> => pair.list<Body>(`/tasks?container_id=${id}`)
  const askStandby = (guest: GuestRow, method: string, body?: object): Promise<GatewayReply> =>
    pair.gateway.request(method, `/containers/${guest.id}/standby`, body ? { body } : {})
  const readStandby = async (guest: GuestRow): Promise<Body> => (await askStandby(guest, 'GET')).body.data

  it('copies a disk to the host of a warm standby, and leaves nothing if the agent of that host is killed', async () => {
    const guest = await pair.create('standing')
    const stopped = await pair.gateway.request('POST', `/containers/${guest.id}/stop`)
    expect((await pair.ended(stopped))['status']).to.equal('done')
    writeFileSync(join(pair.diskOf(first, guest), 'root/large'), randomBytes(64 * mib))
    const here = await askStandby(guest, 'PUT', { host_id: pair.idOf(first) })
    expect([here.status, here.body.code]).to.deep.equal([400, 'invalid_field'])
    const slow = await askStandby(guest, 'PUT', { host_id: pair.idOf(second), interval_minutes: 1, bandwidth_mbps: 40 })
    expect(slow.status, JSON.stringify(slow.body)).to.equal(200)
    await waitFor(() => copyOf(second, guest).length > 0, { what: () => pair.logs() })
    await second.kill()
    expect(copyOf(second, guest)).to.have.length(1)
    second.start()
    await pair.untilOnline()
    await waitFor(() => copyOf(second, guest).length === 0, { what: () => pair.logs() })
    await waitFor(async () => (await readStandby(guest))['failures'] === 1)
    expect(await readStandby(guest)).to.include({ age_seconds: -1, last_increment_at: '' })
    expect((await askStandby(guest, 'DELETE')).status).to.equal(200)
    await waitFor(() => copyOf(first, guest).length === 0)
    expect(await readStandby(guest)).to.include({ host_id: '', age_seconds: -1 })
    expect((await askStandby(guest, 'DELETE')).status).to.equal(404)

    writeUsage(guest)
    const firewall = { enabled: true, default_action: 'DROP', rules: [] }
    const closed = await pair.gateway.request('PUT', `/containers/${guest.id}/firewall`, { body: firewall })
    expect(closed.status, JSON.stringify(closed.body)).to.equal(200)
    // The gateway may notice only now that the agent was killed.
    const again = { host_id: pair.idOf(second), interval_minutes: 1 }
    await waitFor(async () => (await askStandby(guest, 'PUT', again)).status === 200, { what: () => pair.logs() })
    await waitFor(async () => (await readStandby(guest))['age_seconds'] >= 0, { what: () => pair.logs() })
    expect((await readStandby(guest))['sent_bytes']).to.be.above(64 * mib)
    expect([copyOf(first, guest).length, copyOf(second, guest).length]).to.deep.equal([1, 1])
    expect(existsSync(pair.diskOf(second, guest))).to.equal(false)
    writeFileSync(join(pair.diskOf(first, guest), 'root/later'), 'increment')
  })

  it('sends only changes to the host of the standby when the guest moves there, and then copies it back', async () => {
    const guest = await pair.create('mirrored', { start: false })
    const large = randomBytes(64 * mib)
    writeFileSync(join(pair.diskOf(first, guest), 'root/large'), large)
    const standby = { host_id: pair.idOf(second), interval_minutes: 1440 }
    const set = await askStandby(guest, 'PUT', standby)
    expect(set.status, JSON.stringify(set.body)).to.equal(200)
    await waitFor(async () => (await readStandby(guest))['age_seconds'] >= 0, { what: () => pair.logs() })
    writeFileSync(join(pair.diskOf(first, guest), 'root/later'), 'change')
    // The whole disk would take 13 s at this rate, so its progress would be seen.
    const reply = await pair.migrate(guest, { host_id: pair.idOf(second), bandwidth_mbps: 40 })
    const stages = new Set<string>()
    await waitFor(
      async () => {
        const task = (await pair.gateway.request('GET', `/tasks/${reply.body.data.task_id}`)).body.data
        stages.add(task.stage)
        return task.status !== 'running' && task.status !== 'pending'
      },
      { intervalMs: 100, what: () => pair.logs() },
    )
    expect((await pair.ended(reply))['status'], pair.logs()).to.equal('done')
    const sentMib = [...stages].map((stage) => Number(/(\d+) MiB,/.exec(stage)?.[1] ?? 0))
    expect(Math.max(...sentMib), [...stages].join('; ')).to.be.below(16)
    const moved = pair.diskOf(second, guest)
    expect(readFileSync(join(moved, 'root/large')).equals(large)).to.equal(true)
    expect(readFileSync(join(moved, 'root/later')).toString()).to.equal('change')
    // The former host stores the copy now.
    await waitFor(async () => (await readStandby(guest))['age_seconds'] >= 0, { what: () => pair.logs() })
    expect(await readStandby(guest)).to.include({ host_id: pair.idOf(first), interval_minutes: 1440, failures: 0 })
    expect((await readStandby(guest))['sent_bytes']).to.be.above(64 * mib)
    expect([copyOf(first, guest).length, copyOf(second, guest).length]).to.deep.equal([1, 1])
    expect(
      (await pair.ended(await pair.gateway.request('DELETE', `/containers/${guest.id}/delete`)))['status'],
    ).to.equal('done')
    await waitFor(() => copyOf(first, guest).length === 0, { what: () => pair.logs() })
  })

  it('plans a move without changing anything', async () => {
    const guest = await pair.create('planned')
    const { status, body } = await pair.migrate(guest, { host_id: pair.idOf(second), dry_run: true })
    expect(status, JSON.stringify(body)).to.equal(200)
    expect(body.data).to.include({ task_id: '', to_host_id: pair.idOf(second), changes_addresses: true })
    expect(body.data.port_mappings).to.have.length(1)
    expect(readExpected(second.instance).ports).to.deep.equal([])
    await pair.expectAt(first, guest)
  })

  it('moves a running container with disk, snapshots and settings, and interrupts it only briefly', async () => {
    const guest = await pair.create('busy')
    const disk = pair.diskOf(first, guest)
    writeFileSync(join(disk, 'root/large'), randomBytes(128 * mib))
    await pair.gateway.request('POST', `/containers/${guest.id}/snapshots`, { body: { description: 'before' } })
    const rules = [{ direction: 'in', protocol: 'tcp', action: 'DROP', port: '25', network: 'all' }]
    await pair.gateway.request('PUT', `/containers/${guest.id}/firewall`, {
      body: { enabled: true, default_action: 'ACCEPT', rules },
    })
    writeUsage(guest)
    const earlier = await tasksOf(guest)
    let isWriting = true
    const writing = (async () => {
      for (; isWriting; await delay(100)) {
        // Ends when the guest stops or its disk is gone, because the loop stands for a program in the guest.
        if (readInits(first.instance).size === 0) return
        try {
          appendFileSync(join(disk, 'root/log'), randomBytes(mib / 2))
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code === 'ENOENT') return
          throw error
        }
      }
    })()
    const watched = watchDowntime()
    const task = await pair.ended(await pair.migrate(guest, { host_id: pair.idOf(second) }))
    expect(task['status'], `${JSON.stringify(task)}\n${pair.logs()}`).to.equal('done')
    isWriting = false
    await writing
    await pair.expectAt(second, guest)
    const downMs = await watched
    console.log(`      downtime ${downMs} ms, ${String(task['stage'])}`)
    expect(readUsage(guest)).to.equal(42)
    const isMoved = async (): Promise<boolean> => {
      const tasks = await tasksOf(guest)
      return earlier.every(({ id }) => tasks.find((one) => one['id'] === id)?.['host_id'] === pair.idOf(second))
    }
    await waitFor(isMoved, { what: () => JSON.stringify(earlier) })
    const moved = pair.diskOf(second, guest)
    expect(readFileSync(join(moved, 'root/large'))).to.have.length(128 * mib)
    const snapshots = (await pair.gateway.request('GET', `/containers/${guest.id}/snapshots`)).body.data
      .snapshots as Body[]
    expect(snapshots).to.have.length(1)
    expect(readdirSync(join(second.instance.pool, 'snapshots', guest.uuid))).to.deep.equal([snapshots[0]?.['id']])
    const { body } = await pair.gateway.request('GET', `/containers/${guest.id}/firewall`)
    expect(body.data.rules).to.have.length(1)
    const restored = await pair.gateway.request(
      'POST',
      `/containers/${guest.id}/snapshots/${snapshots[0]?.['id']}/restore`,
    )
    expect(restored.status, JSON.stringify(restored.body)).to.equal(200)
  })

  /** Measures the ms from the end of the guest's first process at the source until its first process at the target. */
  async function watchDowntime(): Promise<number> {
    const before = readInits(second.instance).size
    const source = readInits(first.instance).size
    let goneMs = 0
    for (;;) {
      if (goneMs === 0 && readInits(first.instance).size < source) goneMs = performance.now()
      if (readInits(second.instance).size > before) return Math.round(performance.now() - goneMs)
      await delay(5)
    }
  }

  it('moves a container back to its first host', async () => {
    const guest = await pair.rowOf('busy')
    const task = await pair.ended(await pair.migrate(guest, {}))
    expect(task['status'], `${JSON.stringify(task)}\n${pair.logs()}`).to.equal('done')
    await pair.expectAt(first, guest)
  })

  it('keeps a container running on its host if the move is canceled', async () => {
    const guest = await pair.rowOf('busy')
    const inits = readInits(first.instance)
    const reply = await pair.migrate(guest, { host_id: pair.idOf(second), bandwidth_mbps: 8 })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    const task = `/tasks/${reply.body.data.task_id}`
    await waitFor(async () => /MiB/.test((await pair.gateway.request('GET', task)).body.data.stage))
    const refused = await pair.gateway.request('POST', `/containers/${guest.id}/stop`)
    expect([refused.status, refused.body.code]).to.deep.equal([409, 'invalid_state'])
    const canceled = await pair.gateway.request('DELETE', task)
    expect(canceled.status, JSON.stringify(canceled.body)).to.equal(200)
    expect((await pair.ended(reply))['status']).to.equal('canceled')
    await waitFor(() => !existsSync(join(second.instance.pool, 'snapshots', guest.uuid)), { what: () => pair.logs() })
    await pair.expectAt(first, guest)
    expect(readInits(first.instance)).to.deep.equal(inits)
  })

  describe('with public addresses', () => {
    const client = 'btest-mv-client'
    const ip = (...args: string[]): string => execFileSync('ip', args).toString()
    const prefixes = [shared6, different6].map((prefix) => ({ interface: 'up0', prefix }))
    const setPool = (host: FleetHost, ...addresses: string[]): Promise<GatewayReply> => {
      const items = addresses.map((address) => ({ address, interface: 'up0', prefix_len: 24, gateway: '' }))
      const body = { items, ipv6_prefixes: prefixes }
      return pair.gateway.request('PUT', `/routing?host_id=${pair.idOf(host)}`, { body })
    }
    const [kept, other, spare] = ['198.18.151.50', '198.18.151.66', '198.18.151.67']
    const [kept6, other6] = ['2001:db8:151::50', '2001:db8:152::50']
    const macOf = (host: FleetHost): string =>
      /link\/ether (\S+)/.exec(ip('-n', host.namespace, 'link', 'show', 'up0'))?.[1] ?? ''
    const answers = (address: string): boolean =>
      spawnSync('ip', ['netns', 'exec', client, 'ping', '-c', '1', '-W', '1', address]).status === 0
    const neighbour = (address: string): string => ip('-n', client, 'neighbour', 'show', address)
    const untilAnswered = (address: string): Promise<unknown> =>
      waitFor(() => answers(address), { what: () => `an answer of ${address}: ${neighbour(address)}` })
    const proxiesOf = (host: FleetHost): string => ip('-n', host.namespace, '-6', 'neighbour', 'show', 'proxy')
    const removeClient = (): void => void spawnSync('ip', ['netns', 'delete', client])

    before(() => {
      removeClient()
      ip('netns', 'add', client)
      ip('link', 'add', 'btest-mv-c', 'type', 'veth', 'peer', 'name', 'eth0', 'netns', client)
      ip('link', 'set', 'btest-mv-c', 'master', 'btest-mv', 'up')
      ip('-n', client, 'address', 'add', '198.18.151.200/24', 'dev', 'eth0')
      ip('-n', client, 'link', 'set', 'eth0', 'up')
      for (const [namespace, device, end] of [
        [client, 'eth0', '200'],
        [first.namespace, 'up0', '11'],
        [second.namespace, 'up0', '12'],
      ] as const)
        for (const range of [shared6, different6])
          ip('-n', namespace, 'address', 'add', range.replace('::/', `::${end}/`), 'dev', device, 'nodad')
    })
    after(removeClient)

    it('keeps the addresses of shared pools, which the target announces to other machines', async () => {
      for (const [host, addresses] of [
        [first, [kept, other]],
        [second, [spare]],
      ] as const) {
        const { status, body } = await setPool(host, ...addresses)
        expect(status, JSON.stringify(body)).to.equal(200)
      }
      const guest = await pair.create('public', { public_ipv4s: [kept, other], ipv6_addresses: [kept6, other6] })
      for (const address of [kept, kept6]) {
        await untilAnswered(address)
        expect(neighbour(address)).to.contain(macOf(first))
      }
      expect(proxiesOf(first)).to.contain(kept6)
      const { body } = await pair.migrate(guest, { host_id: pair.idOf(second), dry_run: true })
      const expected = [
        { from: kept, to: kept },
        { from: other, to: spare }, // in a pool that the target does not serve
      ]
      expect(body.data.public_ipv4s).to.deep.equal(expected)
      expect(body.data.ipv6_addresses[0]).to.deep.equal({ from: kept6, to: kept6 })
      // Without packets to the address, only an announcement can change a stale entry.
      ip('-n', client, 'neighbour', 'replace', kept6, 'lladdr', macOf(first), 'dev', 'eth0', 'nud', 'stale')
      const reply = await pair.migrate(guest, { host_id: pair.idOf(second) })
      expect(reply.body.data.public_ipv4s).to.deep.equal(expected)
      const [stays, changed] = reply.body.data.ipv6_addresses as { from: string; to: string }[]
      expect(stays).to.deep.equal({ from: kept6, to: kept6 })
      expect(changed?.from).to.equal(other6)
      expect(changed?.to).to.not.equal(other6)
      expect((await pair.ended(reply))['status'], pair.logs()).to.equal('done')
      for (const address of [kept, kept6]) {
        const isAnnounced = (): boolean => neighbour(address).includes(macOf(second))
        await waitFor(isAnnounced, { what: () => `the new MAC: ${neighbour(address)}` })
        await untilAnswered(address)
      }
      expect(ip('-n', first.namespace, 'address', 'show', 'dev', 'up0')).to.not.contain(kept)
      expect(proxiesOf(first)).to.not.contain(kept6)
      await pair.expectAt(second, guest)
    })

    it('refuses to assign the address on another host', async () => {
      const refused = await setPool(first, kept, other)
      expect([refused.status, refused.body.code]).to.deep.equal([409, 'address_in_use'])
      expect(refused.body.message).to.contain(second.name)
    })

    it('refuses to assign the IPv6 address on another host', async () => {
      const body = { name: 'double', template_id: 'debian-12', host_id: pair.idOf(first), ipv6_addresses: [kept6] }
      const limits = { vcpu: 0.5, ram_mb: 128, disk_gb: 1 }
      const refused = await pair.gateway.request('POST', '/containers', { body: { ...body, ...limits } })
      expect([refused.status, refused.body.code], JSON.stringify(refused.body)).to.deep.equal([409, 'address_in_use'])
    })
  })

  for (const victim of ['source', 'target', 'gateway'] as const)
    it(`ends a move with exactly one running copy even if ${victim === 'gateway' ? 'the gateway' : `the agent of the ${victim} host`} is killed repeatedly`, async () => {
      const guest = await pair.rowOf('busy')
      const from = (await pair.rowOf('busy')).host_id === pair.idOf(first) ? first : second
      const to = from === first ? second : first
      const reply = await pair.migrate(guest, { host_id: pair.idOf(to), bandwidth_mbps: 400 })
      expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
      for (let n = 0; n < 3; n++) {
        await delay(150 + 250 * n)
        expect(readInits(first.instance).size + readInits(second.instance).size).to.be.at.most(2)
        const host = victim === 'source' ? from : to
        if (victim === 'gateway') {
          await pair.gateway.kill()
          pair.gateway.start()
          await pair.gateway.ready()
        } else {
          await host.kill()
          host.start()
        }
      }
      await pair.untilOnline()
      const task = await pair.ended(reply)
      await pair.expectAt(task['status'] === 'done' ? to : from, guest)
    })

  /** The seed's instance id. If it changed, cloud-init would set up the system of the virtual machine again. */
  const readInstance = (host: FleetHost, guest: GuestRow): string =>
    readFileSync(join(pair.diskOf(host, guest), 'instance.json'), 'utf8')

  it('shuts a virtual machine down, and moves it with its disk and snapshots', async () => {
    const guest = await pair.create('machine', { template_id: 'debian-12-kvm', virtualization: 'kvm', ram_mb: 256 })
    expect(machinePids(guest).length).to.equal(1)
    const taken = await pair.gateway.request('POST', `/containers/${guest.id}/snapshots`, {
      body: { description: 'one' },
    })
    expect(taken.status, JSON.stringify(taken.body)).to.be.oneOf([200, 201, 202])
    const instance = readInstance(first, guest)
    const task = await pair.ended(await pair.migrate(guest, { host_id: pair.idOf(second), offline: true }))
    expect(task['status'], `${JSON.stringify(task)}\n${pair.logs()}`).to.equal('done')
    await pair.expectAt(second, guest)
    expect(machinePids(guest).length).to.equal(1)
    expect(readInstance(second, guest)).to.equal(instance)
    const snapshots = (await pair.gateway.request('GET', `/containers/${guest.id}/snapshots`)).body.data
      .snapshots as Body[]
    expect(snapshots).to.have.length(1)
    expect(readdirSync(join(second.instance.pool, 'snapshots', guest.uuid))).to.deep.equal([snapshots[0]?.['id']])
  })

  it('ends a move of a virtual machine with exactly one running copy even if its agents are killed repeatedly', async () => {
    const guest = await pair.rowOf('machine')
    const reply = await pair.migrate(guest, { host_id: pair.idOf(first), offline: true, bandwidth_mbps: 200 })
    expect(reply.status, JSON.stringify(reply.body)).to.equal(202)
    for (let n = 0; n < 3; n++) {
      await delay(300 + 1500 * n)
      expect(machinePids(guest).length).to.be.at.most(1)
      await second.kill()
      second.start()
    }
    const task = await pair.ended(reply)
    await pair.expectAt(task['status'] === 'done' ? first : second, guest)
    expect(machinePids(guest).length).to.equal(1)
  })

  // Runs last: an evacuated host takes no new guests.
  describe('with a failed host', () => {
    it('starts a guest of a failed host from its warm standby', async () => {
      const guest = await pair.rowOf('standing')
      const isIncrement = async (): Promise<boolean> => {
        const { age_seconds: age, sent_bytes: bytes } = await readStandby(guest)
        return age >= 0 && bytes < 8 * mib
      }
      await waitFor(isIncrement, { what: () => pair.logs() })
      expect([copyOf(first, guest).length, copyOf(second, guest).length]).to.deep.equal([1, 1])
      await first.kill()
      const id = pair.idOf(first)
      const evacuate = (body: object): Promise<GatewayReply> =>
        pair.gateway.request('POST', `/hosts/${id}/evacuate`, { body })
      const findPlan = async (): Promise<Body> => {
        const { status, body } = await evacuate({ dry_run: true })
        return status === 200 && (body.data.containers as Body[]).find(({ name }) => name === 'standing')
      }
      const plan = await waitFor(findPlan, { what: () => pair.logs() })
      expect(plan, JSON.stringify(plan)).to.include({
        from_standby: true,
        to_host_id: pair.idOf(second),
        backup_id: '',
      })
      expect(plan.lost_seconds).to.be.above(0)
      expect((await evacuate({ confirm: first.name })).status).to.equal(202)
      const isThere = async (): Promise<boolean> => (await pair.rowOf('standing')).host_id === pair.idOf(second)
      await waitFor(isThere, { what: () => pair.logs() })
      expect(readFileSync(join(pair.diskOf(second, guest), 'root/later'), 'utf8')).to.equal('increment')
      expect(readFileSync(join(pair.diskOf(second, guest), 'root/large'))).to.have.length(64 * mib)
      const { body } = await pair.gateway.request('GET', `/containers/${guest.id}/firewall`)
      expect(body.data).to.include({ enabled: true, default_action: 'DROP' })
      await waitFor(() => copyOf(second, guest).length === 0)
      const started = await pair.ended(await pair.gateway.request('POST', `/containers/${guest.id}/start`))
      expect(started['status'], JSON.stringify(started)).to.equal('done')
      expect(readUsage(guest), 'the usage history').to.equal(42)

      first.start()
      await pair.untilOnline()
      const hasOldCopy = async (): Promise<boolean> =>
        (await pair.list<Body>(`/hosts/${id}/copies`)).some((copy) => copy['container_uuid'] === guest.uuid)
      await waitFor(hasOldCopy, { what: () => pair.logs() })
      expect((await pair.rowOf('standing')).host_id).to.equal(pair.idOf(second))
    })
  })
})
