import { execFile } from 'node:child_process'
import { connect } from 'node:net'
import { patienceMs, waitFor } from '../wait.js'

export interface SshTarget {
  readonly address: string
  /** Port of the SSH server. By default 22. */
  readonly port?: number
  readonly password: string
}

const options = [
  'StrictHostKeyChecking=no',
  'UserKnownHostsFile=/dev/null',
  'ConnectTimeout=3',
  'LogLevel=ERROR',
  'PreferredAuthentications=password',
  'NumberOfPasswordPrompts=1',
  // These options make ssh end when the guest is cut off from the network. The connection would otherwise stay open.
  'ServerAliveInterval=5',
  'ServerAliveCountMax=3',
].flatMap((option) => ['-o', option])

/** Exit codes of sshpass and ssh if no session was established. */
const noSession = [5, 255]

/**
 * Runs a shell command as root over SSH as soon as the guest accepts logins. @returns the output
 * @throws if the command fails (the error contains the output), or if no login succeeds in time
 */
export function sshInto(target: SshTarget, command: string): Promise<string> {
  let last = ''
  const attempt = async (): Promise<{ output: string } | undefined> => {
    if (!(await accepts(target))) return undefined
    const { code, output } = await once(target, command)
    if (code === 0) return { output }
    if (!noSession.includes(code)) throw new Error(`${command}: exit code ${code}: ${output}`)
    last = output
    return undefined
  }
  const what = (): string => `SSH to ${target.address}: ${last}`
  return waitFor(attempt, { what }).then(({ output }) => output.trim())
}

/** True if the guest accepts connections. ssh runs only then, because it would wait seconds for a booting guest. */
function accepts({ address, port = 22 }: SshTarget): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host: address, port, timeout: 1000 })
    const end = (isOpen: boolean) => () => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('connect', end(true)).once('timeout', end(false)).once('error', end(false))
  })
}

function once({ address, port = 22, password }: SshTarget, command: string): Promise<{ code: number; output: string }> {
  const args = ['-p', password, 'ssh', ...options, '-p', `${port}`, `root@${address}`, command]
  return new Promise((resolve) => {
    execFile('sshpass', args, { encoding: 'utf8', timeout: patienceMs }, (error, stdout, stderr) =>
      resolve({
        code: typeof error?.code === 'number' ? error.code : error ? 255 : 0,
        output: error ? `${stdout}${stderr}` : stdout,
      }),
    )
  })
}
