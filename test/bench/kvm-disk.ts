import { execFileSync } from 'node:child_process'
import { copyFileSync, mkdirSync, rmSync, statSync, truncateSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { waitFor } from '../support/wait.js'
import { tinyDisk } from '../support/guests/tiny-image.js'

const mib = 1024 ** 2
const toolsMib = 160
/** Area of the disk that fio uses. It begins after the end of all partitions. */
const area = ['--offset=1g', '--size=256m']
const seconds = 3

/** Copies the disk `tinyDisk`, and adds a third partition with fio and its libraries. */
export function makeFioDisk(directory: string): string {
  const [disk, tree] = [join(directory, 'fio.raw'), join(directory, 'fio-tree')]
  mkdirSync(tree)
  const linked = execFileSync('ldd', ['/usr/bin/fio'], { encoding: 'utf8' })
  const libraries = linked.match(/(\/\S+)(?= \(0x)/g) ?? []
  execFileSync('cp', ['--parents', '--dereference', '/usr/bin/fio', ...libraries, tree])
  copyFileSync(tinyDisk(), disk)
  const at = statSync(disk).size
  truncateSync(disk, at + toolsMib * mib)
  execFileSync('sfdisk', ['-q', '--append', disk], { input: `start=${at / 512}, type=83\n`, stdio: 'pipe' })
  execFileSync('mke2fs', ['-q', '-t', 'ext4', '-d', tree, '-E', `offset=${at}`, disk, `${toolsMib - 1}m`], {
    stdio: 'pipe',
  })
  rmSync(tree, { recursive: true })
  return disk
}

export const fioJobs = [
  ['reads in sequence, 1 MiB', 'read', ['--rw=read', '--bs=1M']],
  ['writes in sequence, 1 MiB', 'write', ['--rw=write', '--bs=1M']],
  ['reads at random, 4 KiB', 'read', ['--rw=randread', '--bs=4k']],
  ['writes at random, 4 KiB', 'write', ['--rw=randwrite', '--bs=4k']],
] as const

/** Columns of the rates in KiB/s in fio's terse output, version 3 (fio(1)). */
const column = { read: 6, write: 47 } as const

/** A shell on the serial port of the virtual machine that was started from `tinyDisk`. */
export class SerialShell {
  #said = ''

  private constructor(private readonly socket: Socket) {
    socket.on('data', (chunk: Buffer) => (this.#said += chunk.toString('latin1')))
    socket.on('error', () => undefined)
  }

  /** Opens the shell. Resolves when it answers, which means that the machine has booted. */
  static async open(path: string, timeoutMs: number): Promise<SerialShell> {
    const shell = new SerialShell(connect(path))
    await waitFor(
      () => {
        shell.socket.write('echo up$((6*7))\n')
        return shell.#said.includes('up42')
      },
      { timeoutMs, intervalMs: 500, what: `a shell at ${path}` },
    )
    return shell
  }

  async run(command: string, timeoutMs = 60_000): Promise<string> {
    this.#said = ''
    this.socket.write(`${command}; echo end$((6*7))\n`)
    await waitFor(() => this.#said.includes('end42'), { timeoutMs, what: () => `${command}: ${this.#said}` })
    return this.#said
  }

  /** Runs fio. @returns the rate in MB/s */
  async fio(of: keyof typeof column, args: readonly string[]): Promise<number> {
    const place = '/mnt/usr/lib/x86_64-linux-gnu'
    const libraries = ['/mnt/lib/x86_64-linux-gnu', place, `${place}/ceph`].join(':')
    const job = ['--name=x', '--filename=/dev/vda', ...area, '--direct=1', '--ioengine=psync', '--minimal']
    const timing = [`--runtime=${seconds}`, '--time_based', '--terse-version=3']
    await this.run('mount -t ext4 -o ro /dev/vda3 /mnt 2>/dev/null')
    const said = await this.run(
      `/mnt/lib64/ld-linux-x86-64.so.2 --library-path ${libraries} /mnt/usr/bin/fio ${[...job, ...timing, ...args].join(' ')}`,
    )
    const line = /^3;fio.*$/m.exec(said)?.[0]
    if (line === undefined) throw new Error(`fio said: ${said}`)
    return (Number(line.split(';')[column[of]]) * 1024) / 1e6
  }

  close(): void {
    this.socket.destroy()
  }
}
