import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { isExecutable } from './firmware.js'
import { CommandError, run, runPerl } from '../process/process.js'
import type { Tap } from '../net/tap.js'

export const qemuProgram = '/usr/bin/qemu-system-x86_64'
const imageProgram = '/usr/bin/qemu-img'
const tunDevice = '/dev/net/tun'

/** A file that the launcher opens for QEMU. */
export interface OpenedFile {
  readonly name: string
  readonly path: string
  /** `direct`: for reading and writing without the page cache. */
  readonly access: 'direct' | 'write' | 'read'
}

/** Parameters for starting QEMU. The launcher opens the files and passes their descriptors to QEMU. */
export interface QemuLaunchOrder {
  readonly lock: string
  /** cgroups of QEMU. If the first one contains a process, QEMU is already running and is not started again. */
  readonly groups: readonly string[]
  readonly sockets: Readonly<Record<string, string>>
  readonly files: readonly OpenedFile[]
  /** Directory of the TPM's state, which belongs to the user `userId`. Undefined: no TPM. */
  readonly tpm?: string
  readonly tap: Tap
  readonly userId: number
  /** Group id of /dev/kvm. Undefined: KVM is not used. */
  readonly groupId?: number
  readonly work: string
  readonly log: string
  /** Command line of QEMU. The launcher replaces `%{NAME}` by the descriptor of the file with that name. */
  readonly command: readonly string[]
}

/**
 * Starts QEMU as a process that outlives the agent, or finds that it is already running.
 * @returns the pid of QEMU
 * @throws {CommandError} that names the file that could not be opened
 */
export async function launchMachine(order: QemuLaunchOrder): Promise<number> {
  const { tap, groups, files } = order
  const args = [
    `lock=${order.lock}`,
    `busy=${groups[0]}`,
    ...groups.map((group) => `group=${group}`),
    ...Object.entries(order.sockets).map(([name, path]) => `listen=${name}:${path}`),
    ...files.map(({ name, path, access }) => `${access}=${name}:${path}`),
    ...(order.tpm === undefined ? [] : [`tpm=tpm:${order.tpm}`]),
    `tap=tap:${tap.device}:${tap.bridge}:${tap.mac}`,
    `uid=${order.userId}`,
    `cwd=${order.work}`,
    `log=${order.log}`,
    ...(order.groupId === undefined ? [] : [`groups=${order.groupId}`]),
  ]
  const { stdout } = await runPerl('launch-machine', [...args, '--', ...order.command], {
    survives: true,
    timeoutMs: 30_000,
  })
  return Number(stdout.trim())
}

/** Reads the version of the installed QEMU, for example `7.2.22`. */
export async function readQemuVersion(): Promise<string> {
  const { stdout } = await run(qemuProgram, ['--version'], { timeoutMs: 30_000 })
  return /version (\d+\.\d+(?:\.\d+)?)/.exec(stdout)?.[1] ?? '0.0'
}

/** Returns the reason why this host cannot run virtual machines. Undefined: the host can run them. */
export function findQemuHindrance(): string | undefined {
  const needed = { [qemuProgram]: 'qemu-system-x86', [imageProgram]: 'qemu-utils' }
  const missing = Object.entries(needed).find(([program]) => !isExecutable(program))
  if (missing) return `${missing[0]} does not exist: install the package ${missing[1]}`
  return existsSync(tunDevice) ? undefined : `${tunDevice} does not exist`
}

/**
 * Firmware image of a few instructions that tests an accelerator. It enters protected mode and returns from an
 * interrupt, which fails on a badly emulated processor. It then ends QEMU with exit code 33 through the port of
 * isa-debug-exit.
 *
 *     cli; lgdt cs:[gdt]; mov eax, cr0; or al, 1; mov cr0, eax; jmp 8:protected
 *     protected: mov ax, 16; mov ds, ax; mov ss, ax; mov esp, 0x7000; pushf; push cs; push returned; iret
 *     returned: mov al, 16; out 0xf4, al; hlt
 */
const probe = {
  hex:
    'fa2e660f011650ff0f20c06683c8010f22c066ea1affffff080066b810008ed88ed0bc007000009c0e682fffffffcfb010e6f4f4ebfd66' +
    '900000000000000000ffff0000009bcf00ffff00000093cf00170038ffffff',
  at: 0xff00,
  /** Machine code at the address where processors start (`resetAt`): a jump to the probe's first instruction. */
  reset: 'e90dff',
  resetAt: 0xfff0,
  bytes: 65_536,
  exitCode: 33,
} as const

/** Time in ms after the timeout of a probe. If the probe still runs then, it counts as stuck in the kernel. */
const graceMs = 2000
/**
 * Reason why the present probe hangs. Until this probe ends, all other probes fail with this reason, because they would
 * hang, too.
 */
let stuck: string | undefined

/**
 * Tests an accelerator by a probe, because even an accelerator that can be opened sometimes hangs.
 * @returns undefined if the probe succeeded in time, otherwise the reason for the failure
 */
export async function probeAccelerator(kind: 'kvm' | 'tcg', timeoutMs: number): Promise<string | undefined> {
  if (stuck !== undefined) return stuck
  const noLife = `a test guest did not run within ${timeoutMs} ms`
  const ended = runProbe(kind, timeoutMs, noLife).finally(() => (stuck = undefined))
  const given = new AbortController()
  const late = pause(timeoutMs + graceMs, noLife, { signal: given.signal }).then((reason) => (stuck = reason))
  late.catch(() => undefined)
  try {
    return await Promise.race([ended, late])
  } finally {
    given.abort()
    ended.catch(() => undefined)
  }
}

async function runProbe(kind: string, timeoutMs: number, noLife: string): Promise<string | undefined> {
  const directory = mkdtempSync(join(tmpdir(), 'berth-probe-'))
  const firmware = join(directory, 'firmware')
  const image = Buffer.alloc(probe.bytes)
  image.write(probe.hex, probe.at, 'hex')
  image.write(probe.reset, probe.resetAt, 'hex')
  writeFileSync(firmware, image)
  const machine = ['-nodefaults', '-no-user-config', '-display', 'none', '-machine', `pc,accel=${kind}`]
  const rest = ['-m', '8', '-bios', firmware, '-device', 'isa-debug-exit,iobase=0xf4,iosize=1']
  try {
    await run(qemuProgram, [...machine, ...rest], { timeoutMs, okCodes: [probe.exitCode] })
    return undefined
  } catch (error) {
    if (!(error instanceof CommandError)) throw error
    return error.code === null ? noLife : error.message.slice(0, 200)
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
