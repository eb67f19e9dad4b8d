import { chmodSync, chownSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
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
import { ensureGroups, planGroupLimits } from './groups.js'
import { writeLaunched } from './launched.js'
import type { Machines } from './machines.js'
import { readDiskSystem, type DiskSystem } from './disk-system.js'
import { tpmOf, type QemuPaths, type RunPaths } from './paths.js'
import { planCommand } from './plan-command.js'
import { planMedia } from './plan-disks.js'
import { clearMachine, type QemuStopContext } from './stop.js'

export interface QemuStartContext extends QemuStopContext {
  readonly paths: QemuPaths
  readonly facts: GroupFacts
  readonly machines: Machines
  readonly acceleration: Pick<AccelerationWatch, 'now' | 'look'>
  /** Path of a CD with drivers for Windows. */
  readonly driversCd?: string
}

export interface StartOrder {
  readonly signal: AbortSignal
  /** Called when the tap exists, which is before the guest runs. */
  readonly connected?: () => Promise<void>
}

const settleTimeoutMs = 30_000

/**
 * Starts the guest and returns when its QEMU answers. Does nothing for a running guest. If a killed agent has left a
 * launch-machine.pl that is about to start the guest, the function waits for this program.
 * @throws {BerthError} `guest_start_failed` with QEMU's own reason. Also throws the error of `connected`: the guest
 * then runs.
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
    return connected()
  }
  await clearMachine(context, name)
  signal.throwIfAborted()
  const connecting = await launch(context, machine, { name, connected })
  if (connecting.status === 'rejected') throw connecting.reason
}

/** Launches QEMU and runs `connected`. Returns the outcome of `connected`. @throws {BerthError} `guest_start_failed` */
async function launch(
  context: QemuStartContext,
  machine: Machine,
  { name, connected }: { readonly name: string; readonly connected: () => Promise<void> },
): Promise<PromiseSettledResult<void>> {
  const { machines, paths } = context
  try {
    await startTracked(context, machine, name)
    const greeted = untilGreeted(machines, name, paths.runOf(name))
    const [[connecting]] = await allEnded([Promise.allSettled([connected()]), greeted])
    return connecting
  } catch (cause) {
    const reason = readReason(paths.runOf(name).log)
    machines.forget(name)
    await clearMachine(context, name)
    void context.acceleration.look() // the reason may be that kvm no longer works
    throw new BerthError('internal', 'guest_start_failed', `start of ${name} failed: ${reason}`, { cause })
  }
}

async function startTracked(context: QemuStartContext, machine: Machine, name: string): Promise<void> {
  const { machines, paths } = context
  const run = paths.runOf(name)
  prepareDirectory(run, machine.isolation.userIdBase)
  const pid = await startProcess(context, machine, name)
  const process = findLiveProcess(pid)
  if (!process) throw new Error('QEMU ended immediately after its start')
  machines.track(name, machine.uuid, process)
}

async function untilGreeted(machines: Machines, name: string, run: RunPaths): Promise<void> {
  await machines.monitor(name, settleTimeoutMs)
  // QEMU has already created its socket here. Without write access, an attacker in QEMU cannot replace the socket.
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

async function startProcess(context: QemuStartContext, machine: Machine, name: string): Promise<number> {
  const { paths, facts } = context
  const acceleration = context.acceleration.now
  const run = paths.runOf(name)
  const { nic, isolation } = machine
  const volume = systemVolumeOf(machine)
  const [system] = await allEnded([readDiskSystem(volume), writeLaunched(run.launched, machine, acceleration.kind)])
  refuseUnsupported(system)
  const firmware = firmwareFiles(system)?.code
  const { driversCd } = context
  const media = planMedia(machine, {
    system,
    seed: paths.seedOf(name),
    ...(driversCd === undefined ? {} : { driversCd }),
    ...(firmware === undefined ? {} : { firmware }),
  })
  return launchMachine({
    lock: run.lock,
    work: run.work,
    log: run.log,
    files: media,
    groups: ensureGroups(facts, paths.groupOf(name), planGroupLimits(machine, acceleration.kind)),
    sockets: { qmp: run.monitor, qmp2: run.secondMonitor, serial: run.serial, agent: run.agent },
    tap: tapOf(nic),
    userId: isolation.userIdBase,
    ...(system.tpm ? { tpm: tpmOf(volume) } : {}),
    ...(acceleration.groupId === undefined ? {} : { groupId: acceleration.groupId }),
    command: planCommand(machine, { name, acceleration: acceleration.kind, system, media }),
  })
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
