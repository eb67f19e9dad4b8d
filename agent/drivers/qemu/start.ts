import { chmodSync, chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import type { Logger } from 'pino'
import { allEnded } from '../../../shared/all-ended.js'
import { BerthError } from '../../../shared/errors.js'
import { findFirmwareHindrance, firmwareFiles } from '../../host/guest/firmware.js'
import { launchMachine } from '../../host/guest/qemu.js'
import { findLiveProcess, readKernelFile } from '../../host/process/proc.js'
import type { GroupFacts } from '../common/group-facts.js'
import { waitUntil } from '../common/wait.js'
import { systemVolumeOf, type Machine } from '../machine.js'
import type { AccelerationWatch } from './acceleration-watch.js'
import { tapOf } from './connect.js'
import { continueGuest } from './continue-guest.js'
import { ensureGroups, planGroupLimits } from './groups.js'
import { writeLaunched, type ArrivedLaunch } from './launched.js'
import type { Machines } from './machines.js'
import { readDiskSystem, type DiskSystem } from './disk-system.js'
import { tpmOf, type QemuPaths, type RunPaths } from './paths.js'
import { hashDevices } from './hash-devices.js'
import { planCommand, type Arrival, type CommandFacts } from './plan-command.js'
import { planMedia } from './plan-disks.js'
import { clearMachine, type QemuStopContext } from './stop.js'

export interface QemuStartContext extends QemuStopContext {
  readonly paths: QemuPaths
  readonly facts: GroupFacts
  readonly machines: Machines
  readonly acceleration: Pick<AccelerationWatch, 'now' | 'look'>
  /** Path of a CD with drivers for Windows. */
  readonly driversCd?: string
  readonly log: Logger
}

export interface StartOrder {
  readonly signal: AbortSignal
  /** Called when the tap exists, which is before the guest runs. */
  readonly connected?: () => Promise<void>
  /** Set if the guest's memory arrives from another host. QEMU then waits for the memory, and the guest is paused. */
  readonly arrival?: Arrival & ArrivedLaunch
}

const settleTimeoutMs = 30_000

/**
 * Starts the guest and returns as soon as its QEMU answers. Does nothing for a running guest. Continues a guest that
 * its move has paused. Call this only on the host that owns the guest. If a killed agent left a launch-machine.pl that
 * is about to start the guest, this function waits for it.
 * @throws {BerthError} `guest_start_failed` with QEMU's own reason
 * @throws the error of `connected`; the guest runs nevertheless
 */
export async function startMachine(
  context: QemuStartContext,
  machine: Machine,
  { signal, connected = async () => undefined }: StartOrder,
): Promise<void> {
  const { runtime, machines, paths } = context
  const name = paths.nameOf(machine.id)
  const settled = (): boolean => runtime.read(name).state !== 'starting'
  await waitUntil(settled, { timeoutMs: settleTimeoutMs, what: `${name} to start or end`, signal })
  const { state, process } = runtime.read(name)
  if (state === 'running' && process) {
    machines.track(name, machine.uuid, process)
    const [connecting] = await Promise.allSettled([connected()])
    if (await continueGuest(context, name)) return throwReason(connecting)
  }
  await clearMachine(context, name)
  signal.throwIfAborted()
  throwReason(await launch(context, machine, { name, connected }))
}

function throwReason(outcome: PromiseSettledResult<void>): void {
  if (outcome.status === 'rejected') throw outcome.reason
}

/** Starts a QEMU that waits for the guest's memory from another host. Ends an earlier QEMU of the guest. */
export async function launchArriving(
  context: QemuStartContext,
  machine: Machine,
  order: Required<Pick<StartOrder, 'arrival'>> & Pick<StartOrder, 'signal'>,
): Promise<void> {
  const { paths, machines } = context
  const name = paths.nameOf(machine.id)
  machines.forget(name)
  await clearMachine(context, name)
  order.signal.throwIfAborted()
  const { directory, arriving } = paths.runOf(name)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  writeFileSync(arriving, '', { mode: 0o600 })
  await launch(context, machine, { name, connected: async () => undefined, arrival: order.arrival })
}

/** Launches QEMU and runs `connected`. Returns the outcome of `connected`. @throws {BerthError} `guest_start_failed` */
async function launch(
  context: QemuStartContext,
  machine: Machine,
  { name, connected, arrival }: Pick<StartOrder, 'arrival'> & { name: string; connected: () => Promise<void> },
): Promise<PromiseSettledResult<void>> {
  const { machines, paths } = context
  try {
    await startTracked(context, machine, { name, ...(arrival && { arrival }) })
    const greeted = untilGreeted(machines, name, paths.runOf(name))
    const [[connecting]] = await allEnded([Promise.allSettled([connected()]), greeted])
    return connecting
  } catch (cause) {
    const reason = readReason(paths.runOf(name).log)
    machines.forget(name)
    await clearMachine(context, name)
    void context.acceleration.look() // a possible reason: kvm no longer works
    throw new BerthError('internal', 'guest_start_failed', `start of ${name} failed: ${reason}`, { cause })
  }
}

type Launch = Pick<StartOrder, 'arrival'> & { readonly name: string }

async function startTracked(context: QemuStartContext, machine: Machine, launch: Launch): Promise<void> {
  const { machines, paths } = context
  const { name } = launch
  const run = paths.runOf(name)
  prepareDirectory(run, machine.isolation.userIdBase)
  const pid = await startProcess(context, machine, launch)
  const process = findLiveProcess(pid)
  if (!process) throw new Error('QEMU ended immediately after its start')
  machines.track(name, machine.uuid, process)
}

async function untilGreeted(machines: Machines, name: string, run: RunPaths): Promise<void> {
  await machines.monitor(name, settleTimeoutMs)
  // QEMU has created its socket here. Root now owns the directory, so that QEMU cannot replace the socket.
  chownSync(run.work, 0, 0)
  chmodSync(run.work, 0o711)
}

/** Prepares the files of a run synchronously: /run is in memory, where asynchronous calls take several times longer. */
function prepareDirectory(run: RunPaths, userId: number): void {
  rmSync(run.ended, { force: true })
  rmSync(run.work, { recursive: true, force: true })
  mkdirSync(run.work, { recursive: true, mode: 0o700 })
  chownSync(run.work, userId, userId)
  writeFileSync(run.log, '', { mode: 0o600 })
}

async function startProcess(context: QemuStartContext, machine: Machine, { name, arrival }: Launch): Promise<number> {
  const { paths, facts } = context
  const acceleration = context.acceleration.now
  const run = paths.runOf(name)
  const { nic, isolation } = machine
  const volume = systemVolumeOf(machine)
  const system = await readDiskSystem(volume)
  refuseUnsupported(system)
  const command = { name, ...(arrival && { arrival }), ...planFacts(context, machine, system) }
  const devices = hashDevices(machine, command)
  await writeLaunched(run.launched, machine, { acceleration: acceleration.kind, devices, ...(arrival && { arrival }) })
  return launchMachine({
    lock: run.lock,
    work: run.work,
    log: run.log,
    files: command.media,
    groups: ensureGroups(facts, paths.groupOf(name), planGroupLimits(machine, acceleration.kind)),
    sockets: { qmp: run.monitor, qmp2: run.secondMonitor, serial: run.serial, agent: run.agent },
    tap: tapOf(nic),
    userId: isolation.userIdBase,
    ...(system.tpm ? { tpm: tpmOf(volume) } : {}),
    ...(acceleration.groupId === undefined ? {} : { groupId: acceleration.groupId }),
    command: planCommand(machine, command),
  })
}

/** Plans the facts about this host and the guest's system on which the command line depends. */
export function planFacts(
  { acceleration, paths, driversCd }: Pick<QemuStartContext, 'acceleration' | 'paths' | 'driversCd'>,
  machine: Machine,
  system: DiskSystem,
): Pick<CommandFacts, 'acceleration' | 'system' | 'media'> {
  const firmware = firmwareFiles(system)?.code
  const media = planMedia(machine, {
    system,
    seed: paths.seedOf(paths.nameOf(machine.id)),
    ...(driversCd === undefined ? {} : { driversCd }),
    ...(firmware === undefined ? {} : { firmware }),
  })
  return { acceleration: acceleration.now.kind, system, media }
}

/** @throws {BerthError} `unsupported` if the host lacks a program or file that the system needs */
export function refuseUnsupported(system: DiskSystem): void {
  const hindrance = findFirmwareHindrance(system)
  if (hindrance !== undefined) throw new BerthError('invalid', 'unsupported', hindrance)
}

/** Returns the last line of QEMU's log, as the reason of a failed start. */
function readReason(log: string): string {
  const lines = (readKernelFile(log) ?? '').slice(-4096).split('\n').filter(Boolean)
  return (lines.at(-1) ?? 'QEMU did not answer').replaceAll(/\p{Cc}+/gu, ' ').slice(0, 300)
}
