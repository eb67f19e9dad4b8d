import { expect } from 'chai'
import { spawnSync } from 'node:child_process'
import { randomInt } from 'node:crypto'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { GuestSettingsServiceClient } from '../../proto/gen/berth/agent/v1/network.js'
import type { OperationServiceClient } from '../../proto/gen/berth/agent/v1/operation.js'
import { call, callUntilAnswered, createGuest, createRequest, operationDone } from '../support/host/agent-calls.js'
import { AgentProcess } from '../support/host/agent-process.js'
import { installBusyboxImage } from '../support/guests/busybox-image.js'
import { Customer } from '../support/gateway/customer.js'
import {
  finishDeletions,
  readInits,
  readInventory,
  readMachineProcesses,
  type Instance,
} from '../support/host/inventory.js'
import { readExpected, readOpenOperations } from '../support/host/journal-inventory.js'
import { installIdleImage, matrixMachine } from '../support/guests/matrix-guests.js'
import { readExpectedSettings, readSettings } from '../support/host/settings-inventory.js'
import { waitFor } from '../support/wait.js'
import { WatchedHost } from '../support/host/watched-host.js'

const kills = Number(process.env['BERTH_TEST_KILLS'] ?? 16)
/** For each kind of guest: number of guests that stay (`steady`), and of customers with changing guests (`busy`). */
const guests = [
  { steady: 3, busy: 6, spec: {} },
  { steady: 2, busy: 3, spec: matrixMachine.spec },
]
/** Interface of the host for the IPv6 prefix of the guests. No packet leaves through it. */
const uplink = 'btestk0'
const forwarding = 'net.ipv6.conf.all.forwarding'

describe(`an agent that is killed ${kills} times`, function () {
  let agent: AgentProcess
  let instance: Instance
  let settings: GuestSettingsServiceClient
  let operations: OperationServiceClient
  let forwardedBefore = ''
  let stopped = false
  /** Milliseconds from the start of the agent until it answers. */
  let readyMs = 0

  before(async () => {
    forwardedBefore = run('sysctl', '-n', forwarding).trim()
    run('ip', 'link', 'delete', uplink)
    run('ip', 'link', 'add', uplink, 'type', 'veth', 'peer', 'name', `${uplink}p`)
    agent = await AgentProcess.create('k')
    instance = {
      stateDir: join(agent.directory, 'state'),
      pool: join(agent.directory, 'pool'),
      table: 'btest_k',
      interfacePrefix: 'xk',
    }
    await agent.start()
    await agent.ready()
    await agent.kill('SIGTERM')
    await installBusyboxImage(instance.pool, 'debian-12')
    installIdleImage(instance.pool, 'debian-12-kvm')
  })

  // The start may have failed, so each part may be missing. Open parts would keep the process alive.
  after(async () => {
    stopped = true
    for (const open of [settings, operations]) open?.close()
    await agent?.destroy()
    run('ip', 'link', 'delete', uplink)
    run('sysctl', '-qw', `${forwarding}=${forwardedBefore}`)
  })

  it('keeps all acknowledged changes, leaves no remains on the host, and stops no guest', async () => {
    const startedMs = performance.now()
    await agent.start()
    await agent.ready()
    readyMs = Math.ceil(performance.now() - startedMs)
    settings = agent.settings()
    operations = agent.operations()
    await setPrefix()
    let lastId = 0
    const steady = guests.flatMap(({ steady: count, spec }) => Array.from({ length: count }, () => spec))
    for (const spec of steady) {
      const id = ++lastId
      const { operation } = await createGuest(operations, createRequest(id, `steady-${id}`, spec))
      await operationDone(operations, operation!.id)
    }
    const before = readFirst()
    expect([...before.keys()]).to.have.length(steady.length)
    const parts = { orders: operations, settings, nextId: () => ++lastId, stopped: () => stopped }
    const specs = guests.flatMap(({ busy, spec }) => Array.from({ length: busy }, () => spec))
    const customers = specs.map((spec, slot) => new Customer({ ...parts, slot, spec }))
    const runs = customers.map((customer) => customer.run())
    const answered = (): number => customers.reduce((sum, { settingsAnswered }) => sum + settingsAnswered, 0)
    // Kills at least `kills` times, and until more than `kills` requests are answered. A recovering agent answers none.
    for (let kill = 0; !stopped && (kill < kills || answered() <= kills); kill++) {
      await killSoon(answered)
      const now = readFirst()
      for (const [name, identity] of before) expect(now.get(name), name).to.equal(identity)
    }
    await agent.ready()
    stopped = true
    await Promise.all(runs)

    await waitFor(() => readOpenOperations(instance).length === 0, {
      what: () => `all operations ended: ${readOpenOperations(instance).join('; ')}\n${agent.logTail()}`,
    })
    for (const id of customers.flatMap((customer) => customer.operations))
      await waitFor(async () => (await callUntilAnswered(operations.getOperation.bind(operations), { id })).operation)
    await expectAcknowledged(customers)
    await finishDeletions(instance)
    const read = () => ({ ...readInventory(instance), ...withPrefix(readSettings(instance)) })
    const expected = () => ({ ...readExpected(instance), ...withPrefix(readExpectedSettings(instance)) })
    await waitFor(() => JSON.stringify(read()) === JSON.stringify(expected()), {}).catch(() => undefined)
    expect(read()).to.deep.equal(expected())
    for (const [name, identity] of before) expect(readFirst().get(name), name).to.equal(identity)
  })

  /** Identities of the first process of each running container and of the QEMU process of each virtual machine. */
  const readFirst = () => new Map([...readInits(instance), ...readMachineProcesses(instance)])

  /** Kills the agent during its recovery, or after at least two more answers. */
  async function killSoon(answered: () => number): Promise<void> {
    if (randomInt(2) === 0) await delay(randomInt(0, readyMs))
    else {
      const least = answered() + 2
      await agent.ready()
      await waitFor(() => stopped || answered() >= least, { what: 'answers' })
      await delay(randomInt(0, 300))
    }
    await agent.kill('SIGKILL')
    await agent.start()
  }

  async function setPrefix(): Promise<void> {
    const routing = agent.routing()
    const item = { interface: uplink, address: '', prefix: '2001:db8:6b:1::', prefixLen: 64, gateway: '' }
    const change = { ipv4Pool: undefined, ipv6Prefixes: { items: [item] }, nat4Ports: undefined, isChecked: false }
    await call(routing.setRouting.bind(routing), change).finally(() => routing.close())
  }

  /** Compares each customer's guest with the settings that the agent acknowledged. */
  async function expectAcknowledged(customers: readonly Customer[]): Promise<void> {
    const watched = new WatchedHost(agent.watch())
    try {
      for (const { uuid = '', acknowledged } of customers) {
        if (uuid === '') continue
        const guest = await waitFor(() => watched.guests().find((one) => one.uuid === uuid))
        const { firewall } = await call(settings.getFirewall.bind(settings), { uuid })
        const known = Object.entries(acknowledged).filter(([, value]) => value !== undefined)
        expect({ ...guest, firewall }).to.deep.include(Object.fromEntries(known))
      }
    } finally {
      watched.close()
    }
  }
})

/** Adds a prefix to the field names of a `SettingsInventory`, so that they differ from those of an `Inventory`. */
function withPrefix(settings: object): object {
  return Object.fromEntries(Object.entries(settings).map(([name, value]) => [`settings: ${name}`, value]))
}

/** Runs a program and ignores its failure, which later checks would detect. */
function run(program: string, ...args: string[]): string {
  return spawnSync(program, args).stdout.toString()
}
