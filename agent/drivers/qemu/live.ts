import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { BerthError } from '../../../shared/errors.js'
import { offlineRequired } from '../../../shared/move-rules.js'
import { readQemuVersion } from '../../host/guest/qemu.js'
import { readMemory } from '../../host/process/memory.js'
import { isSoWithin } from '../common/wait.js'
import type { LiveMoves, MemoryLimits, MemoryProgress } from '../contract.js'
import type { Machine } from '../machine.js'
import { readDiskSystem } from './disk-system.js'
import { hashDevices } from './hash-devices.js'
import { readHostProcessor } from './host-processor.js'
import { findLaunched } from './launched.js'
import { continueGuest, markLeaving } from './continue-guest.js'
import { readMigration, readRunState } from './live-continue.js'
import { adoptFiles } from './live-disk.js'
import { parseLiveFacts, type LiveFacts } from './live-facts.js'
import { checkPaused, finishSending, readMemoryProgress, sendMemory } from './live-outgoing.js'
import type { RunPaths } from './paths.js'
import { memoryMibOf, processorsOf } from './plan-command.js'
import { planObstacles } from './plan-live.js'
import type { QmpConnection } from './qmp/connection.js'
import { objectOf } from './qmp/messages.js'
import { launchArriving, planFacts, type QemuStartContext } from './start.js'

/** Time in ms within which the target's QEMU must have loaded the last part of the memory. */
const loadTimeoutMs = 30_000

/** Moves running virtual machines by the migration of QEMU (docs/design/moving-guests.md). */
export class QemuLiveMoves implements LiveMoves {
  /** @param context returns the objects that a start needs; the driver creates them for each call */
  constructor(private readonly context: () => QemuStartContext) {}

  async describe(machine: Machine): Promise<string> {
    const run = this.#runOf(machine)
    refuseFrozen(run)
    const launched = findLaunched(run.launched)
    const { tpm, ...system } = await readDiskSystem(machine.volume)
    if (tpm) throw offlineRequired(['its TPM cannot be sent while it runs'])
    if (launched?.devices === undefined)
      throw offlineRequired(['an older version of the agent has started the container: restart the container once'])
    const monitor = await this.#monitor(machine)
    const state = await readRunState(monitor)
    if (state !== 'running') throw offlineRequired([`QEMU reports the state ${state}`])
    const { ipv4, prefixLength, gateway } = machine.nic
    const { acceleration, devices, processors, memoryMib, ipv6Addresses } = launched
    const facts: LiveFacts = {
      ...(await readBoard(monitor)),
      acceleration,
      devices,
      processors,
      memoryMib,
      processor: mutable(readHostProcessor()),
      system: { ...system, tpm },
      nic: { ipv4, prefixLength, gateway },
      ipv6Addresses: [...ipv6Addresses],
    }
    return JSON.stringify(facts)
  }

  async findObstacles(machine: Machine, text: string): Promise<string[]> {
    const facts = parseLiveFacts(text)
    const context = this.context()
    const name = this.#name(machine)
    const own = { name, arrival: facts, ...planFacts(context, machine, facts.system) }
    return planObstacles(facts, {
      version: await readQemuVersion(),
      acceleration: context.acceleration.now.kind,
      devices: hashDevices(machine, own),
      processor: readHostProcessor(),
      availableBytes: (await readMemory()).availableBytes,
      limitMib: memoryMibOf(machine.limits),
      limitProcessors: processorsOf(machine.limits),
      nic: machine.nic,
    })
  }

  async receive(machine: Machine, text: string, signal: AbortSignal): Promise<void> {
    const arrival = parseLiveFacts(text)
    const context = this.context()
    await context.machines.whileBusy(this.#name(machine), () => launchArriving(context, machine, { arrival, signal }))
  }

  async connect(machine: Machine): Promise<Socket> {
    const socket = connect(this.#runOf(machine).incoming)
    await once(socket, 'connect')
    return socket
  }

  adopt(machine: Machine, snapshot: string): Promise<void> {
    return adoptFiles(machine.volume, snapshot)
  }

  async confirm(machine: Machine): Promise<void> {
    const monitor = await this.#monitor(machine)
    // QEMU does not answer while it loads memory. Each request may therefore take as long as the whole load.
    const isLoaded = async (): Promise<boolean> =>
      (await readMigration(monitor, loadTimeoutMs))['status'] === 'completed' &&
      (await readRunState(monitor, loadTimeoutMs)) === 'paused'
    if (await isSoWithin(isLoaded, { timeoutMs: loadTimeoutMs })) return
    throw new BerthError('conflict', 'memory_not_sent', 'the target has not received the memory completely')
  }

  async send(machine: Machine, limits: MemoryLimits): Promise<Socket> {
    const run = this.#runOf(machine)
    refuseFrozen(run) // a backup may have frozen the guest since `describe`
    return sendMemory(await this.#monitor(machine), { run, userId: machine.isolation.userIdBase }, limits)
  }

  async readProgress(machine: Machine): Promise<MemoryProgress> {
    return readMemoryProgress(await this.#monitor(machine))
  }

  notePaused(machine: Machine): void {
    markLeaving(this.#runOf(machine))
  }

  async checkPaused(machine: Machine, state: 'paused' | 'sent'): Promise<void> {
    if (state === 'sent' && this.#isStopped(machine)) return
    await checkPaused(await this.#monitor(machine), state)
  }

  async finishSending(machine: Machine, signal: AbortSignal): Promise<void> {
    await finishSending(await this.#monitor(machine), signal)
  }

  async release(machine: Machine): Promise<void> {
    if (this.#isStopped(machine)) return
    markLeaving(this.#runOf(machine)) // if the next steps fail or the agent is killed, a start continues the guest
    this.#track(machine)
    const context = this.context()
    await context.machines.whileBusy(this.#name(machine), () => continueGuest(context, this.#name(machine)))
  }

  #isStopped(machine: Machine): boolean {
    return this.context().runtime.read(this.#name(machine)).state !== 'running'
  }

  #runOf(machine: Machine): RunPaths {
    return this.context().paths.runOf(this.#name(machine))
  }

  /** Returns the monitor of a running QEMU, even if this agent has just started. */
  #monitor(machine: Machine): Promise<QmpConnection> {
    this.#track(machine)
    return this.context().machines.monitor(this.#name(machine))
  }

  #track(machine: Machine): void {
    const { machines, runtime } = this.context()
    const name = this.#name(machine)
    const { process } = runtime.read(name)
    if (process) machines.track(name, machine.uuid, process)
  }

  #name({ id }: Machine): string {
    return this.context().paths.nameOf(id)
  }
}

/** Refuses to move a guest with frozen file systems, because the target would not try to thaw them. */
function refuseFrozen({ frozen }: RunPaths): void {
  if (existsSync(frozen))
    throw offlineRequired(['its file systems are frozen by a backup or snapshot: try again later'])
}

async function readBoard(monitor: QmpConnection): Promise<Pick<LiveFacts, 'version' | 'board'>> {
  const type = await monitor.execute('qom-get', { path: '/machine', property: 'type' })
  const qemu = objectOf(objectOf(await monitor.execute('query-version'))?.['qemu'])
  const version = ['major', 'minor', 'micro'].map((part) => `${qemu?.[part] as number}`).join('.')
  return { version, board: `${type as string}`.replace(/-machine$/, '') }
}

function mutable<T extends { readonly flags: readonly string[] }>(processor: T): T & { flags: string[] } {
  return { ...processor, flags: [...processor.flags] }
}
