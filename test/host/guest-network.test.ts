import { expect } from 'chai'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { expectRate, serveFlows, type Way } from '../support/network/flow.js'
import type { GatewayReply } from '../support/gateway/gateway-process.js'
import { inContainer, inMachine, installTools, kvm, lxc, machineAt } from '../support/guests/guest-kinds.js'
import { sshInto } from '../support/guests/ssh-into.js'
import { readInits } from '../support/host/inventory.js'
import { ServedHost } from '../support/host/served-host.js'
import { eventually, waitFor } from '../support/wait.js'

const packets = resolve(import.meta.dirname, '../support/network/packets.py')
const prefix = '198.18.114'
const client = `${prefix}.1`
const hostAddress = `${prefix}.11`
const pool = [50, 51].map((last) => `${prefix}.${last}`)
const [guestPort, flowPort] = [8081, 5221]

/** Limits of a guest at its creation and after a change, for each kind of guest. */
const sizes = [
  { kind: lxc, made: { vcpu: 0.5, ram_mb: 64 }, changed: { ram_mb: 96, vcpu: 0.25 }, login: {} },
  {
    kind: kvm,
    made: { vcpu: 1, ram_mb: 256 },
    changed: { ram_mb: 224, vcpu: 0.5 },
    login: { ssh_auth_mode: 'password', ssh_password: kvm.spec.sshPassword },
  },
]

/** Program that sends datagrams of 60,000 bytes without a pause. */
const flood = `import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
while True:
    s.sendto(bytes(60000), (sys.argv[1], 9))`

/**
 * Changes every network setting through the API of a real gateway with a real agent, and tests the effect on packets.
 * This machine is the client, on the public segment of the host. Containers and virtual machines have the same tests.
 */
describe('the network API', function () {
  const lab = new ServedHost({ name: 'fgn', prefix, prepare: (at) => kvm.installImage(at) })
  const { host } = lab
  const children: ChildProcess[] = []

  before(async () => {
    children.push(await serveFlows([], flowPort))
    await lab.start()
  })

  after(async () => {
    for (const child of children) child.kill()
    await lab.close()
  })

  const request = (method: string, path: string, body?: unknown, headers = {}): Promise<GatewayReply> =>
    lab.gateway.request(method, path, { ...(body === undefined ? {} : { body }), headers })

  const send = lab.send.bind(lab)

  async function act(method: string, path: string): Promise<void> {
    const { task_id: id } = (await send(method, path)).data as { task_id: string }
    await taskDone(id)
  }

  const taskDone = lab.taskDone.bind(lab)

  const detail = async () => (await send('GET', '/containers/web')).data as Record<string, unknown>

  /** Returns the answer of the server in the guest, or "" without an answer. */
  function ask(address: string, port: number): string {
    const args = [packets, 'ask', 'tcp', address, String(port)]
    return spawnSync('/usr/bin/python3', args, { encoding: 'utf8' }).stdout.trim()
  }

  const seen = `web ${client}`

  /** Expects that the server in the guest answers. On a busy machine, a single request may get no answer within 1 s. */
  const expectAnswer = (address: string, port: number): Promise<void> =>
    eventually(() => void expect(ask(address, port)).to.equal(seen))

  for (const { kind, made, changed, login } of sizes)
    describe(`for a guest of kind ${kind.name}`, () => {
      let hostPort: number
      let sshPort: number

      /** Command prefix that runs a program in the network of the guest. */
      function inGuest(): string[] {
        if (kind.name === 'kvm') return inMachine(machineAt(hostAddress, sshPort))
        return inContainer([...readInits(host.instance).values()][0]!.split(':')[0]!)
      }

      const device = async (): Promise<string> => `${host.name}${String((await detail())['id'])}`

      const isThere = (name: string): boolean =>
        spawnSync('ip', ['-n', host.namespace, 'link', 'show', name]).status === 0

      /** Starts a server in the network of the guest. It answers with the address of its client. */
      async function serve(): Promise<void> {
        if (kind.name === 'kvm') await installTools(machineAt(hostAddress, sshPort))
        else await waitFor(() => readInits(host.instance).size > 0)
        const [program = '', ...args] = [...inGuest(), '/usr/bin/python3', packets]
        const child = spawn(program, [...args, 'serve', 'web', `tcp:${guestPort}`], {
          stdio: ['ignore', 'pipe', 'inherit'],
        })
        children.push(child)
        await once(child.stdout, 'data')
      }

      /** Expects that the client reaches the guest at its mapping. The guest must see the client's real address. */
      async function expectReached(): Promise<void> {
        if (kind.name === 'lxc') {
          await serve()
          await expectAnswer(hostAddress, hostPort)
          return
        }
        const clientOfShell = await sshInto(machineAt(hostAddress, sshPort), 'echo $SSH_CLIENT')
        expect(clientOfShell.split(' ')[0]).to.equal(client)
      }

      it('sets an address pool, and creates a guest with ports, an address, rates and a quota', async () => {
        const items = pool.map((address) => ({ address, interface: 'up0', prefix_len: 24 }))
        const { data: routing } = await send('PUT', '/routing', { items })
        expect(routing.ipv4).to.deep.equal({ used: 0, remaining: '2', total: '2' })
        const { data } = await send('POST', '/containers', {
          name: 'web',
          virtualization: kind.name,
          template_id: 'debian-12',
          ...made,
          ...login,
          disk_gb: 1,
          assign_ipv4: true,
          network_bw_mbps: 200,
          monthly_traffic_gb: 5,
          nat_port_mappings: [{ container_port: guestPort }],
        })
        await taskDone(data.task_id as string)
        const row = await detail()
        expect(row).to.include({
          status: 'running',
          network_down_mbps: 200,
          network_up_mbps: 200,
          monthly_traffic_gb: 5,
          traffic_mode: 'total',
          traffic_action: 'stop',
          policy_blocked: false,
        })
        const mappings = row['port_mappings'] as { container_port: number; host_port: number }[]
        expect(mappings.map((one) => one.container_port)).to.deep.equal([22, guestPort])
        ;[sshPort, hostPort] = [mappings[0]!.host_port, mappings[1]!.host_port]
        await serve()
        expect(pool).to.include((row['public_ipv4s'] as string[])[0])
      })

      it('makes the guest reachable at its mapped port and address, and shows the client’s address', async () => {
        const [own = ''] = (await detail())['public_ipv4s'] as string[]
        await expectAnswer(hostAddress, hostPort)
        await expectAnswer(own, guestPort)
        const { data } = await send('GET', '/routing')
        expect(data.ipv4_assignments).to.have.length(1)
        expect(data.ipv4_assignments[0]).to.include({ container_name: 'web', address: own, interface: 'up0' })
        expect(data.nat4_mappings[1]).to.include({
          host_port: hostPort,
          container_port: guestPort,
          status: 'running',
        })
      })

      it('changes a mapping, adds and removes a range, and answers 409 if a port is in use', async () => {
        const path = '/containers/web/port-mappings'
        const { port } = (await send('GET', '/containers/web/random-port')).data as { port: number }
        await send('PUT', `${path}/1`, { host_port: port })
        await expectAnswer(hostAddress, port)
        expect(ask(hostAddress, hostPort)).to.equal('')
        hostPort = port
        const range = { container_port: guestPort - 1, container_port_end: guestPort + 8 }
        const { data } = await send('POST', path, range)
        const { host_port: first, host_port_end: last } = data[2] as {
          host_port: number
          host_port_end: number
        }
        expect(last - first).to.equal(9)
        await expectAnswer(hostAddress, first + 1)
        const taken = await request('POST', path, { container_port: 1, host_port: first + 5 })
        expect([taken.status, taken.body.code]).to.deep.equal([409, 'port_conflict'])
        expect((await send('DELETE', `${path}/2`)).data).to.have.length(2)
        expect(ask(hostAddress, first + 1)).to.equal('')
        const absent = await request('DELETE', `${path}/2`)
        expect([absent.status, absent.body.code]).to.deep.equal([404, 'not_found'])
      })

      it('maps only ports of the configured range, and answers 409 for used ports and for ports outside', async () => {
        const path = '/containers/web/port-mappings'
        const refused = async (method: string, to: string, body: object) => {
          const { status, body: answer } = await request(method, to, body)
          return [status, answer.code as string]
        }
        const setPorts = (start: number, end: number) => ({ nat4_port_range: { start, end } })
        const { data: before } = await send('GET', '/routing')
        expect(before.nat4).to.deep.equal({ used: 2, remaining: '39998', total: '40000' })
        const mapped = (before.nat4_mappings as { host_port: number }[]).map((one) => one.host_port)
        const [low, high] = [Math.min(...mapped), Math.max(...mapped)]
        // Each of these ranges would exclude an existing mapping.
        for (const range of [setPorts(low + 1, 65_535), setPorts(1024, high - 1), setPorts(high + 1, high + 9)])
          expect(await refused('PUT', '/routing', range)).to.deep.equal([409, 'port_conflict'])
        expect(await refused('PUT', '/routing', setPorts(1023, 65_535))).to.deep.equal([400, 'invalid_field'])
        expect((await send('GET', '/routing')).data).to.deep.equal(before)
        const { data: all } = await send('PUT', '/routing', setPorts(1024, 65_535))
        expect(all.nat4).to.deep.equal({ used: 2, remaining: '64510', total: '64512' })
        // The agent's own port is now inside the range. Even then, a mapping must not use it.
        const own = Number(host.address.split(':')[1])
        expect(await refused('POST', path, { container_port: 1, host_port: own })).to.deep.equal([409, 'port_conflict'])
        const { data: narrow } = await send('PUT', '/routing', setPorts(low, high))
        expect(narrow.nat4).to.deep.equal({ used: 2, total: String(high - low + 1), remaining: String(high - low - 1) })
        expect(await refused('POST', path, { container_port: 1, host_port: high + 1 })).to.deep.equal([
          409,
          'port_conflict',
        ])
        const { data: picked } = await send('POST', path, { container_port: guestPort, protocol: 'udp' })
        expect((picked[2] as { host_port: number }).host_port).to.be.within(low, high)
        await send('DELETE', `${path}/2`)
        await send('PUT', '/routing', setPorts(20_000, 59_999))
        await expectAnswer(hostAddress, hostPort)
      })

      it('accepts an additional host address either for mappings or for the pool', async () => {
        const second = `${prefix}.12`
        const ip = (...args: string[]) => spawnSync('ip', ['-n', host.namespace, 'address', ...args])
        expect(ip('add', `${second}/24`, 'dev', 'up0').status).to.equal(0)
        const path = '/containers/web/port-mappings'
        const mapping = { container_port: guestPort, host_ip: second }
        const { data } = await send('POST', path, mapping)
        const { host_port: port } = data[2] as { host_port: number }
        await expectAnswer(second, port)
        expect(ask(hostAddress, port)).to.equal('')
        const items = [...pool, second].map((address) => ({ address, interface: 'up0', prefix_len: 24 }))
        const pooled = await request('PUT', '/routing', { items })
        expect([pooled.status, pooled.body.code]).to.deep.equal([409, 'address_in_use'])
        await send('DELETE', `${path}/2`)
        await send('PUT', '/routing', { items })
        const mapped = await request('POST', path, mapping)
        expect([mapped.status, mapped.body.code]).to.deep.equal([409, 'address_in_use'])
        await send('PUT', '/routing', { items: items.slice(0, -1) })
        ip('delete', `${second}/24`, 'dev', 'up0')
      })

      it('closes and opens the firewall, and rejects a change with an outdated If-Match', async () => {
        const path = '/containers/web/firewall'
        const rule = {
          direction: 'in',
          protocol: 'tcp',
          action: 'ACCEPT',
          network: 'ipv4',
          port: String(guestPort),
        }
        const firewall = (rules: object[]) => ({ enabled: true, default_action: 'DROP', rules })
        await send('PUT', path, firewall([]))
        expect(ask(hostAddress, hostPort)).to.equal('')
        const { data } = await send('PUT', path, firewall([{ ...rule, source_ip: `${client}-${prefix}.9` }]))
        await expectAnswer(hostAddress, hostPort)
        expect((await send('GET', path)).data).to.deep.equal(data)
        await send('PUT', path, firewall([{ ...rule, source_ip: `${prefix}.2/31` }]))
        expect(ask(hostAddress, hostPort)).to.equal('')
        const refused = await request('PUT', path, firewall([{ ...rule, protocol: 'icmp' }]))
        expect([refused.status, refused.body.details.field]).to.deep.equal([400, 'rules.0.port'])
        const stale = await request('PUT', path, firewall([]), { 'if-match': '"1.x"' })
        expect([stale.status, stale.body.code]).to.deep.equal([412, 'precondition_failed'])
        await send('PUT', path, { enabled: false, default_action: 'ACCEPT', rules: [] })
        await expectAnswer(hostAddress, hostPort)
      })

      it('changes limits and quota of a running guest', async () => {
        await send('PUT', '/containers/web/resource-limit', { ...changed, network_up_mbps: 20 })
        await send('PUT', '/containers/web/traffic-limit', {
          traffic_action: 'throttle',
          traffic_reset_day: 15,
        })
        expect(await detail()).to.deep.include({
          ...changed,
          network_up_mbps: 20,
          network_down_mbps: 200,
          at_next_start: [],
          traffic_action: 'throttle',
          traffic_reset_day: 15,
          monthly_traffic_gb: 5,
        })
        const much = await request('PUT', '/containers/web/resource-limit', { ram_mb: 4_000_000 })
        expect([much.status, much.body.code]).to.deep.equal([409, 'resource_exhausted'])
      })

      it('counts traffic, and resets the count', async () => {
        const path = '/containers/web/traffic'
        const used = async () => (await send('GET', path)).data as Record<string, number | string>
        await expectAnswer(hostAddress, hostPort)
        const counted = await waitFor(async () => {
          const now = await used()
          return Number(now['rx_used_bytes']) > 0 && Number(now['tx_used_bytes']) > 0 ? now : undefined
        })
        expect(counted).to.include({ mode: 'total', limit_gb: 5, action: 'throttle' })
        expect(counted['reset_date']).to.match(/^\d{4}-\d{2}$/)
        expect(counted['period_start']).to.match(/-15$/)
        await send('POST', `${path}-reset`)
        expect((await used())['total_used_bytes']).to.equal(0)
      })

      it('limits the rate in each direction, also on an interface that replaces a deleted one', async () => {
        const flow = (way: Way) => ({ at: inGuest(), host: client, port: flowPort, way })
        const expectSold = async (when: string): Promise<void> => {
          await expectRate(flow('down'), 10, when)
          await expectRate(flow('up'), 5, when)
        }
        const rates = { network_down_mbps: 10, network_up_mbps: 5 }
        await send('PUT', '/containers/web/resource-limit', rates)
        await expectSold('live')
        const own = await device()
        spawnSync('ip', ['-n', host.namespace, 'link', 'delete', own])
        expect(isThere(own)).to.equal(false)
        await waitFor(() => isThere(own) && ask(hostAddress, hostPort) === seen, { what: 'the guest to be reached' })
        await expectSold('after a repair')
      })

      it('makes the guest reachable again within seconds if all nft rules are deleted', async () => {
        spawnSync('ip', ['netns', 'exec', host.namespace, 'nft', 'flush', 'ruleset'])
        await waitFor(() => ask(hostAddress, hostPort) === seen, { what: 'the rules to be back' })
      })

      it('lists the used addresses of the network segment, and reports that IPv6 is not available', async () => {
        const [own = ''] = (await detail())['public_ipv4s'] as string[]
        const scan = { cidr: `${prefix}.0/26`, interface: 'up0' }
        const { data } = await send('POST', '/routing/ipv4-scan', scan)
        const statusOf = (address: string) =>
          (data as { address: string; status: string }[]).find((item) => item.address === address)?.status
        const free = pool.find((address) => address !== own)!
        expect([hostAddress, client, own, free, `${prefix}.60`].map(statusOf)).to.deep.equal([
          'host',
          'in_use',
          'assigned',
          'pool',
          'available',
        ])
        const ipv6 = (await send('GET', '/ipv6/status')).data as { available: boolean; reason: string }
        expect(ipv6.available).to.equal(false)
        expect(ipv6.reason).not.to.equal('')
        const none = await request('POST', '/containers/web/ipv6')
        expect([none.status, none.body.code]).to.deep.equal([409, 'resource_exhausted'])
      })

      it('warns in the host report if the table of another program drops packets of guests', async () => {
        const foreign = 'add table inet other; add chain inet other closed'
        const head = '{ type filter hook forward priority 0; policy drop; }'
        const nft = (script: string) => spawnSync('ip', ['netns', 'exec', host.namespace, 'nft', script])
        const warnings = async () => (await send('GET', '/host-report')).data.warnings as string[]
        const warned = async () => (await warnings()).some((text) => text.includes('table inet other'))
        expect(nft(`${foreign} ${head}`).status).to.equal(0)
        // The warning may take 8 s, because the agent checks the network every 3 s and sends a report every 5 s.
        await waitFor(warned, { what: 'a warning' })
        expect((await send('GET', '/host-report')).data.summary.status).to.equal('warning')
        expect(ask(hostAddress, hostPort)).to.equal('')
        nft('delete table inet other')
        await expectAnswer(hostAddress, hostPort)
      })

      it('stops and blocks the guest when its quota is used up, until the traffic count is reset', async () => {
        const [own = ''] = (await detail())['public_ipv4s'] as string[]
        const limit = { monthly_traffic_gb: 1, traffic_action: 'stop' }
        await send('PUT', '/containers/web/traffic-limit', limit)
        const sender = spawn('/usr/bin/python3', ['-c', flood, own], { stdio: 'ignore' })
        children.push(sender)
        await waitFor(async () => (await detail())['policy_blocked'] === true, {
          what: 'the quota to be used up',
        }).finally(() => sender.kill()) // the flood would delay the shutdown of a virtual machine
        await waitFor(async () => (await detail())['status'] === 'stopped', { what: 'its end' })
        expect(await detail()).to.include({ policy_blocked: true, policy_reason: 'traffic quota used up' })
        const refused = await request('POST', '/containers/web/start')
        expect([refused.status, refused.body.code]).to.deep.equal([403, 'policy_blocked'])
        await send('POST', '/containers/web/traffic-reset')
        await waitFor(async () => (await detail())['policy_blocked'] === false)
        await act('POST', '/containers/web/start')
        await expectReached()
      })

      // Only containers have these tests. The test of the quota covers the same operations for virtual machines.
      const itForContainers = kind.name === 'lxc' ? it : () => undefined
      itForContainers('stops and blocks the guest when it expires, until its expiry date is removed', async () => {
        await send('PUT', '/containers/web/expiry', { expires_at: '2020-01-01' })
        await waitFor(async () => (await detail())['status'] === 'stopped')
        expect(await detail()).to.include({ policy_blocked: true, policy_reason: 'expired' })
        const refused = await request('POST', '/containers/web/start')
        expect([refused.status, refused.body.code]).to.deep.equal([403, 'policy_blocked'])
        await send('PUT', '/containers/web/expiry', { expires_at: '' })
        await act('POST', '/containers/web/start')
        await serve()
        await expectAnswer(hostAddress, hostPort)
      })

      it('removes the mappings and addresses of a deleted guest, and can then remove the address pool', async () => {
        const [own = ''] = (await detail())['public_ipv4s'] as string[]
        const kept = await request('PUT', '/routing', { items: [] })
        expect([kept.status, kept.body.code]).to.deep.equal([409, 'address_in_use'])
        await act('DELETE', '/containers/web/delete')
        const { data } = await send('PUT', '/routing', { items: [] })
        expect([data.ipv4.used, data.nat4.used]).to.deep.equal([0, 0])
        expect([ask(own, guestPort), ask(hostAddress, hostPort)]).to.deep.equal(['', ''])
      })
    })
})
