import { execFileSync, spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import type { SftpPlace } from '../../../proto/gen/berth/agent/v1/backup.js'
import { freePort } from '../ports.js'
import { waitFor } from '../wait.js'

/** OpenSSH's server at a loopback port, for SFTP only. */
export class TestSftp {
  #child: ChildProcess | undefined

  private constructor(
    private readonly directory: string,
    private readonly port: number,
  ) {}

  static async start(directory: string): Promise<TestSftp> {
    mkdirSync(join(directory, 'kept'), { recursive: true })
    prepareSshd()
    for (const name of ['host', 'user'])
      execFileSync('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', 'btest', '-f', join(directory, name)])
    const made = new TestSftp(directory, await freePort())
    await made.resume()
    return made
  }

  get place(): SftpPlace {
    const { directory, port } = this
    const [type, blob] = readFileSync(join(directory, 'host.pub'), 'utf8').split(' ')
    return {
      host: '127.0.0.1',
      port,
      user: 'root',
      path: join(directory, 'kept'),
      privateKey: readFileSync(join(directory, 'user'), 'utf8'),
      hostKey: `${type} ${blob}`,
    }
  }

  /** @param endsAfter number of bytes after which each session is cut; by default no session is cut */
  async resume({ endsAfter }: { readonly endsAfter?: number } = {}): Promise<void> {
    const { directory, port } = this
    const command =
      endsAfter === undefined
        ? 'internal-sftp'
        : `dd bs=32k iflag=count_bytes count=${endsAfter} status=none | /usr/lib/openssh/sftp-server`
    const lines = [
      `Port ${port}`,
      'ListenAddress 127.0.0.1',
      `HostKey ${join(directory, 'host')}`,
      'PidFile none',
      'PermitRootLogin prohibit-password',
      'PasswordAuthentication no',
      'UsePAM no',
      'StrictModes no',
      `AuthorizedKeysFile ${join(directory, 'user.pub')}`,
      'Subsystem sftp internal-sftp',
      // At shell level 2, bash does not read .bashrc, whose commands could disturb the test.
      'SetEnv SHLVL=2',
      `ForceCommand ${command}`,
    ]
    writeFileSync(join(directory, 'config'), `${lines.join('\n')}\n`)
    this.#child = spawn('/usr/sbin/sshd', ['-D', '-e', '-f', join(directory, 'config')], { stdio: 'ignore' })
    await waitFor(() => answers(port), { what: 'sshd' })
  }

  async close(): Promise<void> {
    const child = this.#child
    if (!child?.pid) return
    const ended = new Promise((done) => child.once('exit', done))
    const pids = [child.pid, ...descendantsOf(child.pid)]
    for (const pid of pids) killIfThere(pid)
    await ended
    this.#child = undefined
  }
}

function descendantsOf(pid: number): number[] {
  const children = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && parentOf(name) === pid)
  return children.flatMap((name) => [Number(name), ...descendantsOf(Number(name))])
}

function parentOf(pid: string): number {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])
  } catch {
    return 0 // the process has ended
  }
}

function killIfThere(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // The process has already ended.
  }
}

function answers(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', () => (socket.destroy(), done(true))).once('error', () => done(false))
  })
}

/** Creates the directory that sshd requires (sshd(8)). It disappears when the machine's own sshd ends. */
export function prepareSshd(): void {
  mkdirSync('/run/sshd', { recursive: true, mode: 0o755 })
}
