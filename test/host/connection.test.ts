import { expect } from 'chai'
import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { resolve } from 'node:path'
import { readInits } from '../support/host/inventory.js'
import { ServedHost } from '../support/host/served-host.js'
import { waitFor } from '../support/wait.js'
import { expectInTime } from '../support/promised-time.js'

const packets = resolve(import.meta.dirname, '../support/network/packets.py')
const prefix = '198.18.141'
const client = `${prefix}.1`

interface ConnectionReport {
  readonly reachable: boolean
  readonly code: string
  readonly port: number
  readonly listening_ports: readonly number[]
  readonly steps: readonly { readonly name: string; readonly state: string; readonly code: string }[]
  readonly repair: { readonly method: string; readonly path: string; readonly body: unknown } | null
}

/** Causes faults of a real guest, and repairs them with the requests that the connection check offers. */
describe('the connection check of a real guest', function () {
  const lab = new ServedHost({ name: 'fwy', prefix })
  const { host } = lab
  let server: ChildProcess | undefined

  before(async () => {
    await lab.start()
    const { data } = await send('POST', '/containers', {
      name: 'web',
      template_id: 'debian-12',
      vcpu: 0.5,
      ram_mb: 64,
      disk_gb: 1,
    })
    await taskDone(data.task_id as string)
  })
  after(async () => {
    server?.kill()
    await lab.close()
  })

  const send = lab.send.bind(lab)
  const taskDone = lab.taskDone.bind(lab)
  const guestPid = async (): Promise<string> =>
    String(await waitFor(() => [...readInits(host.instance).values()][0]?.split(':')[0]))
  const inGuest = (pid: string): string[] => [`--net=/proc/${pid}/ns/net`]

  async function diagnose(query = ''): Promise<ConnectionReport> {
    return (await send('GET', `/containers/web/connection${query}`)).data as ConnectionReport
  }
  async function repair({ repair: offer }: ConnectionReport): Promise<void> {
    const { data } = await send(offer!.method, offer!.path, offer!.body)
    if (data?.task_id !== undefined) await taskDone(data.task_id as string)
  }

  /** Starts a server in the network of the guest. */
  async function serve(...listen: string[]): Promise<void> {
    await quiet()
    const args = [...inGuest(await guestPid()), '/usr/bin/python3', packets, 'serve', 'web', ...listen]
    server = spawn('nsenter', args, { stdio: ['ignore', 'pipe', 'inherit'] })
    await once(server.stdout!, 'data')
  }
  async function quiet(): Promise<void> {
    const old = server
    server = undefined
    if (!old || old.exitCode !== null || old.signalCode !== null) return
    const gone = once(old, 'exit')
    old.kill('SIGKILL')
    await gone
  }
  const connects = (port: number): boolean =>
    spawnSync('/usr/bin/python3', [packets, 'ask', 'tcp', host.address.split(':')[0]!, String(port)], {
      encoding: 'utf8',
    }).stdout.startsWith('web')

  it('finds no fault for a reachable guest, and reports its host port', async () => {
    await serve('tcp:22')
    const found = await diagnose()
    expect(found, JSON.stringify(found.steps)).to.include({ reachable: true, code: '', repair: null })
    await waitFor(() => connects(found.port), { what: 'an answer from the guest' })
  })

  it('reports that no program listens on the port, and lists the ports with programs', async () => {
    await serve('tcp:2222')
    const found = await diagnose()
    expect(found.code).to.equal('nothing_listens')
    expect(found.listening_ports).to.include(2222)
    const mapping = await diagnose('?port=2222')
    expect(mapping.code).to.equal('no_mapping')
    await repair(mapping)
    const mended = await diagnose('?port=2222')
    expect(mended.reachable).to.equal(true)
    await waitFor(() => connects(mended.port), { what: 'an answer from the guest' })
  })

  it('distinguishes the firewall of Berth from a firewall inside the guest', async () => {
    await serve('tcp:22')
    await send('PUT', '/containers/web/firewall', { enabled: true, default_action: 'DROP', rules: [] })
    const ours = await diagnose()
    expect(ours.code).to.equal('firewall_drops')
    await repair(ours)
    expect((await diagnose()).reachable).to.equal(true)
    const nft = (...args: string[]) => spawnSync('nsenter', [...inGuest(pid), 'nft', ...args]).status
    const pid = await guestPid()
    expect(nft('add table ip why; add chain ip why in { type filter hook input priority 0; policy drop; }')).to.equal(0)
    expect((await diagnose()).code).to.equal('guest_silent')
    expect(nft('delete table ip why')).to.equal(0)
    expect((await diagnose()).reachable).to.equal(true)
  })

  it('reports success if the firewall permits the client, even if the firewall does not permit the host', async () => {
    const rules = [{ direction: 'in', protocol: 'tcp', action: 'ACCEPT', source_ip: client, port: '22' }]
    await send('PUT', '/containers/web/firewall', { enabled: true, default_action: 'DROP', rules })
    const found = await diagnose(`?source=${client}`)
    expect(found.reachable).to.equal(true)
    expect(found.steps.at(-1)).to.include({ state: 'skipped', code: 'host_not_let_in' })
    await waitFor(() => connects(found.port), { what: 'an answer from the guest' })
    expect((await diagnose('?source=203.0.113.9')).code).to.equal('firewall_drops')
    await send('PUT', '/containers/web/firewall', { enabled: false })
  })

  it('detects that the host lacks the rules of a mapping', async () => {
    const nft = (...args: string[]) => spawnSync('ip', ['netns', 'exec', host.namespace, 'nft', ...args])
    const { port } = await diagnose()
    // The test deletes the rules until a diagnosis finds them missing, because the agent restores them within moments.
    const code = await waitFor(async () => {
      nft('flush', 'map', 'ip', 'berth', 'ports')
      const found = await diagnose()
      return found.reachable ? false : found.code
    })
    expect(code).to.equal('not_forwarded')
    await waitFor(async () => (await diagnose()).reachable, {
      what: 'repaired by the agent',
    })
    expect((await diagnose()).port).to.equal(port)
  })

  it('offers to start a stopped guest', async () => {
    const { data } = await send('POST', '/containers/web/stop', { force: true })
    await taskDone(data.task_id as string)
    await quiet()
    const found = await diagnose()
    expect(found.code).to.equal('not_running')
    await repair(found)
    await serve('tcp:22')
    expect((await diagnose()).reachable).to.equal(true)
  })

  it('is not delayed by a guest that listens on hundreds of sockets', async () => {
    const ports = Array.from({ length: 500 }, (_, at) => `tcp:${10_000 + at}`)
    await serve('tcp:22', ...ports)
    const began = performance.now()
    const found = await diagnose('?port=9')
    expect(found.code).to.equal('nothing_listens')
    expect(found.listening_ports).to.have.length(20)
    expectInTime(began, 3000, 'the answer')
  })
})
