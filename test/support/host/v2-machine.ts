import { spawn, spawnSync, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { copyFileSync, openSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { findAcceleration } from '../../../agent/drivers/qemu/acceleration.js'
import { freePort } from '../ports.js'
import { scratchDirectory } from '../scratch.js'
import { sh } from '../sh.js'
import { fillV2Root } from './v2-root.js'
import { waitFor } from '../wait.js'

const diskGib = 12
const bootTimeoutMs = 15 * 60_000

/**
 * A virtual machine with a plain Debian 12 that uses only cgroup v2, for hosts that use cgroup v1. Without hardware
 * acceleration, everything inside takes ten times as long.
 */
export class V2Machine {
  #qemu: ChildProcess | undefined
  #connection: ChildProcess | undefined

  private constructor(
    private readonly directory: string,
    private readonly port: number,
    private readonly wipe: () => void,
  ) {}

  /** @param name unique, begins with btest-; remains of an earlier run are removed first */
  static async create(name: string): Promise<V2Machine> {
    const { path, wipe } = scratchDirectory(name)
    const machine = new V2Machine(path, await freePort(), wipe)
    try {
      await machine.#makeDisk()
    } catch (error) {
      wipe()
      throw error
    }
    return machine
  }

  async #makeDisk(): Promise<void> {
    const root = join(this.directory, 'root')
    sh('ssh-keygen', '-q', '-t', 'ed25519', '-N', '', '-f', this.#file('key'))
    const publicKey = readFileSync(this.#file('key.pub'), 'utf8')
    const { kernel, initrd } = await fillV2Root(root, this.directory, publicKey)
    copyFileSync(kernel, this.#file('kernel'))
    copyFileSync(initrd, this.#file('initrd'))
    sh('truncate', '-s', `${diskGib}G`, this.#file('disk'))
    const extended = 'assume_storage_prezeroed=1,lazy_itable_init=1'
    sh('mke2fs', '-q', '-t', 'ext4', '-L', 'root', '-d', root, '-E', extended, this.#file('disk'))
    rmSync(root, { recursive: true })
  }

  async start(): Promise<void> {
    const { kind } = await findAcceleration()
    const log = openSync(this.#file('qemu.log'), 'a')
    // The virtual machine is killed when the tests end, even if they crash.
    const words = ['--pdeathsig', 'KILL', '--', 'qemu-system-x86_64', ...this.#arguments(kind)]
    this.#qemu = spawn('setpriv', words, { stdio: ['ignore', log, log] })
    await this.waitUntilBooted()
  }

  /** Returns the arguments of QEMU. They do not choose a cgroup version, because Debian's default is tested. */
  #arguments(acceleration: 'kvm' | 'tcg'): string[] {
    const accelerator = acceleration === 'kvm' ? 'kvm' : 'tcg,thread=multi,tb-size=1024'
    return [
      '-accel',
      accelerator,
      '-cpu',
      'max',
      '-smp',
      '2',
      '-m',
      '4096',
      '-nodefaults',
      '-no-user-config',
      '-display',
      'none',
      '-serial',
      `file:${this.#file('console')}`,
      '-kernel',
      this.#file('kernel'),
      '-initrd',
      this.#file('initrd'),
      '-append',
      'root=/dev/vda ro console=ttyS0',
      '-drive',
      `file=${this.#file('disk')},if=virtio,format=raw,cache=unsafe`,
      '-nic',
      `user,restrict=on,model=virtio-net-pci,hostfwd=tcp:127.0.0.1:${this.port}-:22`,
      '-device',
      'virtio-rng-pci',
    ]
  }

  async waitUntilBooted(): Promise<void> {
    const state = (): string => this.try('systemctl', 'is-system-running').output.trim()
    await waitFor(() => this.#isThere() && /^(running|degraded)$/.test(state()), {
      timeoutMs: bootTimeoutMs,
      intervalMs: 2000,
      what: () => `the machine to boot: ${this.consoleTail()}`,
    })
  }

  #isThere(): boolean {
    if (this.#qemu?.exitCode === null && this.#qemu.signalCode === null) return true
    throw new Error(`QEMU has ended: ${readFileSync(this.#file('qemu.log'), 'utf8')}`)
  }

  /** Restarts the machine with `systemctl reboot`. */
  async reboot(): Promise<void> {
    const bootId = (): string => this.try('cat', '/proc/sys/kernel/random/boot_id').output.trim()
    const before = bootId()
    this.try('systemctl', 'reboot')
    await waitFor(() => this.#isThere() && ![before, ''].includes(bootId()), {
      timeoutMs: bootTimeoutMs,
      intervalMs: 2000,
      what: () => `another boot: ${this.consoleTail()}`,
    })
    await this.waitUntilBooted()
  }

  consoleTail(bytes = 3000): string {
    return readFileSync(this.#file('console'), 'utf8').slice(-bytes)
  }

  /** Runs a program inside the machine. @returns its standard output @throws with all output if it fails */
  run(...command: readonly string[]): string {
    const { code, output, error } = this.try(...command)
    if (code !== 0) throw new Error(`${command.join(' ')}: exit code ${code}: ${output}${error}`)
    return output
  }

  try(...command: readonly string[]): { code: number | null; output: string; error: string } {
    this.#keepConnection()
    const { status, stdout, stderr } = spawnSync('ssh', [...this.#ssh(), asWords(command)], {
      encoding: 'utf8',
      timeout: 30 * 60_000,
      maxBuffer: 64 * 2 ** 20,
    })
    return { code: status, output: stdout, error: stderr }
  }

  /** Runs a program inside the machine and shows its output. @returns its exit code */
  show(...command: readonly string[]): number {
    return spawnSync('ssh', [...this.#ssh(), asWords(command)], { stdio: 'inherit' }).status ?? 1
  }

  /** Opens the connection that all commands share, unless it is open. Each handshake takes seconds. */
  #keepConnection(): void {
    if (this.#connection?.exitCode === null && this.#connection.signalCode === null) return
    this.#connection = spawn('ssh', ['-M', '-N', ...this.#ssh()], { stdio: 'ignore' })
  }

  #ssh(): string[] {
    const options = [
      'StrictHostKeyChecking=no',
      'UserKnownHostsFile=/dev/null',
      'LogLevel=ERROR',
      'BatchMode=yes',
      'ConnectTimeout=60',
      'ServerAliveInterval=5',
      'ServerAliveCountMax=12',
      `ControlPath=${this.#file('ssh')}`,
    ].flatMap((option) => ['-o', option])
    return [...options, '-i', this.#file('key'), '-p', `${this.port}`, 'root@127.0.0.1']
  }

  async destroy(): Promise<void> {
    this.#connection?.kill()
    const qemu = this.#qemu
    if (qemu && qemu.exitCode === null && qemu.signalCode === null) {
      const gone = once(qemu, 'exit')
      qemu.kill('SIGKILL')
      await gone
    }
    this.wipe()
  }

  #file(name: string): string {
    return join(this.directory, name)
  }
}

/** Quotes a command for the shell of the machine. */
function asWords(command: readonly string[]): string {
  return `exec ${command.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ')}`
}
