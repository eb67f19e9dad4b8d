import { execFileSync, spawn } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { waitFor } from '../wait.js'

/** Starts a separate lxcfs with the flags of the product. @returns a function that stops it */
export async function startLxcfs(directory: string): Promise<() => Promise<void>> {
  mkdirSync(directory, { recursive: true })
  const flags = ['-f', '-l', '--enable-cfs', '-p', `${directory}.pid`, directory]
  const child = spawn('lxcfs', flags, { stdio: 'ignore' })
  await waitFor(() => existsSync(`${directory}/proc/meminfo`), { what: 'lxcfs to be mounted' })
  return async () => {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null)
      await new Promise((resolve) => child.once('exit', resolve))
    if (readFileSync('/proc/self/mountinfo', 'utf8').includes(` ${directory} `))
      execFileSync('umount', ['-l', directory])
  }
}
