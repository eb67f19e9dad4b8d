import { execFile } from 'node:child_process'
import { waitFor } from '../wait.js'

export interface SshTarget {
  readonly address: string
  /** Default 22. */
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
  // A guest that was disconnected does not close the connection.
  'ServerAliveInterval=5',
  'ServerAliveCountMax=3',
].flatMap((option) => ['-o', option])

/** Exit codes of sshpass and ssh without a session. */
const noSession = [5, 255]

/**
 * The output of a shell command run over SSH as root, once the guest accepts logins.
 * @throws with the command's output when it fails, or when no login succeeds for `timeoutMs`
 */
export function sshInto(target: SshTarget, command: string, timeoutMs = 90_000): Promise<string> {
  let last = ''
  const attempt = async (): Promise<{ output: string } | undefined> => {
    const { code, output } = await once(target, command)
    if (code === 0) return { output }
    if (!noSession.includes(code)) throw new Error(`${command}: exit code ${code}: ${output}`)
    last = output
    return undefined
  }
  const what = (): string => `SSH to ${target.address}: ${last}`
  return waitFor(attempt, { timeoutMs, intervalMs: 200, what }).then(({ output }) => output.trim())
}

function once({ address, port = 22, password }: SshTarget, command: string): Promise<{ code: number; output: string }> {
  const args = ['-p', password, 'ssh', ...options, '-p', `${port}`, `root@${address}`, command]
  return new Promise((resolve) => {
    execFile('sshpass', args, { encoding: 'utf8', timeout: 60_000 }, (error, stdout, stderr) =>
      resolve({
        code: typeof error?.code === 'number' ? error.code : error ? 255 : 0,
        output: error ? `${stdout}${stderr}` : stdout,
      }),
    )
  })
}
